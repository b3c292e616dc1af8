/* tests/sessions/t_import_pptx.c - PowerPoint presentations: slides, titles, lists, tables, notes, what is left out. */
#include "sessions/import/import_private.h"
#include "tests/lib/cut_short.h"
#include "tests/lib/test.h"
#include "tests/lib/zip.h"

#include <stdlib.h>
#include <string.h>

#define REL(id, type, target)                                                                                          \
	"<Relationship Id='" id "' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/" type    \
	"' Target='" target "'/>"
#define SLIDES(body)    "<p:presentation xmlns:p='p' xmlns:r='r'><p:sldIdLst>" body "</p:sldIdLst></p:presentation>"
#define SLD(body)       "<p:sld xmlns:p='p' xmlns:a='a' xmlns:mc='mc'><p:cSld><p:spTree>" body "</p:spTree></p:cSld></p:sld>"
#define SHAPE(ph, body) "<p:sp><p:nvSpPr>" ph "</p:nvSpPr><p:txBody>" body "</p:txBody></p:sp>"
#define TITLE           "<p:nvPr><p:ph type='title'/></p:nvPr>"
#define BODY            "<p:nvPr><p:ph idx='1'/></p:nvPr>"
#define R(text)         "<a:r><a:rPr/><a:t>" text "</a:t></a:r>"
#define P(text)         "<a:p>" R(text) "</a:p>"
#define PP(pr, text)    "<a:p><a:pPr " pr "</a:pPr>" R(text) "</a:p>"

/* Convert a presentation whose slides are stored in another order than they are shown. */
static int convert(const char *presentation, const char *first, const char *second, struct doc *d, struct err *e)
{
	struct part parts[] = {
		{ "ppt/presentation.xml", presentation },
		{ "ppt/_rels/presentation.xml.rels",
		  "<Relationships>" REL("r7", "slide", "slides/slide2.xml")
		          REL("r2", "slide", "/ppt/slides/slide1.xml") "</Relationships>" },
		{ "ppt/slides/slide1.xml", second },
		{ "ppt/slides/slide2.xml", first },
		{ "ppt/slides/_rels/slide2.xml.rels",
		  "<Relationships>" REL("r1", "notesSlide", "../notesSlides/n.xml") "</Relationships>" },
		{ "ppt/notesSlides/n.xml", SLD(SHAPE("<p:ph type='sldImg'/>", P("x"))
		                                       SHAPE("<p:ph type='body' idx='1'/>", P("Say it.") P("Twice."))
		                                               SHAPE("<p:ph type='sldNum'/>", P("1"))) },
		{ "ppt/charts/chart1.xml", "<c:chartSpace xmlns:c='c'/>" },
		{ "ppt/diagrams/data1.xml", "<d:x xmlns:d='d'><d:t/></d:x>" },
		{ "ppt/comments/comment1.xml", "<c:cmLst xmlns:c='c'><c:cm/></c:cmLst>" },
	};
	size_t n;
	char *p = zip(parts, LEN(parts), &n);

	*d = (struct doc){ 0 };
	return doc_decode("a.pptx", p, n, d, e);
}

#define TWO      SLIDES("<p:sldId id='256' r:id='r7'/><p:sldId id='257' r:id='r2'/>")
#define LEFT_OUT "1 chart left out\n1 SmartArt diagram left out\n1 comment left out\n"

TEST(slides)
{
	struct doc d;
	struct err e = { 0 };

	CHECK_MSG(!convert(TWO, SLD(SHAPE("", P("free")) SHAPE(TITLE, P("Oil &amp;") P("lamps"))),
	                   "<p:sld xmlns:p='p' show='0'><t>x</t></p:sld>", &d, &e),
	          "%s", e.msg);
	CHECK_STR(str_text(&d.text), "Oil & lamps\n\nfree\n\nNotes: Say it.\n\nTwice.\n\nx");
	CHECK_STR(str_text(&d.notices), "1 hidden slide is in the text\n" LEFT_OUT);
	CHECK_INT(d.type, DOC_PPTX);
	CHECK_INT(d.pages, 2);
	CHECK_STR(doc_mark_at(&d, MARK_PAGE, d.text.n)->text, "2");
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, 0)->text, "Oil & lamps");
	doc_free(&d);
	/* a slide that is listed twice is written once, and a notice reports a missing slide */
	CHECK(!convert(SLIDES("<p:sldId r:id='r2'/><p:sldId r:id='r2'/><p:sldId id='r9'/>"), "<x/>",
	               SLD(SHAPE("", P("a")) "</x>"), &d, &e));
	CHECK_STR(str_text(&d.text), "a");
	CHECK_STR(
		str_text(&d.notices),
		"the document is damaged: 'ppt/slides/slide1.xml' is not well-formed XML after line 1: the text of this slide ends there\n"
		"1 slide is missing in the file\n" LEFT_OUT);
	doc_free(&d);
}

static void becomes(const char *shapes, const char *want)
{
	struct doc d;
	struct err e = { 0 };

	CHECK_MSG(!convert(SLIDES("<p:sldId id='1' r:id='r2'/>"), "<x/>", shapes, &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.text), want);
	doc_free(&d);
}

TEST(lists)
{
	becomes(SLD(SHAPE(BODY, P("one") PP("lvl='1'>", "two") PP("><a:buNone/>", "plain") P("three"))
	                    SHAPE("", P("free") PP("><a:buChar char='x'/>", "sign"))),
	        "- one\n  - two\n\nplain\n\n- three\n\nfree\n\n- sign");
	becomes(SLD(SHAPE(
			BODY,
			"<a:lstStyle><a:lvl1pPr><a:buNone/></a:lvl1pPr><a:lvl2pPr><a:buChar/></a:lvl2pPr></a:lstStyle>" P(
				"a") PP("lvl='1'>", "b")) SHAPE("<p:ph type='subTitle'/>", P("c"))),
	        "a\n\n  - b\n\nc");
#define NUMBER(type) "><a:buAutoNum type='" type "'/>"
	becomes(SLD(SHAPE("", PP(NUMBER("arabicPeriod"), "a") PP("lvl='1'" NUMBER("alphaLcParenR"), "b")
	                              PP("lvl='1'" NUMBER("alphaLcParenR"), "c") PP(NUMBER("arabicPeriod"), "d"))
	                    SHAPE("", PP("><a:buAutoNum type='romanUcParenBoth' startAt='4'/>", "e")
	                                      PP("><a:buAutoNum type='romanUcParenBoth' startAt='4'/>", "f"))),
	        "1. a\n  a) b\n  b) c\n2. d\n\n(IV) e\n(V) f");
	becomes(SLD(SHAPE("", PP("lvl='99'><a:buChar/>", "a") PP("lvl='-5'><a:buChar/>", "b"))),
	        "                - a\n- b");
}

#define PLACE(attributes, styles)                                                                                      \
	SHAPE("<p:nvPr><p:ph " attributes "/></p:nvPr>", "<a:lstStyle>" styles "</a:lstStyle>" P("no"))
#define LEVEL(n, bullet) "<a:lvl" n "pPr>" bullet "</a:lvl" n "pPr>"

/* Lists of a slide inherit bullets from the placeholder of the layout that they fill, else from the master. */
TEST(bullets_of_the_layout)
{
	struct part parts[] = {
		{ "ppt/presentation.xml", SLIDES("<p:sldId r:id='r'/>") },
		{ "ppt/_rels/presentation.xml.rels", "<Relationships>" REL("r", "slide", "s.xml") "</Relationships>" },
		{ "ppt/s.xml",
		  SLD(SHAPE("<p:ph idx='1'/>", P("a") PP("lvl='1'>", "b") PP("lvl='2'>", "c"))
		              SHAPE("<p:ph type='body' idx='2'/>", P("d") PP("><a:buNone/>", "e"))
		                      SHAPE("<p:ph type='body' idx='3'/>", P("f"))
		                              SHAPE("<p:ph type='obj' idx='9'/>", P("g") PP("lvl='1'>", "h"))) },
		{ "ppt/_rels/s.xml.rels", "<Relationships>" REL("l", "slideLayout", "l.xml") "</Relationships>" },
		{ "ppt/l.xml",
		  SLD(PLACE("idx='1'", LEVEL("1", "<a:buNone/>") LEVEL("2", "<a:buChar char='x'/>"))
		              PLACE("type='body' idx='2'", LEVEL("1", "<a:buAutoNum type='arabicPeriod'/>"))
		                      PLACE("idx='3'", LEVEL("1", "<a:buNone/>"))) },
		{ "ppt/_rels/l.xml.rels", "<Relationships>" REL("m", "slideMaster", "m.xml") "</Relationships>" },
		{ "ppt/m.xml",
		  "<p:sldMaster xmlns:p='p' xmlns:a='a'>" PLACE("idx='9'", LEVEL("1", "<a:buChar/>")) "<p:titleStyle>" LEVEL(
			  "2", "<a:buChar/>") "</p:titleStyle><p:bodyStyle>" LEVEL("1", "<a:buNone/>")
		          LEVEL("3", "<a:buNone/>") "</p:bodyStyle></p:sldMaster>" },
	};
	struct doc d = { 0 };
	struct err e = { 0 };
	size_t n;
	char *p = zip(parts, LEN(parts), &n);

	CHECK_MSG(!pptx_import(p, n, &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.text), "a\n\n  - b\n\nc\n\n1. d\n\ne\n\nf\n\ng\n\n  - h");
	doc_free(&d);
}

TEST(tables_and_runs)
{
#define TC(at, text) "<a:tc" at "><a:txBody>" P(text) "</a:txBody></a:tc>"
	becomes(SLD("<p:graphicFrame>" BODY "<a:tbl><a:tr>" TC("", "a") TC(" hMerge='1'", "")
	                    TC("", "b</a:t></a:r></a:p><a:p><a:r><a:t>c") "</a:tr><a:tr>" TC(
				    "", "d") "</a:tr></a:tbl></p:graphicFrame>" SHAPE(BODY, P("e"))),
	        "a |  | b c\nd\n\n- e");
	becomes(SLD(SHAPE(
			"",
			"<a:p>" R(
				"10") "<a:r><a:rPr baseline='30000'/><a:t>3</a:t></a:r><a:br/><a:fld><a:t>x</a:t></a:fld></a:p>")),
	        "10^3\nx");
	becomes(SLD("<mc:AlternateContent><mc:Choice>" SHAPE("", P("new")) "</mc:Choice><mc:Fallback>" SHAPE("", P("old")) "</mc:Fallback></mc:AlternateContent><p:grpSp><p:grpSp>" SHAPE(
			"", P("in")) "</p:grpSp></p:grpSp>" SHAPE("<p:ph type='ftr'/>", P("x"))
	                    SHAPE("<p:ph type='dt'/>", P("x"))),
	        "new\n\nin");
}

TEST(refusals)
{
	struct doc d;
	struct err e = { 0 };

	CHECK(convert(SLIDES(""), "<x/>", "<x/>", &d, &e) < 0);
	CHECK_STR(e.msg, "document 'a.pptx' holds no text");
	CHECK(convert(SLIDES("<p:sldId r:id='r2'/>"), "<x/>", "<x", &d, &e) < 0);
	CHECK_STR(e.msg, "document 'a.pptx' is damaged: 'ppt/slides/slide1.xml' is not well-formed XML after line 1");
}

/* Deeply nested tables and shapes give a text that is not longer than the file. */
TEST(deep_nesting)
{
	struct str s = { 0 };
	struct doc d = { 0 };
	struct err e = { 0 };

	str_adds(&s, "<s><sp><p><t>a</t></p></sp>");
	for (int i = 0; i < 20000; i++)
		str_adds(&s, i & 1 ? "<tbl><tr><tc>" : "<sp><lstStyle><p><t>b</t>");
	CHECK_MSG(!convert(SLIDES("<p:sldId r:id='r2'/>"), "<x/>", s.p, &d, &e), "%s", e.msg);
	CHECK(d.text.n < 20000 * 20);
	doc_free(&d);
	str_free(&s);
}

TEST(cut_short)
{
	struct part parts[] = { { "ppt/presentation.xml", SLIDES("<p:sldId r:id='r'/>") },
		                { "ppt/_rels/presentation.xml.rels", "<R>" REL("r", "slide", "s.xml") "</R>" },
		                { "ppt/s.xml", SLD(SHAPE(TITLE, P("a")) SHAPE(BODY, P("b"))) } };
	size_t n;
	char *p = zip(parts, LEN(parts), &n);

	check_cut_short(pptx_import, p, n);
}
