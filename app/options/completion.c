/* app/options/completion.c - `weir completion bash|zsh|fish`: what those shells need to complete commands and options,
 * made from the same tables as --help, so that it cannot fall behind. Needs no model.
 *
 * A command's name is its first word or two; options of the chat hold wherever no command stands. */
#include <stdio.h>
#include <string.h>

#include "app/options/options.h"
#include "app/term/term.h"

/* ---- the tables, once more ---- */

static int takes_file(const struct option_def *d)
{
	return d->type == OPT_TEXT && d->arg && (strstr(d->arg, "FILE") || strstr(d->arg, "DIR"));
}

static int takes_value(const struct option_def *d)
{
	return d->type != OPT_FLAG;
}

/* Cache policies are the words that begin a line of the help at column 2. */
static void policy_names(struct str *out)
{
	struct str help = { 0 };

	kv_policy_help(&help);
	for (const char *p = help.p; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		if (p[0] == ' ' && p[1] == ' ' && p[2] != ' ' && p[2]) {
			if (out->n)
				str_adds(out, " ");
			str_add(out, p + 2, strcspn(p + 2, " \n"));
		}
	str_free(&help);
}

/* The values that an option can have, blanks between them; nothing where it is a number or a text. */
static void values(const struct option_def *d, struct str *out)
{
	str_clear(out);
	if (d->type == OPT_POLICY) {
		policy_names(out);
	} else if (d->type == OPT_CHOICE) {
		str_adds(out, d->arg);
		for (size_t i = 0; i < out->n; i++)
			if (out->p[i] == '|')
				out->p[i] = ' ';
	}
}

/* Are a command's arguments files?  Else they are the names of sessions, documents or models. */
static int wants_files(const struct command_def *c)
{
	return strstr(c->args, "FILE") || strstr(c->args, "DIR");
}

/* First words, each once, but for the chat's. */
static int first_word(const struct command_def *c, char *out, size_t cap)
{
	size_t n = strcspn(c->name, " ");

	if (!*c->name)
		return 0;
	for (const struct command_def *b = command_defs; b < c; b++)
		if (!strncmp(b->name, c->name, n) && (b->name[n] == ' ' || !b->name[n]))
			return 0;
	snprintf(out, cap, "%.*s", (int)n, c->name);
	return 1;
}

/* The words that its first argument can be, blanks between them: "md json txt" of "md|json|txt NAME". */
static void argument_words(const struct command_def *c, struct str *out)
{
	char word[32];

	str_clear(out);
	str_add(out, c->args, *c->args >= 'a' && *c->args <= 'z' ? strcspn(c->args, " ") : 0);
	for (size_t i = 0; i < out->n; i++)
		if (out->p[i] == '|')
			out->p[i] = ' ';
	if (c->id != CMD_HELP)
		return;
	for (size_t i = 0; help_topics[i]; i++)
		str_addf(out, "%s ", help_topics[i]);
	for (c = command_defs; c->name; c++)
		if (first_word(c, word, sizeof word))
			str_addf(out, "%s ", word);
}

static int is_group(const char *name)
{
	return strchr(name, ' ') != NULL;
}

/* Do commands of two words begin with this one? */
static int begins_group(const char *word)
{
	size_t n = strlen(word);

	for (const struct command_def *c = command_defs; c->name; c++)
		if (!strncmp(c->name, word, n) && c->name[n] == ' ')
			return 1;
	return 0;
}

/* Inside single quotes of any of these shells. */
static void quoted(struct str *out, const char *text, const char *also)
{
	for (; *text; text++) {
		if (*text == '\'')
			str_adds(out, "'\\''");
		else if (strchr(also, *text))
			str_addf(out, "\\%c", *text);
		else
			str_add(out, text, 1);
	}
}

/* ---- bash ---- */

static void bash_options(const struct command_def *c, struct str *out)
{
	for (const struct option_def *d = option_defs; d->name; d++)
		if (d->commands & c->id) {
			str_addf(out, "--%s ", d->name);
			if (d->key)
				str_addf(out, "-%c ", d->key);
		}
}

static void bash_values(struct str *out)
{
	struct str v = { 0 };

	str_adds(out, "\tcase $prev in\n");
	for (const struct option_def *d = option_defs; d->name; d++) {
		values(d, &v);
		if (!takes_value(d))
			continue;
		str_addf(out, "\t--%s", d->name);
		if (d->key)
			str_addf(out, "|-%c", d->key);
		if (takes_file(d))
			str_adds(out, ") _weir_files; return ;;\n");
		else
			str_addf(out, ") COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", str_text(&v));
	}
	str_adds(out, "\tesac\n");
	str_free(&v);
}

static void bash(struct str *out)
{
	struct str v = { 0 };
	char word[32];

	/* A name stands in $cur as it is typed, with its quotes, and may have blanks in it. */
	str_adds(out, "# Completion of weir for bash.  Try it: source <(weir completion bash)\n"
	              "_weir_files()\n{\n"
	              "\tlocal name=${cur#[\\\"\\']} found\n"
	              "\tmapfile -t found < <(compgen -f -- \"${name//\\\\/}\")\n"
	              "\tCOMPREPLY+=(\"${found[@]}\")\n"
	              "}\n"
	              "_weir()\n{\n"
	              "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} options words files=1\n"
	              "\tCOMPREPLY=()\n");
	bash_values(out);
	str_adds(out, "\tcase \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n");
	/* Commands of two words first: "models rm" is not "models" with a file. */
	for (int group = 1; group >= 0; group--)
		for (const struct command_def *c = command_defs; c->name; c++) {
			if (!*c->name || is_group(c->name) != group)
				continue;
			str_addf(out, "\t\"%s%s\"*) files=%d; ", c->name, group ? "" : " ", wants_files(c));
			argument_words(c, &v);
			if (v.n)
				str_addf(out, "[[ $COMP_CWORD == %d ]] && words='%s'; ", 2 + group, v.p);
			str_adds(out, "options='");
			bash_options(c, out);
			str_adds(out, "' ;;\n");
		}
	str_adds(out, "\t*) options='");
	bash_options(&command_defs[0], out);
	str_adds(out, "' ;;\n\tesac\n\tif [[ $COMP_CWORD == 1 ]]; then\n\t\twords='");
	for (const struct command_def *c = command_defs; c->name; c++)
		if (first_word(c, word, sizeof word))
			str_addf(out, "%s ", word);
	str_adds(out, "'\n\telif [[ $COMP_CWORD == 2 ]]; then\n\t\tcase ${COMP_WORDS[1]} in\n");
	for (const struct command_def *c = command_defs; c->name; c++) {
		if (!first_word(c, word, sizeof word) || !begins_group(word))
			continue;
		str_addf(out, "\t\t%s) files=0; words='", word);
		for (const struct command_def *b = c; b->name; b++)
			if (!strncmp(b->name, word, strlen(word)) && b->name[strlen(word)] == ' ')
				str_addf(out, "%s ", b->name + strlen(word) + 1);
		str_adds(out, "' ;;\n");
	}
	str_adds(out, "\t\tesac\n\tfi\n"
	              "\tif [[ $cur == -* ]]; then\n"
	              "\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
	              "\telse\n"
	              "\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	              "\t\t[[ $files == 1 ]] && _weir_files\n"
	              "\tfi\n"
	              "}\ncomplete -o filenames -F _weir weir\n");
	str_free(&v);
}

/* ---- zsh ---- */

static void zsh_option(const struct option_def *d, const char *dashes, const char *name, struct str *out)
{
	struct str v = { 0 };

	values(d, &v);
	str_addf(out, " \\\n\t\t\t'%s%s%s[", dashes, name, takes_value(d) && !strcmp(dashes, "--") ? "=" : "");
	quoted(out, d->help, "[]:\\");
	str_adds(out, "]");
	if (takes_value(d)) {
		str_adds(out, ":");
		quoted(out, d->arg ? d->arg : "value", "[]:\\|");
		str_adds(out, ":");
		if (takes_file(d))
			str_adds(out, "_files");
		else if (v.n)
			str_addf(out, "(%s)", v.p);
	}
	str_adds(out, "'");
	str_free(&v);
}

static void zsh_options(const struct command_def *c, struct str *out)
{
	char key[2] = { 0 };
	struct str v = { 0 };

	str_adds(out, "\t\t_arguments -s");
	for (const struct option_def *d = option_defs; d->name; d++) {
		if (!(d->commands & c->id))
			continue;
		zsh_option(d, "--", d->name, out);
		key[0] = d->key;
		if (d->key)
			zsh_option(d, "-", key, out);
	}
	argument_words(c, &v);
	if (v.n)
		str_addf(out, " \\\n\t\t\t'1:word:(%s)'", v.p);
	if (c->max_files)
		str_adds(out, wants_files(c) ? " \\\n\t\t\t'*:file:_files'" : " \\\n\t\t\t'*:name: '");
	str_adds(out, " ;;\n");
	str_free(&v);
}

static void zsh_words(const char *word, struct str *out)
{
	size_t n = strlen(word);
	char first[32];

	str_adds(out, "\t\twords_=(");
	for (const struct command_def *c = command_defs; c->name; c++) {
		int mine = n ? !strncmp(c->name, word, n) && c->name[n] == ' ' : first_word(c, first, sizeof first);

		if (!mine)
			continue;
		str_addf(out, " '%s:", n ? c->name + n + 1 : first);
		quoted(out, !n && begins_group(first) ? "more than one command" : c->help, ":");
		str_adds(out, "'");
	}
	str_adds(out, ")\n\t\t_describe command words_\n");
}

static void zsh(struct str *out)
{
	char word[32];

	str_adds(
		out,
		"#compdef weir\n# Completion of weir for zsh.  Put it into a directory of $fpath as _weir.\n_weir()\n{\n\tlocal -a words_\n"
		"\tif (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n");
	zsh_words("", out);
	str_adds(out, "\t\t_files\n\t\treturn\n\tfi\n");
	for (const struct command_def *c = command_defs; c->name; c++)
		if (first_word(c, word, sizeof word) && begins_group(word)) {
			str_addf(out, "\tif (( CURRENT == 3 )) && [[ $words[2] == %s ]]; then\n", word);
			zsh_words(word, out);
			str_adds(out, "\t\treturn\n\tfi\n");
		}
	str_adds(out, "\tcase \"$words[2] $words[3]\" in\n");
	/* Commands of two words first, as for bash. */
	for (int group = 1; group >= 0; group--)
		for (const struct command_def *c = command_defs; c->name; c++) {
			if (!*c->name || is_group(c->name) != group)
				continue;
			/* To _arguments the last word of its name is the command. */
			str_addf(out, "\t\"%s%s\"*)\n\t\tshift %d words\n\t\t(( CURRENT -= %d ))\n", c->name,
			         group ? "" : " ", 1 + group, 1 + group);
			zsh_options(c, out);
		}
	str_adds(out, "\t*)\n");
	zsh_options(&command_defs[0], out);
	str_adds(out, "\tesac\n}\n_weir \"$@\"\n");
}

/* ---- fish ---- */

static void fish_option(const struct command_def *c, const struct option_def *d, struct str *out)
{
	struct str v = { 0 };

	values(d, &v);
	str_addf(out, "complete -c weir -n '__weir_in \"%s\"' -l %s", c->name, d->name);
	if (d->key)
		str_addf(out, " -s %c", d->key);
	if (takes_value(d))
		str_adds(out, takes_file(d) ? " -rF" : " -x");
	if (v.n)
		str_addf(out, " -a '%s'", v.p);
	str_adds(out, " -d '");
	quoted(out, d->help, "");
	str_adds(out, "'\n");
	str_free(&v);
}

static void fish(struct str *out)
{
	struct str v = { 0 };
	char word[32];

	str_adds(out, "# Completion of weir for fish.  Put it into ~/.config/fish/completions/weir.fish\n"
	              "function __weir_in\n"
	              "\tset -l words (commandline -opc) ''  ''\n"
	              "\tset -l here \"\"\n"
	              "\tcontains -- \"$words[2]\"");
	for (const struct command_def *c = command_defs; c->name; c++)
		if (*c->name && !is_group(c->name))
			str_addf(out, " '%s'", c->name);
	str_adds(out, "; and set here $words[2]\n\tcontains -- \"$words[2] $words[3]\"");
	for (const struct command_def *c = command_defs; c->name; c++)
		if (is_group(c->name))
			str_addf(out, " '%s'", c->name);
	str_adds(out, "; and set here \"$words[2] $words[3]\"\n\ttest \"$here\" = \"$argv[1]\"\nend\n");
	for (const struct command_def *c = command_defs; c->name; c++) {
		if (first_word(c, word, sizeof word))
			str_addf(out, "complete -c weir -n 'test (count (commandline -opc)) -eq 1' -a %s\n", word);
		if (is_group(c->name)) {
			snprintf(word, sizeof word, "%.*s", (int)strcspn(c->name, " "), c->name);
			str_addf(
				out,
				"complete -c weir -f -n 'test (count (commandline -opc)) -eq 2; and contains %s (commandline -opc)' -a %s -d '",
				word, c->name + strlen(word) + 1);
			quoted(out, c->help, "");
			str_adds(out, "'\n");
		}
		argument_words(c, &v);
		if (!wants_files(c) || v.n)
			str_addf(out, "complete -c weir%s -n '__weir_in \"%s\"'", wants_files(c) ? "" : " -f", c->name);
		if (v.n)
			str_addf(out, " -a '%s'", v.p);
		if (!wants_files(c) || v.n)
			str_adds(out, "\n");
		for (const struct option_def *d = option_defs; d->name; d++)
			if (d->commands & c->id)
				fish_option(c, d, out);
	}
	str_free(&v);
}

int cmd_completion(const struct options *o)
{
	const char *shell = o->n_file ? o->file[0] : "";
	struct str text = { 0 };
	struct err e = { 0 };
	int rc = 0;

	if (!strcmp(shell, "bash"))
		bash(&text);
	else if (!strcmp(shell, "zsh"))
		zsh(&text);
	else if (!strcmp(shell, "fish"))
		fish(&text);
	else
		rc = err_set(&e, ERR_USAGE, "'weir completion' wants the name of a shell: bash, zsh or fish");
	if (!rc)
		rc = print_all(text.p, text.n, &e);
	str_free(&text);
	return rc < 0 ? fail(&e) : 0;
}
