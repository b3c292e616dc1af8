/* tests/lib/line_keys.h - an input line for tests: takes the bytes of a terminal and shows a small screen. */
#ifndef WEIR_LINE_KEYS_H
#define WEIR_LINE_KEYS_H

#include "ui/input/input.h"
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>

/* Suppress reports of memory that readline leaks: the state of aborted commands and searches, text that vi mode has
 * killed. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "fast_unwind_on_malloc=0";
}
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:_rl_callback_data_alloc\n"
	       "leak:_rl_scxt_alloc\n"
	       "leak:rl_kill_text\n";
}

static int line_unused; /* how many keys of the last type() the line did not use */

__attribute__((unused)) static void line_on_key(const struct key *k, void *ud)
{
	(void)ud;
	line_unused += !input_key(k);
}

/* Feed bytes as a terminal sends them, and then let time pass, so that incomplete sequences end. */
__attribute__((unused)) static void type_n(const char *bytes, size_t n)
{
	struct keys keys = { 0 };

	line_unused = 0;
	/* Feed small pieces: many bytes at once would count as a paste. */
	for (size_t i = 0; i < n; i += 8)
		keys_feed(&keys, bytes + i, n - i < 8 ? n - i : 8, 1, line_on_key, NULL);
	keys_tick(&keys, 100, line_on_key, NULL);
	keys_free(&keys);
}

__attribute__((unused)) static void type(const char *bytes)
{
	type_n(bytes, strlen(bytes));
}

__attribute__((unused)) static void paste_n(const char *text, size_t n)
{
	input_key(&(struct key){ .code = K_PASTE, .bytes = text, .n = n });
}

__attribute__((unused)) static const char *line_text(void)
{
	return input_text(NULL);
}

/* Return the message that Enter has sent, or "(none)". */
__attribute__((unused)) static const char *taken(void)
{
	static struct str s;

	return input_take(&s) ? str_text(&s) : "(none)";
}

static struct grid line_grid;
static int line_x, line_y; /* position of the cursor, relative to the line's first row */

/* Return the input line as shown in w columns and at most h rows. */
__attribute__((unused)) static const char *screen(int w, int h)
{
	static struct str s;
	int rows = input_rows(w, h);
	struct area a;

	grid_resize(&line_grid, w, rows);
	a = area_of(&line_grid);
	input_draw(&a, "> ");
	line_x = line_grid.cursor_x;
	line_y = line_grid.cursor_y;
	str_clear(&s);
	grid_dump(&line_grid, 0, &s);
	return s.p;
}

/* Return the popup as shown in w columns and h rows. styles: 1 = with the styles of its cells. */
__attribute__((unused)) static const char *popup(int w, int h, int styles)
{
	static struct str s;
	struct area a;

	grid_resize(&line_grid, w, h);
	a = area_of(&line_grid);
	input_draw_offers(&a, 0);
	str_clear(&s);
	grid_dump(&line_grid, styles, &s);
	return s.p;
}

/* ---- anything ---- */

__attribute__((unused)) static const char *const pieces[] = {
	"a",
	"b",
	"Z",
	"9",
	".",
	"\346\274\242",
	"\303\251",
	"e\314\201",
	"\360\237\230\200",
	"\t",
	"\033",
	"\302\205",
	"\342\200\213",
	"\342\200\256",
	"\357\277\275",
	"\314\201",
	"\342\200\215",
	"\357\270\217",
	"\315\270",
	"\356\200\200",
	"\331\205",
	"\340\244\225\340\245\215",
	"\n",
};

/* Return how many keys a storm has: n for `make test`, more with WEIR_SOAK=FACTOR. */
__attribute__((unused)) static long storm_length(long n)
{
	const char *soak = getenv("WEIR_SOAK");

	return soak ? atol(soak) * 100000 : n / (test_patience() > 1 ? 4 : 1);
}

/* Feed n random keys, pastes and calls. The line must stay valid UTF-8 and the cursor on the screen. At the end the
 * line must be usable. */
__attribute__((unused)) static void key_storm(long n)
{
	static const char *const seqs[] = {
		"\033[A",   "\033[B",       "\033[C",    "\033[D",    "\033[H",       "\033[F",   "\033[3~",
		"\033[2~",  "\033[1;5C",    "\033[1;5D", "\033[1;2A", "\033\r",       "\r",       "\n",
		"\t",       "\033[Z",       "\177",      "\033\177",  "\033",         "\022",     "\023",
		"\007",     "\030",         "\026",      "\035",      "\037",         "\031",     "\033y",
		"\024",     "\033[200~",    "\033[201~", "/",         "/read ",       "@",        "\"\"\"",
		"\\",       "\346\274\242", "e\314\201", "\xff",      "\033\303\251", "\033<",    "\033>",
		"\033.",    "\033#",        "\017",      "\020",      "\016",         "\033*",    "\033?",
		"\033=",    "\033\\",       "\033~",     "\033!",     "\033/",        "\033t",    "\033u",
		"\033l",    "\033c",        "\030(",     "\030)",     "\030e",        "\030\025", "\030\030",
		"\030\177", "\033\037",     "\033&",     "\033r",     "\033-",        "\0337",    "\033\t",
		"\033\013", "\033s",        "\033p",     "\033n",     "\033[",        "\033O",
	};
	struct keys keys = { 0 };
	size_t messages = 0;

	for (long i = 0; i < n; i++) {
		uint64_t r = test_rand() % 100;
		char bytes[4];
		struct str s = { 0 };
		size_t len;
		int w = 1 + (int)(test_rand() % 90), h = 1 + (int)(test_rand() % 8);

		if (r < 45) {
			const char *seq = seqs[test_rand() % LEN(seqs)];
			keys_feed(&keys, seq, strlen(seq), (double)i, line_on_key, NULL);
		} else if (r < 90) {
			len = 1 + test_rand() % 4;
			for (size_t k = 0; k < len; k++)
				bytes[k] = (char)(r < 60   ? test_rand()
				                  : r < 65 ? test_rand() % 32
				                           : 0x20 + test_rand() % 0x60);
			keys_feed(&keys, bytes, len, (double)i, line_on_key, NULL);
		} else if (r < 94) {
			const char *p = pieces[test_rand() % LEN(pieces)];
			paste_n(p, strlen(p));
		} else if (r < 95) {
			input_abandon();
		} else if (r < 96) {
			input_set("another\ntext", 12);
		} else if (r < 97) {
			static const char long_one[] =
				"a paste\nof\nmore\nlines\nthan\nare\nshown \364\216\200\200\n\n\nat once";

			paste_n(long_one, sizeof long_one - 1);
		}
		keys_tick(&keys, (double)i + 0.5, line_on_key, NULL);
		while (input_take(&s))
			messages++;
		str_free(&s);
		if (strlen(input_text(&len)) != len)
			test_fail(__FILE__, __LINE__, "the line holds a NUL byte after %ld keys", i);
		for (size_t k = 0; k < len;) {
			int32_t cp;
			k += (size_t)utf8_decode(line_text() + k, len - k, &cp);
			if (cp < 0) {
				test_fail(__FILE__, __LINE__, "the line is no UTF-8 after %ld keys", i);
				break;
			}
		}
		if (len > 20000)
			input_abandon();
		if (r % 4 == 0) {
			screen(w, h);
			if (line_x < 0 || line_x >= w || line_y < 0 || line_y >= h)
				test_fail(__FILE__, __LINE__, "cursor %d,%d outside of %dx%d after %ld keys", line_x,
				          line_y, w, h, i);
			popup(w, h, 0);
		}
		input_wants_escape();
	}
	/* Ctrl-G closes whatever is open. After it the line must work again. */
	keys_free(&keys);
	type("\007\007");
	input_abandon();
	while (strcmp(taken(), "(none)"))
		;
	type("\033[24~still here\r");
	CHECK_STR(taken(), "still here");
	test_note("%ld keys, %zu messages", n, messages);
}

#define CHECK_CURSOR(x, y)                                                                                             \
	do {                                                                                                           \
		CHECK_INT(line_x, x);                                                                                  \
		CHECK_INT(line_y, y);                                                                                  \
	} while (0)

#endif
