/* tests/ui/t_transcript.c - ui/transcript/transcript*.c: the look of the transcript, positions that are kept while text
 * is added and the width changes, search, the lens, and copying. */
#include "tests/lib/test.h"
#include "ui/transcript/transcript_private.h"

#include <stdlib.h>

static struct grid grid;

static void size(int w, int h)
{
	if (grid.w != w || grid.h != h)
		grid_resize(&grid, w, h);
}

static const char *drawn(struct transcript *t, int w, int h, int styles)
{
	static struct str out[4];
	static int turn;
	struct str *s = &out[turn++ & 3];
	struct area a;

	size(w, h);
	a = area_of(&grid);
	transcript_draw(t, &a);
	CHECK(!transcript_changed(t));
	str_clear(s);
	grid_dump(&grid, styles, s);
	return s->p;
}

static size_t add(struct transcript *t, enum ui_role role, const char *text)
{
	return transcript_add(t, role, text, strlen(text));
}

static void append(struct transcript *t, const char *text)
{
	transcript_append(t, text, strlen(text));
}

/* Questions "q1", "q2" ..., each with an answer of four lines. */
static struct transcript *conversation(int turns)
{
	struct transcript *t = transcript_new();
	struct str s = { 0 };

	for (int i = 1; i <= turns; i++) {
		str_clear(&s);
		str_addf(&s, "q%d", i);
		add(t, UI_USER, s.p);
		str_clear(&s);
		str_addf(&s, "a%d.1\na%d.2\na%d.3\na%d.4", i, i, i, i);
		add(t, UI_ASSISTANT, s.p);
	}
	str_free(&s);
	return t;
}

TEST(looks)
{
	struct transcript *t = transcript_new();

	CHECK_STR(drawn(t, 20, 2, 0), "\n\n");
	add(t, UI_NOTICE, "resumed \"river\", 12 tokens");
	add(t, UI_USER, "What is a weir? In one sentence.\n");
	add(t, UI_ASSISTANT, "A **low dam** that lets");
	append(t, " the stream pass.\n");
	transcript_end(t, "[9 tokens]");
	add(t, UI_ERROR, "the file 'x' is not there");
	CHECK_STR(drawn(t, 20, 12, 1), "resumed \"river\", 12\nnnnnnnnnnnnnnnnnnnn\n"
	                               "tokens\nnnnnnn\n"
	                               "\n"
	                               "> What is a weir? In\nqqqqqqqqqqqqqqqqqqqq\n"
	                               "  one sentence.\n  qqqqqqqqqqqqq\n"
	                               "\n"
	                               "A low dam that lets\n  sssssss\n"
	                               "the stream pass.\n"
	                               "[9 tokens]\nffffffffff\n"
	                               "\n"
	                               "the file 'x' is not\nEEEEEEEEEEEEEEEEEEE\n"
	                               "there\nEEEEE\n"
	                               "n = notice\nq = question\ns = strong\nf = faint\nE = error\n");
	CHECK_STR(drawn(t, 40, 9, 0),
	          "resumed \"river\", 12 tokens\n\n> What is a weir? In one sentence.\n\n"
	          "A low dam that lets the stream pass.\n[9 tokens]\n\nthe file 'x' is not there\n\n");
	CHECK_STR(drawn(t, 80, 3, 0), "[9 tokens]\n\nthe file 'x' is not there\n");
	CHECK_INT(transcript_count(t), 4);
	CHECK_INT(transcript_messages(t), 2);
	transcript_clear(t);
	CHECK_INT(transcript_count(t), 0);
	CHECK_STR(drawn(t, 20, 2, 0), "\n\n");
	transcript_free(t);
}

TEST(hostile_pieces)
{
	struct transcript *t = transcript_new(), *u;
	const char *text = "a\x1b]0;x\x07"
			   "b\xe2\x80\xae"
			   "c\xf0\x9f\x98\x80\xff\n\n`d\xc2\x9b` \xe6\xbc\xa2\te\r\nf\xe6\xbc";

	add(t, UI_ASSISTANT, text);
	transcript_end(t, "n\x1bote");
	for (size_t cut = 0; cut <= strlen(text); cut++) {
		u = transcript_new();
		transcript_add(u, UI_ASSISTANT, text, cut);
		drawn(u, 40, 8, 0);
		append(u, text + cut);
		transcript_end(u, "n\x1bote");
		CHECK_STR(drawn(u, 40, 8, 0), drawn(t, 40, 8, 0));
		transcript_free(u);
	}
	CHECK_STR(drawn(t, 40, 8, 0), "a^[]0;x^Gb<U+202E>c😀�\n\nd<9B> 漢      e\nf�\nn^[ote\n\n\n\n");
	transcript_free(t);
}

TEST(follows_until_scrolled)
{
	struct transcript *t = conversation(3);

	/* 20 rows: three questions of one row, three answers of four, and five empty rows between them */
	CHECK_STR(drawn(t, 20, 4, 0), "a3.1\na3.2\na3.3\na3.4\n");
	CHECK_INT(transcript_below(t), 0);
	CHECK_INT(transcript_position(t), 0);
	append(t, "\na3.5");
	CHECK(transcript_changed(t));
	CHECK_STR(drawn(t, 20, 4, 0), "a3.2\na3.3\na3.4\na3.5\n");
	transcript_scroll(t, -2);
	CHECK_STR(drawn(t, 20, 4, 0), "\na3.1\na3.2\na3.3\n");
	CHECK_INT(transcript_below(t), 2);
	append(t, "\na3.6\na3.7");
	add(t, UI_NOTICE, "saved");
	CHECK_STR(drawn(t, 20, 4, 0), "\na3.1\na3.2\na3.3\n");
	CHECK_INT(transcript_below(t), 6);
	transcript_scroll(t, 5);
	CHECK_INT(transcript_below(t), 1);
	transcript_scroll(t, 1);
	CHECK_INT(transcript_below(t), 0);
	append(t, " twice");
	CHECK_STR(drawn(t, 20, 4, 0), "a3.6\na3.7\n\nsaved twice\n");
	transcript_top(t);
	CHECK_STR(drawn(t, 20, 4, 0), "> q1\n\na1.1\na1.2\n");
	transcript_scroll(t, -1000);
	CHECK_STR(drawn(t, 20, 2, 0), "> q1\n\n");
	transcript_page(t, 1);
	CHECK_STR(drawn(t, 20, 4, 0), "a1.1\na1.2\na1.3\na1.4\n");
	transcript_page(t, 0.5);
	CHECK_STR(drawn(t, 20, 4, 0), "a1.3\na1.4\n\n> q2\n");
	transcript_page(t, 1);
	CHECK_STR(drawn(t, 20, 4, 0), "> q2\n\na2.1\na2.2\n");
	transcript_page(t, -1);
	CHECK_STR(drawn(t, 20, 4, 0), "a1.3\na1.4\n\n> q2\n");
	transcript_page(t, 100);
	CHECK_INT(transcript_below(t), 0);
	CHECK_INT(transcript_position(t), 0);
	/* The whole transcript fits on the screen: there is nothing to scroll. */
	drawn(t, 20, 40, 0);
	transcript_scroll(t, -3);
	CHECK_INT(transcript_position(t), 0);
	CHECK_INT(transcript_below(t), 0);
	transcript_free(t);
}

TEST(holds_through_resizes)
{
	struct transcript *t = transcript_new();
	struct str s = { 0 };
	uint64_t place;

	for (int i = 0; i < 400; i++)
		str_addf(&s, "word%d%s", i, i % 40 == 39 ? ".\n\n" : " ");
	add(t, UI_USER, "count");
	add(t, UI_ASSISTANT, s.p);
	drawn(t, 80, 6, 0);
	transcript_top(t);
	transcript_scroll(t, 20);
	CHECK(!strncmp(drawn(t, 80, 6, 0), "word150 ", 8));
	place = transcript_position(t);
	for (int w = 79; w > 8; w -= 3) {
		const char *rows = drawn(t, w, 6, 0), *first = strstr(rows, "word150");
		CHECK_MSG(first && first < strchr(rows, '\n'), "at width %d: %s", w, rows);
	}
	/* exactly the same rows at the old width */
	CHECK(!strncmp(drawn(t, 80, 6, 0), "word150 ", 8));
	append(t, "more and more\n\nand more");
	transcript_end(t, NULL);
	add(t, UI_USER, "again");
	CHECK(!strncmp(drawn(t, 80, 6, 0), "word150 ", 8));
	CHECK(transcript_position(t) == place);
	transcript_end_follow(t);
	CHECK(strstr(drawn(t, 80, 6, 0), "> again\n"));
	transcript_go(t, place);
	CHECK(!strncmp(drawn(t, 80, 6, 0), "word150 ", 8));
	transcript_go(t, 0);
	CHECK_INT(transcript_below(t), 0);
	transcript_go(t, UINT64_MAX); /* no valid place: does not move */
	CHECK_INT(transcript_below(t), 0);
	transcript_free(t);
	str_free(&s);
}

TEST(questions)
{
	struct transcript *t = conversation(3);

	drawn(t, 20, 4, 0);
	CHECK_INT(transcript_focus(t), 5);
	CHECK_INT(transcript_question(t, 1), 0);
	CHECK_INT(transcript_question(t, -1), 1);
	CHECK_STR(drawn(t, 20, 4, 0), "> q3\n\na3.1\na3.2\n");
	CHECK_INT(transcript_focus(t), 4);
	CHECK_INT(transcript_question(t, -1), 1);
	CHECK_INT(transcript_question(t, -1), 1);
	CHECK_INT(transcript_question(t, -1), 0);
	CHECK_STR(drawn(t, 20, 4, 0), "> q1\n\na1.1\na1.2\n");
	CHECK_INT(transcript_question(t, 1), 1);
	CHECK_STR(drawn(t, 20, 4, 0), "> q2\n\na2.1\na2.2\n");
	/* from the middle of an answer to its question */
	transcript_scroll(t, 3);
	CHECK_INT(transcript_question(t, -1), 1);
	CHECK_STR(drawn(t, 20, 4, 0), "> q2\n\na2.1\na2.2\n");
	/* a question is shown at the top even if less than a screen follows it */
	CHECK_INT(transcript_question(t, 1), 1);
	CHECK_STR(drawn(t, 20, 9, 0), "> q3\n\na3.1\na3.2\na3.3\na3.4\n\n\n\n");
	append(t, "\na3.5");
	CHECK_STR(drawn(t, 20, 9, 0), "> q3\n\na3.1\na3.2\na3.3\na3.4\na3.5\n\n\n");
	transcript_scroll(t, 1);
	CHECK_STR(drawn(t, 20, 9, 0), "a2.4\n\n> q3\n\na3.1\na3.2\na3.3\na3.4\na3.5\n");
	transcript_free(t);
}

TEST(folds)
{
	struct transcript *t = conversation(2);

	drawn(t, 20, 20, 0);
	transcript_fold(t);
	CHECK_STR(
		drawn(t, 20, 10, 1),
		"> q1\nqqqq\n\na1.1\na1.2\na1.3\na1.4\n\n> q2\nqqqq\n\na2.1 [+3 lines]\n    fffffffffff\nq = question\nf = faint\n");
	transcript_fold(t);
	CHECK_STR(drawn(t, 20, 4, 0), "a2.1\na2.2\na2.3\na2.4\n");
	add(t, UI_USER, "long question that wraps twice at this width");
	drawn(t, 20, 9, 0);
	transcript_question(t, -1);
	transcript_fold(t);
	CHECK_STR(drawn(t, 20, 2, 0), "> long qu [+2 lines]\n\n");
	transcript_free(t);
}

TEST(raw)
{
	struct transcript *t = transcript_new();

	add(t, UI_ASSISTANT,
	    "**a** \xe2\x80\x8b"
	    "b\n\n- c\n");
	CHECK_STR(drawn(t, 20, 4, 0), "a b\n\n• c\n\n");
	transcript_raw(t, 1);
	CHECK_INT(transcript_is_raw(t), 1);
	CHECK_STR(drawn(t, 20, 4, 0), "**a** <U+200B>b\n\n- c\n\n");
	append(t, "- d");
	CHECK_STR(drawn(t, 20, 4, 0), "**a** <U+200B>b\n\n- c\n- d\n");
	transcript_raw(t, 0);
	CHECK_STR(drawn(t, 20, 4, 0), "a b\n\n• c\n• d\n");
	transcript_ascii(t, 1);
	CHECK_STR(drawn(t, 20, 4, 0), "a b\n\n- c\n- d\n");
	transcript_free(t);
}

TEST(search)
{
	struct transcript *t = transcript_new();
	size_t at;

	add(t, UI_USER, "Where is the fox?");
	add(t, UI_ASSISTANT, "The **quick** brown fox jumps over\nthe lazy dog. FOX!\n\n> quick\n> brown");
	add(t, UI_NOTICE, "no foxes");
	CHECK_INT(transcript_search(t, "fox", 0, &at), 4);
	CHECK_INT(at, 4);
	CHECK_STR(drawn(t, 20, 12, 1), "> Where is the fox?\nqqqqqqqqqqqqqqqmmmq\n"
	                               "\n"
	                               "The quick brown fox\n    sssss       mmm\n"
	                               "jumps over\n"
	                               "the lazy dog. FOX!\n              mmm\n"
	                               "\n"
	                               "│ quick\nQQQQQQQ\n"
	                               "│ brown\nQQQQQQQ\n"
	                               "\n"
	                               "no foxes\nnnnAAAnn\n"
	                               "\n\n"
	                               "q = question\nm = match\ns = strong\nQ = quote\nn = notice\nA = match+bold\n");
	/* case matters if the pattern has capitals */
	CHECK_INT(transcript_search(t, "FOX", 1, &at), 1);
	/* across a line break, and across marks of Markdown */
	CHECK_INT(transcript_search(t, "quick  brown", 1, &at), 2);
	CHECK_INT(at, 2);
	CHECK_STR(drawn(t, 20, 12, 1), "> Where is the fox?\nqqqqqqqqqqqqqqqqqqq\n"
	                               "\n"
	                               "The quick brown fox\n    mmmmmmmmmmm\n"
	                               "jumps over\n"
	                               "the lazy dog. FOX!\n"
	                               "\n"
	                               "│ quick\nQQAAAAA\n"
	                               "│ brown\nQQAAAAA\n"
	                               "\n"
	                               "no foxes\nnnnnnnnn\n"
	                               "\n\n"
	                               "q = question\nm = match\nQ = quote\nA = match+bold\nn = notice\n");
	CHECK_INT(transcript_search(t, "over the", 1, &at), 1);
	CHECK_INT(transcript_search(t, "nothing", 1, &at), 0);
	CHECK_INT(at, 0);
	CHECK_INT(transcript_search(t, " ", 1, &at), 0);
	CHECK_INT(transcript_search(t, NULL, 1, &at), 0);
	CHECK(!strstr(drawn(t, 20, 12, 1), "match"));
	transcript_free(t);
}

/* A long text is kept in parts: words are found across their borders and shown on both sides. */
TEST(search_over_parts)
{
	struct transcript *t = transcript_new();
	size_t at;

	t->part_most = 8;
	add(t, UI_NOTICE, "one two three\nfour five");
	CHECK_INT(t->n, 2);
	CHECK_INT(transcript_search(t, "three four", 1, &at), 1);
	CHECK_INT(at, 1);
	CHECK_STR(drawn(t, 30, 3, 1),
	          "one two three\nnnnnnnnnAAAAA\nfour five\nAAAAnnnnn\n\nn = notice\nA = match+bold\n");
	CHECK_INT(transcript_search(t, "three", 1, &at), 1);
	CHECK_INT(transcript_search(t, "four", 1, &at), 1);
	/* Matches do not overlap: the search continues after the end of a match. */
	add(t, UI_NOTICE, "-----------xx\nx xx\nx");
	CHECK_INT(transcript_search(t, "xx x", 1, &at), 2);
	/* no match across two texts */
	add(t, UI_NOTICE, "xx");
	add(t, UI_NOTICE, "x");
	CHECK_INT(transcript_search(t, "xx x", 1, &at), 2);
	/* a word in three parts */
	transcript_clear(t);
	t->part_most = 2;
	add(t, UI_NOTICE, "0123456789");
	CHECK_INT(t->n, 3);
	CHECK_INT(transcript_search(t, "23456789", 1, &at), 1);
	append(t, "01");
	append(t, "2345678");
	CHECK_INT(transcript_search(t, "23456789", 1, &at), 1);
	append(t, "9");
	CHECK_INT(transcript_search(t, "23456789", 1, &at), 2);
	CHECK_INT(at, 2);
	transcript_free(t);
}

/* However a text arrives and is divided into parts, the same is found as in one part. */
TEST(search_does_not_know_of_parts)
{
	static const char *const text[] = { "ab",   "a",       "b a",      " ",        "\n",       "ab\n\n", "abab",
		                            "aab ", "- a b\n", "```\na\n", "```\nb\n", "\xc3\xa9", "**a**",  "> b\n" };
	static const char *const words[] = { "ab",
		                             "a b",
		                             "aab",
		                             "ba",
		                             "b a b",
		                             "abab",
		                             "\xc3\xa9"
		                             "a",
		                             "a b a b a b a b",
		                             "b \xc3\xa9" };

	for (int round = 0; round < 400; round++) {
		struct transcript *parts = transcript_new(), *whole = transcript_new();
		const char *word = words[test_rand() % LEN(words)];
		enum ui_role role = round % 2 ? UI_ASSISTANT : UI_NOTICE;
		size_t at, found = 0;

		parts->part_most = 1 + test_rand() % 30;
		for (int i = 0; i < 100; i++) {
			const char *p = text[test_rand() % LEN(text)];

			if (!i || test_rand() % 40 == 0) {
				add(parts, role, p);
				add(whole, role, p);
			} else {
				append(parts, p);
				append(whole, p);
			}
			if (test_rand() % 4 == 0)
				found = transcript_search(parts, word, (int)(test_rand() % 3) - 1, &at);
			if (test_rand() % 4 == 0)
				drawn(parts, 20, 5, 0);
		}
		found = transcript_search(parts, word, 1, &at);
		CHECK_MSG(found == transcript_search(whole, word, 1, &at), "round %d: '%s' is found %zu times, not %zu",
		          round, word, found, transcript_search(whole, word, 1, &at));
		transcript_free(parts);
		transcript_free(whole);
	}
}

TEST(search_moves)
{
	struct transcript *t = conversation(30);
	size_t at;

	drawn(t, 20, 6, 0);
	transcript_top(t);
	drawn(t, 20, 6, 0);
	CHECK_INT(transcript_search(t, ".3", 1, &at), 30);
	CHECK_INT(at, 1);
	CHECK_STR(drawn(t, 20, 6, 0), "> q1\n\na1.1\na1.2\na1.3\na1.4\n"); /* the match is visible, so nothing moves */
	CHECK_INT(transcript_search(t, ".3", 1, &at), 30);
	CHECK_INT(at, 2);
	CHECK_STR(drawn(t, 20, 6, 0), "a2.1\na2.2\na2.3\na2.4\n\n> q3\n");
	transcript_search(t, ".3", -1, &at);
	transcript_search(t, ".3", -1, &at);
	CHECK_INT(at, 30);
	CHECK_STR(drawn(t, 20, 6, 0), "> q30\n\na30.1\na30.2\na30.3\na30.4\n");
	transcript_search(t, ".3", 1, &at);
	CHECK_INT(at, 1);
	/* a search begins where the user went */
	transcript_page(t, 5);
	drawn(t, 20, 6, 0);
	transcript_search(t, ".3", 1, &at);
	CHECK_INT(at, 5);
	/* while the pattern is typed, the search stays at its match, or goes to an earlier one if the new pattern does
	 * not match there */
	transcript_search(t, "a5.3", 0, &at);
	CHECK_INT(at, 1);
	transcript_search(t, "a1", 0, &at);
	CHECK_INT(at, 4);
	/* text added later is found, too */
	append(t, " a1");
	CHECK_INT(transcript_search(t, "a1", -1, &at), 4 * 11 + 1);
	CHECK_INT(at, 3);
	append(t, "x a");
	append(t, "1");
	drawn(t, 20, 6, 0);
	CHECK_INT(transcript_search(t, "a1", 1, &at), 4 * 11 + 2);
	/* a fold that hides the match is opened */
	transcript_search(t, "a30.4", 1, &at);
	drawn(t, 20, 6, 0);
	transcript_end_follow(t);
	transcript_fold(t);
	CHECK(strstr(drawn(t, 20, 6, 0), "[+3 lines]"));
	transcript_search(t, "a30.4", 1, &at);
	CHECK(strstr(drawn(t, 20, 6, 0), "a30.4"));
	transcript_free(t);
}

TEST(lens)
{
	struct transcript *t = transcript_new();
	/*                        0         10        20        30 */
	static const char text[] = "The **quick\xe2\x80\x8b** brown fox\x1b jumps";
	const struct ui_span span[] = { { 4, 255, 0 }, { 16, 0, 0 }, { 23, 128, 0 }, { 28, 255, 0 }, { 40, 0, 0 } };
	struct str s = { 0 };

	add(t, UI_NOTICE, "not counted");
	add(t, UI_ASSISTANT, text);
	transcript_lens(t, 0, span, LEN(span));
	transcript_lens(t, 7, span, 1); /* there is no such message */
	CHECK_STR(
		drawn(t, 40, 3, 1),
		"not counted\nnnnnnnnnnnn\n\nThe quick brown fox^[ jumps\n    gggggAAAAAAA      ggggg\nn = notice\ng = evicted\nA = text+faint\n");
	/* the lens may end before the text does; copying works as always */
	append(t, " over\n\n1. *it*");
	CHECK(strstr(drawn(t, 40, 5, 1), "over\n"));
	CHECK_INT(transcript_copy_message(t, 0, &s), 1);
	CHECK(strstr(s.p, "**quick"));
	transcript_raw(t, 1);
	CHECK(strstr(drawn(t, 60, 5, 1), "The **quick<U+200B>** brown"));
	CHECK(strstr(drawn(t, 60, 5, 1), "\n    ggggggggggggggggg"));
	transcript_lens(t, 0, NULL, 0);
	CHECK(!strstr(drawn(t, 60, 5, 1), "evicted"));
	transcript_free(t);
	str_free(&s);
}

/* Underlines: whole words only, across Markdown and wrapped lines, in the last answer only, also if notices follow
 * it. */
TEST(underlines)
{
	struct transcript *t = transcript_new();

	transcript_underline(t, "1872\n");
	add(t, UI_ASSISTANT, "In 1872.");
	add(t, UI_USER, "1872?");
	transcript_underline(t, "1872\n");
	CHECK(!strstr(drawn(t, 20, 9, 1), "underline"));
	add(t, UI_ASSISTANT, "**North Sea** 1872, 18720, x1872 North Sea");
	add(t, UI_NOTICE, "1872");
	transcript_underline(t, "1872\nNorth Sea\n\n1872, 18720, x1872 North Sea and more\n");
	CHECK_STR(drawn(t, 27, 8, 1),
	          "In 1872.\n\n> 1872?\nqqqqqqq\n\nNorth Sea 1872, 18720,\nAAAAAAAAA BBBB\nx1872 North Sea\n      "
	          "BBBBBBBBB\n\n1872\nnnnn\nq = question\nA = strong+underline\nB = text+underline\nn = notice\n");
	transcript_underline(t, "");
	CHECK(!strstr(drawn(t, 20, 9, 1), "underline"));
	transcript_free(t);
}

/* Before each row is a bar in the colour of the cache region that has the row's first word, or a dot if that word is
 * evicted. */
TEST(gutter)
{
	struct transcript *t = transcript_new();

	add(t, UI_ASSISTANT, "first\\\nsecond\\\nthird\\\nfourth");
	transcript_lens(t, 0, (struct ui_span[]){ { 7, 255, 1 }, { 15, 0, 0 }, { 22, 255, 9 }, { 29, 255, 0 } }, 4);
	CHECK_STR(drawn(t, 20, 5, 0), "first\nsecond\nthird\nfourth\n\n");
	transcript_gutter(t, 1);
	CHECK(transcript_changed(t));
	CHECK_STR(drawn(t, 20, 5, 0), "\u258e first\n\u00b7 second\n\u258e third\n  fourth\n\n");
	transcript_gutter(t, 0);
	CHECK_STR(drawn(t, 20, 5, 0), "first\nsecond\nthird\nfourth\n\n");
	transcript_free(t);
}

/* The entries of a growing text have offsets in that text, by which lens and heat are assigned to them. */
TEST(a_text_that_is_read)
{
	struct transcript *t = transcript_new();
	static const struct ui_span lens[] = { { 5, 128, 0 }, { 30, 255, 0 } }, heat[] = { { 6, 0, 0 }, { 17, 3, 0 } };

	add(t, UI_NOTICE, "before");
	transcript_text(t, 100, 1);
	append(t, "One two. ");
	transcript_end(t, NULL);
	transcript_text(t, 109, 0);
	append(t, "Three four. Five.");
	transcript_text_lens(t, 109, lens, 2); /* the text before byte 109 is evicted */
	transcript_text_heat(t, 103, heat, 2);
	CHECK_STR(
		drawn(t, 40, 5, 1),
		"before\nnnnnnn\n\nOne two.\ngggggggg\n\nThree four. Five.\nAAAAA777777\nn = notice\ng = evicted\nA = heat 7+faint\n7 = heat 7\n");
	/* A question between two parts of the text. Then the question no longer counts as a message. */
	add(t, UI_USER, "Who?");
	add(t, UI_ASSISTANT, "He.");
	CHECK_INT(transcript_messages(t), 2);
	transcript_lens(t, 1, lens, 1);
	transcript_messages_end(t, 0);
	CHECK_INT(transcript_messages(t), 0);
	CHECK(strstr(drawn(t, 40, 10, 0), "He."));
	transcript_free(t);
}

TEST(copies)
{
	struct transcript *t = transcript_new();
	struct str s = { 0 };

	CHECK_INT(transcript_copy_all(t, &s), 0);
	CHECK_INT(transcript_copy_focus(t, &s), 0);
	CHECK_INT(transcript_copy_code(t, 1, &s), 0);
	add(t, UI_USER, "make\x1b it\nso");
	add(t, UI_NOTICE, "a notice");
	add(t, UI_ASSISTANT, "So:\r\n\n```make\nall:\n\tcc *.c\n```\nor `x`\n\xe2\x80\x8b\xc2\x9b\x9b\x7f");
	add(t, UI_USER, "```\nnot an answer\n```");
	add(t, UI_ASSISTANT, "- x\n  ```\n  1\n  ```\n- y\n  ```\n  2\n  ```");
	CHECK_INT(transcript_copy_message(t, 1, &s), 1);
	CHECK_STR(s.p, "So:\n\n```make\nall:\n\tcc *.c\n```\nor `x`\n\xe2\x80\x8b\xef\xbf\xbd");
	CHECK_INT(transcript_copy_message(t, 4, &s), 0);
	static const char *const code[] = { "2", "1", "all:\n\tcc *.c" };
	for (size_t i = 0; i < 3; i++) {
		str_clear(&s);
		CHECK_INT(transcript_copy_code(t, i + 1, &s), 1);
		CHECK_STR(s.p, code[i]);
	}
	CHECK_INT(transcript_copy_code(t, 4, &s), 0);
	CHECK_INT(transcript_copy_code(t, 0, &s), 0);
	str_clear(&s);
	CHECK_INT(transcript_copy_focus(t, &s), 1);
	CHECK(!strncmp(s.p, "- x", 3));
	str_clear(&s);
	CHECK_INT(transcript_copy_all(t, &s), 1);
	CHECK_STR(s.p, "> make it\n> so\n\nSo:\n\n```make\nall:\n\tcc *.c\n```\nor `x`\n\xe2\x80\x8b\xef\xbf\xbd\n\n"
	               "> ```\n> not an answer\n> ```\n\n- x\n  ```\n  1\n  ```\n- y\n  ```\n  2\n  ```\n");
	transcript_free(t);
	str_free(&s);
}

/* A conversation whose answers arrive in pieces of any size, with drawing in between, looks like one that arrived
 * whole. */
TEST(streaming_looks_the_same)
{
	static const char *const part[] = {
		"# A\n",          "\n",    "word ",  "**b** ", "- c\n",        "```c\nint x;\n", "```\n",
		"| d |\n|---|\n", "> e\n", "1. f\n", "   g\n", "\xe6\xbc\xa2", "e\xcc\x81",      "\xf0\x9f\x98\x80"
	};
	struct str s = { 0 };

	for (int round = 0; round < 150; round++) {
		struct transcript *t = transcript_new(), *u = transcript_new();

		str_clear(&s);
		for (size_t n = 20 + test_rand() % 60; n; n--)
			str_adds(&s, part[test_rand() % LEN(part)]);
		add(t, UI_ASSISTANT, s.p);
		transcript_end(t, NULL);
		add(u, UI_ASSISTANT, "");
		for (size_t i = 0; i < s.n;) {
			size_t n = 1 + test_rand() % 9;
			if (n > s.n - i)
				n = s.n - i;
			transcript_append(u, s.p + i, n);
			i += n;
			if (test_rand() % 3 == 0)
				drawn(u, 10 + (int)(test_rand() % 30), 6, 0);
		}
		transcript_end(u, NULL);
		CHECK_STR(drawn(u, 30, 60, 1), drawn(t, 30, 60, 1));
		transcript_free(t);
		transcript_free(u);
	}
	str_free(&s);
}

/* Check that two pictures are the same, and show where they begin to differ. */
static void same(const char *is, const char *should, int round)
{
	size_t i = 0;

	while (is[i] && is[i] == should[i])
		i++;
	CHECK_MSG(is[i] == should[i], "round %d: is ...%.60s, not ...%.60s", round, is + (i > 20 ? i - 20 : 0),
	          should + (i > 20 ? i - 20 : 0));
}

/* A text in parts looks the same as the whole, is copied the same, and marks the same words as evicted. */
TEST(parts_look_like_the_whole)
{
	static const char *const part[] = { "# A\n",           "\n",
		                            "word and words ", "**b** ",
		                            "- c\n",           "```c\nint x; /* y\n z */\n",
		                            "```\n",           "| d |\n|---|\n",
		                            "> e\n",           "1. f\n",
		                            "   g\n",          "\xe6\xbc\xa2",
		                            "e\xcc\x81",       "\xf0\x9f\x98\x80",
		                            "\tcode\r\n",      "\x1b[m" };
	struct str s = { 0 }, a = { 0 }, b = { 0 };
	size_t parts = 0;

	for (int round = 0; round < 300; round++) {
		struct transcript *t = transcript_new(), *u = transcript_new();
		enum ui_role role = round % 3 ? UI_ASSISTANT : round % 2 ? UI_USER : UI_NOTICE;
		struct ui_span span[40];
		int w = 12 + (int)(test_rand() % 60), raw = test_rand() % 4 == 0;

		u->part_most = 300;
		str_clear(&s);
		for (size_t n = 20 + test_rand() % 400; n; n--) {
			str_adds(&s, part[test_rand() % LEN(part)]);
			if (n % 8 == 0)
				str_adds(&s, "\n\nA paragraph.\n\n");
		}
		for (size_t i = 0; i < 40; i++)
			span[i] =
				(struct ui_span){ (uint32_t)(s.n * (i + 1) / 40), (uint8_t)(test_rand() % 3 * 127), 0 };
		add(t, role, s.p);
		transcript_end(t, "note");
		add(t, UI_NOTICE, "behind");
		add(u, role, "");
		for (size_t i = 0, n; i < s.n; i += n) {
			n = 1 + test_rand() % (test_rand() % 2 ? 9 : 900);
			n = n < s.n - i ? n : s.n - i;
			transcript_append(u, s.p + i, n);
			if (test_rand() % 16 == 0)
				drawn(u, w, 9, 0);
		}
		transcript_end(u, "note");
		add(u, UI_NOTICE, "behind");
		for (size_t i = 0; i < u->n; i++)
			parts += u->entry[i].part;
		transcript_raw(t, raw);
		transcript_raw(u, raw);
		if (role != UI_NOTICE && test_rand() % 2) {
			transcript_lens(t, 0, span, 40);
			transcript_lens(u, 0, span, 40);
		}
		same(drawn(u, w, 900, 1), drawn(t, w, 900, 1), round);
		for (int i = 0; i < 6; i++) {
			/* One transcript estimates the number of rows and the other knows it. So compare positions
			 * counted from the top, not percentages. */
			transcript_top(t);
			transcript_top(u);
			transcript_scroll(t, i * 7);
			transcript_scroll(u, i * 7);
			same(drawn(u, w, 12, 1), drawn(t, w, 12, 1), round);
		}
		transcript_top(t);
		transcript_top(u);
		transcript_fold(t);
		transcript_fold(u);
		CHECK(u->entry[0].folded);
		/* The number of lines in parts that were never drawn is an estimate. */
		/* skipped on narrow screens, where the number of digits changes the layout */
		CHECK_INT(w < 30 ? 0 : strcspn(drawn(u, w, 30, 0), "["), w < 30 ? 0 : strcspn(drawn(t, w, 30, 0), "["));
		CHECK_STR(w < 30 ? "" : strchr(drawn(u, w, 4, 0), '\n'), w < 30 ? "" : "\n\nbehind\n\n");
		transcript_fold(u);
		transcript_fold(t);
		same(drawn(u, w, 900, 1), drawn(t, w, 900, 1), round);
		str_clear(&a);
		str_clear(&b);
		CHECK(transcript_copy_message(t, 0, &a) == transcript_copy_message(u, 0, &b) && a.n == b.n &&
		      (!a.n || !memcmp(a.p, b.p, a.n)));
		for (size_t k = 1; k < 4; k++) {
			str_clear(&a);
			str_clear(&b);
			CHECK(transcript_copy_code(t, k, &a) == transcript_copy_code(u, k, &b) && a.n == b.n &&
			      (!a.n || !memcmp(a.p, b.p, a.n)));
		}
		transcript_free(t);
		transcript_free(u);
	}
	test_note("%zu parts", parts);
	CHECK(parts > 1000);
	str_free(&s);
	str_free(&a);
	str_free(&b);
}

/* One text of 10 MB: each action lays out only a few screens of it. */
TEST(a_very_long_text)
{
	static const char *const kind[] = { "lines", "a line", "Markdown", "code", "wide characters" };
	static const int size_of[][2] = { { 80, 24 }, { 120, 40 }, { 20, 6 }, { 79, 24 } };
	struct str s = { 0 };
	double worst = 0;
	size_t at;

	for (int k = 0; k < 5; k++) {
		struct transcript *t = transcript_new();
		uint64_t most = 4 * PART_MOST, was;
		double start;

		str_clear(&s);
		if (k == 3)
			str_adds(&s, "```c\n");
		for (int i = 0; s.n < 10000000; i++)
			if (k == 4)
				str_adds(
					&s,
					"\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2");
			else
				str_addf(&s,
				         k == 2   ? "- item %d of *a list*\n%s"
				         : k == 3 ? "int i%d; /* so */%s\n"
				         : k == 1 ? "word %d%s "
				                  : "line %d%s\n",
				         i, k == 2 && i % 5 == 0 ? "\nA paragraph\nof **two** lines.\n\n" : "");
		add(t, UI_USER, "before");
		start = cpu_seconds();
		transcript_add(t, k == 2 || k == 3 ? UI_ASSISTANT : UI_USER, s.p, s.n);
		transcript_end(t, NULL);
		test_note("%s: %.0f ms to take 10 MB in", kind[k], (cpu_seconds() - start) * 1e3);
		for (int step = 0; step < 40; step++) {
			const int *wh = size_of[step / 10];

			was = t->work;
			start = cpu_seconds();
			switch (step % 10) {
			case 1: transcript_scroll(t, -3); break;
			case 2: transcript_page(t, -1); break;
			case 3: transcript_top(t); break;
			case 4: transcript_page(t, 1); break;
			case 5: transcript_fold(t); break;
			case 6: transcript_fold(t); break;
			case 7: transcript_question(t, 1); break;
			case 8: transcript_end_follow(t); break;
			case 9: transcript_append(t, " more", 5); break;
			}
			drawn(t, wh[0], wh[1], 0);
			transcript_below(t);
			worst = cpu_seconds() - start > worst ? cpu_seconds() - start : worst;
			CHECK_MSG(t->work - was <= most, "%s: step %d lays out %llu bytes", kind[k], step,
			          (unsigned long long)(t->work - was));
		}
		was = t->work;
		start = cpu_seconds();
		transcript_search(t, k == 4 ? "\xe6\xbc\xa2" : "10007", 1, &at);
		drawn(t, 80, 24, 0);
		test_note("%s: %.0f ms to search it", kind[k], (cpu_seconds() - start) * 1e3);
		CHECK_MSG(t->work - was <= 2 * most, "%s: a search lays out %llu bytes", kind[k],
		          (unsigned long long)(t->work - was));
		transcript_free(t);
	}
	test_note("at most %.1f ms from a key to the picture", worst * 1e3);
	str_free(&s);
}

/* Any calls in any order: no crash, the numbers of rows are consistent, every cell can be shown. */
TEST(anything)
{
	static const char *const text[] = {
		"# A\n",    "\n\n",           "word ",    "**b",
		"- c\n",    "```c\nint x;\n", "```\n",    "| d |\n|---|\n",
		"> e\n",    "\x1b[1m",        "\xff",     "\xe6\xbc\xa2",
		"\xf0\x9f", "\x98\x80",       "\xcc\x81", "a much longer piece of text that wraps at most widths\n",
		""
	};
	struct transcript *t = transcript_new();
	long rounds = 6000 * (getenv("WEIR_SOAK") ? strtol(getenv("WEIR_SOAK"), NULL, 10) : 1);
	struct str s = { 0 };
	uint64_t place = 0;
	size_t at;
	int w = 80, h = 24;

	t->part_most = 40; /* so that most texts have several parts */

	for (long i = 0; i < rounds; i++) {
		const char *p = text[test_rand() % LEN(text)];
		struct ui_span span[3] = { { (uint32_t)(test_rand() % 9), 0, 0 },
			                   { (uint32_t)(test_rand() % 30), 99, 0 },
			                   { 40, (uint8_t)test_rand(), 0 } };

		switch (test_rand() % 24) {
		case 0: add(t, (enum ui_role)(test_rand() % 4), p); break;
		case 1: transcript_end(t, test_rand() % 2 ? "note\x1b" : NULL); break;
		case 2: transcript_scroll(t, (int)(test_rand() % 41) - 20); break;
		case 3: transcript_page(t, test_rand() % 2 ? -1 : 0.5); break;
		case 4: transcript_question(t, test_rand() % 2 ? 1 : -1); break;
		case 5: transcript_fold(t); break;
		case 6: transcript_raw(t, test_rand() % 2); break;
		case 7: transcript_search(t, test_rand() % 4 ? p : NULL, (int)(test_rand() % 3) - 1, &at); break;
		case 8: transcript_lens(t, test_rand() % 8, span, test_rand() % 4); break;
		case 9:
			w = 1 + (int)(test_rand() % 100);
			h = 1 + (int)(test_rand() % 40);
			break;
		case 10: place = transcript_position(t); break;
		case 11: transcript_go(t, place); break;
		case 12: transcript_top(t); break;
		case 13: transcript_end_follow(t); break;
		case 14: transcript_ascii(t, test_rand() % 2); break;
		case 15:
			str_clear(&s);
			transcript_copy_all(t, &s);
			transcript_copy_code(t, 1 + test_rand() % 3, &s);
			transcript_copy_focus(t, &s);
			break;
		case 16:
			if (test_rand() % 40 == 0) {
				transcript_clear(t);
				place = 0;
			}
			break;
		default: append(t, p); break;
		}
		CHECK(transcript_focus(t) < transcript_count(t) || !transcript_count(t));
		if (test_rand() % 2) {
			drawn(t, w, h, 0);
			for (int k = 0; k < grid.w * grid.h; k++)
				CHECK(grid.cell[k].width == 0 || char_width(grid.cell[k].cp) == grid.cell[k].width);
		}
	}
	transcript_free(t);
	str_free(&s);
}

/* A long conversation is fast, because only what is seen is laid out. */
TEST(long_conversations)
{
	struct transcript *t = transcript_new();
	struct str s = { 0 };
	double start, took, worst = 0;
	size_t at;

	for (int i = 0; s.n < 2000; i++)
		str_addf(&s, "Sentence %d of the *answer*%s", i, i % 9 ? ". " : ".\n\n");
	for (int i = 0; i < 5000; i++) {
		add(t, UI_USER, "Go on, please.");
		add(t, UI_ASSISTANT, s.p);
	}
	drawn(t, 80, 24, 0);
	for (int w = 60; w < 100; w += 10) {
		start = cpu_seconds();
		drawn(t, w, 24, 0);
		transcript_top(t);
		drawn(t, w, 24, 0);
		transcript_end_follow(t);
		took = cpu_seconds() - start;
		worst = MAX(took, worst);
	}
	CHECK_MSG(worst < 0.1 * test_patience(), "%.0f ms", worst * 1e3);
	test_note("%.1f ms to resize 10 MB in 10,000 entries, see its top and its end", worst * 1e3);
	start = cpu_seconds();
	transcript_search(t, "answer", 1, &at);
	took = cpu_seconds() - start;
	test_note("%.0f ms to search it", took * 1e3);
	CHECK_MSG(took < 1 * test_patience(), "%.0f ms to search", took * 1e3);
	transcript_clear(t);

	add(t, UI_ASSISTANT, "");
	for (int i = 0; i < 100; i++)
		append(t, s.p);
	drawn(t, 80, 24, 0);
	start = cpu_seconds();
	for (int i = 0; i < 500; i++) {
		append(t, i % 30 ? " word" : ".\n\n");
		drawn(t, 80, 24, 0);
	}
	took = (cpu_seconds() - start) / 500;
	test_note("%.0f us for a token more at 200 KB, drawn", took * 1e6);
	CHECK_MSG(took < 0.001 * test_patience(), "%.0f us", took * 1e6);
	while (t && s.n < (1 << 20))
		str_adds(
			&s,
			"More of the answer, with `code` and **bold** words in it, as answers go.\n\n- a list\n- of things\n\n");
	transcript_clear(t);
	add(t, UI_ASSISTANT, s.p);
	drawn(t, 80, 24, 0);
	start = cpu_seconds();
	drawn(t, 100, 24, 0);
	test_note("%.0f ms to resize one entry of 1 MB", (cpu_seconds() - start) * 1e3);
	transcript_free(t);
	str_free(&s);
	grid_free(&grid);
}
