/* app/options/help.c - --help: commands and options from the tables, cache policies from the engine. */
#include "app/options/options.h"

#include <stdio.h>
#include <string.h>

#define HELP_WIDTH 80

/* text in a column that begins at indent, after what the line holds already. */
static void help_text(struct str *out, size_t indent, const char *text)
{
	size_t col = indent;

	for (const char *p = text; *p; ) {
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

static void help_rows(struct str *out, command_set commands, command_set not_commands)
{
	struct options o;

	options_default(&o);
	for (const struct option_def *d = option_defs; d->name; d++) {
		struct str text = {0};
		char head[64];
		int n;
		if (!(d->commands & commands) || (d->commands & not_commands))
			continue;
		n = snprintf(head, sizeof head, "  %c%c%s--%s%s%s", d->key ? '-' : ' ', d->key ? d->key : ' ',
		             d->key ? ", " : "  ", d->name, d->arg ? " " : "", d->arg ? d->arg : "");
		if (n > 28)
			str_addf(out, "%s\n%-28s ", head, "");
		else
			str_addf(out, "%-28s ", head);
		str_adds(&text, d->help);
		if ((d->flags & OPT_SET) && (d->type == OPT_INT || d->type == OPT_FLOAT)) {
			str_adds(&text, "; default ");
			option_show(&o, d, &text);
		}
		if (d->env)
			str_addf(&text, " [%s]", d->env);
		help_text(out, 29, text.p);
		str_free(&text);
	}
}

static void help_command(const struct options *o, struct str *out)
{
	for (const struct command_def *c = command_defs; c->name; c++)
		if (c->id & o->command)
			str_addf(out, "weir %s [OPTIONS]%s%s\n    %s\n", c->name, *c->args ? " " : "", c->args, c->help);
	str_adds(out, "\noptions:\n");
	help_rows(out, o->command, 0);
}

/* The engine's own lines, broken where they are too long: what a name or a setting means goes on below its meaning. */
static void help_kv(struct str *out)
{
	struct str text = {0};

	str_adds(out, "--kv NAME or --kv NAME:KEY=VALUE,... with these names, keys and defaults:\n\n");
	kv_policy_help(&text);
	for (char *line = text.p; line && *line; ) {
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

void options_help(const struct options *o, void (*keys)(struct str *out), struct str *out)
{
	if (o->help_kv || (o->command == CMD_CHAT && o->n_file == 1 && !strcmp(o->file[0], "kv"))) {
		help_kv(out);
		return;
	}
	if (o->command == CMD_CHAT && o->n_file == 1 && !strcmp(o->file[0], "keys")) {
		keys(out);
		return;
	}
	if (o->command != CMD_CHAT) {
		help_command(o, out);
		return;
	}
	str_adds(out, "weir: chat with a language model in the terminal\n\n"
	         "  weir [OPTIONS] [FILE ...]          chat; every FILE becomes a document\n"
	         "  weir -p TEXT [OPTIONS] [FILE ...]  one answer; cat FILE | weir -p TEXT\n"
	         "  ... | weir [OPTIONS]               one question, of any number of lines;\n"
	         "                                     with --each-line one a line\n\n"
	         "commands:\n");
	for (const struct command_def *c = command_defs + 1; c->name; c++) {
		char head[64];
		snprintf(head, sizeof head, "weir %s%s%s", c->name, *c->args ? " " : "", c->args);
		str_addf(out, "  %-34s ", head);
		help_text(out, 37, c->help);
	}
	str_adds(out, "\noptions:\n");
	help_rows(out, CMD_CHAT | CMD_MODELS, 0);
	for (const struct command_def *c = command_defs + 1; c->name; c++) {
		size_t before;
		str_addf(out, "\nmore options of weir %s:\n", c->name);
		before = out->n;
		help_rows(out, c->id, CMD_CHAT | CMD_MODELS);   /* those of reading are the chat's */
		if (out->n == before) {   /* nothing of its own: take the heading back */
			out->n -= strlen(c->name) + strlen("\nmore options of weir :\n");
			out->p[out->n] = 0;
		}
	}
	str_adds(out, "\nkeys and commands: weir --help keys; cache policies: weir --help kv\n"
	         "config file: $XDG_CONFIG_HOME/weir/config, lines KEY = VALUE, long names above\n"
	         "exit codes: 0 ok, 1 failed or nothing found, 2 usage, 3 model, 4 document,\n"
	         "            5 no room, 130 stopped\n");
}
