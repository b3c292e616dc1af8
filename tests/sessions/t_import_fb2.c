/* tests/sessions/t_import_fb2.c - FictionBook: description, sections, verses, notes, encodings, archives. */
#include "sessions/import/import_private.h"
#include "tests/lib/test.h"
#include "tests/lib/zip.h"

#include <stdlib.h>
#include <string.h>

#define XML "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
#define BOOK(body)                                                                                                     \
	XML "<FictionBook xmlns=\"http://www.gribuser.ru/xml/fictionbook/2.0\" xmlns:l=\"l\">" body "</FictionBook>"
#define INFO                                                                                                                    \
	"<description><title-info><genre>sea</genre><author><first-name>Ann</first-name><last-name>Lee</last-name></author>"    \
	"<author><nickname>Keeper</nickname></author><book-title>The Light</book-title><annotation><p>On oil.</p></annotation>" \
	"<translator><last-name>X</last-name></translator></title-info><document-info><author><nickname>Y</nickname></author>"  \
	"</document-info><publish-info><book-name>Z</book-name></publish-info></description>"
#define HEAD "The Light\n\nAnn Lee, Keeper\n\nOn oil.\n\n"

static void decode(const char *name, const char *p, size_t n, struct doc *d)
{
	struct err e = { 0 };

	CHECK_MSG(!doc_decode(name, p, n, d, &e), "%s", e.msg);
	CHECK_INT(d->type, DOC_FB2);
}

static void becomes(const char *book, const char *want, const char *notes)
{
	struct doc d;

	decode("a.fb2", book, strlen(book), &d);
	CHECK_STR(str_text(&d.text), want);
	CHECK_STR(str_text(&d.notices), notes);
	doc_free(&d);
}

TEST(books)
{
	struct doc d;
	static const char book[] = BOOK(
		INFO
		"<body><title><p>Ann Lee</p><p>The Light</p></title><section><title><p>Part one</p><p>Oil</p></title>"
		"<section><title><p>Tuesday</p></title><p>The <emphasis>oil</emphasis>\n came.</p><empty-line/><subtitle>* * *</subtitle>"
		"<p>10<sup>3</sup> m</p></section></section></body><binary id='x'>AAAA</binary>");

	becomes(book, HEAD "Part one Oil\n\nTuesday\n\nThe oil came.\n\n* * *\n\n10^3 m", "");
	decode("standard input", book, sizeof book - 1, &d);
	CHECK_INT(d.mark[0].level, 1);
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, d.text.n)->text, "Tuesday");
	CHECK_INT(doc_mark_at(&d, MARK_HEADING, d.text.n)->level, 3);
	doc_free(&d);
	becomes(BOOK("<body><title><p>Untold</p></title><section><p>a</p></section><section><p>b</p></section></body>"),
	        "Untold\n\na\n\nb", "");
}

TEST(poems_quotations_and_tables)
{
	becomes(BOOK("<body><section><poem><title><p>Song</p></title><stanza><v>one</v><v>two</v></stanza><stanza><v>three</v></stanza>"
	             "<text-author>Ann</text-author></poem><cite><p>said</p></cite></section></body>"),
	        "Song\n\none\ntwo\n\nthree\n\nAnn\n\nsaid", "");
	becomes(BOOK("<body><section><epigraph><p>first</p><text-author>Lee</text-author></epigraph>"
	             "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></section></body>"),
	        "first\n\nLee\n\na | b\n1 | 2", "");
}

TEST(notes)
{
	becomes(BOOK("<body><section><p>Oil<a l:href='#n1' type='note'>[1]</a> and gas<a type='note'><sup>2</sup></a>; <a>web</a></p></section></body>"
	             "<body name='notes'><title><p>Notes</p></title><section id='n1'><title><p>1</p></title><p>Whale.</p><p>Not cod.</p></section>"
	             "<section id='n2'><title><p>[2]</p></title><p>Coal.</p></section></body>"),
	        "Oil[1] and gas[2]; web\n\nNotes\n\n[1] Whale.\n\nNot cod.\n\n[2] Coal.", "");
}

TEST(encodings)
{
	struct doc d;
	static const char russian[] =
		"<?xml version='1.0' encoding='windows-1251'?><FictionBook><body><p>\xcf\xf0\xe8\xe2\xe5\xf2</p></body></FictionBook>";

	becomes(russian, "Привет", "");
	decode("a", russian, sizeof russian - 1, &d);
	doc_free(&d);
	becomes(BOOK("<body><p>a &amp; b &#233;</p><p>c&nbsp;d</p></body>"), "a & b é\n\nc",
	        "the document is damaged: 'FictionBook' is not well-formed XML after line 2: the text ends there\n");
}

TEST(archives)
{
	struct part parts[] = { { "b/The Light.fb2", BOOK("<body><p>first</p></body>") },
		                { "other.FB2", BOOK("<body><p>second</p></body>") } };
	struct doc d;
	struct err e = { 0 };
	size_t n;
	char *p = zip(parts, 1, &n);

	decode("a.fb2.zip", p, n, &d);
	CHECK_STR(str_text(&d.text), "first");
	CHECK_STR(str_text(&d.notices), "");
	doc_free(&d);
	p = zip(parts, 2, &n);
	decode("a.zip", p, n, &d);
	CHECK_STR(str_text(&d.notices), "2 books are in the archive: the first was read\n");
	doc_free(&d);
	CHECK(doc_decode("a.fb2", "<FictionBook><body/></FictionBook>", 34, &d, &e) < 0);
	CHECK_STR(e.msg, "document 'a.fb2' holds no text");
}

TEST(deep_nesting)
{
	struct str s = { 0 };
	struct doc d = { 0 };
	struct err e = { 0 };

	str_adds(&s, "<FictionBook><body>");
	for (int i = 0; i < 50000; i++)
		str_adds(&s, i % 3 ? "<section><title><p>a</p></title>" : "<table><tr><td><cite>b");
	CHECK_MSG(!fb2_import(s.p, s.n, &d, &e), "%s", e.msg);
	CHECK(d.text.n <= s.n);
	doc_free(&d);
	str_free(&s);
}

TEST(cut_short)
{
	static const char book[] = BOOK(
		INFO
		"<body><section><title><p>a</p></title><p>b</p></section></body><body name='notes'><section><title><p>1"
		"</p></title><p>c<a type='note'>2</a></p></section></body>");

	for (size_t n = 0; n < sizeof book; n++) {
		struct doc d = { 0 };
		struct err e = { 0 };
		char *copy = xstrndup(book, n);

		CHECK(fb2_import(copy, n, &d, &e) ? *e.msg : d.text.n > 0);
		free(copy);
		doc_free(&d);
	}
}
