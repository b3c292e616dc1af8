/* app/options/help.c - prints --help: commands and options from their tables, cache policies from the engine. */
#include "app/options/options.h"

#include <stdio.h>
#include <string.h>

#define HELP_WIDTH 80

/* Append the text, wrapped, in the columns from `indent` to HELP_WIDTH. The current line must already reach
 * `indent`. */
static void help_text(struct str *out, size_t indent, const char *text)
{
	size_t col = indent;

	for (const char *p = text; *p;) {
		size_t n = strcspn(p, " ");
		if (col > indent && col + 1 + n > HELP_WIDTH) {
			str_addf(out, "\n%*s", (int)indent, "");
			col = indent;
		}
		str_addf(out, "%s%.*s", col > indent ? " " : "", (int)n, p);
		col += n + (col > indent);
		p += n + strspn(p + n, " ");
	}
	str_adds(out, "\n");
}

static void help_row(const struct options *o, const struct option_def *d, struct str *out)
{
	struct str text = { 0 };
	char head[64];
	int n;

	n = snprintf(head, sizeof head, "  %c%c%s--%s%s%s", d->key ? '-' : ' ', d->key ? d->key : ' ',
	             d->key ? ", " : "  ", d->name, d->arg ? " " : "", d->arg ? d->arg : "");
	if (n > 28)
		str_addf(out, "%s\n%-28s ", head, "");
	else
		str_addf(out, "%-28s ", head);
	str_adds(&text, d->help);
	if ((d->flags & OPT_SET) && (d->type == OPT_INT || d->type == OPT_FLOAT)) {
		str_adds(&text, "; default ");
		option_show(o, d, &text);
	}
	if (d->env)
		str_addf(&text, " [%s]", d->env);
	help_text(out, 29, text.p);
	str_free(&text);
}

/* Append the help of the options of these commands. The options that all commands have come last. */
static void help_rows(const struct option_def *more, command_set commands, struct str *out)
{
	struct options o;

	options_default(&o);
	for (int last = 0; last <= 1; last++)
		for (const struct option_def *d = NULL; (d = option_next(d, more));)
			if (d->commands & commands && (d->commands == CMD_ALL) == last)
				help_row(&o, d, out);
}

static void help_command(const struct options *o, struct str *out)
{
	for (const struct command_def *c = command_defs; c->name; c++)
		if (c->id & o->command)
			str_addf(out, "weir %s [OPTIONS]%s%s\n    %s\n", c->name, *c->args ? " " : "", c->args,
			         c->help);
	str_adds(out, "\noptions:\n");
	help_rows(o->more, o->command, out);
}

/* Append the help of the cache policies and their settings, as a table of two columns. */
static void help_kv(struct str *out)
{
	struct str text = { 0 };

	str_adds(out, "--kv NAME or --kv NAME:KEY=VALUE,... with these names, keys and defaults:\n\n");
	kv_policy_help(&text);
	for (char *line = text.p; line && *line;) {
		size_t n = strcspn(line, "\n"), lead = strspn(line, " "), name = strcspn(line + lead, " ") + lead;
		size_t meaning = name + strspn(line + name, " "), indent = lead > 2 ? 22 : 15;
		char *next = line + n + (line[n] != 0);

		line[n] = 0;
		str_addf(out, "%.*s%*s", (int)name, line, name < indent ? (int)(indent - name) : 1, "");
		help_text(out, indent, line + meaning);
		line = next;
	}
	str_free(&text);
}

/* The text of plain `weir --help`. It fits a screen of 80 columns; a test checks that its commands exist. */
static const char overview[] = "weir: talk with a language model in the terminal, about documents of any length\n\n"
			       "  weir [OPTIONS] [FILE ...]  chat; every FILE becomes a document\n"
			       "  weir -p TEXT [FILE ...]    one answer; also: cat FILE | weir -p TEXT\n"
			       "  ... | weir [OPTIONS]       one question; with --each-line one a line\n"
			       "  weir read FILE|-           read a text of any length; pause it, ask, read on\n"
			       "  weir tour                  two minutes that show what there is\n\n"
			       "  weir pull [NAME]           fetch a model; without a name: those to choose from\n"
			       "  weir models                the models on this machine; models rm deletes\n"
			       "  weir sessions ls|show|...  list, search, rename, delete, export, import them\n"
			       "  weir docs ls|show|...      the documents that sessions have read\n"
			       "  weir inspect document|...  what is in a document, a model, a session\n"
			       "  weir eval|train|bench      measure models and cache policies; train models\n"
			       "  weir verify SESSION        compute its answers again, and compare\n"
			       "  weir doctor                what was found on this machine; completion SHELL\n\n"
			       "  -m, --model NAME           a model file, a name of 'weir models', or a server\n"
			       "  -s, --session NAME         continue this session, or begin it\n"
			       "      --continue             continue the session used last\n"
			       "      --private              store nothing of this conversation on disk\n\n"
			       "The rest: weir help COMMAND (or weir COMMAND --help); weir help options (those\n"
			       "of the chat), help commands, help keys, help kv (cache policies); man weir.\n";

void options_help_commands(command_set commands, struct str *out)
{
	str_adds(out, "commands:\n");
	for (const struct command_def *c = command_defs + 1; c->name; c++) {
		char head[64];

		if (!(c->id & commands))
			continue;
		snprintf(head, sizeof head, "weir %s%s%s", c->name, *c->args ? " " : "", c->args);
		str_addf(out, "  %-34s ", head);
		help_text(out, 37, c->help);
	}
	str_adds(out, "\nweir help COMMAND: its options\n");
}

static void help_options(struct str *out)
{
	str_adds(out, "weir [OPTIONS] [FILE ...]\n\noptions:\n");
	help_rows(NULL, CMD_CHAT, out);
	str_adds(out, "\nconfig file: $XDG_CONFIG_HOME/weir/config, lines KEY = VALUE, long names above\n"
	              "exit codes: 0 ok, 1 failed or nothing found, 2 usage, 3 model, 4 document,\n"
	              "            5 no room, 130 stopped\n");
}

const char *const help_topics[] = { "options", "commands", "keys", "kv", NULL };

void options_help(const struct options *o, void (*keys)(struct str *out), struct str *out)
{
	const char *topic = o->help_kv ? "kv" : o->command == CMD_CHAT && o->n_file == 1 ? o->file[0] : "";

	if (!strcmp(topic, "kv"))
		help_kv(out);
	else if (!strcmp(topic, "keys"))
		keys(out);
	else if (!strcmp(topic, "options"))
		help_options(out);
	else if (!strcmp(topic, "commands"))
		options_help_commands(CMD_ALL, out);
	else if (o->command != CMD_CHAT)
		help_command(o, out);
	else
		str_adds(out, overview);
}
