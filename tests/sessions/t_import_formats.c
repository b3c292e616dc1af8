/* tests/sessions/t_import_formats.c - DOCX, PDF text, marks of plain text, encodings and types. */
#include "sessions/import/import_private.h"
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
		"5 \xce\xbcm\xe2\x80\xa2");
	docx_becomes(W("<w:p><w:del>" R("x") "</w:del><w:ins>" R(
			     "new") "</w:ins><w:r><w:instrText>PAGE</w:instrText></w:r></w:p>"),
	             "new");
	docx_becomes(W("<w:p><mc:AlternateContent><mc:Choice>" R("a") "</mc:Choice><mc:Fallback>" R(
			     "b") "</mc:Fallback></mc:AlternateContent></w:p>"),
	             "a");
	docx_becomes(W("<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr>" R("text") "</w:p>"), "text");
	docx_becomes(W("<w:p>" R("&lt;b&gt; &#233;") "</w:p>"), "<b> \xc3\xa9");
}

/* Program text keeps its blanks; two breaks make an empty line. */
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
	/* A text box does not join the heading that it is anchored in, nor does it take its place. */
	docx(W(HEADING(BOX(P("note") HEADING(R("Boxed"))) R("Top")) HEADING(R("Sub") BOX(P("aside"))) P("text")), &d);
	CHECK_STR(d.text.p, "note\n\nBoxed\n\nTop\n\nSub\n\naside\n\ntext");
	CHECK_INT(d.n_mark, 3);
	CHECK_STR(d.mark[0].text, "Boxed");
	CHECK_STR(d.mark[1].text, "Top");
	CHECK_STR(d.mark[2].text, "Sub");
	doc_free(&d);
}

/* Numbers of a style's own list, letters and Roman numerals, several levels, lists that share counters and one that
 * begins anew. */
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

/* What was read before the damage stays, and a note says where it ends. */
TEST(docx_damaged)
{
	struct doc d;

	docx("<w:document xmlns:w='w'><w:body>" P("whole") "<w:p><w:r><w:t>half", &d);
	CHECK(!strncmp(d.text.p, "whole", 5));
	CHECK(strstr(d.notices.p, "'word/document.xml' is not well-formed XML"));
	doc_free(&d);
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

/* A chapter with a stray byte cost the whole book. */
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

/* The C library loads most conversions from files, which the jail does not let a parser open. */
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

/* iconv() lets forms of five bytes pass, which no text has since 2003; one of them cost the whole book. */
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

/* ---- PDF: what pdftotext prints ---- */

static void pdf(const char *printed, struct doc *d)
{
	struct err e = { 0 };

	*d = (struct doc){ 0 };
	CHECK_MSG(!pdf_import(printed, strlen(printed), d, &e), "%s", e.msg);
}

TEST(pdf_pages_heads_and_feet)
{
	struct doc d;

	pdf("Report\n\none\n\n- 1 -\n\f"
	    "Report\n\ntwo\n\n- 2 -\n\f"
	    "\f"
	    "Report\n\nthree\n\n- 3 -\n\f"
	    "Report\n\nReport\nfour\n\n- 4 -\n\f",
	    &d);
	CHECK_STR(d.text.p, "one\n\ntwo\n\nthree\n\nReport\nfour");
	CHECK_INT(d.pages, 5);
	CHECK_STR(d.notices.p, "1 of 5 pages holds no text (scanned?): 3\n");
	doc_mark_paragraphs(&d);
	CHECK_STR(doc_mark_at(&d, MARK_PAGE, 6)->text, "2");
	CHECK_STR(doc_mark_at(&d, MARK_PAGE, 10)->text, "4");
	CHECK_STR(doc_mark_at(&d, MARK_PAGE, 25)->text, "5");
	doc_free(&d);
	pdf("Slide\n\n1\n\f"
	    "Slide\n\n2\n\f"
	    "Slide\n\n3\n\f",
	    &d);
	CHECK_STR(str_text(&d.text), "Slide\n\n1\n\nSlide\n\n2\n\nSlide\n\n3");
	doc_free(&d);
	/* Two pages tell nothing about what recurs. */
	pdf("Head\n\na\n\f"
	    "Head\n\nb\n\f",
	    &d);
	CHECK_STR(d.text.p, "Head\n\na\n\nHead\n\nb");
	doc_free(&d);
}

TEST(pdf_words_and_ligatures)
{
	struct doc d;

	pdf("an exam-\nple of o\xef\xac\x83"
	    "ce\nhyphen\xc2\xad\nated, a well-known and well-\nknown word,\nby Smith-\nJones, 3-\n4\n\f",
	    &d);
	CHECK_STR(d.text.p,
	          "an example of office\nhyphenated, a well-known and well-known word,\nby Smith-Jones, 3-\n4");
	doc_free(&d);
}

TEST(pdf_headings)
{
	struct doc d;

	pdf("Abstract\nWe did it.\n\n1 Introduction\n\nIt is so.\n\n3.1 Long Methods\n\nHow.\n\n2 July 2011\n\nNo heading, that.\n\n4.\n\nResults\n\nYes.\n\f",
	    &d);
	CHECK_INT(d.n_mark, 5);
	CHECK_STR(d.mark[1].text, "Abstract");
	CHECK_STR(d.mark[2].text, "1 Introduction");
	CHECK_STR(d.mark[3].text, "3.1 Long Methods");
	CHECK_INT(d.mark[3].level, 2);
	CHECK_STR(d.mark[4].text, "4. Results");
	doc_free(&d);
}

/* A title of several lines, with and without a gap behind it; a sentence behind a title is none of it. */
/* As pdftotext prints a paper whose numbers stand apart from the titles: with empty lines between, at the end of a
 * paragraph, and not those of a list or of program lines. */
TEST(pdf_headings_apart_from_their_numbers)
{
	static const char text[] =
		"1.\n\nIntroduction\n\nAs programs grow, so do traces.\n2.\n\nNested Trace Tree Formation\n\nFigure 7 shows it.\n2.1\n\nTraces\n\n"
		"A trace is a path.\n\n1.\n\nApples\n\n2.\n\nPears\n\n3.\n\nof the same kind\n\n2\nif (x)\n3\ncontinue;\n\n10.\n\nIt ends like a sentence.\n\nEnd.\n";
	static const struct {
		int level;
		const char *text;
	} want[] = {
		{ 1, "1. Introduction" },
		{ 1, "2. Nested Trace Tree Formation" },
		{ 2, "2.1 Traces" },
	};
	struct doc d = { 0 };
	size_t n = 0;

	str_add(&d.text, text, sizeof text - 1);
	pdf_mark_headings(&d, 0);
	for (size_t i = 0; i < d.n_mark; i++)
		if (d.mark[i].kind == MARK_HEADING && n < 3) {
			CHECK_STR(d.mark[i].text, want[n].text);
			CHECK_INT(d.mark[i].level, want[n].level);
			n++;
		} else if (d.mark[i].kind == MARK_HEADING) {
			CHECK_STR(d.mark[i].text, "no more");
		}
	CHECK_INT(n, 3);
	doc_free(&d);
}

/* A number that is the next one: its title in a line of a paragraph, or elsewhere on the page; not those of a sentence,
 * of no title. */
TEST(pdf_headings_by_the_order_of_their_numbers)
{
	static const char text[] =
		"4. Nested Trees\n\nLoops are nested, and a system needs a way\nto cover them.\n4.1 Nesting Algorithm\nThe key is that each loop has a tree.\n"
		"As Figure 7 and Section\n4.2 The Loop show, that holds.\n4.4 Not Next\nThis is out of order.\n4.2 the loop\nThis is no title.\n"
		"4.2 Blacklisting with Nesting\nNo more is said.\n4.3\n\nThe other column comes first, with this paragraph of some length.\n\nx\n\n"
		"Trace Recording\n\nThe job of the trace recorder is to emit instructions with the same meaning.\n\n4.4\n\nPreemption\n\nThe main reasons are these.\n\n"
		"4.5\n\nThis number has no title at all, and none is found behind it either.\n";
	static const struct {
		int level;
		const char *text;
	} want[] = {
		{ 1, "4. Nested Trees" },     { 2, "4.1 Nesting Algorithm" }, { 2, "4.2 Blacklisting with Nesting" },
		{ 2, "4.3 Trace Recording" }, { 2, "4.4 Preemption" },
	};
	struct doc d = { 0 };
	size_t n = 0;

	str_add(&d.text, text, sizeof text - 1);
	pdf_mark_headings(&d, 0);
	for (size_t i = 0; i < d.n_mark; i++)
		if (d.mark[i].kind == MARK_HEADING) {
			CHECK_STR(d.mark[i].text, n < 5 ? want[n].text : "no more");
			CHECK_INT(d.mark[i].level, n < 5 ? want[n].level : 0);
			n++;
		}
	CHECK_INT(n, 5);
	/* Each is a block of its own. */
	CHECK(strstr(d.text.p, "cover them.\n\n4.1 Nesting Algorithm\n\nThe key") &&
	      strstr(d.text.p, "said.\n\n4.3\n\nThe other"));
	doc_free(&d);
}

TEST(pdf_headings_of_several_lines)
{
	struct doc d;

	pdf("Chapter 1: The Iron Gate and\nthe Winter\nThe household went to bed, and\nthat was that.\n\nChapter 2: The Brass\nTelescope and the Storm\n\nIt rained.\n\n"
	    "Chapter 3: The End\nof It\nIt Ended.\n\n1. Things\n1.1. Parts\n\nText.\n\nMAJOR_VERSION 1\nMINOR_VERSION 2\n\nTable\n\f",
	    &d);
	CHECK_INT(d.n_mark, 7);
	CHECK_STR(d.mark[1].text, "Chapter 1: The Iron Gate and the Winter");
	CHECK_STR(d.mark[2].text, "Chapter 2: The Brass Telescope and the Storm");
	CHECK_STR(d.mark[3].text, "Chapter 3: The End of It");
	CHECK_STR(d.mark[4].text, "1. Things");
	CHECK_STR(d.mark[5].text, "1.1. Parts");
	CHECK_STR(d.mark[6].text, "MAJOR_VERSION 1");
	/* what follows is a block of its own */
	CHECK(strstr(d.text.p, "and\nthe Winter\n\nThe household") && strstr(d.text.p, "of It\n\nIt Ended."));
	doc_free(&d);
}

/* Books of LaTeX: the number of a heading in a block of its own, heads that change from section to section, a table of
 * contents. */
TEST(pdf_headings_of_a_book)
{
	struct doc d;

	pdf("Contents\n\n1.1\n\nFirst things . . . . . . . . . . 3\n\n1.2 Second things . . . . . 4\n\f"
	    "Chapter 1\n\nThe beginning\nIt begins.\n\n1.1\n\nFirst things\n\nText.\n\n2\n\f"
	    "1.1. FIRST THINGS\n\nMore text one.\n\n1.2\n\nSecond things\nText.\n\n3\n\f"
	    "CHAPTER 1. THE BEGINNING\n\n1.2.1\n\n1.2. SECOND THINGS\n\nParts of them\n\nText two.\n\n4\n\f"
	    "1.2. SECOND THINGS\n\nText three.\n\n5\n\f"
	    "CHAPTER 1. THE BEGINNING\n\nText four.\n\n6\n\f"
	    "CHAPTER 1. THE BEGINNING\n\nText five.\n\n7\n\f"
	    "\xd0\x93\xd0\xbb\xd0\xb0\xd0\xb2\xd0\xb0 2\n\n\xd0\x94\xd0\xb0\n\nText.\n\n8\n\f"
	    "\xe7\xac\xac"
	    "3\xe7\xab\xa0 \xe6\x97\xa5\n\nText.\n\n9\n\f",
	    &d);
	doc_mark_paragraphs(&d);
	struct str s = { 0 };
	for (size_t i = 0; i < d.n_mark; i++)
		if (d.mark[i].kind == MARK_HEADING)
			str_addf(&s, "%s|", d.mark[i].text);
	CHECK_STR(s.p, "Contents|Chapter 1 The beginning|1.1 First things|1.2 Second things|1.2.1 Parts of them|"
	               "\xd0\x93\xd0\xbb\xd0\xb0\xd0\xb2\xd0\xb0 2 \xd0\x94\xd0\xb0|\xe7\xac\xac"
	               "3\xe7\xab\xa0 \xe6\x97\xa5|");
	CHECK(!strstr(d.text.p, "FIRST") && !strstr(d.text.p, "SECOND") && !strstr(d.text.p, "BEGINNING"));
	CHECK_STR(strstr(d.text.p, "1.2.1"), strstr(d.text.p, "1.2.1\n\nParts of them\n\nText two."));
	str_free(&s);
	doc_free(&d);
	/* Signs that recur at the top of pages are text. */
	pdf("}\n\na\n\f"
	    "}\n\nb\n\f"
	    "x\n\nc\n\f"
	    "y\n\nd\n\f"
	    "z\n\ne\n\f"
	    "w\n\nf\n\f",
	    &d);
	CHECK(strstr(d.text.p, "}\n\na"));
	doc_free(&d);
}

TEST(pdf_without_text)
{
	struct doc d = { 0 };
	struct err e = { 0 };

	CHECK(pdf_import("\f\n\f \f", 5, &d, &e) < 0);
	CHECK_STR(e.msg, "holds no text on its 3 pages: they are pictures (scanned?); ocrmypdf makes text of them");
	doc_free(&d);
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

TEST(underlined_headings_of_plain_text)
{
	struct doc d;

	text("x.rst",
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

/* Each sentence in the encodings that its language is written in, cut nowhere and at an odd byte. */
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

/* A few characters that the encoding lacks, and English words around: neither hides what a text is written in. */
TEST(guessed_encodings_of_mixed_texts)
{
	/* "Reference manual. 1 Setup. 1.1 Installing packages ... 12. 1.2 Configuration files ... 15": hardly a
	 * frequent letter */
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
		{"a.txt", NULL, "about %PDF-1.4", DOC_TEXT}, {"a", NULL, "\x1f\x8b\x08", DOC_GZIP}, {"a.PY", NULL, "x", DOC_SOURCE}, {"a", NULL, "PK\3\4", DOC_TEXT},
	};
	/* clang-format on */

	for (size_t i = 0; i < LEN(files); i++)
		CHECK_MSG(doc_type_of(files[i].name, files[i].mime, files[i].bytes, strlen(files[i].bytes)) ==
		                  files[i].type,
		          "%s \"%s\"", files[i].name, files[i].bytes);
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
	/* Good UTF-8 under another name. */
	text("x.html", "<meta charset=ISO-8859-1><p>\xce\xb1\xce\xb2\xce\xb3", &d);
	CHECK_STR(d.text.p, "\xce\xb1\xce\xb2\xce\xb3");
	doc_free(&d);
	text("x.html", "<meta charset=gb2312><p>\xe6\xa1\xa5\xe6\xa2\x81\xe6\xa1\xa5", &d); /* fails as GB 2312 */
	CHECK_STR(d.text.p, "\xe6\xa1\xa5\xe6\xa2\x81\xe6\xa1\xa5");
	CHECK_MSG(!d.notices.n, "unexpected note \"%s\"", d.notices.p);
	doc_free(&d);
	text("x.html", "<meta charset=big5><p>\xb4\xfa\xb8\xd5", &d);
	CHECK_STR(d.text.p, "\xe6\xb8\xac\xe8\xa9\xa6");
	doc_free(&d);
	/* iconv() holds a letter back that a combining mark could follow. */
	text("x.html", "<meta charset=windows-1255><p>\xf9\xec\xe5", &d);
	CHECK_STR(d.text.p, "\xd7\xa9\xd7\x9c\xd7\x95");
	doc_free(&d);
}
