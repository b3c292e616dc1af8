/* tests/t_screen.c - the whole program behind a screen of cells: scripts of keys (tests/screens/NAME.keys) against the screens that they
 * must show (NAME.screen).
 *
 * A script:
 *     args WORDS                options of the program (the tiny model is always there)
 *     size 80x24                also later: the terminal is resized
 *     type TEXT                 as typed; \n \t \e \\ as in C
 *     key NAME ...              Enter Tab Esc Up Down Left Right Home End PageUp PageDown Backspace Delete F1 .. F12 C-x M-x Space
 *     paste TEXT                bracketed
 *     wait                      until nothing runs
 *     pass SECONDS              let time go by
 *     screen NAME               the screen now, compared with the part "=== NAME" of the expected file
 * WEIR_SCREENS=write writes what is there as expected, to be looked at before it is committed. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <dirent.h>

#include "app/tui.h"
#include "engine/base.h"
#include "tests/test.h"

#define MODEL "tests/vectors/models/llama-block32.gguf"
enum { WORDS_MOST = 40 };

struct play {
	struct options o;
	struct chat c;
	struct tui *t;
	int w, h;
	char *args[WORDS_MOST]; int n_arg;
	struct str got;              /* "=== NAME\n" and screens */
	const char *name; int line;
	char home[64];
};

static void problem(const struct play *p, const char *text)
{
	test_fail(p->name, p->line, "%s", text);
}

static void start(struct play *p)
{
	struct str note = {0};
	struct err e = {0};

	if (p->t)
		return;
	if (options_parse(&p->o, p->n_arg, p->args, &e) < 0 || chat_open(&p->c, &p->o, &note, &e) < 0 ||
	    tui_open(&p->t, &p->c, -1, p->w, p->h, note.p, &e) < 0)
		problem(p, e.msg);
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
	problem(p, "it never comes to rest");
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

static const struct { const char *name, *bytes; } key_names[] = {
	{"Enter", "\r"}, {"Tab", "\t"}, {"Esc", "\033"}, {"Up", "\033[A"}, {"Down", "\033[B"}, {"Right", "\033[C"}, {"Left", "\033[D"},
	{"Home", "\033[H"}, {"End", "\033[F"}, {"PageUp", "\033[5~"}, {"PageDown", "\033[6~"}, {"Backspace", "\177"}, {"Delete", "\033[3~"},
	{"F1", "\033OP"}, {"F2", "\033OQ"}, {"F3", "\033OR"}, {"F4", "\033OS"}, {"F5", "\033[15~"}, {"F6", "\033[17~"}, {"F8", "\033[19~"},
	{"F10", "\033[21~"}, {"Space", " "}, {"M-Enter", "\033\r"}, {"BackTab", "\033[Z"},
};

static void press(struct play *p, const char *name)
{
	char bytes[3] = {0};

	for (size_t i = 0; i < sizeof key_names / sizeof *key_names; i++)
		if (!strcmp(name, key_names[i].name)) {
			tui_feed(p->t, key_names[i].bytes, strlen(key_names[i].bytes));
			if (!strcmp(name, "Esc"))
				pass(p, 0.06);   /* longer than a sequence may wait */
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
		problem(p, "no such key");
	}
}

/* Words of a script's line; the first is the command. */
static void play_line(struct play *p, char *line)
{
	char *rest = line + strcspn(line, " "), *save = NULL;
	struct str text = {0};
	int w, h;

	if (*rest)
		*rest++ = 0;
	if (!strcmp(line, "args")) {
		for (char *word = strtok_r(rest, " ", &save); word && p->n_arg < WORDS_MOST - 1; word = strtok_r(NULL, " ", &save))
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
		/* One key at a time: a burst would be a paste. */
		for (size_t i = 0; i < text.n; ) {
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
		str_addf(&p->got, "=== %s\n", rest);
		tui_dump(p->t, 0, &p->got);
	} else {
		problem(p, "no such command in a script");
	}
	str_free(&text);
}

static void finish(struct play *p)
{
	tui_close(p->t);
	chat_close(&p->c, &p->o);
	options_free(&p->o);
	str_free(&p->got);
}

/* The first line that differs, with its neighbour. */
static void compare(const struct play *p, const char *expected)
{
	const char *a = expected, *b = p->got.p ? p->got.p : "", *part = "";

	for (int line = 1; *a || *b; line++) {
		size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");

		if (na >= 4 && !strncmp(a, "=== ", 4))
			part = a + 4;
		if (na != nb || memcmp(a, b, na)) {
			test_fail(p->name, line, "screen '%.*s': expected |%.*s|, is |%.*s|", (int)strcspn(part, "\n"), part, (int)na, a, (int)nb, b);
			fprintf(stderr, "%s", p->got.p ? p->got.p : "");
			return;
		}
		a += na + (a[na] != 0);
		b += nb + (b[nb] != 0);
	}
}

static void play(const char *name)
{
	struct play p = {.w = 80, .h = 24, .name = name};
	char path[200], *script, *expected, *save = NULL;
	static const char *const first[] = {"weir", "-m", MODEL, "--temp", "0", "-q", "--threads", "1", NULL};
	size_t n;

	for (int i = 0; first[i]; i++)
		p.args[p.n_arg++] = (char *)first[i];
	snprintf(p.home, sizeof p.home, "/tmp/weir-screen-XXXXXX");
	if (!mkdtemp(p.home)) {
		problem(&p, "no directory");
		return;
	}
	setenv("XDG_CONFIG_HOME", p.home, 1);
	setenv("XDG_STATE_HOME", p.home, 1);
	setenv("XDG_DATA_HOME", p.home, 1);
	setenv("WEIR_CPU", "c", 1);   /* the same answer on every machine */
	snprintf(path, sizeof path, "tests/screens/%.100s.keys", name);
	script = test_read(test_file(path), &n);
	if (!script) {
		problem(&p, "no script");
		return;
	}
	for (char *line = script; line; line = save) {
		save = strchr(line, '\n');
		if (save)
			*save++ = 0;
		p.line++;
		if (*line && *line != '#')
			play_line(&p, line);
	}
	snprintf(path, sizeof path, "tests/screens/%.100s.screen", name);
	if (getenv("WEIR_SCREENS")) {
		FILE *f = fopen(test_file(path), "w");
		if (f) {
			fwrite(p.got.p, 1, p.got.n, f);
			fclose(f);
		}
	} else {
		expected = test_read(test_file(path), &n);
		compare(&p, expected ? expected : "");
		free(expected);
	}
	finish(&p);
	free(script);
	snprintf(path, sizeof path, "rm -rf %.60s", p.home);
	if (system(path)) { /* only a directory is left */ }
}

#define SCREEN(name) TEST(name) { play(#name); }
SCREEN(start)
SCREEN(chat)
SCREEN(stop)
SCREEN(commands)
SCREEN(back)
SCREEN(delete)
SCREEN(help)
SCREEN(search)
SCREEN(sessions)
SCREEN(document)
SCREEN(cache)
SCREEN(outgrown)
SCREEN(reading)
SCREEN(small)
SCREEN(wide)
