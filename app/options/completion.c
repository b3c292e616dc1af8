/* app/options/completion.c - completion of weir's command lines in bash, zsh and fish.
 *
 * `weir completion SHELL` prints a script that the user loads into the shell. At each Tab the script runs `weir
 * __complete WORD ...`. The words are the command line up to the cursor, without the program's name; the last word is
 * the one to complete. Each line of the output is an offered word, a tab and the word's help. The line ":files" asks
 * the shell to complete file names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/options/options.h"
#include "app/term/term.h"

/* ---- what may come next ---- */

struct offers {
	const char *begin; /* the part of the word to complete that the user has typed so far */
	const char *head;  /* The n_head bytes at `head` are printed before each offered word, such as "--NAME=". */
	size_t n_head;
	struct str out;
	size_t (*roles)(char ***out);
};

static void offer(struct offers *x, const char *word, size_t n, const char *help)
{
	size_t begun = strlen(x->begin);

	if (n >= begun && !memcmp(word, x->begin, begun))
		str_addf(&x->out, "%.*s%.*s\t%s\n", (int)x->n_head, x->head, (int)n, word, help);
}

/* Offer each word of a list such as "on|off". Words in capitals, such as FILE in "auto|off|FILE", stand for a value
 * and are not offered. */
static void offer_list(struct offers *x, const char *list, size_t n)
{
	for (size_t at = 0, len; at < n; at += len + 1) {
		len = strcspn(list + at, "|");
		len = MIN(len, n - at);
		if (list[at] < 'A' || list[at] > 'Z')
			offer(x, list + at, len, "");
	}
}

static void offer_files(struct offers *x, const char *argument)
{
	if (strstr(argument, "FILE") || strstr(argument, "DIR"))
		str_adds(&x->out, ":files\n");
}

static void offer_roles(struct offers *x)
{
	char **name = NULL;
	size_t n = x->roles ? x->roles(&name) : 0;

	for (size_t i = 0; i < n; i++) {
		offer(x, name[i], strlen(name[i]), "");
		free(name[i]);
	}
	free(name);
}

static void offer_values(struct offers *x, const struct option_def *d)
{
	const char *name, *help;

	if (d->type == OPT_CHOICE || d->type == OPT_KV_TYPE || (d->type == OPT_TEXT && strchr(d->arg, '|')))
		offer_list(x, d->arg, strlen(d->arg));
	else if (d->type == OPT_POLICY)
		for (int i = 0; (name = kv_policy_name(i, &help)); i++)
			offer(x, name, strlen(name), help);
	if (!strcmp(d->name, "role"))
		offer_roles(x);
	else if (d->type == OPT_TEXT)
		offer_files(x, d->arg);
}

static void offer_options(struct offers *x, const struct option_def *more, command_set commands)
{
	char word[64];

	for (const struct option_def *d = NULL; (d = option_next(d, more));) {
		if (!(d->commands & commands))
			continue;
		offer(x, word, (size_t)snprintf(word, sizeof word, "--%s", d->name), d->help);
		if (d->key)
			offer(x, word, (size_t)snprintf(word, sizeof word, "-%c", d->key), d->help);
	}
}

/* Offer the first word of each command once: commands with the same first word are adjacent in the table. */
static void offer_commands(struct offers *x)
{
	for (const struct command_def *c = command_defs + 1; c->name; c++) {
		size_t n = strcspn(c->name, " ");

		if (strncmp(c[-1].name, c->name, n) || (c[-1].name[n] && c[-1].name[n] != ' '))
			offer(x, c->name, n, c->name[n] ? "more than one command" : c->help);
	}
}

/* Offer the second word of each command of two words whose first word is `first`. */
static void offer_second(struct offers *x, const char *first)
{
	size_t n = strlen(first);

	for (const struct command_def *c = command_defs; c->name; c++)
		if (!strncmp(c->name, first, n) && c->name[n] == ' ')
			offer(x, c->name + n + 1, strlen(c->name + n + 1), c->help);
}

static void offer_words(struct offers *x, const struct typed *t)
{
	const char *args = t->at ? t->at->args : "";

	if (t->group) {
		offer_second(x, t->group);
	} else if (t->at == command_defs && !t->words) {
		offer_commands(x);
		for (size_t i = 0; t->help && help_topics[i]; i++)
			offer(x, help_topics[i], strlen(help_topics[i]), "");
	} else if (!t->words && *args >= 'a' && *args <= 'z') {
		/* `args` may be "md|json|txt NAME": offer "md", "json" and "txt" */
		offer_list(x, args, strcspn(args, " "));
	}
	if (!t->help)
		offer_files(x, args);
}

int completion_answer(const struct option_def *more, size_t (*roles)(char ***out), int n, char **word)
{
	struct offers x = { .begin = n ? word[n - 1] : "", .roles = roles };
	struct typed t;
	size_t name = strcspn(x.begin, "=");
	int rc;

	typed_read(&t, more, n - 1, word);
	if (!t.due && *x.begin == '-' && x.begin[name]) {
		t.due = typed_option(more, x.begin, t.commands);
		x.head = x.begin;
		x.n_head = name + 1;
		x.begin += name + 1;
	} else if (t.due && !strcmp(x.begin, "=")) {
		x.begin = "";
	}
	if (t.due)
		offer_values(&x, t.due);
	else if (*x.begin == '-')
		offer_options(&x, more, t.commands);
	else
		offer_words(&x, &t);
	rc = print_all(str_text(&x.out), x.out.n, &(struct err){ 0 });
	str_free(&x.out);
	return rc < 0;
}

/* ---- the stubs ---- */

/* The script for bash. $cur is the word as the user typed it, with its quotes. File names may contain blanks. */
static const char bash[] =
	"# Completion of weir for bash.  Try it: source <(weir completion bash)\n"
	"_weir_files()\n"
	"{\n"
	"\tlocal name=${cur#[\\\"\\']} found\n"
	"\tmapfile -t found < <(compgen -f -- \"${name//\\\\/}\")\n"
	"\tCOMPREPLY+=(\"${found[@]}\")\n"
	"}\n"
	"_weir()\n"
	"{\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} weir=${COMP_WORDS[0]/#~\\//$HOME/} line\n"
	"\tCOMPREPLY=()\n"
	"\twhile IFS= read -r line; do\n"
	"\t\tif [[ $line == :files ]]; then _weir_files; else COMPREPLY+=(\"${line%%$'\\t'*}\"); fi\n"
	"\tdone < <(\"$weir\" __complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
	"}\n"
	"complete -o filenames -F _weir weir\n";

static const char zsh[] = "#compdef weir\n"
			  "# Completion of weir for zsh.  Put it into a directory of $fpath as _weir.\n"
			  "_weir()\n"
			  "{\n"
			  "\tlocal -a found\n"
			  "\tfound=(\"${(@f)$(${~words[1]} __complete \"${(@Q)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
			  "\t[[ ${found[-1]} == :files ]] && found[-1]=() && _files\n"
			  "\tfound=(\"${(@)found//:/\\\\:}\")\n"
			  "\tfound=(\"${(@)found/$'\\t'/:}\")\n"
			  "\t_describe word found\n"
			  "}\n"
			  "_weir \"$@\"\n";

static const char fish[] = "# Completion of weir for fish.  Put it into ~/.config/fish/completions/weir.fish\n"
			   "function __weir_complete\n"
			   "\tset -l words (commandline -opc)\n"
			   "\tset -l weir (string replace -r '^~/' \"$HOME/\" -- $words[1])\n"
			   "\tfor line in ($weir __complete $words[2..-1] (commandline -ct) 2>/dev/null)\n"
			   "\t\tif test $line = :files\n"
			   "\t\t\t__fish_complete_path (commandline -ct)\n"
			   "\t\telse\n"
			   "\t\t\techo $line\n"
			   "\t\tend\n"
			   "\tend\n"
			   "end\n"
			   "complete -c weir -f -a '(__weir_complete)'\n";

int cmd_completion(const struct options *o)
{
	const char *shell = o->n_file ? o->file[0] : "";
	const char *stub = !strcmp(shell, "bash")   ? bash
	                   : !strcmp(shell, "zsh")  ? zsh
	                   : !strcmp(shell, "fish") ? fish
	                                            : NULL;
	struct err e = { 0 };

	if (!stub)
		err_set(&e, ERR_USAGE, "'weir completion' wants the name of a shell: bash, zsh or fish");
	else
		print_all(stub, strlen(stub), &e);
	return e.code ? fail(&e) : 0;
}
