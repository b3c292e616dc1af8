/* tests/ui/t_markdown.c - ui/transcript/markdown*.c, lines.c, code.c: the look of Markdown at several widths; it is
 * independent of the pieces in which the text arrives; hostile text is not shown and takes no long time. */
#include "tests/lib/test.h"
#include "ui/text/text.h"
#include "ui/transcript/lines.h"

#include <stdlib.h>

/* ---- helpers ---- */

static void clean_into(const char *in, size_t n, struct str *out)
{
	struct clean c;

	str_clear(out);
	clean_init(&c, 0);
	clean_text(&c, in, n, out);
	clean_end(&c, out);
	str_add(out, "", 0);
}

static void draw(const struct lines *l, int width, int styles, struct str *out)
{
	struct grid g = { 0 };
	struct area a;

	grid_resize(&g, width, l->n_line ? (int)l->n_line : 1);
	a = area_of(&g);
	for (size_t i = 0; i < l->n_line; i++)
		lines_draw(l, i, &a, 0, (int)i);
	str_clear(out);
	grid_dump(&g, styles, out);
	grid_free(&g);
}

enum { ASCII = 1, STYLES = 2 };

static const char *shown(int width, int how, const char *text)
{
	static struct str clean, out;
	struct lines l = { .ascii = how & ASCII };

	clean_into(text, strlen(text), &clean);
	lines_markdown(&l, clean.p, clean.n, width);
	draw(&l, width, how & STYLES, &out);
	lines_free(&l);
	return out.p;
}

static int same_lines(const struct lines *a, const struct lines *b)
{
	if (a->n_line != b->n_line || a->n_run != b->n_run || a->n_code != b->n_code)
		return 0;
	for (size_t i = 0; i < a->n_line; i++)
		if (a->line[i].n_run != b->line[i].n_run || a->line[i].source != b->line[i].source)
			return 0;
	for (size_t i = 0; i < a->n_run; i++) {
		const struct run *p = &a->run[i], *q = &b->run[i];
		if (p->n != q->n || p->style != q->style || p->cols != q->cols || p->source != q->source ||
		    memcmp(a->text.p + p->from, b->text.p + q->from, p->n))
			return 0;
	}
	return !a->n_code || !memcmp(a->code, b->code, a->n_code * sizeof *a->code);
}

/* ---- what it looks like ---- */

static const char sample[] = "# Reading a file\n"
			     "\n"
			     "You can read it *line by line*, which needs **little memory**, with `open()`:\n"
			     "\n"
			     "```python\n"
			     "with open(\"a.txt\") as f:  # closes itself\n"
			     "    for n, line in enumerate(f):\n"
			     "        print(n + 1, line)\n"
			     "```\n"
			     "\n"
			     "1. Open the file.\n"
			     "2. Read a line at a time:\n"
			     "   - until it ends,\n"
			     "   - or until you have seen enough of it.\n"
			     "\n"
			     "> Quoted words keep their bar, however often they wrap.\n"
			     "\n"
			     "| Way | Memory | Note |\n"
			     "|:----|-------:|------|\n"
			     "| whole | 120 MB | simple |\n"
			     "| by line | 1 MB | the better one for long files |\n"
			     "\n"
			     "---\n"
			     "See [the manual](https://example.org/io) or <https://example.org>.\n";

TEST(a_whole_answer)
{
	CHECK_STR(shown(20, 0, sample), "Reading a file\n"
	                                "\n"
	                                "You can read it line\n"
	                                "by line, which needs\n"
	                                "little memory, with\n"
	                                "open():\n"
	                                "\n"
	                                "  python\n"
	                                "  with open(\"a.txt\")\n"
	                                "›  as f:  # closes i\n"
	                                "› tself\n"
	                                "      for n, line in\n"
	                                "›  enumerate(f):\n"
	                                "          print(n +\n"
	                                "› 1, line)\n"
	                                "\n"
	                                "1. Open the file.\n"
	                                "2. Read a line at a\n"
	                                "   time:\n"
	                                "   • until it ends,\n"
	                                "   • or until you\n"
	                                "     have seen\n"
	                                "     enough of it.\n"
	                                "\n"
	                                "│ Quoted words keep\n"
	                                "│ their bar, however\n"
	                                "│ often they wrap.\n"
	                                "\n"
	                                "Way\n"
	                                "  Memory\n"
	                                "  Note\n"
	                                "whole\n"
	                                "  120 MB\n"
	                                "  simple\n"
	                                "by line\n"
	                                "  1 MB\n"
	                                "  the better one for\n"
	                                "  long files\n"
	                                "\n"
	                                "────────────────────\n"
	                                "See the manual\n"
	                                "(https://example.org\n"
	                                "/io) or\n"
	                                "https://example.org.\n");
	CHECK_STR(shown(40, 0, sample), "Reading a file\n"
	                                "\n"
	                                "You can read it line by line, which\n"
	                                "needs little memory, with open():\n"
	                                "\n"
	                                "  python\n"
	                                "  with open(\"a.txt\") as f:  # closes its\n"
	                                "› elf\n"
	                                "      for n, line in enumerate(f):\n"
	                                "          print(n + 1, line)\n"
	                                "\n"
	                                "1. Open the file.\n"
	                                "2. Read a line at a time:\n"
	                                "   • until it ends,\n"
	                                "   • or until you have seen enough of\n"
	                                "     it.\n"
	                                "\n"
	                                "│ Quoted words keep their bar, however\n"
	                                "│ often they wrap.\n"
	                                "\n"
	                                "Way     │ Memory │ Note\n"
	                                "────────┼────────┼──────────────────────\n"
	                                "whole   │ 120 MB │ simple\n"
	                                "by line │   1 MB │ the better one for\n"
	                                "        │        │ long files\n"
	                                "\n"
	                                "────────────────────────────────────────\n"
	                                "See the manual (https://example.org/io)\n"
	                                "or https://example.org.\n");
	CHECK_STR(shown(80, 0, sample),
	          "Reading a file\n"
	          "\n"
	          "You can read it line by line, which needs little memory, with open():\n"
	          "\n"
	          "  python\n"
	          "  with open(\"a.txt\") as f:  # closes itself\n"
	          "      for n, line in enumerate(f):\n"
	          "          print(n + 1, line)\n"
	          "\n"
	          "1. Open the file.\n"
	          "2. Read a line at a time:\n"
	          "   • until it ends,\n"
	          "   • or until you have seen enough of it.\n"
	          "\n"
	          "│ Quoted words keep their bar, however often they wrap.\n"
	          "\n"
	          "Way     │ Memory │ Note\n"
	          "────────┼────────┼──────────────────────────────\n"
	          "whole   │ 120 MB │ simple\n"
	          "by line │   1 MB │ the better one for long files\n"
	          "\n"
	          "────────────────────────────────────────────────────────────────────────────────\n"
	          "See the manual (https://example.org/io) or https://example.org.\n");
}

TEST(its_styles)
{
	CHECK_STR(shown(40, STYLES, sample), "Reading a file\n"
	                                     "AAAAAAAAAAAAAA\n"
	                                     "\n"
	                                     "You can read it line by line, which\n"
	                                     "                eeeeeeeeeeee\n"
	                                     "needs little memory, with open():\n"
	                                     "      sssssssssssss       cccccc\n"
	                                     "\n"
	                                     "  python\n"
	                                     "ccffffff\n"
	                                     "  with open(\"a.txt\") as f:  # closes its\n"
	                                     "cckkkkccccccSSSSSSScckkcccccCCCCCCCCCCCC\n"
	                                     "› elf\n"
	                                     "ffCCC\n"
	                                     "      for n, line in enumerate(f):\n"
	                                     "cccccckkkccccccccckkcccccccccccccc\n"
	                                     "          print(n + 1, line)\n"
	                                     "ccccccccccccccccccccNccccccc\n"
	                                     "\n"
	                                     "1. Open the file.\n"
	                                     "bbb\n"
	                                     "2. Read a line at a time:\n"
	                                     "bbb\n"
	                                     "   • until it ends,\n"
	                                     "   bb\n"
	                                     "   • or until you have seen enough of\n"
	                                     "   bb\n"
	                                     "     it.\n"
	                                     "\n"
	                                     "│ Quoted words keep their bar, however\n"
	                                     "QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ\n"
	                                     "│ often they wrap.\n"
	                                     "QQQQQQQQQQQQQQQQQQ\n"
	                                     "\n"
	                                     "Way     │ Memory │ Note\n"
	                                     "sss    rrrssssssrrrssss\n"
	                                     "────────┼────────┼──────────────────────\n"
	                                     "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr\n"
	                                     "whole   │ 120 MB │ simple\n"
	                                     "       rrr      rrr\n"
	                                     "by line │   1 MB │ the better one for\n"
	                                     "       rrr      rrr\n"
	                                     "        │        │ long files\n"
	                                     "       rrr      rrr\n"
	                                     "\n"
	                                     "────────────────────────────────────────\n"
	                                     "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr\n"
	                                     "See the manual (https://example.org/io)\n"
	                                     "    llllllllllffBBBBBBBBBBBBBBBBBBBBBBf\n"
	                                     "or https://example.org.\n"
	                                     "   lllllllllllllllllll\n"
	                                     "A = heading+underline\n"
	                                     "e = emphasis\n"
	                                     "s = strong\n"
	                                     "c = code\n"
	                                     "f = faint\n"
	                                     "k = keyword\n"
	                                     "S = string\n"
	                                     "C = comment\n"
	                                     "N = number\n"
	                                     "b = bullet\n"
	                                     "Q = quote\n"
	                                     "r = rule\n"
	                                     "l = link\n"
	                                     "B = link+faint\n");
}

TEST(ascii_only)
{
	CHECK_STR(shown(30, ASCII, sample), "Reading a file\n"
	                                    "\n"
	                                    "You can read it line by line,\n"
	                                    "which needs little memory,\n"
	                                    "with open():\n"
	                                    "\n"
	                                    "  python\n"
	                                    "  with open(\"a.txt\") as f:  #\n"
	                                    "> closes itself\n"
	                                    "      for n, line in enumerate\n"
	                                    "> (f):\n"
	                                    "          print(n + 1, line)\n"
	                                    "\n"
	                                    "1. Open the file.\n"
	                                    "2. Read a line at a time:\n"
	                                    "   - until it ends,\n"
	                                    "   - or until you have seen\n"
	                                    "     enough of it.\n"
	                                    "\n"
	                                    "| Quoted words keep their bar,\n"
	                                    "| however often they wrap.\n"
	                                    "\n"
	                                    "Way     | Memory | Note\n"
	                                    "--------+--------+------------\n"
	                                    "whole   | 120 MB | simple\n"
	                                    "by line |   1 MB | the better\n"
	                                    "        |        | one for\n"
	                                    "        |        | long files\n"
	                                    "\n"
	                                    "------------------------------\n"
	                                    "See the manual\n"
	                                    "(https://example.org/io) or\n"
	                                    "https://example.org.\n");
}

TEST(headings)
{
	CHECK_STR(shown(40, STYLES,
	                "# One\n"
	                "## Two `x`\n"
	                "Text\n"
	                "\n"
	                "Setext\n"
	                "---\n"
	                "more\n"),
	          "One\n"
	          "AAA\n"
	          "Two x\n"
	          "HHHHB\n"
	          "Text\n"
	          "\n"
	          "Setext\n"
	          "HHHHHH\n"
	          "more\n"
	          "A = heading+underline\n"
	          "H = heading\n"
	          "B = code+bold\n");
}

TEST(emphasis)
{
	CHECK_STR(shown(60, STYLES, "a *b* **c** ***d*** ~~e~~ `f` snake_case_name 2*3*4 \\*g\\*"),
	          "a b c d ~e~ f snake_case_name 2*3*4 *g*\n"
	          "  e s A BBB c\n"
	          "e = emphasis\n"
	          "s = strong\n"
	          "A = emphasis+bold\n"
	          "B = text+faint\n"
	          "c = code\n");
	CHECK_STR(shown(30, 0, "unfinished **bold and `code"), "unfinished **bold and `code\n");
}

TEST(line_breaks)
{
	CHECK_STR(shown(40, 0,
	                "Roses are red,\n"
	                "violets are blue,  \n"
	                "sugar is sweet"),
	          "Roses are red,\n"
	          "violets are blue,\n"
	          "sugar is sweet\n");
	CHECK_STR(shown(80, 0,
	                "This line is long enough to have been broken by a program, as one sees,\n"
	                "so it goes on here."),
	          "This line is long enough to have been broken by a program, as one sees, so it\n"
	          "goes on here.\n");
}

TEST(lists)
{
	CHECK_STR(shown(30, 0,
	                "- one\n"
	                "- two\n"
	                "\n"
	                "- three\n"
	                "  and more of it, which wraps\n"
	                "\n"
	                "  a paragraph\n"
	                "  1. x\n"
	                "  2. y\n"),
	          "• one\n"
	          "• two\n"
	          "\n"
	          "• three\n"
	          "  and more of it, which wraps\n"
	          "\n"
	          "  a paragraph\n"
	          "  1. x\n"
	          "  2. y\n");
	CHECK_STR(shown(30, 0,
	                "Text\n"
	                "1. one\n"
	                "2. two\n"
	                "\n"
	                "between\n"
	                "\n"
	                "3. three\n"
	                "4) four\n"),
	          "Text\n"
	          "1. one\n"
	          "2. two\n"
	          "\n"
	          "between\n"
	          "\n"
	          "3. three\n"
	          "4) four\n");
	CHECK_STR(shown(30, 0,
	                "1. one\n"
	                "\n"
	                "2. two\n"
	                "\n"
	                "   more of two\n"
	                "\n"
	                "10. ten\n"),
	          "1. one\n"
	          "\n"
	          "2. two\n"
	          "\n"
	          "   more of two\n"
	          "\n"
	          "10. ten\n");
	CHECK_STR(shown(30, 0,
	                "1. a\n"
	                "\n"
	                "1. b\n"
	                "\n"
	                "1. c\n"),
	          "1. a\n"
	          "\n"
	          "2. b\n"
	          "\n"
	          "3. c\n");
	CHECK_STR(shown(30, 0,
	                "- [ ] to do\n"
	                "- [x] done\n"
	                "-\n"
	                "- after an empty one\n"),
	          "[ ] to do\n"
	          "[x] done\n"
	          "•\n"
	          "• after an empty one\n");
	CHECK_STR(shown(12, 0, "123456789. a number without room\n"), "123456789. a\n"
	                                                              "number\n"
	                                                              "without room\n");
}

TEST(quotes)
{
	CHECK_STR(shown(30, 0,
	                "> one\n"
	                "> two\n"
	                ">\n"
	                "> - three\n"
	                ">   > four\n"
	                "\n"
	                "five\n"),
	          "│ one\n"
	          "│ two\n"
	          "│\n"
	          "│ • three\n"
	          "│   │ four\n"
	          "\n"
	          "five\n");
	CHECK_STR(shown(30, 0,
	                "> a\n"
	                "\n"
	                "> b\n"),
	          "│ a\n"
	          "\n"
	          "│ b\n");
}

TEST(code)
{
	CHECK_STR(shown(24, 0,
	                "```\n"
	                "no language\n"
	                "\n"
	                "	tab\n"
	                "```\n"
	                "after\n"),
	          "  no language\n"
	          "\n"
	          "          tab\n"
	          "after\n");
	CHECK_STR(shown(24, 0,
	                "~~~~ sh -x\n"
	                "echo ```\n"
	                "~~~\n"
	                "~~~~\n"),
	          "  sh -x\n"
	          "  echo ```\n"
	          "  ~~~\n");
	CHECK_STR(shown(24, 0,
	                "text\n"
	                "\n"
	                "    indented code\n"
	                "    more\n"
	                "\n"
	                "text\n"),
	          "text\n"
	          "\n"
	          "  indented code\n"
	          "  more\n"
	          "\n"
	          "text\n");
	CHECK_STR(shown(24, 0,
	                "1. Do:\n"
	                "   ```sh\n"
	                "   make a very long line of it\n"
	                "   ```\n"
	                "2. Done\n"),
	          "1. Do:\n"
	          "     sh\n"
	          "     make a very long li\n"
	          "   › ne of it\n"
	          "2. Done\n");
	CHECK_STR(shown(24, 0,
	                "open fence\n"
	                "```c\n"
	                "int x;\n"),
	          "open fence\n"
	          "  c\n"
	          "  int x;\n");
	CHECK_STR(shown(8, 0,
	                "```c\n"
	                "int main(void);\n"
	                "```\n"),
	          "  c\n"
	          "  int ma\n"
	          "› in(voi\n"
	          "› d);\n");
}

TEST(links)
{
	CHECK_STR(shown(60, 0,
	                "[text](https://e.org/a) [https://e.org](https://e.org) <a@b.c>\n"
	                "\n"
	                "![a picture](p.png \"its title\") [empty]()"),
	          "text (https://e.org/a) https://e.org a@b.c\n"
	          "\n"
	          "image: a picture (p.png \"its title\") empty ()\n");
	CHECK_STR(shown(60, 0,
	                "[one]: https://e.org/one\n"
	                "\n"
	                "see [one] and [two][one]\n"),
	          "[one]: https://e.org/one\n"
	          "\n"
	          "see [one] and [two][one]\n");
}

/* Hosts with letters beyond ASCII, which could look like other hosts, are shown in ASCII. */
TEST(hosts_in_ascii)
{
	static const struct {
		const char *from, *to;
	} host[] = {
		{ "https://b\xc3\xbc"
		  "cher.example/\xc3\xbc",
		  "https://xn--bcher-kva.example/\xc3\xbc" },
		{ "http://u@m\xc3\xbcnchen.de:80/?a", "http://u@xn--mnchen-3ya.de:80/?a" },
		{ "https://\xd0\xb0pple.com", "https://xn--pple-43d.com" },
		{ "https://\xe4\xbe\x8b\xe3\x81\x88.\xe3\x83\x86\xe3\x82\xb9\xe3\x83\x88",
		  "https://xn--r8jz45g.xn--zckzah" },
		{ "https://\xd0\xbf\xd1\x80\xd0\xb8\xd0\xbc\xd0\xb5\xd1\x80", "https://xn--e1afmkfd" },
		{ "ftp://\xf0\x9f\x92\xa9.la", "ftp://xn--ls8h.la" },
	};
	struct str s = { 0 };

	for (size_t i = 0; i < LEN(host); i++) {
		str_clear(&s);
		CHECK_INT(address_in_ascii(host[i].from, strlen(host[i].from), &s), 1);
		CHECK_STR(s.p, host[i].to);
	}
	CHECK_INT(address_in_ascii("https://e.org/\xc3\xbc", 16, &s), 0);
	CHECK_INT(address_in_ascii("mailto:\xc3\xbc@e.org", 15, &s), 0);
	str_free(&s);
	CHECK_STR(
		shown(60, 0,
	              "[bank](https://\xd0\xb0pple.com) <https://\xd0\xb0pple.com/>\n\n[e](https://&#1072;pple.com)"),
		"bank (https://\xd0\xb0pple.com, that is https://xn--pple-43d.com)\n"
		"https://\xd0\xb0pple.com/ (https://xn--pple-43d.com/)\n\ne (https://\xd0\xb0pple.com, that is https://xn--pple-43d.com)\n");
}

TEST(entities)
{
	CHECK_STR(shown(60, 0, "&lt;b&gt; &amp; &#65;&#x42; &hellip; &nosuch; &#x1b; &#x202e; &#x200b;|"),
	          "<b> & AB … &nosuch; &#x1b; &#x202e; &#x200b;|\n");
}

TEST(html_is_text)
{
	CHECK_STR(shown(60, 0,
	                "<b>bold</b> <script>\n"
	                "\n"
	                "<div>\n"
	                "*a*\n"
	                "</div>\n"),
	          "<b>bold</b> <script>\n"
	          "\n"
	          "<div>\n"
	          "a\n"
	          "</div>\n");
}

TEST(tables)
{
	CHECK_STR(shown(20, 0,
	                "| a | b |\n"
	                "|---|:---:|\n"
	                "| 1 | two |\n"
	                "| 3 |\n"),
	          "a │  b\n"
	          "──┼────\n"
	          "1 │ two\n"
	          "3 │\n");
	CHECK_STR(shown(14, 0,
	                "| Name | Meaning |\n"
	                "|---|---|\n"
	                "| alpha | the first letter |\n"),
	          "Name\n"
	          "  Meaning\n"
	          "alpha\n"
	          "  the first\n"
	          "  letter\n");
	/* one dash is enough, but code with such rows is not a table */
	CHECK_STR(shown(20, 0,
	                "| a | b |\n"
	                "|-|:-|\n"
	                "| *1* | 2 |\n"
	                "\n"
	                "> c|d\n"
	                "> -|--\n"
	                "> `e`|2*3*4\n"
	                "\n"
	                "- ```\n"
	                "  |a|\n"
	                "  |-|\n"),
	          "a │ b\n"
	          "──┼──\n"
	          "1 │ 2\n"
	          "\n"
	          "│ c │ d\n"
	          "│ ──┼──────\n"
	          "│ e │ 2*3*4\n"
	          "\n"
	          "•   |a|\n"
	          "    |-|\n");
	CHECK_STR(shown(30, 0, "| half a | table |\n"), "| half a | table |\n");
	CHECK_STR(shown(40, 0,
	                "- in a list\n"
	                "\n"
	                "  | x | *y* |\n"
	                "  |---|---|\n"
	                "  | `1` | 2 |\n"),
	          "• in a list\n"
	          "\n"
	          "  x │ y\n"
	          "  ──┼──\n"
	          "  1 │ 2\n");
}

TEST(wide_characters)
{
	CHECK_STR(shown(11, 0, "漢字漢字漢字漢字、漢字"), "漢字漢字漢\n"
	                                                  "字漢字、漢\n"
	                                                  "字\n");
	CHECK_STR(shown(20, 0,
	                "| 漢字 | b |\n"
	                "|---|---|\n"
	                "| x | 漢 |\n"),
	          "漢字 │ b\n"
	          "─────┼───\n"
	          "x    │ 漢\n");
}

TEST(long_words)
{
	CHECK_STR(shown(20, 0, "see https://example.org/a/very/long/address now"), "see\n"
	                                                                           "https://example.org/\n"
	                                                                           "a/very/long/address\n"
	                                                                           "now\n");
}

/* ---- colours ---- */

static const char *coloured(const char *lang, const char *text)
{
	static struct str s;

	str_clear(&s);
	str_addf(&s, "```%s\n%s\n```\n", lang, text);
	return shown(60, STYLES, s.p);
}

TEST(colours)
{
	CHECK_STR(coloured("c", "#include <a.h>\nint x = 'a'; /* from\nto */ \"b\\\"c\" // d"),
	          "  c\nccf\n"
	          "  #include <a.h>\ncckkkkkkkkcccccc\n"
	          "  int x = 'a'; /* from\ncckkkcccccSSSccCCCCCCC\n"
	          "  to */ \"b\\\"c\" // d\nccCCCCCcSSSSSScCCCC\n"
	          "c = code\nf = faint\nk = keyword\nS = string\nC = comment\n");
	CHECK_STR(coloured("Python3", "x = '''a\nb''' + \"c\" # d"),
	          "  Python3\nccfffffff\n  x = '''a\nccccccSSSS\n  b''' + \"c\" # d\nccSSSScccSSScCCC\n"
	          "c = code\nf = faint\nS = string\nC = comment\n");
	CHECK_STR(coloured("sql", "SELECT 'it''s' FROM t -- x"),
	          "  sql\nccfff\n  SELECT 'it''s' FROM t -- x\ncckkkkkkcSSSSSSSckkkkcccCCCC\n"
	          "c = code\nf = faint\nk = keyword\nS = string\nC = comment\n");
	CHECK_STR(coloured("sh", "echo \"$a\" # x\na=${b#c} 'd\\'"),
	          "  sh\nccff\n  echo \"$a\" # x\ncckkkkcSSSScCCC\n  a=${b#c} 'd\\'\nccccNNNccccSSSS\n"
	          "c = code\nf = faint\nk = keyword\nS = string\nC = comment\nN = number\n");
	CHECK_STR(coloured("rust", "fn f<'a>(s: &'a str) -> char { 'x' }"),
	          "  rust\nccffff\n  fn f<'a>(s: &'a str) -> char { 'x' }\ncckkcccccccccccccckkkccccccccccccSSScc\n"
	          "c = code\nf = faint\nk = keyword\nS = string\n");
	CHECK_STR(coloured("html", "<a href=\"b\">c</a><!-- d\ne --> f"),
	          "  html\nccffff\n  <a href=\"b\">c</a><!-- d\ncckkccccccSSSkckkkkCCCCCC\n  e --> f\nccCCCCCcc\n"
	          "c = code\nf = faint\nk = keyword\nS = string\nC = comment\n");
	CHECK_STR(
		coloured("lua", "local a = [[b\nc]] --[[ d\ne]] 12.5e3"),
		"  lua\nccfff\n  local a = [[b\ncckkkkkcccccSSS\n  c]] --[[ d\nccSSScCCCCCC\n  e]] 12.5e3\nccCCCcNNNNNN\n"
		"c = code\nf = faint\nk = keyword\nS = string\nC = comment\nN = number\n");
	CHECK_STR(coloured("js", "const s = `a\n${b}`; // c"),
	          "  js\nccff\n  const s = `a\ncckkkkkcccccSS\n  ${b}`; // c\nccSSSSSccCCCC\n"
	          "c = code\nf = faint\nk = keyword\nS = string\nC = comment\n");
	CHECK_STR(coloured("nosuch", "int \"x\""), "  nosuch\nccffffff\n  int \"x\"\nccccccccc\nc = code\nf = faint\n");
}

/* ---- plain ---- */

TEST(plain)
{
	struct lines l = { 0 };
	struct str out = { 0 };
	const char *text = "# not a heading, wrapped\n\n  indented   blanks \n漢字漢字漢字漢字\n";

	lines_plain(&l, text, strlen(text), 12, ST_NOTICE);
	draw(&l, 12, 0, &out);
	CHECK_STR(out.p, "# not a\nheading,\nwrapped\n\n  indented\nblanks\n漢字漢字漢字\n漢字\n");
	for (size_t i = 0; i < l.n_run; i++)
		CHECK(!memcmp(l.text.p + l.run[i].from, text + l.run[i].source, l.run[i].n));
	lines_free(&l);
	str_free(&out);
}

/* ---- code for copying ---- */

TEST(code_blocks)
{
	static const char text[] =
		"```make\nall:\n\tcc *.c\n```\n1. x\n   ```\n   a[1]: 2*3*4\n\n     b\n   ```\n\n~~~\n```\n~~~\n> ```c\n> d\n> ```\n\n```\nopen";
	static const char *const want[] = { "all:\n\tcc *.c", "a[1]: 2*3*4\n\n  b", "```", "d", "open" };
	struct str s = { 0 };
	struct lines l = { 0 };

	CHECK_INT(markdown_code(text, sizeof text - 1, 0, &s), 5);
	CHECK_INT(s.n, 0);
	for (size_t i = 0; i < 5; i++) {
		str_clear(&s);
		CHECK_INT(markdown_code(text, sizeof text - 1, i + 1, &s), 5);
		CHECK_STR(s.p, want[i]);
	}
	clean_into(text, sizeof text - 1, &s);
	lines_markdown(&l, s.p, s.n, 40);
	CHECK_INT(l.n_code, 5);
	CHECK(l.n_code == 5 && !memcmp(s.p + l.code[2].from, "```\n", l.code[2].n));
	CHECK(l.n_code == 5 && !memcmp(s.p + l.code[4].from, "open", l.code[4].n));
	lines_free(&l);
	str_free(&s);
}

/* ---- however it arrives ---- */

/* Check that a text that arrives in pieces looks like one that arrives at once: byte by byte, and in two pieces, cut at
 * every byte. */
static void check_cuts(const char *text, int width)
{
	struct str clean = { 0 };
	struct lines whole = { 0 }, grown = { 0 };
	struct growth g = { 0 };
	size_t n;

	clean_into(text, strlen(text), &clean);
	n = clean.n;
	lines_markdown(&whole, clean.p, n, width);
	for (size_t i = 0; i <= n; i++) {
		lines_grow_markdown(&grown, &g, clean.p, i, width);
		if (i % 7 == 0) {
			struct lines now = { 0 };
			lines_markdown(&now, clean.p, i, width);
			CHECK_MSG(same_lines(&now, &grown), "at width %d, byte by byte up to %zu", width, i);
			lines_free(&now);
		}
	}
	CHECK_MSG(same_lines(&whole, &grown), "at width %d, byte by byte", width);
	for (size_t cut = 0; cut <= n; cut++) {
		g = (struct growth){ 0 };
		lines_clear(&grown);
		lines_grow_markdown(&grown, &g, clean.p, cut, width);
		lines_grow_markdown(&grown, &g, clean.p, n, width);
		CHECK_MSG(same_lines(&whole, &grown), "at width %d, cut at %zu", width, cut);
	}
	lines_free(&whole);
	lines_free(&grown);
	str_free(&clean);
}

TEST(cut_anywhere)
{
	static const char nasty[] =
		"- a\n\n- b\n\n      c\n\n  ```\n  d\n\n```\ne\n\n- f\n```\n\n\n1. g\n\n1. h\n\n2. i\n 3. j\n   ~~~\nk\n\n~~~\n ~~~ l\nm\n ~~~\n>n\no\n\n"
		">```\n>p\n\nq\n\n| r | s |\n|---|---|\n| t\n\nu\n===\n\n***\n* * *\n- - -\nv\n\n[w]: x\n[w]\n\n````\n```\n````x\n````";

	check_cuts(sample, 20);
	check_cuts(sample, 80);
	check_cuts(nasty, 40);
	check_cuts(nasty, 4);
	/* a paragraph that begins with a line break, after a long one */
	check_cuts("This paragraph is longer than what counts as a short line.\n\n- [ ]\n_", 18);
}

/* ---- hostile text ---- */

/* clang-format off */
static const char *const fragments[] = {
	"#", "##", "- ", "* ", "+ ", "1. ", "23) ", "> ", ">", "```", "~~~", "```c\n", "`", "``", "*", "**", "***", "_", "__", "~~", "~", "[", "]", "(",
	")", "](", "![", "<", ">", "|", "|---|", "|-|:-:|\n", "---", "===", "\n", "\n\n", "\n", " ", "  ", "    ", "\t", "\\", "&amp;",
	"&#x41;", "&#x202e;", "[a]: b", "[a]", "<http://a.b>", "https://e.org/a?b=c", "word", "Word", "a longer piece of text", "int", "\"", "'", "/*", "*/", "//",
	"#include", "漢字", "e\xcc\x81", "\xcc\x81", "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9", "\xe2\x80\xae", "\x1b[31m", "\x01", "\x02", "\xff",
	"\xc2\x9b", "\xe0\xa4\x95\xe0\xa5\x8d\xe2\x80\x8d", "[x] ", "- [ ] ", "<b>", "</b>", "<!--", "12345678901234567890", "0",
};
/* clang-format on */

static void hostile(struct str *s)
{
	size_t n = test_rand() % 60;

	str_clear(s);
	while (n--) {
		if (test_rand() % 8)
			str_adds(s, fragments[test_rand() % LEN(fragments)]);
		else
			str_add(s, &(char){ (char)test_rand() }, 1);
	}
	str_add(s, "", 0);
}

/* Check what must be true of any laid-out text. */
static void check_sane(const struct lines *l, const struct str *clean, int width)
{
	uint32_t source = 0;
	size_t run = 0;

	for (size_t i = 0; i < l->n_line; i++) {
		int cols = 0;
		CHECK(l->line[i].run == run && run + l->line[i].n_run <= l->n_run);
		CHECK_MSG(l->line[i].source >= source && l->line[i].source <= clean->n, "line %zu comes from %u", i,
		          l->line[i].source);
		source = l->line[i].source;
		for (size_t k = run; k < run + l->line[i].n_run; k++) {
			const struct run *r = &l->run[k];
			const char *p = l->text.p + r->from;
			CHECK((size_t)r->from + r->n <= l->text.n);
			CHECK_INT(r->cols, text_width(p, r->n));
			cols += r->cols;
			for (size_t at = 0; at < r->n;) {
				int32_t cp;
				at += (size_t)utf8_decode(p + at, r->n - at, &cp);
				CHECK_MSG(cp >= 0x20 && char_width(cp) >= 0, "U+%04X is drawn", (unsigned)cp);
			}
			if (r->source != NO_SOURCE)
				CHECK((size_t)r->source + r->n <= clean->n);
		}
		CHECK_MSG(cols <= width, "line %zu takes %d of %d columns", i, cols, width);
		run += l->line[i].n_run;
	}
	CHECK_INT(run, l->n_run);
}

TEST(hostile_text)
{
	struct str text = { 0 }, clean = { 0 };
	long rounds = 4000 * (getenv("WEIR_SOAK") ? strtol(getenv("WEIR_SOAK"), NULL, 10) : 1);

	if (test_patience() > 1)
		rounds /= 4;
	for (long i = 0; i < rounds; i++) {
		struct lines l = { .ascii = i & 1 }, grown = { .ascii = i & 1 };
		struct growth g = { 0 };
		int width = 4 + (int)(test_rand() % (i % 4 ? 60 : 197));

		hostile(&text);
		clean_into(text.p, text.n, &clean);
		lines_markdown(&l, clean.p, clean.n, width);
		check_sane(&l, &clean, width);
		for (size_t at = 0; at < clean.n;) {
			at += 1 + test_rand() % 40;
			lines_grow_markdown(&grown, &g, clean.p, MIN(at, clean.n), width);
		}
		CHECK(same_lines(&l, &grown));
		lines_free(&l);
		lines_free(&grown);
	}
	str_free(&text);
	str_free(&clean);
}

/* Text for which some Markdown parsers need quadratic time or make very long output: a megabyte must take linear
 * time. */
TEST(hostile_sizes)
{
	/* clang-format off */
	static const char *const unit[] = {
		"[", "![", "[a](", "![a](b", "**a ", "*a_ ", "` `` ``` ", "<a ", "<", "\\", "&a;", "[a]: b\n", "> > > > ", ">\n", "- - - ", "-\n", "1)\n  1)\n",
		"|", "|a|b\n|---|---\n", "|a|b\n|-|-\n\n", "a\n|-|\n", "|\n", "~", "***", "_a__b", "](", "[(", "a\n", "- a\n\n  b\n\n", "```\n", "- ```\n  a\n", "\n", " ", "a", "[a](<b c>)\n",
	};
	/* clang-format on */
	struct str text = { 0 }, clean = { 0 };
	size_t size = test_patience() > 1 ? 1 << 18 : 1 << 20;

	for (size_t u = 0; u < LEN(unit); u++) {
		struct lines l = { 0 };
		double start, took;

		/* As one piece, and in paragraphs just short enough to be given to md4c. */
		for (int paragraphs = 0; paragraphs < 2; paragraphs++) {
			str_clear(&text);
			while (text.n < size) {
				str_adds(&text, unit[u]);
				if (paragraphs && text.n % 1900 < strlen(unit[u]))
					str_adds(&text, "\n\n");
			}
			clean_into(text.p, text.n, &clean);
			start = cpu_seconds();
			lines_markdown(&l, clean.p, clean.n, 80);
			took = cpu_seconds() - start;
			CHECK_MSG(took < 3 * test_patience(), "%.1f s for a megabyte of \"%s\"", took, unit[u]);
			CHECK_MSG(l.text.n < 40 * size, "%zu bytes shown", l.text.n);
			lines_clear(&l);
		}
		lines_free(&l);
	}
	/* rows of one cell in a table of many columns */
	str_clear(&text);
	for (int tables = 0; tables < 200; tables++) {
		for (int i = 0; i < 31; i++)
			str_adds(&text, "|a");
		str_adds(&text, "\n");
		for (int i = 0; i < 31; i++)
			str_adds(&text, "|-");
		str_adds(&text, "\n");
		for (int i = 0; i < 1500; i++)
			str_adds(&text, "|\n");
		str_adds(&text, "\n");
	}
	for (int width = 80; width < 400; width += 300) {
		struct lines l = { 0 };

		lines_markdown(&l, text.p, text.n, width);
		CHECK_MSG(l.text.n < 10 * text.n, "%zu bytes become %zu", text.n, l.text.n);
		lines_free(&l);
	}
	str_free(&text);
	str_free(&clean);
}

/* Adding a letter to a long answer lays out only the answer's last block. */
TEST(growing_is_cheap)
{
	struct str text = { 0 };
	struct lines l = { 0 };
	struct growth g = { 0 };
	double start, took;

	while (text.n < 200000)
		str_adds(&text, sample);
	lines_grow_markdown(&l, &g, text.p, text.n, 80);
	start = cpu_seconds();
	for (int i = 0; i < 1000; i++) {
		str_adds(&text, i % 60 ? "a " : ".\n\n");
		lines_grow_markdown(&l, &g, text.p, text.n, 80);
	}
	took = (cpu_seconds() - start) / 1000;
	CHECK_MSG(took < 0.001 * test_patience(), "a token more took %.0f us", took * 1e6);
	test_note("%.0f us to lay out one token more at 200 KB", took * 1e6);
	lines_free(&l);
	str_free(&text);
}
