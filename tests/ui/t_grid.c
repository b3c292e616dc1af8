/* tests/ui/t_grid.c - ui/screen/grid.c: any text in cells, cut anywhere. */
#include "tests/lib/test.h"
#include "ui/screen/grid.h"
#include "ui/text/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static struct grid make(int w, int h)
{
	struct grid g = { 0 };

	grid_resize(&g, w, h);
	return g;
}

static const char *dump(const struct grid *g, int styles)
{
	static struct str out[4];
	static int turn;
	struct str *s = &out[turn++ & 3];

	str_clear(s);
	str_adds(s, "");
	grid_dump(g, styles, s);
	return s->p;
}

static int text_at(struct area a, int x, int y, unsigned style, const char *s)
{
	return area_text(&a, x, y, style, s, strlen(s));
}

/* Check what must be true of every grid. */
static void check_grid(const struct grid *g)
{
	for (int y = 0; y < g->h; y++) {
		for (int x = 0; x < g->w; x++) {
			const struct cell *c = &g->cell[y * g->w + x];
			int end = 0;
			for (int i = 0; i < CLEAN_MARKS_MAX; i++) {
				CHECK(!(end && c->mark[i]));
				end |= !c->mark[i];
				if (c->mark[i])
					CHECK_INT(char_width(c->mark[i]), 0);
			}
			if (c->width) {
				CHECK_INT(c->width, char_width(c->cp));
				CHECK(c->cp != '\n');
			} else {
				CHECK(!c->cp && !c->mark[0] && x > 0 && c[-1].width == 2);
				CHECK(c->style == c[-1].style && c->back == c[-1].back);
			}
			if (c->width == 2)
				CHECK(x + 1 < g->w && !c[1].width);
		}
	}
}

TEST(text_and_its_end)
{
	struct grid g = make(10, 3);
	struct area a = area_of(&g);

	CHECK_INT(text_at(a, 0, 0, ST_TEXT, "hello"), 5);
	CHECK_INT(text_at(a, 3, 1, ST_TEXT, "twelve words"), 10);
	CHECK_INT(text_at(a, 0, 2, ST_TEXT, "one\ntwo"), 3);
	CHECK_STR(dump(&g, 0), "hello\n   twelve\none\n");
	CHECK_INT(text_at(a, -3, 0, ST_TEXT, "abcdef"), 3);
	CHECK_INT(text_at(a, 12, 0, ST_TEXT, "x"), 12);
	CHECK_INT(text_at(a, 2, 7, ST_TEXT, "xyz"), 5);
	CHECK_INT(text_at(a, 2, -1, ST_TEXT, "xyz"), 5);
	CHECK_STR(dump(&g, 0), "deflo\n   twelve\none\n");
	CHECK_INT(area_putf(&a, 1, 2, ST_TEXT, "%d%%", 42), 4);
	CHECK_INT(area_putf(&a, 0, 1, ST_TEXT, "%0400d", 7), 10);
	CHECK_STR(dump(&g, 0), "deflo\n0000000000\no42%\n");
	grid_clear(&g);
	CHECK_STR(dump(&g, 0), "\n\n\n");
	grid_free(&g);
}

TEST(areas_cut)
{
	struct grid g = make(10, 4);
	struct area all = area_of(&g), a = area_part(&all, 2, 1, 5, 2), b = area_part(&a, -1, -1, 3, 2), none;

	area_fill(&all, 0, 0, 10, ST_TEXT, '.');
	area_fill(&all, -5, 3, 100, ST_TEXT, '-');
	text_at(a, -2, 0, ST_TEXT, "abcdefghijkl");
	text_at(a, 4, 1, ST_TEXT, "xyz");
	CHECK_STR(dump(&g, 0), "..........\n  cdefg\n      x\n----------\n");
	CHECK_INT(b.x, 2);
	CHECK_INT(b.y, 1);
	CHECK_INT(b.w, 2);
	CHECK_INT(b.h, 1);
	area_clear(&b, ST_TEXT);
	CHECK_STR(dump(&g, 0), "..........\n    efg\n      x\n----------\n");
	none = area_part(&a, 7, 0, 3, 3);
	CHECK(none.w == 0 && none.x == 7);
	none = area_part(&a, INT_MAX, INT_MIN, INT_MAX, INT_MAX);
	CHECK(none.w == 0 && none.h == 0);
	none = area_part(&a, INT_MIN, 0, INT_MAX, -5);
	CHECK(none.w == 0 && none.h == 0);
	text_at(none, 0, 0, ST_TEXT, "nowhere");
	area_fill(&none, 0, 0, INT_MAX, ST_TEXT, '!');
	area_clear(&none, ST_TEXT);
	area_cell(&a, 5, 0, '!', ST_TEXT, 0);
	area_cell(&a, INT_MAX, INT_MAX, '!', ST_TEXT, 0);
	area_cell(&a, INT_MIN, 0, '!', ST_TEXT, 0);
	area_fill(&a, INT_MIN, 0, 5, ST_TEXT, '!');
	area_restyle(&a, INT_MIN, 0, 5, ST_ERROR);
	text_at(a, INT_MIN, 0, ST_TEXT, "nowhere");
	CHECK_STR(dump(&g, 0), "..........\n    efg\n      x\n----------\n");
	area_cursor(&a, 1, 1);
	CHECK(g.cursor_x == 3 && g.cursor_y == 2);
	area_cursor(&a, 5, 1);
	CHECK_INT(g.cursor_y, -1);
	check_grid(&g);
	grid_free(&g);
}

TEST(wide_characters)
{
	struct grid g = make(6, 2);
	struct area a = area_of(&g), part = area_part(&a, 1, 0, 4, 1);

	CHECK_INT(text_at(a, 0, 0, ST_TEXT, "a漢b"), 4);
	CHECK_STR(dump(&g, 0), "a漢b\n\n");
	/* When one half of a wide character is overwritten, the other half becomes blank. */
	text_at(a, 1, 0, ST_TEXT, "x");
	CHECK_STR(dump(&g, 0), "ax b\n\n");
	text_at(a, 0, 0, ST_TEXT, "a漢b");
	text_at(a, 2, 0, ST_TEXT, "x");
	CHECK_STR(dump(&g, 0), "a xb\n\n");
	text_at(a, 0, 0, ST_TEXT, "漢字漢");
	text_at(a, 1, 0, ST_TEXT, "語");
	CHECK_STR(dump(&g, 0), " 語 漢\n\n");
	check_grid(&g);
	/* A wide character that is cut by an edge shows as a blank. */
	text_at(a, 0, 0, ST_TEXT, "......");
	CHECK_INT(text_at(part, 3, 0, ST_TEXT, "漢"), 4);
	CHECK_STR(dump(&g, 0), ".... .\n\n");
	CHECK_INT(text_at(part, -1, 0, ST_TEXT, "漢"), 1);
	CHECK_STR(dump(&g, 0), ". .. .\n\n");
	area_cell(&part, -1, 0, 0x6f22, ST_TEXT, 0);
	area_cell(&part, -2, 0, 0x6f22, ST_TEXT, 0);
	CHECK_STR(dump(&g, 0), ". .. .\n\n");
	area_fill(&a, 0, 0, 5, ST_TEXT, 0x6f22);
	CHECK_STR(dump(&g, 0), "漢漢 .\n\n");
	area_fill(&a, -1, 0, 4, ST_TEXT, 0x6f22);
	CHECK_STR(dump(&g, 0), " 漢  .\n\n");
	area_fill(&part, 0, 0, 3, ST_TEXT, 0x6f22);
	CHECK_STR(dump(&g, 0), " 漢  .\n\n");
	check_grid(&g);
	grid_free(&g);
}

TEST(marks_and_joiners)
{
	struct grid g = make(12, 1);
	struct area a = area_of(&g), part = area_part(&a, 2, 0, 3, 1);

	CHECK_INT(text_at(a, 0, 0, ST_TEXT, "e\u0301漢\u0301x"), 4);
	CHECK_STR(dump(&g, 0), "e\u0301漢\u0301x\n");
	CHECK_INT(g.cell[0].mark[0], 0x301);
	/* At most four marks. A mark at the beginning of a text is added to the cell before the text. */
	grid_clear(&g);
	text_at(a, 0, 0, ST_TEXT, "a\u0300\u0301\u0302\u0303\u0304z");
	CHECK_STR(dump(&g, 0), "a\u0300\u0301\u0302\u0303z\n");
	text_at(a, 1, 0, ST_TEXT, "b");
	text_at(a, 2, 0, ST_TEXT, "\u0301c");
	CHECK_STR(dump(&g, 0), "a\u0300\u0301\u0302\u0303b\u0301c\n");
	text_at(a, 0, 0, ST_TEXT, "漢");
	CHECK_INT(text_at(a, 2, 0, ST_TEXT, "\u0301"), 2);
	CHECK_INT(text_at(a, 0, 0, ST_TEXT, "\u0302"), 0);
	CHECK_STR(dump(&g, 0), "漢\u0301c\n");
	/* A mark is not added to a cell outside the area. The marks of a character that is cut off are dropped; the
	 * last visible cell keeps its marks. */
	grid_clear(&g);
	text_at(a, 0, 0, ST_TEXT, "abcdefg");
	text_at(part, 0, 0, ST_TEXT, "\u0301x");
	text_at(part, -2, 0, ST_TEXT, "o\u0301o\u0301");
	CHECK_INT(text_at(part, 2, 0, ST_TEXT, "z\u0301q\u0301"), 3);
	CHECK_STR(dump(&g, 0), "abxdz\u0301fg\n");
	/* Joined emoji are separated; joined letters are kept. */
	grid_clear(&g);
	CHECK_INT(text_at(a, 0, 0, ST_TEXT, "👨\u200d👩❤\ufe0f☂\ufe0e."), 7);
	CHECK_STR(dump(&g, 0), "👨👩❤☂.\n");
	grid_clear(&g);
	CHECK_INT(text_at(a, 0, 0, ST_TEXT, "👍🏽x🏽"), 7);
	CHECK_STR(dump(&g, 0), "👍  x🏽\n");
	grid_clear(&g);
	CHECK_INT(text_at(a, 0, 0, ST_TEXT, "क\u094d\u200dषم\u200cن"), 4);
	CHECK_STR(dump(&g, 0), "क\u094d\u200dषم\u200cن\n");
	check_grid(&g);
	grid_free(&g);
}

TEST(what_is_not_clean_shows_as_such)
{
	struct grid g = make(24, 1);
	struct area a = area_of(&g);
	static const int32_t bad[] = { 0,      7,      9,      10,     13, 27,        127,      0x9b, 0x202e,
		                       0x200b, 0xfeff, 0xe000, 0xd800, -1, INT32_MIN, 0x110000, 0x301 };

	text_at(a, 0, 0, ST_TEXT, "a\33[31mb\rc\177d\xc2\x9b\xff\xc3\u202e\u200be\xe6\xbc");
	CHECK_STR(dump(&g, 0), "a\ufffd[31mb\ufffdc\ufffdd\ufffd\ufffd\ufffd\ufffd\ufffde\ufffd\n");
	for (size_t i = 0; i < LEN(bad); i++) {
		grid_clear(&g);
		area_cell(&a, 0, 0, bad[i], ST_TEXT, 0);
		area_fill(&a, 1, 0, 1, ST_TEXT, bad[i]);
		CHECK_STR(dump(&g, 0), "\ufffd\ufffd\n");
	}
	grid_free(&g);
}

TEST(styles)
{
	struct grid g = make(12, 3);
	struct area a = area_of(&g);

	text_at(a, 0, 0, ST_HEADING, "Title");
	text_at(a, 6, 0, ST_CODE | STYLE_REVERSE, "漢x");
	area_fill(&a, 0, 2, 12, ST_STATUS, ' ');
	text_at(a, 1, 2, ST_STATUS_STRONG, "ok");
	area_cell(&a, 5, 2, 0x2580, ST_HEAT + 3, ST_HEAT + 7);
	area_cursor(&a, 4, 1);
	CHECK_STR(dump(&g, 1),
	          "Title 漢x\nHHHHH AAA\n\n ok  ▀\nuUUuuBuuuuuu\n"
	          "H = heading\nA = code+reverse\nu = status\nU = status strong\nB = heat 3 on heat 7\ncursor 4,1\n");
	CHECK_STR(dump(&g, 0), "Title 漢x\n\n ok  ▀\n");
	/* Both halves of a wide character have the same style. */
	area_restyle(&a, 6, 0, 1, ST_ERROR);
	CHECK_INT(g.cell[7].style, ST_ERROR);
	area_restyle(&a, 7, 0, 1, ST_LINK);
	CHECK_INT(g.cell[6].style, ST_ERROR);
	CHECK_INT(g.cell[8].style, ST_CODE | STYLE_REVERSE);
	check_grid(&g);
	/* More styles than letters: the dump still works. */
	grid_resize(&g, 300, 1);
	a = area_of(&g);
	for (int i = 0; i < 300; i++)
		area_cell(&a, i, 0, 'x', (unsigned)(i % 50) | STYLE_BOLD, (uint8_t)i);
	CHECK(strstr(dump(&g, 1), "??"));
	grid_free(&g);
}

TEST(sizes_have_bounds)
{
	struct grid g = make(0, -5);

	CHECK(g.w == 1 && g.h == 1);
	grid_resize(&g, INT_MAX, INT_MAX);
	CHECK(g.w == 1000 && g.h == 1000);
	grid_free(&g);
	CHECK(!g.cell);
}

/* Any drawing anywhere writes no byte outside the grid, and the grid stays valid. */
TEST(random_drawing)
{
	static const int32_t likely[] = { 'a',   ' ',   0x6f22, 0x1f600, 0x301, 0x200d,  0xfe0f, 0x915,
		                          0x94d, 0x627, 0x200c, '\n',    27,    0x1f3fd, 0x1f1e6 };
	struct grid g = make(7, 3);

	for (int round = 0; round < 20000; round++) {
		struct area all = area_of(&g), a, b;
		char text[64];
		size_t n = 0;
		int x = (int)(test_rand() % 20) - 8, y = (int)(test_rand() % 8) - 3, w = (int)(test_rand() % 16) - 3;

		if (test_rand() % 64 == 0) {
			grid_resize(&g, 1 + (int)(test_rand() % 9), 1 + (int)(test_rand() % 4));
			all = area_of(&g);
		}
		a = area_part(&all, (int)(test_rand() % 12) - 3, (int)(test_rand() % 6) - 2, (int)(test_rand() % 10),
		              (int)(test_rand() % 5));
		b = area_part(&a, (int)(test_rand() % 12) - 3, (int)(test_rand() % 6) - 2, (int)(test_rand() % 10),
		              (int)(test_rand() % 5));
		while (n + 4 < sizeof text && test_rand() % 8)
			n += (size_t)utf8_encode(test_rand() % 8 ? likely[test_rand() % 15]
			                                         : (int32_t)(test_rand() % 0x30000),
			                         text + n);
		if (n && test_rand() % 8 == 0)
			text[test_rand() % n] = (char)test_rand();
		switch (test_rand() % 6) {
		case 0: area_fill(&b, x, y, w, (unsigned)test_rand(), likely[test_rand() % 15]); break;
		case 1:
			area_cell(&b, x, y, likely[test_rand() % 15], (unsigned)test_rand(), (uint8_t)test_rand());
			break;
		case 2: area_restyle(&b, x, y, w, (unsigned)test_rand()); break;
		case 3: area_cursor(&b, x, y); break;
		default: area_text(&b, x, y, (unsigned)test_rand(), text, n);
		}
		check_grid(&g);
		CHECK(g.cursor_y < g.h && (g.cursor_y < 0 || g.cursor_x < g.w));
		dump(&g, 1);
	}
	grid_free(&g);
}

/* Every code point in a cell of its own. */
TEST(all_code_points)
{
	struct grid g = make(3, 1);
	struct area a = area_of(&g);

	for (int32_t cp = 0; cp <= 0x10ffff; cp++) {
		char s[4];
		int n = utf8_encode(cp, s), x;
		if (cp >= 0xd800 && cp <= 0xdfff)
			continue;
		area_clear(&a, ST_TEXT);
		x = area_text(&a, 0, 0, ST_TEXT, s, (size_t)n);
		if (cp == '\n' || cp == 0xfe0e || char_width(cp) == 0)
			CHECK_INT(x, 0);
		else
			CHECK_INT(x, char_width(cp) < 0 ? 1 : char_width(cp));
		if (char_width(cp) < 0 && cp != '\n' && cp != 0xfe0e)
			CHECK_INT(g.cell[0].cp, 0xfffd);
	}
	check_grid(&g);
	grid_free(&g);
}
