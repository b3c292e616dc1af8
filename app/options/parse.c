/* app/options/parse.c - parses the options of the environment and the command line.
 *
 * If the first word is the name of a command, that command is run. Otherwise all words are documents for a chat.
 * Options may come before, between or after the words. */
#include "app/options/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/term/term.h"

/* ---- environment ---- */

static int read_environment(struct options *o, struct err *e)
{
	for (const struct option_def *d = option_defs; d->name; d++) {
		const char *value = d->env ? getenv(d->env) : NULL;
		char where[80];
		if (!value || !*value)
			continue;
		snprintf(where, sizeof where, "environment variable %s", d->env);
		if (option_set(o, d, where, value, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- command line ---- */

/* Write the command line of the first command in the set, such as "weir models". */
static void command_name(command_set commands, char *name, size_t size)
{
	const struct command_def *c = command_defs;

	while (c->name && !(commands & c->id))
		c++;
	snprintf(name, size, "weir%s%s", c->name && *c->name ? " " : "", c->name ? c->name : "");
}

const struct option_def *option_letter(const struct option_def *more, char letter, command_set commands)
{
	for (const struct option_def *d = NULL; (d = option_next(d, more));)
		if (d->key == letter && (d->commands & commands))
			return d;
	return NULL;
}

/* Set the error for an option that the command does not have. The error names another command that has the option, or a
 * similar option. */
static int unknown_option(const struct options *o, const char *word, size_t len, command_set commands, struct err *e)
{
	const char *lists =
		commands & CMD_CHAT ? "weir help options lists them" : "--help behind the command lists them";
	const struct option_def *d = NULL;
	struct nearest near;

	if (len == 2)
		d = option_letter(o->more, word[1], CMD_ALL);
	else if (len > 2 && word[1] == '-')
		d = option_find_more(o->more, word + 2, len - 2, CMD_ALL);
	if (d) {
		char whose[64], here[64];

		command_name(d->commands, whose, sizeof whose);
		command_name(commands, here, sizeof here);
		return err_set(e, ERR_USAGE, "'%s' has no option '%.*s', which belongs to '%s'", here, (int)len, word,
		               whose);
	}
	if (len > 60)
		len = 60;
	if (len < 3 || word[1] != '-')
		return err_set(e, ERR_USAGE, "unknown option '%.*s'; %s", (int)len, word, lists);
	nearest_init(&near, word + 2, len - 2);
	for (d = NULL; (d = option_next(d, o->more));)
		if (d->commands & commands)
			nearest_try(&near, d->name);
	if (near.best)
		return err_set(e, ERR_USAGE, "unknown option '%.*s'; is it '--%s'?", (int)len, word, near.best);
	return err_set(e, ERR_USAGE, "unknown option '%.*s'; %s", (int)len, word, lists);
}

command_set commands_named(const char *first, const char *second, const struct command_def **exact)
{
	command_set mask = 0;
	char name[64];
	size_t n;

	n = (size_t)snprintf(name, sizeof name, "%s%s%s", first, second ? " " : "", second ? second : "");
	*exact = NULL;
	if (n >= sizeof name || !n)
		return 0;
	for (const struct command_def *c = command_defs; c->name; c++) {
		if (!strcmp(c->name, name))
			*exact = c;
		if (!strncmp(c->name, name, n) && (!c->name[n] || c->name[n] == ' '))
			mask |= c->id;
	}
	return mask;
}

struct parser {
	struct options *o;
	/* options parsed so far, in order; at the end parse_argv() checks that the command has all of them */
	const struct option_def **seen;
	int n_seen;
	command_set commands; /* commands that are possible after the words so far */
	const char *group;    /* first word of a two-word command whose second word has not been read yet; else NULL */
	int whole;            /* 1 = the word in the member `group` is also the name of a complete command */
	int chosen;           /* 1 = a word was read that is a command or a document */
	struct err *e;
};

static int take_option(struct parser *p, const struct option_def *d, const char *where, const char *value)
{
	p->seen[p->n_seen++] = d;
	if (d->type == OPT_POLICY && value && !strcmp(value, "help")) {
		p->o->help = p->o->help_kv = 1;
		return 0;
	}
	if (option_set(p->o, d, where, value, p->e) < 0)
		return -1;
	if (d->type == OPT_POLICY) {
		if (p->o->kvs.n == LIST_MAX)
			return err_set(p->e, ERR_USAGE, "%s stands more than %d times", where, LIST_MAX);
		p->o->kvs.v[p->o->kvs.n++] = value;
	}
	return 0;
}

static int take_word(struct parser *p, char *word)
{
	const struct command_def *exact;
	command_set mask;

	if (p->group) {
		mask = commands_named(p->group, word, &exact);
		if (!exact && p->whole) {
			p->group = NULL;
			p->commands = p->o->def->id;
			p->o->file[p->o->n_file++] = word;
			return 0;
		}
		if (!exact) {
			struct str s = { 0 };
			for (const struct command_def *c = command_defs; c->name; c++)
				if (!strncmp(c->name, p->group, strlen(p->group)) && c->name[strlen(p->group)] == ' ')
					str_addf(&s, "%s%s", s.n ? ", " : "", c->name + strlen(p->group) + 1);
			err_set(p->e, ERR_USAGE, "unknown command '%s %.40s'; there is: %s", p->group, word, s.p);
			str_free(&s);
			return -1;
		}
		p->group = NULL;
		p->commands = exact->id;
		p->o->def = exact;
		return 0;
	}
	if (!p->chosen && !p->o->prompt) {
		mask = commands_named(word, NULL, &exact);
		if (mask == CMD_HELP) { /* `weir help bench` is `weir bench --help` */
			p->o->help = 1;
			return 0;
		}
		if (mask) {
			p->chosen = 1;
			p->commands = mask;
			p->whole = exact != NULL;
			if (exact)
				p->o->def = exact;
			if (!exact || mask != exact->id)
				p->group = word;
			return 0;
		}
	}
	p->chosen = 1;
	p->o->file[p->o->n_file++] = word;
	return 0;
}

static int take_long(struct parser *p, char *word, char *next, int *used_next)
{
	size_t n = strcspn(word, "=");
	command_set mask = p->chosen ? p->commands : CMD_ALL;
	const struct option_def *d = option_find_more(p->o->more, word + 2, n - 2, p->commands);
	const char *value = word[n] ? word + n + 1 : NULL;
	char where[80];

	/* The option may come before the command. So accept an option of any command here; parse_argv() checks it at
	 * the end. */
	if (!d)
		d = option_find_more(p->o->more, word + 2, n - 2, mask);
	if (!d)
		return unknown_option(p->o, word, n, p->commands, p->e);
	snprintf(where, sizeof where, "option '--%s'", d->name);
	if (d->type == OPT_FLAG && value)
		return err_set(p->e, ERR_USAGE, "%s takes no value", where);
	if (d->type != OPT_FLAG && !value) {
		if (!next)
			return err_set(p->e, ERR_USAGE, "%s wants a value: %s", where, d->arg);
		value = next;
		*used_next = 1;
	}
	return take_option(p, d, where, value);
}

/* Parse a word of one-letter options: "-n 4", "-n4", "-qv", "-qn4". */
static int take_letters(struct parser *p, char *word, char *next, int *used_next)
{
	for (char *k = word + 1; *k; k++) {
		const struct option_def *d = option_letter(p->o->more, *k, p->chosen ? p->commands : CMD_ALL);
		char where[80], key[3] = { '-', *k, 0 };

		if (!d) {
			if ((unsigned char)*k < 0x80)
				return unknown_option(p->o, key, 2, p->commands, p->e);
			return unknown_option(p->o, word, strlen(word), p->commands, p->e);
		}
		snprintf(where, sizeof where, "option '-%c'", *k);
		if (d->type == OPT_FLAG) {
			if (take_option(p, d, where, NULL) < 0)
				return -1;
			continue;
		}
		if (k[1])
			return take_option(p, d, where, k + 1);
		if (!next)
			return err_set(p->e, ERR_USAGE, "%s wants a value: %s", where, d->arg);
		*used_next = 1;
		return take_option(p, d, where, next);
	}
	return 0;
}

static int take_short(struct parser *p, char *word, char *next, int *used_next)
{
	int rc = take_letters(p, word, next, used_next);

	/* other programs use -c for continuing the last conversation: name the option that does this in weir */
	return rc < 0 && word[1] == 'c'
	               ? err_set(p->e, p->e->code,
	                         "%s (-c is the size of the context; --continue goes on with the last session)",
	                         p->e->msg)
	               : rc;
}

static int parse_words(struct parser *p, int argc, char **argv)
{
	int only_words = 0;

	for (int i = 1; i < argc; i++) {
		char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
		int used_next = 0, rc;

		if (only_words || word[0] != '-' || !word[1])
			rc = take_word(p, word);
		else if (!strcmp(word, "--"))
			rc = 0, only_words = 1;
		else if (word[1] == '-')
			rc = take_long(p, word, next, &used_next);
		else
			rc = take_short(p, word, next, &used_next);
		if (rc < 0)
			return -1;
		i += used_next;
	}
	return 0;
}

static int is_topic(const char *word)
{
	for (size_t i = 0; help_topics[i]; i++)
		if (!strcmp(word, help_topics[i]))
			return 1;
	return 0;
}

static int parse_argv(struct options *o, int argc, char **argv, struct err *e)
{
	struct parser p = { .o = o, .commands = CMD_CHAT, .e = e };
	int rc;

	o->n_file = 0;
	o->def = &command_defs[0];
	/* Allocate room for the largest possible number of options: in a word such as -vq, every character may be an
	 * option. */
	{
		size_t n = 1;
		for (int i = 1; i < argc; i++)
			n += strlen(argv[i]) + 1;
		p.seen = xcalloc(n, sizeof *p.seen);
	}
	rc = parse_words(&p, argc, argv);
	o->command = o->def->id;
	if (!rc && p.group && !p.whole && !o->help)
		rc = err_set(e, ERR_USAGE, "'weir %s' wants a second word; weir %s --help lists them%s%s", p.group,
		             p.group, access(p.group, F_OK) ? "" : "; the file of that name is ./",
		             access(p.group, F_OK) ? "" : p.group);
	if (!rc && p.group && o->help) {
		/* If the word before --help begins several commands (`weir eval --help`), show the help of all of
		 * them. */
		for (const struct command_def *c = command_defs; c->name; c++)
			if (p.commands & c->id)
				o->def = c;
		o->command = p.commands;
	}
	for (int i = 0; !rc && i < p.n_seen; i++)
		if (!(p.seen[i]->commands & o->command)) {
			char name[48];
			snprintf(name, sizeof name, "--%s", p.seen[i]->name);
			rc = unknown_option(o, name, strlen(name), o->command, e);
		}
	if (!rc && !o->help && !o->version && o->def->max_files >= 0 && o->n_file > o->def->max_files)
		rc = err_set(e, ERR_USAGE, "'weir %s' does not know what to do with '%.60s'", o->def->name,
		             o->file[o->def->max_files]);
	/* Report an unknown topic (`weir --help benhc`). A file is not a topic: `weir report.txt --help`. */
	if (!rc && o->help && o->def == &command_defs[0] && o->n_file && !o->help_kv && !is_topic(o->file[0]) &&
	    access(o->file[0], F_OK))
		rc = err_set(e, ERR_USAGE, "there is no help on '%.60s'; weir --help lists the commands", o->file[0]);
	free(o->said);
	o->said = p.seen;
	o->n_said = p.n_seen;
	return rc;
}

int options_parse(struct options *o, int argc, char **argv, struct err *e)
{
	return options_parse_more(o, NULL, argc, argv, e);
}

int options_parse_more(struct options *o, const struct option_def *more, int argc, char **argv, struct err *e)
{
	char **file = xcalloc((size_t)argc + 1, sizeof *file);
	int quiet;

	/* Parse argv twice. The first pass finds mistakes and --help before any file is read. The second pass comes
	 * after the config file and the environment, because argv takes precedence over them. */
	options_default(o);
	o->more = more;
	o->file = file;
	if (parse_argv(o, argc, argv, e) < 0)
		return -1;
	if (o->help || o->version)
		return 0;
	quiet = o->quiet;
	o->file = NULL; /* parse_argv() below uses the list again: keep options_free() from freeing it */
	options_free(o);
	options_default(o);
	o->more = more;
	o->file = file;
	o->quiet = quiet; /* needed before config_read(): otherwise it prints warnings in spite of --quiet */
	if (config_read(o, e) < 0 || read_environment(o, e) < 0)
		return -1;
	return parse_argv(o, argc, argv, e);
}

void options_free(struct options *o)
{
	for (size_t i = 0; i < o->n_owned; i++)
		free(o->owned[i]);
	free(o->owned);
	free(o->file);
	free(o->said);
	*o = (struct options){ .n_owned = 0 };
}

int option_said(const struct options *o, const struct option_def *d)
{
	for (int i = 0; i < o->n_said; i++)
		if (o->said[i] == d)
			return 1;
	return 0;
}

void options_take_back(struct options *o, const struct options *copy)
{
	o->owned = copy->owned;
	o->n_owned = copy->n_owned;
}
