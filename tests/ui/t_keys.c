/* tests/ui/t_keys.c - ui/screen/keys.c: which bytes are which keys, however they are cut.
 *
 * Keys are compared as text: "C-a", "M-Up", "S-F5", "mouse1@3,4", "paste(abc)". Every sequence is tested whole, cut at
 * every byte, and byte by byte. WEIR_SOAK scales the random part. */
#include "tests/lib/test.h"
#include "ui/screen/keys.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- keys as text ---- */

static void describe(const struct key *k, void *ud)
{
	static const char *const name[] = {
		[K_ENTER] = "Enter", [K_TAB] = "Tab",    [K_BACKSPACE] = "Backspace", [K_ESC] = "Esc",
		[K_UP] = "Up",       [K_DOWN] = "Down",  [K_LEFT] = "Left",           [K_RIGHT] = "Right",
		[K_HOME] = "Home",   [K_END] = "End",    [K_PAGE_UP] = "PgUp",        [K_PAGE_DOWN] = "PgDn",
		[K_INSERT] = "Ins",  [K_DELETE] = "Del", [K_UNKNOWN] = "?",
	};
	struct str *out = ud;
	char s[4];

	if (out->n)
		str_adds(out, " ");
	if (k->mods & KEY_CTRL)
		str_adds(out, "C-");
	if (k->mods & KEY_ALT)
		str_adds(out, "M-");
	if (k->mods & KEY_SHIFT)
		str_adds(out, "S-");
	switch (k->code) {
	case K_CHAR: str_add(out, s, (size_t)utf8_encode(k->cp, s)); break;
	case K_F: str_addf(out, "F%d", (int)k->cp); break;
	case K_MOUSE: str_addf(out, "mouse%d@%d,%d", (int)k->cp, k->x, k->y); break;
	case K_PASTE: str_addf(out, "paste(%.*s)", (int)k->n, k->bytes); break;
	case K_FOCUS: str_adds(out, k->cp ? "focus" : "blur"); break;
	case K_BACKGROUND: str_adds(out, k->cp ? "light" : "dark"); break;
	default: str_adds(out, name[k->code]);
	}
}

/* The keys of `in`, fed in pieces of `step` bytes after a first piece of `first` bytes; then time passes. */
static const char *keys_of(const char *in, size_t n, size_t first, size_t step)
{
	static struct str out;
	/* Unmarked pastes depend on what arrives at once, so they are off here. */
	struct keys k = { .marks_pastes = 1 };

	str_clear(&out);
	str_adds(&out, "");
	for (size_t i = 0, len; i < n; i += len) {
		len = i ? step : first;
		if (len > n - i)
			len = n - i;
		/* In a buffer of its own, so that a sanitizer notices reading too far. */
		char *piece = malloc(len);
		memcpy(piece, in + i, len);
		keys_feed(&k, piece, len, 1, describe, &out);
		free(piece);
	}
	keys_tick(&k, 100, describe, &out);
	CHECK(keys_wake(&k) == 0);
	CHECK(!k.held.n && !k.pasting && !k.skipping);
	keys_free(&k);
	return out.p;
}

static void check_keys(const char *in, size_t n, const char *want)
{
	const char *got = keys_of(in, n, n, n);

	CHECK_MSG(!strcmp(got, want), "'%s' (after ESC: '%s') is \"%s\", expected \"%s\"", in, in + 1, got, want);
	for (size_t i = 1; i < n; i++) {
		got = keys_of(in, n, i, n);
		CHECK_MSG(!strcmp(got, want), "'%s' cut at %zu is \"%s\", expected \"%s\"", in + 1, i, got, want);
	}
	got = keys_of(in, n, 1, 1);
	CHECK_MSG(!strcmp(got, want), "'%s' byte by byte is \"%s\", expected \"%s\"", in + 1, got, want);
}

struct known {
	const char *bytes, *want;
};

static void check_all(const struct known *t, size_t n)
{
	struct str in = { 0 };
	char want[300];

	for (size_t i = 0; i < n; i++) {
		check_keys(t[i].bytes, strlen(t[i].bytes), t[i].want);
		/* The same bytes between other keys. */
		str_clear(&in);
		str_addf(&in, "x%sy\33[Bz", t[i].bytes);
		snprintf(want, sizeof want, "x %s y Down z", t[i].want);
		check_keys(in.p, in.n, want);
	}
	str_free(&in);
}
#define CHECK_ALL(table) check_all(table, LEN(table))

/* ---- one by one ---- */

TEST(characters_and_controls)
{
	/* clang-format off */
	static const struct known t[] = {
		{ "a", "a" }, { "A", "A" }, { " ", " " }, { "~", "~" }, { "\xc3\xa9", "\xc3\xa9" }, { "\xe6\xbc\xa2", "\xe6\xbc\xa2" },
		{ "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" }, { "a\xcc\x81", "a \xcc\x81" },
		{ "\1", "C-a" }, { "\32", "C-z" }, { "\3", "C-c" }, { "\34", "C-\\" }, { "\35", "C-]" }, { "\36", "C-^" }, { "\37", "C-_" },
		{ "\r", "Enter" }, { "\n", "C-Enter" }, { "\t", "Tab" }, { "\b", "Backspace" }, { "\177", "Backspace" },
		{ "\xff", "?" }, { "\xc3(", "? (" }, { "\xed\xa0\x80", "? ? ?" }, { "\xc2\x9b", "?" }, { "\xe2\x82" "a", "? a" },
	};
	/* clang-format on */
	CHECK_ALL(t);
	check_keys("\0", 1, "C-@");
	check_keys("a\0b", 3, "a C-@ b");
	check_keys("\xe6\xbc", 2, "?");
}

TEST(alt)
{
	/* clang-format off */
	static const struct known t[] = {
		{ "\33x", "M-x" }, { "\33\r", "M-Enter" }, { "\33\n", "C-M-Enter" }, { "\33\177", "M-Backspace" },
		{ "\33\1", "C-M-a" }, { "\33\t", "M-Tab" }, { "\33\xc3\xa9", "M-\xc3\xa9" }, { "\33.", "M-." }, { "\33\33[A", "M-Up" },
		{ "\33\33[3~", "M-Del" }, { "\33\33OP", "M-F1" }, { "\33\33x", "Esc M-x" }, { "\33\33\33[B", "Esc M-Down" },
		{ "\33\33[1;5C", "C-M-Right" }, { "\33\33[I", "Esc focus" },
	};
	/* clang-format on */
	CHECK_ALL(t);
	check_keys("\33", 1, "Esc");
	check_keys("\33\33", 2, "Esc Esc");
	check_keys("\33\33\33", 3, "Esc Esc Esc");
	check_keys("\33[", 2, "M-[");
	check_keys("\33O", 2, "M-O");
	check_keys("\33]", 2, "M-]");
	check_keys("\33_", 2, "M-_");
	check_keys("\33P", 2, "M-P");
	check_keys("\33\33[", 3, "Esc M-[");
	check_keys("\33[1;", 4, "?");
	check_keys("\33\xc3", 2, "?");
}

TEST(named_keys_of_all_terminals)
{
	/* clang-format off */
	static const struct known t[] = {
		/* xterm */
		{ "\33[A", "Up" }, { "\33[B", "Down" }, { "\33[C", "Right" }, { "\33[D", "Left" }, { "\33[H", "Home" }, { "\33[F", "End" },
		{ "\33OA", "Up" }, { "\33OD", "Left" }, { "\33OH", "Home" }, { "\33OF", "End" },
		{ "\33OP", "F1" }, { "\33OQ", "F2" }, { "\33OR", "F3" }, { "\33OS", "F4" }, { "\33[15~", "F5" }, { "\33[17~", "F6" },
		{ "\33[18~", "F7" }, { "\33[19~", "F8" }, { "\33[20~", "F9" }, { "\33[21~", "F10" }, { "\33[23~", "F11" }, { "\33[24~", "F12" },
		{ "\33[2~", "Ins" }, { "\33[3~", "Del" }, { "\33[5~", "PgUp" }, { "\33[6~", "PgDn" }, { "\33[1~", "Home" }, { "\33[4~", "End" },
		{ "\33[Z", "S-Tab" }, { "\33OM", "Enter" }, { "\33Ok", "+" }, { "\33Op", "0" }, { "\33Oy", "9" }, { "\33OX", "=" },
		/* modifiers */
		{ "\33[1;2A", "S-Up" }, { "\33[1;3A", "M-Up" }, { "\33[1;4A", "M-S-Up" }, { "\33[1;5A", "C-Up" }, { "\33[1;6D", "C-S-Left" },
		{ "\33[1;7C", "C-M-Right" }, { "\33[1;8F", "C-M-S-End" }, { "\33[1;9A", "M-Up" }, { "\33[1;5P", "C-F1" }, { "\33[1;2S", "S-F4" },
		{ "\33[3;5~", "C-Del" }, { "\33[5;3~", "M-PgUp" }, { "\33[24;8~", "C-M-S-F12" }, { "\33O5P", "C-F1" }, { "\33O5A", "C-Up" },
		{ "\33[27;5;13~", "C-Enter" }, { "\33[27;2;13~", "S-Enter" }, { "\33[27;5;9~", "C-Tab" }, { "\33[27;5;105~", "Tab" },
		{ "\33[27;2;65~", "A" }, { "\33[27;6;65~", "C-S-a" }, { "\33[27;3;120~", "M-x" }, { "\33[27;5;44~", "?" },
		/* kitty */
		{ "\33[13;2u", "S-Enter" }, { "\33[13;5u", "C-Enter" }, { "\33[13u", "Enter" }, { "\33[9;2u", "S-Tab" }, { "\33[27u", "Esc" },
		{ "\33[127;5u", "C-Backspace" }, { "\33[97u", "a" }, { "\33[97;5u", "C-a" }, { "\33[97;2u", "A" }, { "\33[97:65;2u", "A" },
		{ "\33[50:64;2u", "@" }, { "\33[233u", "\xc3\xa9" }, { "\33[97;1:3u", "?" }, { "\33[1;1:3A", "?" }, { "\33[1;5:1A", "C-Up" },
		{ "\33[32;5u", "C-@" }, { "\33[109;5u", "Enter" }, { "\33[106;5u", "C-Enter" }, { "\33[91;5u", "Esc" }, { "\33[57399u", "0" },
		{ "\33[57414u", "Enter" }, { "\33[57417u", "Left" }, { "\33[57426;5u", "C-Del" }, { "\33[57376u", "F13" }, { "\33[57358u", "?" },
		{ "\33[97;65u", "a" }, { "\33[97;69u", "C-a" }, { "\33[55296u", "?" }, { "\33[1114112u", "?" }, { "\33[u", "?" },
		/* the Linux console */
		{ "\33[[A", "F1" }, { "\33[[B", "F2" }, { "\33[[E", "F5" }, { "\33[[F", "?" }, { "\33[25~", "F13" }, { "\33[34~", "F20" },
		/* rxvt */
		{ "\33[11~", "F1" }, { "\33[14~", "F4" }, { "\33[7~", "Home" }, { "\33[8~", "End" }, { "\33[3^", "C-Del" }, { "\33[3$", "S-Del" },
		{ "\33[3@", "C-S-Del" }, { "\33[11^", "C-F1" }, { "\33[23$", "S-F11" }, { "\33[a", "S-Up" }, { "\33[d", "S-Left" },
		{ "\33Oa", "C-Up" }, { "\33Od", "C-Left" },
		/* mouse and focus */
		{ "\33[<0;1;1M", "mouse1@0,0" }, { "\33[<0;1;1m", "mouse0@0,0" }, { "\33[<2;80;24M", "mouse3@79,23" }, { "\33[<1;2;3M", "mouse2@1,2" },
		{ "\33[<64;5;6M", "mouse4@4,5" }, { "\33[<65;5;6M", "mouse5@4,5" }, { "\33[<16;1;1M", "C-mouse1@0,0" }, { "\33[<4;1;1M", "S-mouse1@0,0" },
		{ "\33[<35;1;1M", "?" }, { "\33[<33;1;1M", "?" }, { "\33[<32;3;2M", "mouse6@2,1" }, { "\33[<96;1;1M", "?" }, { "\33[<66;1;1M", "?" }, { "\33[<0;0;1M", "?" }, { "\33[<128;1;1M", "?" }, { "\33[<0;1M", "?" },
		{ "\33[M !!", "mouse1@0,0" }, { "\33[M#!\"", "mouse0@0,1" }, { "\33[M`\"!", "mouse4@1,0" }, { "\33[I", "focus" }, { "\33[O", "blur" },
	};
	/* clang-format on */
	CHECK_ALL(t);
}

TEST(what_means_nothing_is_never_text)
{
	/* clang-format off */
	static const struct known t[] = {
		{ "\33[E", "?" }, { "\33[?1;2c", "?" }, { "\33[>0;276;0c", "?" }, { "\33[?2026;2$y", "?" }, { "\33[4;1$y", "?" }, { "\33[24;80R", "?" },
		{ "\33[5A", "?" }, { "\33[1;2;3A", "?" }, { "\33[99999999999999~", "?" }, { "\33[;;;;;;;;;;;;~", "?" }, { "\33[201~", "?" },
		{ "\33[!p", "?" }, { "\33[1;2<A", "?" }, { "\33[0 q", "?" }, { "\33OZ", "?" }, { "\33O9Z", "?" },
		{ "\33]11;rgb:0000/0000/0000\33\\", "dark" }, { "\33]52;c;aGFsbG8=\a", "?" }, { "\33P1$r0m\33\\", "?" }, { "\33P>|XTerm(370)\33\\", "?" },
		{ "\33_Gi=1;OK\33\\", "?" }, { "\33Xabc\33\\", "?" }, { "\33^abc\33\\", "?" }, { "\33]l\xe6\xbc\xa2title\33\\", "?" },
		{ "\33]0;abc\3", "? C-c" }, { "\33]0;abc\r", "? Enter" }, { "\33]0;abc\33[A", "? Up" }, { "\33]0;a\33\33[A", "? M-Up" }, { "\33]0;abc\33x", "? M-x" },
		{ "\33[1;\3", "? C-c" }, { "\33[1\33[A", "? Up" }, { "\33[\r", "? Enter" }, { "\33[M\33[A", "? Up" }, { "\33[[\3", "? C-c" }, { "\33O\3", "M-O C-c" },
		{ "\33O5\r", "? Enter" }, { "\33[12\xc3\xa9", "? \xc3\xa9" },
		{ "\33[0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0A", "?" },
		/* rxvt's "$" at the limit of length: the sequence ends at the same byte, whether it arrives in parts or
		 * whole. */
		{ "\33[00000000000000000000000000000000000000000000000000000000000001$P", "?" },
		{ "\33\33[0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0A", "Esc ?" },
		{ "\33[0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0\33[A", "? Up" },
	};
	/* clang-format on */
	CHECK_ALL(t);
	check_keys("\33]0;abc", 7, "?");
	check_keys("\33]0;abc\33", 8, "? Esc");
}

/* ---- pastes ---- */

TEST(pastes)
{
	static const struct known t[] = {
		{ "\33[200~abc\33[201~", "paste(abc)" },
		{ "\33[200~a\rb\r\nc\nd\33[201~", "paste(a\nb\nc\nd)" },
		{ "\33[200~a\tb\33[201~", "paste(a\tb)" },
		{ "\33[200~a\33[31mb\33[0m\33[201~", "paste(a[31mb[0m)" },
		{ "\33[200~\3\4\177x\33[201~", "paste(x)" },
		{ "\33[200~a\33[20b\33[201~", "paste(a[20b)" },
		{ "\33[200~a\33\33[201~", "paste(a)" },
		{ "\33[200~\33[200~a\33[201~", "paste([200~a)" },
		{ "\33[200~\33[201\33[201~", "paste([201)" },
		{ "\33[200~\r\n\r\n\33[201~", "paste(\n\n)" },
		{ "\33[200~a\r\33[201~", "paste(a\n)" },
		{ "\33[200~\xe6\xbc\xa2\xff\xe6\33[201~", "paste(\xe6\xbc\xa2\xef\xbf\xbd\xef\xbf\xbd)" },
		{ "\33[200~a\33[201~\33[200~b\33[201~", "paste(a) paste(b)" },
		{ "\33[200~\r\33\n\33[201~", "paste(\n\n)" },
	};
	CHECK_ALL(t);
	check_keys("x\33[200~\33[201~y", 14, "x y");
	check_keys("\33\33[200~a\33[201~", 14, "Esc paste(a)");
	check_keys("\33[200~never ends\33[2", 19, "paste(never ends[2)");
	check_keys("\33[200~a\0b\33[201~", 15, "paste(ab)");
}

static void keep_last(const struct key *k, void *ud)
{
	struct str *out = ud;

	CHECK_INT(k->code, K_PASTE);
	str_add(out, k->bytes, k->n);
}

/* A paste of 40 MB: the first 16 MB are returned, cut between characters, in linear time. */
TEST(pastes_have_a_limit)
{
	struct keys k = { 0 };
	struct str out = { 0 }, piece = { 0 };
	double start = cpu_seconds();

	for (int i = 0; i < 100000; i++)
		str_adds(&piece, "\xe6\xbc\xa2\r");
	keys_feed(&k, "\33[200~x", 7, 1, keep_last, &out);
	for (int i = 0; i < 100; i++)
		keys_feed(&k, piece.p, piece.n, 1, keep_last, &out);
	CHECK(k.held.n <= KEYS_PASTE_MAX);
	CHECK_INT(out.n, 0);
	keys_feed(&k, "\33[201~", 6, 1, keep_last, &out);
	CHECK(out.n <= KEYS_PASTE_MAX && out.n > KEYS_PASTE_MAX - 4);
	CHECK_INT(utf8_complete(out.p, out.n), out.n);
	CHECK(!memcmp(out.p, "x\xe6\xbc\xa2\n\xe6", 6));
	CHECK_INT(k.held.cap, 0);
	/* Invalid bytes become U+FFFD, which is three times as long: the limit is for the text returned. */
	memset(piece.p, 0xff, piece.n);
	str_clear(&out);
	keys_feed(&k, "\33[200~", 6, 1, keep_last, &out);
	for (int i = 0; i < 50; i++)
		keys_feed(&k, piece.p, piece.n, 1, keep_last, &out);
	keys_feed(&k, "\33[201~", 6, 1, keep_last, &out);
	CHECK(out.n <= KEYS_PASTE_MAX && out.n > KEYS_PASTE_MAX - 4);
	CHECK(cpu_seconds() - start < 2 * test_patience());
	keys_free(&k);
	str_free(&out);
	str_free(&piece);
}

TEST(unmarked_pastes)
{
	static const char text[] = "first line of some text\rsecond line\r\nthird\r";
	struct keys k = { 0 };
	struct str out = { 0 };

	keys_feed(&k, text, sizeof text - 1, 1, describe, &out);
	CHECK_INT(out.n, 0);
	CHECK(keys_wake(&k) > 1 && keys_wake(&k) < 1.2);
	keys_feed(&k, "fourth\r", 7, 1.01, describe, &out); /* the paste came in two pieces */
	keys_tick(&k, 1.02, describe, &out);
	CHECK_INT(out.n, 0);
	keys_tick(&k, keys_wake(&k), describe, &out);
	CHECK_STR(out.p, "paste(first line of some text\nsecond line\nthird\nfourth\n)");
	CHECK(keys_wake(&k) == 0);

	/* A key after the paste does not belong to the paste. */
	str_clear(&out);
	keys_feed(&k, text, sizeof text - 1, 2, describe, &out);
	keys_feed(&k, "\33[A", 3, 2.01, describe, &out);
	CHECK_STR(out.p, "paste(first line of some text\nsecond line\nthird\n) Up");

	/* Nor does a key that comes later, even without a keys_tick() in between. */
	str_clear(&out);
	keys_feed(&k, text, sizeof text - 1, 3, describe, &out);
	keys_feed(&k, "x", 1, 4, describe, &out);
	CHECK_STR(out.p, "paste(first line of some text\nsecond line\nthird\n) x");

	/* Few bytes, a single line with Enter, or text between keys count as typed. */
	str_clear(&out);
	keys_feed(&k, "ab\rcd\r", 6, 5, describe, &out);
	CHECK_STR(out.p, "a b Enter c d Enter");
	str_clear(&out);
	keys_feed(&k, "0123456789012345678901234567890123456789\r", 41, 6, describe, &out);
	CHECK(strstr(out.p, "8 9 Enter") && !strstr(out.p, "paste"));
	str_clear(&out);
	keys_feed(&k, "0123456789012345678901234567890\1 12\r4567\r", 41, 7, describe, &out);
	CHECK(!strstr(out.p, "paste"));

	/* Once a terminal has marked a paste, unmarked text counts as typed. */
	keys_feed(&k, "\33[200~x\33[201~", 13, 8, describe, &out);
	str_clear(&out);
	keys_feed(&k, text, sizeof text - 1, 9, describe, &out);
	CHECK(strstr(out.p, "t Enter s") && !strstr(out.p, "paste"));
	keys_free(&k);
	str_free(&out);
}

/* ---- time ---- */

/* The terminal's report of its background colour, cut anywhere; other reports are no keys. */
TEST(backgrounds)
{
	/* clang-format off */
	static const struct { const char *bytes, *keys; } cases[] = {
		{"a\33]11;rgb:ffff/ffff/ffff\ab", "a light b"}, {"\33]11;rgb:0000/0000/0000\33\\c", "dark c"}, {"\33]11;rgb:ff/fa/f0\a", "light"},
		{"\33]11;rgb:0/8/0\a", "dark"}, {"\33]11;rgb:2e2e/3434/4040\a", "dark"}, {"\33]11;rgb:ff/ff\a", "?"}, {"\33]11;rgb:ff/ff/\a", "?"},
		{"\33]11;rgb:ff/ff/ff/ff\a", "?"}, {"\33]11;rgb:fffff/ff/ff\a", "?"}, {"\33]11;rgb:gg/ff/ff\a", "?"}, {"\33]11;red\a", "?"}, {"\33]10;rgb:ff/ff/ff\a", "?"},
		{"\33]11;rgb:ffffffffffffffffffffffffffffffffffffffffffffffffff/f/f\a", "?"}, {"\33]11;\a", "?"},
	};
	/* clang-format on */

	for (size_t i = 0; i < LEN(cases); i++)
		for (size_t first = 1; first < strlen(cases[i].bytes); first++)
			CHECK_STR(keys_of(cases[i].bytes, strlen(cases[i].bytes), first, 100), cases[i].keys);
}

TEST(escape_waits)
{
	struct keys k = { 0 };
	struct str out = { 0 };

	str_adds(&out, "");
	keys_feed(&k, "\33", 1, 10, describe, &out);
	CHECK(keys_wake(&k) == 10 + KEYS_ESC);
	keys_tick(&k, 10.01, describe, &out);
	CHECK_STR(out.p, "");
	keys_tick(&k, 10 + KEYS_ESC, describe, &out);
	CHECK_STR(out.p, "Esc");
	CHECK(keys_wake(&k) == 0);
	keys_tick(&k, 99, describe, &out);
	CHECK_STR(out.p, "Esc");

	/* The rest of a sequence comes in time, or too late. */
	str_clear(&out);
	keys_feed(&k, "\33", 1, 11, describe, &out);
	keys_feed(&k, "[A", 2, 11.02, describe, &out);
	CHECK_STR(out.p, "Up");
	str_clear(&out);
	keys_feed(&k, "\33", 1, 12, describe, &out);
	keys_feed(&k, "x", 1, 12.5, describe, &out);
	CHECK_STR(out.p, "Esc x");

	/* A longer incomplete sequence is kept for a longer time, because its rest must not become text. */
	str_clear(&out);
	keys_feed(&k, "\33[1;", 4, 13, describe, &out);
	keys_feed(&k, "5A", 2, 13.2, describe, &out);
	CHECK_STR(out.p, "C-Up");

	/* The clock may begin at 0. */
	str_clear(&out);
	keys_feed(&k, "\33", 1, 0, describe, &out);
	CHECK(keys_wake(&k) > 0);
	keys_tick(&k, 1, describe, &out);
	CHECK_STR(out.p, "Esc");
	keys_free(&k);
	str_free(&out);
}

/* ---- at random ---- */

static int times(int n)
{
	const char *soak = getenv("WEIR_SOAK");
	long factor = soak ? strtol(soak, NULL, 10) : 1;

	return n * (int)(factor < 1 ? 1 : MIN(1000, factor));
}

/* A random byte, mostly one that terminals often send. */
static char random_byte(void)
{
	static const char likely[] =
		"\33\33\33\33[[[OO]PX^_;;:<>?0123456789~uMm$ABCDHFIZ\r\n\t\a\\\3 ax\xc3\xa9\xe6\xbc\xa2";

	return test_rand() % 8 ? likely[test_rand() % (sizeof likely - 1)] : (char)test_rand();
}

TEST(random_bytes_cut_anywhere)
{
	char in[64], first[4096];

	for (int i = 0; i < times(10000); i++) {
		size_t n = 1 + test_rand() % sizeof in;
		const char *got;
		for (size_t k = 0; k < n; k++)
			in[k] = random_byte();
		snprintf(first, sizeof first, "%s", keys_of(in, n, n, n));
		got = keys_of(in, n, 1 + test_rand() % n, 1 + test_rand() % n);
		CHECK_MSG(!strcmp(got, first), "\"%s\" and \"%s\"", first, got);
		got = keys_of(in, n, 1, 1);
		CHECK_MSG(!strcmp(got, first), "\"%s\" and byte by byte \"%s\"", first, got);
	}
}

static void check_key(const struct key *k, void *ud)
{
	size_t *n = ud;

	++*n;
	CHECK(k->code <= K_UNKNOWN && k->bytes && !(k->mods & ~(unsigned)(KEY_SHIFT | KEY_ALT | KEY_CTRL)));
	if (k->code == K_CHAR) {
		CHECK(k->cp >= 0x20 && k->cp <= 0x10ffff && !(k->cp >= 0x7f && k->cp <= 0x9f));
		if (k->mods & KEY_CTRL)
			CHECK((k->cp >= 'a' && k->cp <= 'z') ||
			      (k->cp >= '@' && k->cp <= '_' && !(k->cp >= 'A' && k->cp <= 'Z')));
	}
	if (k->code == K_MOUSE)
		CHECK(k->x >= 0 && k->y >= 0 && k->cp >= 0 && k->cp <= 6);
}

TEST(random_stream)
{
	struct keys k = { 0 };
	char in[200];
	size_t n_keys = 0, total = 0;
	double now = 1;

	while (total < (size_t)times(200000)) {
		size_t n = 1 + test_rand() % sizeof in;
		for (size_t i = 0; i < n; i++)
			in[i] = random_byte();
		keys_feed(&k, in, n, now, check_key, &n_keys);
		now += (double)(test_rand() % 1000) / 10000;
		if (test_rand() % 2)
			keys_tick(&k, now, check_key, &n_keys);
		CHECK(k.pasting || k.held.n <= KEYS_SEQ_MAX + 2);
		total += n;
	}
	CHECK(n_keys > total / 20);
	keys_free(&k);
}

/* Only "x" may be text: all bytes between two of them are sequences. */
static void only_x(const struct key *k, void *ud)
{
	if (k->code == K_CHAR && !k->mods) {
		CHECK_INT(k->cp, 'x');
		++*(size_t *)ud;
	}
	CHECK(k->code != K_PASTE);
}

TEST(random_sequences_are_no_text)
{
	static const char strings[] = "]PX^_";
	struct keys k = { 0 };
	struct str in = { 0 };
	size_t n_x = 0, want = 0;

	for (int i = 0; i < times(20000); i++) {
		str_clear(&in);
		if (test_rand() % 4) {
			int n = (int)(test_rand() % 12);
			str_adds(&in, test_rand() % 8 ? "\33[" : "\33\33[");
			if (test_rand() % 4 == 0)
				str_add(&in, &"<=>?"[test_rand() % 4], 1);
			while (n--)
				str_add(&in, &"0123456789;:;"[test_rand() % 13], 1);
			/* Leave out the final bytes of sequences that begin a paste, stand for a character, or have
			 * more bytes after them. */
			char final = (char)('@' + test_rand() % 63);
			while (final == 'u' || final == '~' || final == 'M' || final == '[')
				final = (char)('@' + test_rand() % 63);
			if (test_rand() % 4 == 0)
				str_add(&in, &"!\"# %&'()*+,-./"[test_rand() % 15], 1);
			str_add(&in, &final, 1);
		} else {
			int n = (int)(test_rand() % 30);
			str_adds(&in, "\33");
			str_add(&in, &strings[test_rand() % 5], 1);
			str_adds(&in, "0");
			while (n--) {
				char b = (char)(' ' + test_rand() % 95);
				str_add(&in, &b, 1);
			}
			str_adds(&in, test_rand() % 2 ? "\33\\" : "\a");
		}
		str_adds(&in, "x");
		want++;
		for (size_t at = 0, n; at < in.n; at += n) {
			n = 1 + test_rand() % in.n;
			if (n > in.n - at)
				n = in.n - at;
			keys_feed(&k, in.p + at, n, 1, only_x, &n_x);
		}
	}
	CHECK_INT(n_x, want);
	keys_free(&k);
	str_free(&in);
}
