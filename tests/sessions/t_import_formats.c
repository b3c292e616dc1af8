/* tests/sessions/t_import_formats.c - DOCX, PDF text, marks of plain text, encodings and types. */
#include "sessions/import/pdf.h"
#include "tests/lib/test.h"
#include "tests/lib/zip.h"

#include <iconv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- DOCX ---- */

#define W(body) "<w:document xmlns:w='w' xmlns:mc='mc'><w:body>" body "</w:body></w:document>"
#define R(text) "<w:r><w:t>" text "</w:t></w:r>"
#define P(text) "<w:p>" R(text) "</w:p>"
#define ITEM(num, level, text)                                                                                         \
	"<w:p><w:pPr><w:numPr><w:ilvl w:val='" level "'/><w:numId w:val='" num "'/></w:numPr></w:pPr>" R(text) "</w:p>"

static const char styles[] =
	"<w:styles xmlns:w='w'><w:style w:styleId='H1'><w:name w:val='heading 1'/></w:style>"
	"<w:style w:styleId='Mine'><w:name w:val='Mine'/><w:basedOn w:val='H1'/></w:style>"
	"<w:style w:styleId='Code'><w:name w:val='Source Code'/></w:style>"
	"<w:style w:styleId='Out'><w:name w:val='Out'/><w:pPr><w:outlineLvl w:val='2'/></w:pPr></w:style></w:styles>";
static const char numbering[] =
	"<w:numbering xmlns:w='w'><w:abstractNum w:abstractNumId='0'><w:lvl w:ilvl='0'><w:start w:val='3'/><w:numFmt w:val='decimal'/></w:lvl>"
	"<w:lvl w:ilvl='1'><w:start w:val='1'/><w:numFmt w:val='bullet'/></w:lvl></w:abstractNum>"
	"<w:num w:numId='7'><w:abstractNumId w:val='0'/></w:num></w:numbering>";
static const char footnotes[] =
	"<w:footnotes xmlns:w='w'><w:footnote w:id='-1'>" P("separator") "</w:footnote><w:footnote w:id='2'>" P(
		"second note") "</w:footnote>"
			       "<w:footnote w:id='1'>" P("first note") P("goes on") "</w:footnote></w:footnotes>";

static void docx(const char *document, struct doc *d)
{
	struct part parts[] = { { "word/document.xml", document },
		                { "word/styles.xml", styles },
		                { "word/numbering.xml", numbering },
		                { "word/footnotes.xml", footnotes } };
	struct err e = { 0 };
	size_t n;
	char *p = zip(parts, 4, &n);

	*d = (struct doc){ 0 };
	CHECK_MSG(!docx_import(p, n, d, &e), "%s", e.msg);
}

static void docx_becomes(const char *document, const char *want)
{
	struct doc d;

	docx(document, &d);
	CHECK_STR(str_text(&d.text), want);
	doc_free(&d);
}

TEST(docx_text)
{
	docx_becomes(W(P("one") P("two")), "one\n\ntwo");
	docx_becomes(W("<w:p>" R("10") "<w:r><w:rPr><w:vertAlign w:val='superscript'/></w:rPr><w:t>3</w:t></w:r>" R(
			     "7") "</w:p>"),
	             "10^37");
	docx_becomes(
		W("<w:p>" R(
			"y=") "<m:f xmlns:m='m'><m:num>"
	                      "<m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>a+b</m:t></m:r></m:den></m:f></w:p>"),
		"y=1/(a+b)");
	docx_becomes(
		W("<w:p><m:nary xmlns:m='m'><m:naryPr/><m:sub><m:r><m:t>0</m:t></m:r></m:sub><m:sup><m:r><m:t>1</m:t></m:r></m:sup></m:nary>"
	          "<m:d xmlns:m='m'><m:r><m:t>x</m:t></m:r></m:d></w:p>"),
		"\xe2\x88\xab_0^1(x)");
	docx_becomes(
		W("<w:p>" R(
			"a") "<w:r><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t><w:noBreakHyphen/><w:t>d</w:t></w:r></w:p>"),
		"a b\nc-d");
	docx_becomes(
		W("<w:p>" R(
			"5 ") "<w:r><w:sym w:font='Symbol' w:char='F06D'/><w:t>m</w:t><w:sym w:font='Wingdings' w:char='F0FC'/></w:r></w:p>"),
		"5 \xce\xbcm\xe2\x9c\x93");
	docx_becomes(W("<w:p><w:del>" R("x") "</w:del><w:ins>" R(
			     "new") "</w:ins><w:r><w:instrText>PAGE</w:instrText></w:r></w:p>"),
	             "new");
	docx_becomes(W("<w:p><mc:AlternateContent><mc:Choice>" R("a") "</mc:Choice><mc:Fallback>" R(
			     "b") "</mc:Fallback></mc:AlternateContent></w:p>"),
	             "a");
	docx_becomes(W("<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr>" R("text") "</w:p>"), "text");
	docx_becomes(W("<w:p>" R("&lt;b&gt; &#233;") "</w:p>"), "<b> \xc3\xa9");
}

/* Program text keeps its blanks; two line breaks make an empty line. */
TEST(docx_program_text)
{
#define CODE(text) "<w:p><w:pPr><w:pStyle w:val='Code'/></w:pPr><w:r><w:t>" text "</w:t></w:r></w:p>"
	docx_becomes(W(P("x") CODE("if x:") CODE("    return   1</w:t><w:br/><w:br/><w:t>  y") CODE("") CODE("z")
	                       P("a</w:t><w:br/><w:br/><w:t>b")),
	             "x\n\nif x:\n    return   1\n\n  y\n\nz\n\na\n\nb");
}

TEST(docx_hidden_text)
{
	struct doc d;

	docx(W("<w:p>" R(
		     "a") "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:r><w:rPr><w:vanish w:val='0'/></w:rPr><w:t>b</w:t></w:r></w:p>"),
	     &d);
	CHECK_STR(d.text.p, "ab");
	CHECK_STR(d.notices.p, "6 hidden characters were left out\n");
	doc_free(&d);
}

TEST(docx_lists_and_tables)
{
	docx_becomes(W(P("x") ITEM("7", "0", "a") ITEM("7", "1", "b") ITEM("7", "0", "c") P("y")),
	             "x\n\n3. a\n  - b\n4. c\n\ny");
	docx_becomes(W("<w:tbl><w:tr><w:tc>" P("1") "</w:tc><w:tc>" P("2") P("3") "</w:tc></w:tr><w:tr><w:tc>" P(
			     "4") "</w:tc><w:tc>" P("5") "</w:tc></w:tr></w:tbl>" P("end")),
	             "1 | 2 3\n4 | 5\n\nend");
}

TEST(docx_headings_pages_and_notes)
{
	struct doc d;

	docx(W("<w:p><w:pPr><w:pStyle w:val='Mine'/></w:pPr>" R("Top") "</w:p><w:p>" R(
		     "a") "<w:r><w:footnoteReference w:id='1'/></w:r>"
	                  "<w:r><w:lastRenderedPageBreak/><w:t>b</w:t><w:footnoteReference w:id='2'/></w:r></w:p>"
	                  "<w:p><w:pPr><w:pStyle w:val='Out'/></w:pPr>" R("Sub") "</w:p>"),
	     &d);
	CHECK_STR(d.text.p, "Top\n\na[1]b[2]\n\nSub\n\n[1] first note\n\ngoes on\n\n[2] second note");
	CHECK_INT(d.pages, 2);
	CHECK_INT(d.n_mark, 4);
	doc_mark_paragraphs(&d);
	CHECK_STR(doc_mark_at(&d, MARK_PAGE, 0)->text, "1");
	CHECK_STR(doc_mark_at(&d, MARK_PAGE, 9)->text, "2");
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, 9)->text, "Top");
	CHECK_INT(doc_mark_at(&d, MARK_HEADING, 20)->level, 3);
	doc_free(&d);
#define BOX(text)     "<w:r><w:pict><w:txbxContent>" text "</w:txbxContent></w:pict></w:r>"
#define HEADING(runs) "<w:p><w:pPr><w:pStyle w:val='Mine'/></w:pPr>" runs "</w:p>"
	/* The text of a box is not joined to the heading that contains the box, and the heading keeps its own text. */
	docx(W(HEADING(BOX(P("note") HEADING(R("Boxed"))) R("Top")) HEADING(R("Sub") BOX(P("aside"))) P("text")), &d);
	CHECK_STR(d.text.p, "note\n\nBoxed\n\nTop\n\nSub\n\naside\n\ntext");
	CHECK_INT(d.n_mark, 3);
	CHECK_STR(d.mark[0].text, "Boxed");
	CHECK_STR(d.mark[1].text, "Top");
	CHECK_STR(d.mark[2].text, "Sub");
	doc_free(&d);
}

/* Labels: numbers from the list of a style, letters and Roman numerals, several levels, lists that share counters, and
 * a list that restarts. */
TEST(docx_labels)
{
	static const char doc[] = W("<w:p><w:pPr><w:pStyle w:val='H1'/></w:pPr>" R(
		"Scope") "</w:p>"
	                 "<w:p><w:pPr><w:pStyle w:val='H2'/></w:pPr>" R(
				 "Terms") "</w:p>"
	                                  "<w:p><w:pPr><w:pStyle w:val='Mine'/></w:pPr>" R(
						  "one") "</w:p>"
	                                                 "<w:p><w:pPr><w:pStyle w:val='Mine'/></w:pPr>" R(
								 "two") "</w:p>"
	                                                                "<w:p><w:pPr><w:pStyle w:val='Mine'/><w:numPr><w:numId w:val='0'/></w:numPr></w:pPr>" R(
										"plain") "</w:p>" ITEM("2", "0", "x")
	                                                                        ITEM("3", "0",
	                                                                             "y") ITEM("4", "0",
	                                                                                       "z") ITEM("4", "1",
	                                                                                                 "deep")
	                                                                                ITEM("4", "1", "deeper") "<w:p><w:pPr><w:pStyle w:val='H2'/></w:pPr>" R(
												"More") "</w:p>");
	static const char sheet[] =
		"<w:styles xmlns:w='w'><w:style w:styleId='H1'><w:name w:val='heading 1'/><w:pPr><w:numPr><w:numId w:val='9'/></w:numPr></w:pPr></w:style>"
		"<w:style w:styleId='H2'><w:name w:val='heading 2'/><w:pPr><w:numPr><w:ilvl w:val='1'/><w:numId w:val='9'/></w:numPr></w:pPr></w:style>"
		"<w:style w:styleId='List'><w:pPr><w:numPr><w:numId w:val='1'/></w:numPr></w:pPr></w:style>"
		"<w:style w:styleId='Mine'><w:basedOn w:val='List'/></w:style></w:styles>";
	static const char lists[] =
		"<w:numbering xmlns:w='w'><w:abstractNum w:abstractNumId='0'><w:lvl w:ilvl='0'><w:start w:val='1'/><w:numFmt w:val='lowerLetter'/>"
		"<w:lvlText w:val='(%1)'/></w:lvl></w:abstractNum><w:abstractNum w:abstractNumId='1'><w:lvl w:ilvl='0'><w:numFmt w:val='upperRoman'/></w:lvl>"
		"<w:lvl w:ilvl='1'><w:numFmt w:val='decimal'/><w:lvlText w:val='%1.%2'/></w:lvl></w:abstractNum><w:abstractNum w:abstractNumId='2'>"
		"<w:lvl w:ilvl='0'><w:lvlText w:val='%1'/></w:lvl><w:lvl w:ilvl='1'><w:lvlText w:val='%1.%2'/></w:lvl></w:abstractNum>"
		"<w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num><w:num w:numId='2'><w:abstractNumId w:val='1'/></w:num>"
		"<w:num w:numId='3'><w:abstractNumId w:val='1'/></w:num><w:num w:numId='4'><w:abstractNumId w:val='1'/><w:lvlOverride w:ilvl='0'>"
		"<w:startOverride w:val='9'/></w:lvlOverride></w:num><w:num w:numId='9'><w:abstractNumId w:val='2'/></w:num></w:numbering>";
	struct part parts[] = { { "word/document.xml", doc },
		                { "word/styles.xml", sheet },
		                { "word/numbering.xml", lists } };
	struct doc d = { 0 };
	struct err e = { 0 };
	size_t n;
	char *p = zip(parts, 3, &n);

	CHECK_MSG(!docx_import(p, n, &d, &e), "%s", e.msg);
	CHECK_STR(
		d.text.p,
		"1 Scope\n\n1.1 Terms\n\n(a) one\n(b) two\n\nplain\n\nI. x\nII. y\nIX. z\n  IX.1 deep\n  IX.2 deeper\n\n1.2 More");
	CHECK_INT(d.n_mark, 3);
	CHECK_STR(d.mark[1].text, "1.1 Terms");
	doc_free(&d);
}

/* The text before the damage is kept, and a notice says where it ends. */
TEST(docx_damaged)
{
	struct doc d;

	docx("<w:document xmlns:w='w'><w:body>" P("whole") "<w:p><w:r><w:t>half", &d);
	CHECK(!strncmp(d.text.p, "whole", 5));
	CHECK(strstr(d.notices.p, "'word/document.xml' is not well-formed XML"));
	doc_free(&d);
	/* Text after the damage has lost its entities and all characters beyond ASCII, so it is left out. */
	docx("<w:document xmlns:w='w'><w:body>" P("whole") "<a <b>" P("gar&amp;b\xc3\xa9"
	                                                              "led") "</w:body></w:document>",
	     &d);
	CHECK_STR(d.text.p, "whole");
	CHECK(strstr(d.notices.p, "'word/document.xml' is not well-formed XML"));
	doc_free(&d);
}

/* A long file is parsed in parts, whose ends cut characters, entities and tags. */
TEST(docx_long)
{
	struct str file = { 0 }, want = { 0 };
	struct doc d;

	str_adds(&file, "<w:document xmlns:w='w'><w:body>");
	for (int i = 0; i < 20000; i++) {
		str_addf(&file, "<w:p><w:r><w:t>%d \xe6\x97\xa5&amp;\xc3\xa9&#x1f389;</w:t></w:r></w:p>", i);
		str_addf(&want, "%s%d \xe6\x97\xa5&\xc3\xa9\xf0\x9f\x8e\x89", i ? "\n\n" : "", i);
	}
	str_adds(&file, "</w:body></w:document>");
	docx(file.p, &d);
	CHECK(!strcmp(d.text.p, want.p));
	CHECK(!d.notices.n);
	doc_free(&d);
	str_free(&file);
	str_free(&want);
}

/* ---- EPUB ---- */

TEST(epub_spine_and_contents)
{
	static const struct part parts[] = {
		{ "mimetype", "application/epub+zip" },
		{ "META-INF/container.xml",
		  "<container><rootfiles><rootfile full-path='a/b/book.opf'/></rootfiles></container>" },
		{ "a/b/book.opf",
		  "<package><manifest><item id='2' href='two.xhtml'/><item id='1' href='../o%6ee.xhtml'/><item id='n' href='nav.xhtml' "
		  "properties='nav'/><item id='gone' href='gone.xhtml'/></manifest><spine><itemref idref='1'/><itemref idref='2'/><itemref idref='gone'/><itemref idref='1'/></spine></package>" },
		{ "a/b/two.xhtml",
		  "<?xml version='1.0'?><html><head><title/></head><body><p>text of two<br/>line</p></body></html>" },
		{ "a/one.xhtml", "<html><body><h1>First</h1><p>text of one</p></body></html>" },
		{ "a/b/nav.xhtml",
		  "<html><body><nav><ol><li><a href='../one.xhtml'>One</a></li><li><a href='two.xhtml#x'>The <b>second</b></a></li></ol></nav></body></html>" },
	};
	struct doc d = { 0 };
	struct err e = { 0 };
	size_t n;
	char *p = zip(parts, LEN(parts), &n);

	CHECK_MSG(!epub_import(p, n, &d, &e), "%s", e.msg);
	CHECK_STR(d.text.p, "First\n\ntext of one\n\ntext of two\nline");
	CHECK_INT(d.n_mark, 2);
	CHECK_STR(d.mark[0].text, "First");
	CHECK_STR(d.mark[1].text, "The second");
	CHECK_INT(d.mark[1].at, 20);
	CHECK_STR(d.notices.p, "1 of 4 chapters are missing in the file\n");
	doc_free(&d);
}

/* A chapter with a stray byte once made the whole book unreadable. */
TEST(epub_chapter_that_is_no_utf8)
{
	static const struct part parts[] = {
		{ "META-INF/container.xml", "<container><rootfile full-path='o'/></container>" },
		{ "o",
		  "<package><manifest><item id='1' href='a'/></manifest><spine><itemref idref='1'/></spine></package>" },
		{ "a", "<html><\xe2"
		       "body><p>caf\xe9 \xca</p>" },
	};
	struct doc d = { 0 };
	struct err e = { 0 };
	size_t n;
	char *p = zip(parts, LEN(parts), &n);

	CHECK_MSG(!epub_import(p, n, &d, &e), "%s", e.msg);
	CHECK_MSG(d.text.p && strstr(d.text.p, "caf\xc3\xa9"), "\"%s\"", d.text.p);
	for (size_t i = 0; i < d.text.n;) {
		int32_t cp;
		i += (size_t)utf8_decode(d.text.p + i, d.text.n - i, &cp);
		CHECK(cp > 0);
	}
	doc_free(&d);
}

/* A parser in the jail cannot open files. The C library loads most conversions from files, so they are loaded
 * before. */
TEST(epub_chapters_in_other_encodings)
{
	static const struct part parts[] = {
		{ "META-INF/container.xml", "<container><rootfile full-path='o'/></container>" },
		{ "o",
		  "<?xml version='1.0' encoding='windows-1251'?><package><manifest><item id='1' href='a'/><item id='2' href='b'/>"
		  "<item id='3' href='c'/><item id='4' href='d'/><item id='5' href='e'/></manifest><spine toc='t'><itemref idref='1'/>"
		  "<itemref idref='2'/><itemref idref='3'/><itemref idref='4'/><itemref idref='5'/></spine></package>" },
		{ "a",
		  "<?xml version='1.0' encoding='windows-1251'?><html><body><p>\xcf\xf0\xe8\xe2\xe5\xf2</p></body></html>" },
		{ "b",
		  "<?xml version='1.0' encoding='Shift_JIS'?><html><body><p>\x93\xfa\x96\x7b\x8c\xea \x83\x5c</p></body></html>" },
		{ "c", "<html><head><meta charset='koi8-r'/></head><body><p>\xf0\xd2\xc9</p></body></html>" },
		{ "d", "\xff\xfe<\0p\0>\0\x1f\x04@\x04"
		       "8\x04<\0/\0p\0>\0\0" },
		{ "e", "<html><body><p>caf\xe9 \x93quoted\x94</p></body></html>" },
	};
	struct doc d = { 0 };
	struct err e = { 0 };
	size_t n;
	char *p = zip(parts, LEN(parts), &n);

	CHECK_MSG(!doc_decode("x.epub", p, n, &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.text), "Привет\n\n日本語 ソ\n\nПри\n\nПри\n\ncaf\xc3\xa9 “quoted”");
	CHECK_STR(str_text(&d.notices), "");
	doc_free(&d);
}

/* iconv() accepts forms of five bytes, which UTF-8 does not have since 2003; such a form once made a whole book
 * unreadable. */
TEST(epub_chapter_of_five_byte_forms)
{
	static const struct part parts[] = {
		{ "META-INF/container.xml", "<container><rootfile full-path='o'/></container>" },
		{ "o",
		  "<package><manifest><item id='1' href='a'/></manifest><spine><itemref idref='1'/></spine></package>" },
		{ "a",
		  "<?xml version='1.0' encoding='utf-8'?><html><body><p>caf\xc3\xa9 \xf8\xae\xae\xae\xae end</p></body></html>" },
	};
	struct doc d = { 0 };
	struct err e = { 0 };
	size_t n;
	char *p = zip(parts, LEN(parts), &n);

	CHECK_MSG(!epub_import(p, n, &d, &e), "%s", e.msg);
	CHECK(utf8_complete(d.text.p, d.text.n) == d.text.n && !memchr(d.text.p, 0xf8, d.text.n));
	CHECK_MSG(strstr(d.text.p, "caf\xc3\xa9 \xef\xbf\xbd") && strstr(d.text.p, " end"), "\"%s\"", d.text.p);
	doc_free(&d);
}

/* ---- PDF: what pdftotext -bbox-layout prints ---- */

/* Lay lines out as pdftotext prints them: letters 10 points high and 5 wide, lines 12 points apart, pages of 400 x 600
 * points. An empty line begins a block, \f a page. "\v300\v" moves to 300 points below the page's top, "\t200\t" begins
 * a piece at 200 points from its left edge, "\b16\b" makes the letters of the line 16 points high. */
static char *laid_out(const char *text)
{
	struct str s = { 0 };
	double y = 100, x = 50, size = 10;
	int in_page = 0, in_block = 0;

	str_adds(&s, "<doc>\n");
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n\f\v\t\b");
		if (!in_page) {
			str_adds(&s, "  <page width=\"400.000000\" height=\"600.000000\">\n");
			in_page = 1;
			y = 100;
		}
		if (n) {
			if (!in_block)
				str_addf(&s, "<flow><block xMin=\"%f\" yMin=\"0\" xMax=\"0\" yMax=\"0\">\n", x);
			in_block = 1;
			str_addf(&s, "<line xMin=\"%f\" yMin=\"%f\" xMax=\"%f\" yMax=\"%f\">\n", x, y, x, y + size);
			for (size_t i = 0, k; i < n; i += k + 1) {
				k = 0;
				while (i + k < n && p[i + k] != ' ')
					k++;
				str_addf(&s, "<word xMin=\"%f\" yMin=\"%f\" xMax=\"%f\" yMax=\"%f\">%.*s</word>\n",
				         x + 5 * (double)i, y, x + 5 * (double)(i + k), y + size, (int)k, p + i);
			}
			str_adds(&s, "</line>\n");
		}
		p += n;
		if (*p == '\n') {
			y += 1.2 * size;
			x = 50;
			size = 10;
		}
		if (in_block && (*p == '\f' || *p == '\t' || *p == '\v' || (*p == '\n' && p[1] == '\n'))) {
			str_adds(&s, "</block></flow>\n");
			in_block = 0;
		}
		if (*p == '\f') {
			str_adds(&s, "  </page>\n");
			in_page = 0;
		} else if (*p && *p != '\n') {
			char *end;
			*(*p == '\v' ? &y : *p == '\t' ? &x : &size) = strtod(p + 1, &end);
			p = end;
		}
		p += *p != 0;
	}
	str_adds(&s, "</doc>\n");
	return s.p;
}

static void pdf(const char *text, struct doc *d)
{
	struct err e = { 0 };
	char *printed = laid_out(text);

	*d = (struct doc){ 0 };
	CHECK_MSG(!pdf_import(printed, strlen(printed), d, &e), "%s", e.msg);
	free(printed);
}

static void check_headings(const struct doc *d, const char *expected)
{
	struct str s = { 0 };

	for (size_t i = 0; i < d->n_mark; i++)
		if (d->mark[i].kind == MARK_HEADING)
			str_addf(&s, "%d %s|", d->mark[i].level, d->mark[i].text);
	CHECK_STR(str_text(&s), expected);
	str_free(&s);
}

#define HEAD "\v20\v"
#define BODY "\v100\v"
#define FOOT "\v570\v"

/* Text that recurs at one place of the pages is kept once; page numbers are left out. */
TEST(pdf_pages_heads_and_feet)
{
	struct doc d;

	pdf(HEAD "Report\n" BODY "one\n" FOOT "- 1 -\n\f" HEAD "Report\n" BODY "two\n" FOOT "- 2 -\n\f"
	         "\f" HEAD "Report\n" BODY "three\n" FOOT "- 4 -\n\f" HEAD "Report\n" BODY "Report\nfour\n" FOOT
	         "- 5 -\n\f",
	    &d);
	CHECK_STR(d.text.p, "one\n\ntwo\n\nthree\n\nReport\nfour");
	CHECK_INT(d.pages, 5);
	CHECK_STR(d.notices.p, "8 lines of running heads, feet and page numbers left out\n");
	for (int page = 0; page < 5; page++) /* page 3 has no text */
		CHECK_INT(d.mark[page].level, page == 2 ? PAGE_EMPTY : PAGE_TEXT);
	CHECK_STR(d.left_out.p, "1\tReport\n1\t- 1 -\n2\tReport\n2\t- 2 -\n4\tReport\n4\t- 4 -\n5\tReport\n5\t- 5 -\n");
	doc_mark_paragraphs(&d);
	CHECK_STR(doc_mark_at(&d, MARK_PAGE, 6)->text, "2");
	CHECK_STR(doc_mark_at(&d, MARK_PAGE, 10)->text, "4");
	CHECK_STR(doc_mark_at(&d, MARK_PAGE, 25)->text, "5");
	doc_free(&d);
	/* The first head is kept, because the text itself does not contain it. */
	pdf(HEAD "\b12\bReport\n" BODY "one\n\f" HEAD "\b12\bReport\n" BODY "two\n\f" HEAD "\b12\bReport\n" BODY
	         "three or more\n\f",
	    &d);
	CHECK_STR(d.text.p, "Report\n\none\n\ntwo\n\nthree or more");
	check_headings(&d, "");
	doc_free(&d);
	/* Pages that have no other text keep their heads. */
	pdf(HEAD "Slide\n\n1\n\f" HEAD "Slide\n\n2\n\f" HEAD "Slide\n\n3\n\f", &d);
	CHECK_STR(str_text(&d.text), "Slide\n\nSlide\n\nSlide");
	doc_free(&d);
	/* A form recurs on several pages: its first line is no running head, because the rest of its block stays. */
	pdf(HEAD "Form of the mill\nName: Abe\n\f" HEAD "Form of the mill\nName: Bea\n\f" HEAD
	         "Form of the mill\nName: Cyd\n\f",
	    &d);
	CHECK_STR(d.text.p,
	          "Form of the mill\nName: Abe\n\nForm of the mill\nName: Bea\n\nForm of the mill\nName: Cyd");
	doc_free(&d);
	/* Two pages are too few for running heads. */
	pdf(HEAD "Head\n" BODY "a\n\f" HEAD "Head\n" BODY "b\n\f", &d);
	CHECK_STR(d.text.p, "Head\n\na\n\nHead\n\nb");
	doc_free(&d);
}

/* Numbers at the edge of a page that are not consecutive, and numbers after another word than "page", are text. */
TEST(pdf_numbers_at_the_edges)
{
	static const char *const kept[][4] = {
		{ "Invoice No. 4711", "Invoice No. 4712", "Invoice No. 4713", "Invoice No. 4714" },
		{ "Order number\t200\t101", "Order number\t200\t102", "Order number\t200\t103",
		  "Order number\t200\t104" },
		{ "Total due: 88.20 EUR", "Total due: 104.75 EUR", "Total due: 61.10 EUR", "Total due: 233.40 EUR" },
		{ "71.8", "64.2", "73.2", "70.0" },
		{ "888,476.92", "14,038.38", "5,120.00", "73,001.15" },
		{ "Question 1 (10 points)", "Question 2 (5 points)", "Question 3 (5 points)",
		  "Question 4 (20 points)" },
		{ "Question 1 of 4", "Question 2 of 4", "Question 3 of 4", "Question 4 of 4" },
		{ "0\t100\t50 100\t300\t1", "0\t100\t50 100\t300\t2", "0\t100\t50 100\t300\t3",
		  "0\t100\t50 100\t300\t4" },
		{ "Chapter 1", "Chapter 2", "Chapter 3", "Chapter 4" },
		{ "1801", "1804", "1809", "1815" },
		{ "1987", "1988", "1989", "1990" },
		{ "mill", "civil", "vivid", "mild" },
		{ "Answer: yes", "Answer: yes", "Answer: yes", "Answer: no" },
		{ "Answer: no", "Answer: yes", "Answer: yes", "Answer: yes" },
	};
	static const char *const gone[][4] = {
		{ "1", "2", "3", "4" },
		{ "ii", "iii", "iv", "v" },
		{ "Page 7 of 11", "Page 8 of 11", "Page 9 of 11", "Page 10 of 11" },
		{ "3/9", "4/9", "5/9", "6/9" },
		{ "Seite 101", "Seite 102", "Seite 103", "Seite 104" },
		{ "[ 12 ]", "[ 13 ]", "[ 14 ]", "[ 15 ]" },
	};

	for (size_t i = 0; i < LEN(kept) + LEN(gone); i++)
		for (int foot = 0; foot < 2; foot++) {
			const char *const *line = i < LEN(kept) ? kept[i] : gone[i - LEN(kept)];
			struct str s = { 0 };
			struct doc d;
			for (int k = 0; k < 4; k++)
				str_addf(&s, BODY "The text of this page is number %c.\n%s%s\n\f", "abcd"[k],
				         foot ? FOOT : HEAD, line[k]);
			pdf(s.p, &d);
			for (int k = 0; k < 4; k++) {
				const char *last = strrchr(line[k], '\t');
				const char *found = strstr(d.text.p, last ? last + 1 : line[k]);
				CHECK_MSG((found != NULL) == (i < LEN(kept)), "\"%s\" at the %s: \"%s\"", line[k],
				          foot ? "foot" : "head", d.text.p);
			}
			if (i < LEN(kept))
				CHECK_STR(str_text(&d.left_out), "");
			doc_free(&d);
			str_free(&s);
		}
}

/* Numbers on two pages are too few to be page numbers. A line without a number, three pages earlier, does not count as
 * a third. */
TEST(pdf_two_numbers_at_one_place)
{
	struct doc d;

	pdf(BODY "First\n\f" BODY "Second\n\n" FOOT "Signed\n\f" BODY "Third\n\f" BODY "Fourth\n\n" FOOT "1\n\f" BODY
	         "Fifth\n\n" FOOT "2\n\f" BODY "Sixth\n\f",
	    &d);
	CHECK_STR(d.text.p, "First\n\nSecond\n\nSigned\n\nThird\n\nFourth\n\n1\n\nFifth\n\n2\n\nSixth");
	doc_free(&d);
}

/* "1987" on the title page is not a page number, but the numbers of the following pages are. */
TEST(pdf_year_on_a_title_page)
{
	struct doc d;

	pdf("The bridges\n" FOOT "1987\n\f" BODY "One.\n" FOOT "2\n\f" BODY "Two.\n" FOOT "3\n\f" BODY "Three.\n" FOOT
	    "4\n\f",
	    &d);
	CHECK_STR(d.text.p, "The bridges\n\n1987\n\nOne.\n\nTwo.\n\nThree.");
	doc_free(&d);
}

/* Running heads beside a page number that repeat the title of the section, as in books, are left out. */
TEST(pdf_heads_of_sections)
{
	struct str s = { 0 };
	struct doc d;

	for (int k = 1; k <= 16; k++) {
		if (k % 4 == 1)
			str_addf(&s, BODY "\b16\b%d Part %c of it\n\nIt begins.\n" FOOT "%d\n\f", k / 4 + 1,
			         'A' + k / 4, k);
		else
			str_addf(&s, HEAD "%s%c OF IT\t340\t%d\n" BODY "More of %c%c.\n\f",
			         k % 4 == 3 ? "1. PART " : "PART ", 'A' + (k - 1) / 4, k, 'A' + k / 4, 'a' + k % 4);
	}
	pdf(s.p, &d);
	CHECK_MSG(!strstr(d.text.p, "OF IT") && !strstr(d.text.p, "12"), "%s", d.text.p);
	check_headings(&d, "1 1 Part A of it|1 2 Part B of it|1 3 Part C of it|1 4 Part D of it|");
	doc_free(&d);
	str_free(&s);
}

TEST(pdf_words_and_ligatures)
{
	struct doc d;

	pdf("an exam-\nple of o\xef\xac\x83"
	    "ce\nhyphen\xc2\xad\nated, a well-known and well-\nknown word,\nby Smith-\nJones, 3-\n4, COVID-\n19, the Haupt-\nund Nebenkosten,\n"
	    "a state-\nof-the-art mill, https://example.org/long-\nterm, or - as\nit seems -\nnot\x02so.\n\f",
	    &d);
	CHECK_STR(
		d.text.p,
		"an example of office\nhyphenated, a well-known and well-known word,\nby Smith-Jones, 3-4, COVID-19, the Haupt- und Nebenkosten,\n"
		"a state-of-the-art mill, https://example.org/long-term, or - as\nit seems -\nnot so.");
	doc_free(&d);
}

/* Words that touch are one word with a change of font. A raised number is an exponent. A wide gap is a blank between
 * words of a justified line, but next to a number it separates cells. */
TEST(pdf_words_of_a_line)
{
	static const char page[] =
		"<page width=\"400\" height=\"600\"><flow><block>"
		"<line><word xMin=\"50\" yMin=\"100\" xMax=\"70\" yMax=\"110\">The</word><word xMin=\"73\" yMin=\"100\" xMax=\"80\" yMax=\"110\">L</word>"
		"<word xMin=\"80\" yMin=\"99\" xMax=\"85\" yMax=\"107\">A</word><word xMin=\"85\" yMin=\"100\" xMax=\"99\" yMax=\"110\">TEX&apos;s</word>"
		"<word xMin=\"103\" yMin=\"100\" xMax=\"113\" yMax=\"110\">10</word><word xMin=\"113\" yMin=\"98\" xMax=\"117\" yMax=\"105\">3</word></line>"
		"<line><word xMin=\"50\" yMin=\"112\" xMax=\"70\" yMax=\"122\">wide</word></line><line><word xMin=\"90\" yMin=\"112\" xMax=\"110\" yMax=\"122\">gaps</word></line>"
		"<line><word xMin=\"50\" yMin=\"124\" xMax=\"70\" yMax=\"134\">7.5</word></line><line><word xMin=\"90\" yMin=\"124\" xMax=\"110\" yMax=\"134\">8.25</word></line>"
		"<line><word xMin=\"300\" yMin=\"200\" xMax=\"310\" yMax=\"230\">on</word><word xMin=\"300\" yMin=\"165\" xMax=\"310\" yMax=\"197\">its side</word></line>"
		"</block></flow></page>";
	struct doc d = { 0 };
	struct err e = { 0 };

	CHECK_MSG(!pdf_import(page, sizeof page - 1, &d, &e), "%s", e.msg);
	CHECK_STR(d.text.p, "The LATEX's 10^3\nwide gaps\n7.5 | 8.25\non its side");
	doc_free(&d);
}

/* Rows of tables become lines; a number or bullet is put before its text; columns of text are read one after the
 * other. */
TEST(pdf_tables_and_columns)
{
	struct doc d;

	/* as pdftotext prints a table: three columns */
	pdf(BODY
	    "Item\nOak board\nPine post\n\n\v100\v\t150\tKind\n\t150\thard\n\t150\tsoft\n\n\v100\v\t250\tPrice\n\t250\t48.20\n\t250\t12.75\n\nThat is all.\n\f",
	    &d);
	CHECK_STR(d.text.p, "Item | Kind | Price\nOak board | hard | 48.20\nPine post | soft | 12.75\n\nThat is all.");
	doc_free(&d);
	/* cells of roughly one baseline; the leftmost is neither the highest nor the largest */
	pdf("\v103.62\v\b6\bitem\n\n\v100\v\t150\tkind\n\n\v102.5\v\t250\t48.20\n\f", &d);
	CHECK_STR(d.text.p, "item | kind | 48.20");
	doc_free(&d);
	pdf(BODY "1.1\t80\tFirst things\n\n\n\xe2\x80\xa2\t70\tan item of a list\n\f", &d);
	CHECK_STR(d.text.p, "1.1 First things\n\n\xe2\x80\xa2 an item of a list");
	doc_free(&d);
	pdf(BODY
	    "The left column of the page has\nfive lines of text, and each of\nthem is about as long as those of\nthe right column beside it, word\nby word.\n\n"
	    "\v100\v\t230\tThe right column of the page\n\t230\thas as many lines, and so it\n\t230\tmust not be taken for a table\n\t230\twith two cells in each of its\n\t230\trows.\n\f",
	    &d);
	CHECK_MSG(!strstr(d.text.p, " | ") && strstr(d.text.p, "by word.\n\nThe right column"), "%s", d.text.p);
	doc_free(&d);
}

TEST(pdf_right_to_left)
{
	struct doc d;

	/* Hebrew is printed as on the page, from left to right: "shalom, 12 sahar". */
	pdf("\xd7\xa8\xd7\x94\xd7\xa1 12 \xd7\x9d\xd7\x95\xd7\x9c\xd7\xa9\n\f", &d);
	CHECK_STR(d.text.p, "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d 12 \xd7\xa1\xd7\x94\xd7\xa8");
	doc_free(&d);
}

TEST(pdf_headings)
{
	struct doc d;

	pdf("\b20\bThe Mill\n\nAbstract\n\nWe did it.\n\n1 Introduction\n\nIt is so.\n\n3.1\t80\tLong Methods\n\nHow.\n\n2 July 2011\n\nNo heading, that.\n\n"
	    "\b16\bThings of Two\n\b16\bLines\n\nYes.\nIt goes on and on, and it is text.\n3.2 Next in Turn\nMore text.\n3.4 Not Next\nThe end of it.\n\f",
	    &d);
	check_headings(&d, "1 The Mill|1 Abstract|1 1 Introduction|2 3.1 Long Methods|2 Things of Two Lines|");
	doc_free(&d);
}

/* The document's outline, printed by pdftohtml, tells which lines are headings and of which level. */
TEST(pdf_outline)
{
	static const char outline[] =
		"<pdf2xml><page number=\"1\" position=\"absolute\"><text>no text</text></page>\n<outline>\n<item page=\"1\">Begin &amp; end</item>\n"
		"<outline>\n<item page=\"2\">Middle</item>\n</outline>\n<item page=\"9\">None</item></outline></pdf2xml>\n";
	struct str s = { 0 };
	struct err e = { 0 };
	struct doc d = { 0 };
	char *printed = laid_out("2 Begin & end\nThis is text.\nMiddle\n\f" BODY "of the\nMiddle\nbegins here.\n\f");

	str_adds(&s, outline);
	/* escape '&' as pdftotext does */
	for (const char *p = printed; *p; p++)
		if (*p == '&')
			str_adds(&s, "&amp;");
		else
			str_add(&s, p, 1);
	CHECK_MSG(!pdf_import(s.p, s.n, &d, &e), "%s", e.msg);
	check_headings(&d, "1 2 Begin & end|2 Middle|");
	CHECK_STR(d.text.p, "2 Begin & end\n\nThis is text.\nMiddle\n\nof the\n\nMiddle\n\nbegins here.");
	CHECK_INT(d.pages, 2);
	doc_free(&d);
	str_free(&s);
	free(printed);
}

/* The text comes from the pipe in pieces of any size, and its end may be missing. */
TEST(pdf_in_pieces)
{
	char *printed = laid_out("One line\nand another\n\f\fThird page\n\f");
	size_t n = strlen(printed);

	for (size_t size = 1; size <= n; size = 2 * size + 1) {
		struct pdf f = { 0 };
		struct doc d = { 0 };
		struct err e = { 0 };
		for (size_t at = 0; at < n; at += size)
			pdf_feed(&f, printed + at, MIN(size, n - at));
		CHECK(!pdf_end(&f, &d, &e));
		CHECK_STR(str_text(&d.text), "One line\nand another\n\nThird page");
		CHECK_INT(d.pages, 3);
		doc_free(&d);
	}
	for (size_t cut = 0; cut < n; cut++) {
		struct doc d = { 0 };
		struct err e = { 0 };
		CHECK(!pdf_import(printed, cut, &d, &e) == (d.pages > 0));
		doc_free(&d);
	}
	free(printed);
}

TEST(pdf_without_text)
{
	struct doc d = { 0 };
	struct err e = { 0 };

	static const char pages[] = "<page width=\"1\" height=\"1\"></page><page></page><page>";

	CHECK(!pdf_import(pages, sizeof pages - 1, &d, &e) && !d.text.n && d.pages == 3);
	CHECK_INT(d.mark[2].level, PAGE_EMPTY);
	doc_free(&d);
	CHECK(pdf_import("", 0, &d, &e) < 0);
	CHECK_STR(e.msg, "holds no pages");
}

/* ---- plain text ---- */

static void text(const char *name, const char *s, struct doc *d)
{
	struct err e = { 0 };

	CHECK_MSG(!doc_decode(name, s, strlen(s), d, &e), "%s", e.msg);
}

TEST(marks_of_texts)
{
	struct doc d;

	text("x.txt",
	     "CHAPTER I\n\nOnce.\n\f"
	     "CHAPTER II. The return\n\nAgain\nand so on.\n",
	     &d);
	CHECK_INT(d.pages, 2);
	CHECK_STR(doc_mark_at(&d, MARK_PAGE, d.text.n - 1)->text, "2");
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, d.text.n - 1)->text, "CHAPTER II. The return");
	CHECK_INT(doc_mark_at(&d, MARK_PARAGRAPH, d.text.n - 1)->at, 42);
	doc_free(&d);
	text("x.md", "# A #\n\n```\n# no\n```\n    # no\nB\n---\n#no\n####### no\n- item\n---\n", &d);
	CHECK_INT(d.type, DOC_MARKDOWN);
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, 6)->text, "A");
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, d.text.n)->text, "B");
	doc_free(&d);
	text("x.c", "CHAPTER I\n\n# include <a>\n", &d);
	CHECK_INT(d.type, DOC_SOURCE);
	CHECK(!doc_mark_at(&d, MARK_HEADING, d.text.n));
	doc_free(&d);
}

/* Check the headings of a text, each "LEVEL TITLE|". */
static void headings(const char *s, const char *want)
{
	struct str got = { 0 };
	struct doc d;

	text("x.txt", s, &d);
	for (size_t i = 0; i < d.n_mark; i++)
		if (d.mark[i].kind == MARK_HEADING)
			str_addf(&got, "%d %s|", d.mark[i].level, d.mark[i].text);
	CHECK_STR(str_text(&got), want);
	str_free(&got);
	doc_free(&d);
}

TEST(numbered_headings_of_plain_text)
{
	/* No-break spaces behind the numbers, numbers of three digits, names of settings as titles. A sentence in capitals
	 * is no heading there. */
	headings(
		"Chapter\u00a01.\u00a0The mill\n\nTable of Contents\n\n1. Wheels\n    1.1. Wood\n2. Stones\n\n1.\u00a0Wheels\n\nText.\n\n"
		"DO NOT TOUCH THIS UNLESS YOU ARE SURE!\n\n1.1.\u00a0Wood\n\n-USE_WIND +USE_WATER\n\n3.169.\u00a0wheel_speed\n\nType: number\n\n"
		"1.234 Grain\n\n12.5. mm\n\n12.5. of the turns\n",
		"2 Chapter\u00a01.\u00a0The mill|1 Table of Contents|1 1.\u00a0Wheels|2 1.1.\u00a0Wood|2 3.169.\u00a0wheel_speed|");
	headings("THE MILL STOPS.\n\nOnce.\n\nTHE END.\n", "2 THE MILL STOPS.|2 THE END.|");
}

TEST(words_divided_at_line_ends)
{
	struct doc d;

	/* A word that the text has elsewhere is joined, and lines keep their numbers. */
	text("x.txt",
	     "Many ob-\n  jects, many wheels.\nA mill-\nwheel of stee-\nl\nis an object. Two objects.\nThe wheel-\nwheels\n\nmill-horse, mill-\nhorse, millhorse\n",
	     &d);
	CHECK_STR(
		d.text.p,
		"Many objects,\n  many wheels.\nA mill-\nwheel of stee-\nl\nis an object. Two objects.\nThe wheel-\nwheels\n\nmill-horse, mill-\nhorse, millhorse\n");
	doc_free(&d);
	/* In a text that divides many words, the others are joined, too, unless both halves are words. */
	text("x.txt",
	     "grain stone water wheel river miller flour horse winter summer mouse click\ngra-\nin sto-\nne wa-\nter whe-\nel ri-\nver mil-\nler "
	     "flo-\nur hor-\nse win-\nter sum-\nmer mouse-\nclick C-\nration recollec-\ntion.\n\nEnd-\nless\n\nx-\nand y",
	     &d);
	CHECK_STR(
		d.text.p,
		"grain stone water wheel river miller flour horse winter summer mouse click\ngrain\nstone\nwater\nwheel\nriver\nmiller\n"
		"flour\nhorse\nwinter\nsummer\nmouse-\nclick C-\nration recollection.\n\n\nEndless\n\n\nx-\nand y");
	doc_free(&d);
	text("x.md", "Some ob-\njects.\n\nobjects\n", &d);
	CHECK_STR(d.text.p, "Some ob-\njects.\n\nobjects\n");
	doc_free(&d);
}

TEST(headings_of_vim_help)
{
	static const char rule[] = "======================================================================\n";
	struct str s = { 0 };

	str_addf(
		&s,
		"*mill.txt*\tFor Vim\n\n\tTHE MILL\n\n|1.1|  Wheels\n\n%s*1.1*\tWheels\t\t*wheel* *w*\n\nText.\n\nOF WOOD\t*wood*\n\nShort ~\nx\n\n"
		"text ~\n%sStones *stone*\n\n vim:tw=78:ft=help:\n",
		rule, rule);
	headings(s.p, "2 1.1 Wheels|4 OF WOOD|4 Short|4 text|2 Stones|");
	str_free(&s);
}

TEST(underlined_headings_of_plain_text)
{
	struct doc d;

	text("x.txt",
	     "The title\n=========\n\nText.\n\nA part\n------\n\nMore\ntext\n-----------------\n\nb | c\n-----\n\nEnd\n...\n\n== Of AsciiDoc\n\nText\n",
	     &d);
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, 0)->text, "The title");
	CHECK_INT(doc_mark_at(&d, MARK_HEADING, 0)->level, 1);
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, 35)->text, "A part");
	CHECK_INT(doc_mark_at(&d, MARK_HEADING, 35)->level, 2);
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, 90)->text, "A part");
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, d.text.n)->text, "Of AsciiDoc");
	CHECK_INT(doc_mark_at(&d, MARK_HEADING, d.text.n)->level, 2);
	doc_free(&d);
}

/* The encoding of each sentence is recognised among the encodings of its language, even if the sentence is cut inside
 * a character. */
TEST(guessed_encodings)
{
	/* clang-format off */
	static const struct { const char *text, *names; } texts[] = {
		{"Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему. Всё смешалось в доме. ",
		 "Windows-1251 KOI8-R IBM866 ISO-8859-5"},
		{"吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所で泣いていた事だけは記憶している。",
		 "Shift_JIS EUC-JP"},
		{"北京是中华人民共和国的首都，是全国的政治中心和文化中心。我们在这里的时候，他来了一个人。", "GB18030"},
		{"北京是中國的首都，是全國的政治中心和文化中心。我們在這裡的時候，他來了一個人。", "Big5"},
		{"모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 이성과 양심을 부여받았다.", "EUC-KR"},
		{"Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. ", "Windows-1253 IBM737"},
		{"כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון. ", "Windows-1255"},
		{"يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا. ", "Windows-1256"},
		{"มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผล", "Windows-874"},
		{"Příliš žluťoučký kůň úpěl ďábelské ódy. Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv.", "Windows-1250 ISO-8859-2 IBM852"},
		{"Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni obdarzeni rozumem i sumieniem, żyć ćma źdźbło.",
		 "Windows-1250 ISO-8859-2 IBM852"},
		{"Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Az emberek, ésszel és lelkiismerettel bírván, testvérek, űr.",
		 "Windows-1250 IBM852"},
		{"Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler ve birbirlerine karşı kardeşlik.", "Windows-1254"},
		{"Visi žmonės gimsta laisvi ir lygūs savo orumu ir teisėmis. Jiems suteiktas protas ir sąžinė ir jie turi elgtis vienas kito atžvilgiu kaip broliai, šįryt ąžuolą, ūkį, ačiū.",
		 "Windows-1257"},
		{"Ĉiuj homoj estas denaske liberaj kaj egalaj laŭ digno kaj rajtoj. Ili posedas racion kaj konsciencon, ĵaŭdo, ĝi, ŝi, ĥoro, ĉar, ŝajne, ĝis.", "ISO-8859-3"},
		{"Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sollen einander im Geiste der Brüderlichkeit begegnen: Größe, Übung, Äpfel, Öl, süß, schön, spät.",
		 "Windows-1252 IBM850"},
		{"Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison, à côté de ça, où l’été naît.", "Windows-1252"},
		{"Todos los seres humanos nacen libres e iguales en dignidad, según la razón y conciencia: ¿qué más, señor? ¡Fíjate qué corazón!",
		 "Windows-1252"},
		{"Alle mennesker er født frie og lige i værdighed og rettigheder. De er udstyret med fornuft på, går, små, sør, ære.", "Windows-1252"},
		{"Öll börn eru borin frjáls og jöfn öðrum að virðingu og réttindum. Þau eru gædd vitsmunum og samvizku, og ber þeim að breyta bróðurlega.",
		 "Windows-1252"},
		{"“It’s”, she said – “don’t”, “can’t”, “won’t” … and that’s that, isn’t it? “Yes.” “No.”", "Windows-1252"},
		{"Größe, Maß und Übermaß: für alle Völker. Déjà vu à l'été, ça ira. Señor, mañana será otro día.", "Windows-1252"},
	};
	/* clang-format on */

	for (size_t i = 0; i < LEN(texts); i++)
		for (const char *name = texts[i].names; *name;
		     name += strcspn(name, " ") + (name[strcspn(name, " ")] == ' ')) {
			const struct charset *c = charset_by_label(name, strcspn(name, " "));
			char buf[2000], *in = (char *)(uintptr_t)texts[i].text, *out = buf;
			size_t left = strlen(in), room = sizeof buf - 1;
			iconv_t cd = iconv_open(c->iconv, "UTF-8");
			struct doc d = { 0 };
			struct err e = { 0 };
			CHECK(iconv(cd, &in, &left, &out, &room) != (size_t)-1);
			iconv_close(cd);
			CHECK_MSG(!doc_decode("x.txt", buf, (size_t)(out - buf), &d, &e), "%s: %s", c->name, e.msg);
			CHECK_STR(d.encoding ? d.encoding : "none", c->name);
			CHECK_STR(str_text(&d.text), texts[i].text);
			CHECK_MSG(d.notices.p && strstr(d.notices.p, "a guess"), "%s: no note", c->name);
			doc_free(&d);
		}
}

/* The encoding is recognised in spite of a few invalid characters and English words. */
TEST(guessed_encodings_of_mixed_texts)
{
	/* "Reference manual. 1 Setup. 1.1 Installing packages ... 12. 1.2 Configuration files ... 15": few frequent
	 * letters */
	static const char gbk[] =
		"Debian \xb2\xce\xbf\xbc\xca\xd6\xb2\xe1\n1 \xc8\xed\xbc\xfe\xb0\xfc .... 1\n1.1 \xb0\xb2\xd7\xb0\xc8\xed\xbc\xfe\xb0\xfc .... 12\n"
		"1.2 \xc5\xe4\xd6\xc3\xce\xc4\xbc\xfe .... 15\n1.3 \xd4\xda\xcf\xdf\xb0\xef\xd6\xfa .... 17\n1.4 \xd3\xc3\xbb\xa7 .... 20\n";
	static const char big5[] = "\xa5_\xa8\xca\xacO\xa4\xa4\xb0\xea\xaa\xba\xad\xba\xb3\xa3\xa1"
				   "A\xacO\xa5\xfe\xb0\xea\xaa\xba\xac"
				   "F\xaav\xa4\xa4\xa4\xdf\xa9M\xa4\xe5\xa4\xc6\xa4\xa4\xa4\xdf\xa1"
				   "C\n";
	static const char koi8[] =
		"Run make install, then set LD_LIBRARY_PATH in the environment of the program and start it: \xd7\xd3\xc5 \xd3\xde\xc1\xd3\xd4\xcc\xc9\xd7\xd9\xc5\n";
	struct str s = { 0 };
	struct doc d;

	for (int i = 0; i < 30; i++)
		str_adds(&s, big5);
	str_adds(&s, "\xf9\xfe\xf9\xfe\xff\xff|\n");
	text("x.txt", s.p, &d);
	CHECK_STR(d.encoding, "Big5");
	doc_free(&d);
	str_clear(&s);
	for (int i = 0; i < 20; i++)
		str_adds(&s, gbk);
	text("x.txt", s.p, &d);
	CHECK_STR(d.encoding, "GB18030");
	doc_free(&d);
	str_clear(&s);
	for (int i = 0; i < 20; i++)
		str_adds(&s, koi8);
	text("x.txt", s.p, &d);
	CHECK_STR(d.encoding, "KOI8-R");
	doc_free(&d);
	str_free(&s);
}

TEST(types)
{
	/* clang-format off */
	static const struct { const char *name, *mime, *bytes; enum doc_type type; } files[] = {
		{"a", NULL, "<!DOCTYPE html><p>", DOC_HTML}, {"a", NULL, "\n<!-- x --><HTML>", DOC_HTML}, {"a.md", NULL, "<html>", DOC_MARKDOWN},
		{"a.htm", NULL, "<p>x", DOC_HTML}, {"a.htm", NULL, "no tags", DOC_TEXT}, {"a", "text/html", "<p>x", DOC_HTML}, {"a", NULL, "<p>x", DOC_TEXT},
		{"a.xml", NULL, "<?xml version='1.0'?><html>", DOC_SOURCE}, {"a", NULL, "%PDF-1.4", DOC_PDF}, {"a.txt", NULL, "\n%PDF-1.4", DOC_PDF},
		{"a.txt", NULL, "about %PDF-1.4", DOC_TEXT}, {"a", NULL, "about %PDF-1.4\n1 0 objects", DOC_TEXT}, {"a.md", NULL, "x\n%PDF-1.4\n1 0 obj", DOC_MARKDOWN},
		{"a", NULL, "@PJL JOB\n%PDF-1.4\n%x\n1 0 obj <<", DOC_PDF}, {"a.PDF", NULL, "x%PDF-", DOC_PDF}, {"a", NULL, "\x1f\x8b\x08", DOC_GZIP}, {"a.PY", NULL, "x", DOC_SOURCE}, {"a", NULL, "PK\3\4", DOC_TEXT},
		{"a.ipynb", NULL, "{}", DOC_NOTEBOOK}, {"a", NULL, "{\"cells\": [{\"cell_type\": 1}], \"nbformat\": 4}", DOC_NOTEBOOK}, {"a.json", NULL, "{\"cells\": []}", DOC_SOURCE},
		{"a.fb2", NULL, "x", DOC_FB2}, {"a", NULL, "<?xml version='1.0'?><FictionBook>", DOC_FB2}, {"a", NULL, "PK\3\4 xl/workbook.xml word/document", DOC_XLSX},
		{"a.docx", NULL, "PK\3\4 ppt/presentation.xml xl/workbook.xml", DOC_PPTX}, {"a", NULL, "PK\3\4 word/document.xml xl/workbook.xml", DOC_DOCX},
		{"a.vtt", NULL, "x", DOC_SUBTITLES}, {"a", NULL, "WEBVTT\n", DOC_SUBTITLES}, {"a.txt", NULL, "\x89PNG\r\n\x1a\n", DOC_PICTURE}, {"a", NULL, "\xff\xd8\xff", DOC_PICTURE}, {"a.eml", NULL, "x", DOC_MAIL},
		{"a", NULL, "Subject: x\nFrom: a\nMIME-Version: 1.0\n\n", DOC_MAIL}, {"a.txt", NULL, "Subject: x\nFrom: a\nMIME-Version: 1.0\n\n", DOC_TEXT},
	};
	/* clang-format on */

	for (size_t i = 0; i < LEN(files); i++)
		CHECK_MSG(doc_type_of(files[i].name, files[i].mime, files[i].bytes, strlen(files[i].bytes)) ==
		                  files[i].type,
		          "%s \"%s\"", files[i].name, files[i].bytes);
	for (int i = 0; i < DOC_TYPES; i++)
		CHECK_MSG(doc_type_name[i] && *doc_type_name[i], "type %d has no name", i);
}

TEST(declared_encodings)
{
	static const struct {
		const char *html, *name;
	} pages[] = {
		{ "<meta charset=utf-8>", "UTF-8" },
		{ "<META HTTP-EQUIV='Content-Type' CONTENT='text/html; charset=ISO-8859-1'>", "Windows-1252" },
		{ "<?xml version='1.0' encoding=\"Shift_JIS\"?><html>", "Shift_JIS" },
		{ "<meta name=x><meta charset = 'koi8-r' >", "KOI8-R" },
		{ "<meta charset=utf-7>", NULL },
		{ "<meta charset", NULL },
		{ "charset=utf-8", NULL },
		{ "<meta charset=''>", NULL },
	};
	struct doc d;

	for (size_t i = 0; i < LEN(pages); i++) {
		const struct charset *c = charset_declared(pages[i].html, strlen(pages[i].html));
		CHECK_STR(c ? c->name : "none", pages[i].name ? pages[i].name : "none");
	}
	text("x.html", "<html><meta charset=windows-1251><p>\xcf\xf0\xe8\xe2\xe5\xf2", &d);
	CHECK_STR(d.text.p, "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82");
	CHECK_STR(d.encoding, "Windows-1251");
	doc_free(&d);
	/* Valid UTF-8 is taken for UTF-8, even if another encoding is declared. */
	text("x.html", "<meta charset=ISO-8859-1><p>\xce\xb1\xce\xb2\xce\xb3", &d);
	CHECK_STR(d.text.p, "\xce\xb1\xce\xb2\xce\xb3");
	doc_free(&d);
	/* the declared encoding, GB 2312, does not have these bytes */
	text("x.html", "<meta charset=gb2312><p>\xe6\xa1\xa5\xe6\xa2\x81\xe6\xa1\xa5", &d);
	CHECK_STR(d.text.p, "\xe6\xa1\xa5\xe6\xa2\x81\xe6\xa1\xa5");
	CHECK_MSG(!d.notices.n, "unexpected note \"%s\"", d.notices.p);
	doc_free(&d);
	text("x.html", "<meta charset=big5><p>\xb4\xfa\xb8\xd5", &d);
	CHECK_STR(d.text.p, "\xe6\xb8\xac\xe8\xa9\xa6");
	doc_free(&d);
	/* iconv() holds back a letter that a combining mark could follow. */
	text("x.html", "<meta charset=windows-1255><p>\xf9\xec\xe5", &d);
	CHECK_STR(d.text.p, "\xd7\xa9\xd7\x9c\xd7\x95");
	doc_free(&d);
}
