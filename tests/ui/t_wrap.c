/* tests/ui/t_wrap.c - ui/text/wrap.c: lines fit, words are not split, nothing is lost, and the result does not depend
 * on how the text is cut. */
#include "tests/lib/test.h"
#include "ui/text/text.h"

#include <stdlib.h>

/* Wrap `in`, given in pieces of one character, and then a newline, which flushes what was held back. */
static const char *wrapped(size_t width, const char *in)
{
	static struct str out[4];
	static int turn;
	struct str *s = &out[turn++ & 3];
	struct wrap w = { 0 };

	str_clear(s);
	for (size_t i = 0, len, n = strlen(in); i < n; i += len) {
		int32_t cp;
		len = (size_t)utf8_decode(in + i, n - i, &cp);
		wrap_text(&w, width, in + i, len, s);
	}
	wrap_text(&w, width, "\n", 1, s);
	wrap_free(&w);
	return s->p;
}

TEST(words_stay_whole)
{
	CHECK_STR(wrapped(20, "the quick brown fox jumps over the lazy dog"),
	          "the quick brown fox\njumps over the lazy\ndog\n");
	CHECK_STR(wrapped(10, "abcde fghi jkl"), "abcde fghi\njkl\n"); /* exactly full */
	CHECK_STR(wrapped(10, "abcde fghij jkl"), "abcde\nfghij jkl\n");
	CHECK_STR(wrapped(20, "one\n\n  two  three \n"), "one\n\n  two  three\n\n");
	CHECK_STR(wrapped(0, "the quick brown fox  \n jumps"), "the quick brown fox  \n jumps\n");
}

TEST(what_the_terminal_breaks)
{
	CHECK_STR(wrapped(20, "see https://example.org/a/long/path/to/a/page now"),
	          "see https://example.org/a/long/path/to/a/page now\n");
	CHECK_STR(wrapped(20, "see also, if you must, https://example.org/a/long/path"),
	          "see also, if you\nmust, https://example.org/a/long/path\n");
	CHECK_STR(wrapped(20, "```\nint main(void) { return 0; } /* comment */\n```\nand now the words again"),
	          "```\nint main(void) { return 0; } /* comment */\n```\nand now the words\nagain\n");
	CHECK_STR(wrapped(20, "    indented code is left alone"), "    indented code is left alone\n");
	CHECK_STR(wrapped(20, "    - a list item is not code"), "    - a list item is\nnot code\n");
	CHECK_STR(wrapped(20, "| a table | with | rows |"), "| a table | with | rows |\n");
	CHECK_STR(wrapped(20, "`a` is no fence, so it is wrapped"), "`a` is no fence, so\nit is wrapped\n");
}

TEST(wide_and_combining)
{
	CHECK_STR(wrapped(10, "日本語日本語日本語"), "日本語日本\n語日本語\n");
	CHECK_STR(wrapped(10, "ab 日本語日本"), "ab 日本語\n日本\n");
	/* a mark stays on its letter, on the first letter of a line and at the edge */
	CHECK_STR(wrapped(10, "abcdefgh e\xcc\x81x"), "abcdefgh\ne\xcc\x81x\n");
	CHECK_STR(wrapped(10, "日\xcc\x81本語日本\xcc\x81語"), "日\xcc\x81本語日本\xcc\x81\n語\n");
}

TEST(letters_come_as_they_are_said)
{
	struct wrap w = { 0 };
	struct str s = { 0 };

	/* far from the edge nothing is held back */
	wrap_text(&w, 80, "Riv", 3, &s);
	CHECK_STR(s.p, "Riv");
	wrap_text(&w, 80, "ers", 3, &s);
	CHECK_STR(s.p, "Rivers");
	CHECK_INT(w.col, 6);
	/* the window shrinks */
	wrap_text(&w, 80, " meander through the plain and slowly", 37, &s);
	wrap_text(&w, 20, " through valleys and meadows\n", 29, &s);
	CHECK_STR(s.p, "Rivers meander through the plain and slowly through valleys\nand meadows\n");
	CHECK_INT(w.col, 0);
	str_free(&s);
	wrap_free(&w);
}

/* Wrapping changes only the blanks of a clean text, in whatever pieces the text arrives, and ordinary words fit the
 * width. */
TEST(random_text)
{
	static const char *part[] = {
		"a",        "word", "letters", " ", " ", " ", "  ", "\n", "é", "日", "\xf0\x9f\x91\xa9", "\xe2\x80\x8d",
		"\xcc\x81", "`",    "```",     "|", "-", "7"
	};

	for (int round = 0; round < 3000; round++) {
		struct str in = { 0 }, whole = { 0 }, cut = { 0 };
		struct wrap a = { 0 }, b = { 0 };
		size_t width = test_rand() % 60, i = 0, o = 0;
		int narrow = round % 2;

		for (size_t n = test_rand() % 80; n; n--)
			str_adds(&in, part[test_rand() % (narrow ? 9 : LEN(part))]);
		str_adds(&in, "\n");
		wrap_text(&a, width, in.p, in.n, &whole);
		while (i < in.n) {
			size_t n = 1 + test_rand() % 9;
			n = i + n > in.n ? in.n - i : n;
			n = utf8_complete(in.p + i, n) ? utf8_complete(in.p + i, n) : n;
			while (i + n < in.n && ((unsigned char)in.p[i + n] & 0xc0) == 0x80)
				n++;
			wrap_text(&b, width, in.p + i, n, &cut);
			i += n;
		}
		CHECK_STR(whole.p, cut.p);
		for (i = 0; i < in.n || o < whole.n; i++, o++) {
			while (i < in.n && strchr(" \n", in.p[i]))
				i++;
			while (o < whole.n && strchr(" \n", whole.p[o]))
				o++;
			if (i < in.n || o < whole.n)
				CHECK_MSG(i < in.n && o < whole.n && in.p[i] == whole.p[o],
				          "width %zu: '%s' became '%s'", width, in.p, whole.p);
			if (i >= in.n || o >= whole.n)
				break;
		}
		/* indented text and long words are left to the terminal */
		for (const char *p = whole.p; narrow && width >= 24 && *p; p += strcspn(p, "\n") + 1) {
			size_t n = strcspn(p, "\n");
			int tame = strspn(p, " ") < 4;
			for (size_t k = 0, run = 0; k < n; k++)
				tame &= (run = p[k] == ' ' ? 0 : run + 1) <= width / 2;
			if (tame)
				CHECK_MSG(text_width(p, n) <= width, "width %zu: '%.*s'", width, (int)n, p);
		}
		str_free(&in);
		str_free(&whole);
		str_free(&cut);
		wrap_free(&a);
		wrap_free(&b);
	}
}
