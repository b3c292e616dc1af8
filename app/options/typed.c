/* app/options/typed.c - finds the command in a command line that may be unfinished or wrong. Used by completion,
 * and by weir to decide whether weir-lab runs the command. */
#include <string.h>

#include "app/options/options.h"

static void typed_word(struct typed *t, const char *word)
{
	const struct command_def *exact;
	command_set mask = 0;

	if (t->group) {
		mask = commands_named(t->group, word, &exact);
		t->group = NULL;
		t->at = exact ? exact : t->at ? t->at : command_defs;
		t->commands = t->at->id;
		t->words += !exact;
		return;
	}
	if (t->at == command_defs && !t->words)
		mask = commands_named(word, NULL, &exact);
	if (mask == CMD_HELP) {
		t->help = 1;
	} else if (mask) {
		t->commands = mask;
		t->at = exact;
		t->group = exact && mask == exact->id ? NULL : word;
	} else {
		t->words++;
	}
}

const struct option_def *typed_option(const struct option_def *more, const char *word, command_set commands)
{
	size_t n = strcspn(word, "=");
	const struct option_def *d;

	if (word[1] != '-')
		return n == 2 ? option_letter(more, word[1], commands) : NULL;
	d = option_find_more(more, word + 2, n - 2, commands);
	return d ? d : option_find_more(more, word + 2, n - 2, CMD_ALL);
}

/* 1 if a command begins with this word. */
static int names_command(const char *word)
{
	const struct command_def *exact;

	return commands_named(word, NULL, &exact) != 0;
}

void typed_read(struct typed *t, const struct option_def *more, int n, char **word)
{
	int only_words = 0;

	*t = (struct typed){ .commands = CMD_CHAT, .at = command_defs };
	for (int i = 0; i < n; i++) {
		const struct option_def *d;

		if (t->due && !strcmp(word[i], "=")) /* bash passes --NAME=VALUE as three words: --NAME, = and VALUE */
			continue;
		if (t->due) {
			t->due = NULL;
			continue;
		}
		if (only_words || word[i][0] != '-' || !word[i][1]) {
			typed_word(t, word[i]);
			continue;
		}
		if (!strcmp(word[i], "--")) {
			only_words = 1;
			continue;
		}
		d = typed_option(more, word[i], t->commands);
		t->due = d && d->type != OPT_FLAG && !strchr(word[i], '=') ? d : NULL;
		t->help |= d && d->off == offsetof(struct options, help);
		t->words += d && d->off == offsetof(struct options,
		                                    prompt); /* after -p, a word is a document, not a command */
		/* This may be an option of weir-lab, which weir does not know. Assume that the next word is its value,
		 * unless the next word is the name of a command. */
		if (!d && word[i][1] == '-' && !strchr(word[i], '=') && i + 1 < n && !names_command(word[i + 1]))
			i++;
	}
}
