/* tests/app/play.c - plays scripts of keys to the whole program, which draws on a grid of cells instead of a terminal.
 * play.h lists the commands of a script. */
#include "tests/app/play.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/test.h"

void play_problem(const struct play *p, const char *text)
{
	test_fail(p->path, p->line, "%s", text);
}

static void start(struct play *p)
{
	struct str note = { 0 };
	struct err e = { 0 };

	if (p->t)
		return;
	if (options_parse(&p->o, p->n_arg, p->args, &e) < 0 || chat_open(&p->c, &p->o, &note, &e) < 0 ||
	    tui_open(&p->t, &p->c, -1, p->w, p->h, note.p, &e) < 0)
		play_problem(p, e.msg);
	str_free(&note);
}

static void settle(struct play *p)
{
	for (int i = 0; p->t && i < 20000; i++) {
		if (!tui_step(p->t, 0.005))
			return;
		if (tui_idle(p->t) && tui_step(p->t, 0) && tui_idle(p->t))
			return;
	}
	play_problem(p, "it never comes to rest");
}

static void pass(struct play *p, double seconds)
{
	double until = now_seconds() + seconds;

	while (p->t && now_seconds() < until)
		tui_step(p->t, 0.01);
}

static void unescape(const char *s, struct str *out)
{
	for (; *s; s++) {
		if (*s != '\\' || !s[1]) {
			str_add(out, s, 1);
			continue;
		}
		s++;
		str_adds(out, *s == 'n' ? "\n" : *s == 't' ? "\t" : *s == 'e' ? "\033" : *s == '\\' ? "\\" : "?");
	}
}

static const struct {
	const char *name, *bytes;
} key_names[] = {
	{ "Enter", "\r" },       { "Tab", "\t" },         { "Esc", "\033" },         { "Up", "\033[A" },
	{ "Down", "\033[B" },    { "Right", "\033[C" },   { "Left", "\033[D" },      { "Home", "\033[H" },
	{ "End", "\033[F" },     { "PageUp", "\033[5~" }, { "PageDown", "\033[6~" }, { "Backspace", "\177" },
	{ "Delete", "\033[3~" }, { "F1", "\033OP" },      { "F2", "\033OQ" },        { "F3", "\033OR" },
	{ "F4", "\033OS" },      { "F5", "\033[15~" },    { "F6", "\033[17~" },      { "F7", "\033[18~" },
	{ "F8", "\033[19~" },    { "F10", "\033[21~" },   { "Space", " " },          { "M-Enter", "\033\r" },
	{ "BackTab", "\033[Z" },
};

static void press(struct play *p, const char *name)
{
	char bytes[3] = { 0 };

	for (size_t i = 0; i < LEN(key_names); i++)
		if (!strcmp(name, key_names[i].name)) {
			tui_feed(p->t, key_names[i].bytes, strlen(key_names[i].bytes));
			if (!strcmp(name, "Esc"))
				pass(p, 0.06); /* longer than the program waits for the rest of an escape sequence */
			return;
		}
	if (name[0] == 'C' && name[1] == '-') {
		bytes[0] = (char)(name[2] & 31);
		tui_feed(p->t, bytes, 1);
	} else if (name[0] == 'M' && name[1] == '-') {
		bytes[0] = '\033';
		bytes[1] = name[2];
		tui_feed(p->t, bytes, 2);
	} else if (!name[1]) {
		tui_feed(p->t, name, 1);
	} else {
		play_problem(p, "no such key");
	}
}

/* Run one line of a script; its first word is the command. */
static void play_line(struct play *p, char *line)
{
	char *rest = line + strcspn(line, " "), *save = NULL;
	struct str text = { 0 };
	int w, h;

	if (*rest)
		*rest++ = 0;
	if (!strcmp(line, "args")) {
		for (char *word = strtok_r(rest, " ", &save); word && p->n_arg < WORDS_MOST - 1;
		     word = strtok_r(NULL, " ", &save))
			p->args[p->n_arg++] = word;
		return;
	}
	if (!strcmp(line, "size") && sscanf(rest, "%dx%d", &w, &h) == 2) {
		p->w = w;
		p->h = h;
		if (p->t)
			tui_resize(p->t, w, h);
		return;
	}
	start(p);
	if (!p->t)
		return;
	unescape(rest, &text);
	if (!strcmp(line, "type")) {
		/* Feed one key at a time: many bytes at once would be a paste. */
		for (size_t i = 0; i < text.n;) {
			int32_t cp;
			int n = utf8_decode(text.p + i, text.n - i, &cp);
			tui_feed(p->t, text.p + i, (size_t)n);
			i += (size_t)n;
		}
	} else if (!strcmp(line, "paste")) {
		tui_feed(p->t, "\033[200~", 6);
		tui_feed(p->t, text.p, text.n);
		tui_feed(p->t, "\033[201~", 6);
	} else if (!strcmp(line, "key")) {
		for (char *word = strtok_r(rest, " ", &save); word; word = strtok_r(NULL, " ", &save))
			press(p, word);
	} else if (!strcmp(line, "wait")) {
		settle(p);
	} else if (!strcmp(line, "pass")) {
		pass(p, strtod(rest, NULL));
	} else if (!strcmp(line, "screen")) {
		p->screen(p, rest);
	} else {
		play_problem(p, "no such command in a script");
	}
	str_free(&text);
}

static void leave(struct play *p)
{
	tui_close(p->t);
	chat_close(&p->c, &p->o);
	options_free(&p->o);
}

void play_script(struct play *p, const char *path, const char *const *args, const char *cpu)
{
	char home[64] = "/tmp/weir-screen-XXXXXX", command[100];
	char *script, *save = NULL;
	size_t n;

	p->path = path;
	p->w = p->w ? p->w : 80;
	p->h = p->h ? p->h : 24;
	for (p->n_arg = 0; *args && p->n_arg < WORDS_MOST - 1; args++)
		p->args[p->n_arg++] = (char *)*args;
	if (!mkdtemp(home)) {
		play_problem(p, "no directory");
		return;
	}
	setenv("XDG_CONFIG_HOME", home, 1);
	setenv("XDG_STATE_HOME", home, 1);
	setenv("XDG_DATA_HOME", home, 1);
	setenv("XDG_CACHE_HOME", home, 1);
	setenv("HOME", home, 1);
	setenv("WEIR_CPU", cpu, 1);
	script = test_read(test_file(path), &n);
	if (!script)
		play_problem(p, "no script");
	for (char *line = script; line; line = save) {
		save = strchr(line, '\n');
		if (save)
			*save++ = 0;
		p->line++;
		if (*line && *line != '#')
			play_line(p, line);
	}
	leave(p);
	free(script);
	snprintf(command, sizeof command, "rm -rf %s", home);
	if (system(command)) { /* on failure only a directory is left behind */
	}
}
