/* tests/sessions/t_import_odf.c - OpenDocument: texts, sheets and slides, packed and as one XML file. */
#include "sessions/import/import_private.h"
#include "tests/lib/test.h"
#include "tests/lib/zip.h"

#include <stdlib.h>
#include <string.h>

#define ROOT                                                                                                                                  \
	"<?xml version='1.0'?><office:document xmlns:office='o' xmlns:text='t' xmlns:style='s' xmlns:fo='f' xmlns:table='ta' xmlns:draw='d' " \
	"xmlns:xlink='x' xmlns:svg='v' xmlns:meta='m' xmlns:presentation='p' office:mimetype='application/vnd.oasis.opendocument.text'>"
#define STYLES                                                                                                                                                \
	"<office:meta><meta:document-statistic meta:page-count='3'/></office:meta><office:styles>"                                                            \
	"<style:style style:name='Title' style:family='paragraph'/>"                                                                                          \
	"<style:style style:name='Pre' style:family='paragraph' style:parent-style-name='Preformatted_20_Text'/>"                                             \
	"<style:style style:name='Preformatted_20_Text' style:family='paragraph'/>"                                                                           \
	"<style:style style:name='Hid' style:family='paragraph'><style:text-properties text:display='none'/></style:style>"                                   \
	"<style:style style:name='hid' style:family='text'><style:text-properties text:display='none'/></style:style>"                                        \
	"<style:style style:name='sup' style:family='text'><style:text-properties style:text-position='super 58%'/></style:style>"                            \
	"<style:style style:name='Brk' style:family='paragraph'><style:paragraph-properties fo:break-before='page'/></style:style>"                           \
	"<style:style style:name='NoBrk' style:family='paragraph' style:parent-style-name='Brk'><style:paragraph-properties fo:break-before='auto'/>"         \
	"</style:style><style:style style:name='New' style:family='paragraph'><style:paragraph-properties fo:break-before='page' style:page-number='7'/>"     \
	"</style:style><text:list-style style:name='L1'><text:list-level-style-number text:level='1' style:num-suffix=')' style:num-format='a'/>"             \
	"<text:list-level-style-number text:level='2' text:display-levels='2' style:num-suffix='.' style:num-format='1' text:start-value='3'/>"               \
	"<text:list-level-style-bullet text:level='3'/></text:list-style><text:list-style style:name='S'><text:list-level-style-number text:level='1' "       \
	"style:num-format='A' style:num-letter-sync='true'/></text:list-style><text:list-style style:name='B'><text:list-level-style-bullet text:level='1'/>" \
	"</text:list-style></office:styles>"
#define BODY(kind, body)                                                                                               \
	ROOT STYLES "<office:body><office:" kind ">" body "</office:" kind "></office:body></office:document>"
#define P(text)            "<text:p>" text "</text:p>"
#define SP(style, text)    "<text:p text:style-name='" style "'>" text "</text:p>"
#define H(level, text)     "<text:h text:outline-level='" level "'>" text "</text:h>"
#define LIST(style, items) "<text:list text:style-name='" style "'>" items "</text:list>"
#define SUB(items)         "<text:list>" items "</text:list>"
#define I(text)            "<text:list-item>" text "</text:list-item>"
#define NOTE(text)                                                                                                     \
	"<text:note><text:note-citation>7</text:note-citation><text:note-body>" text "</text:note-body></text:note>"

static void read_odf(const char *flat, struct doc *d)
{
	struct err e = { 0 };

	*d = (struct doc){ 0 };
	CHECK_MSG(!odf_import(flat, strlen(flat), d, &e), "%s", e.msg);
}

static void becomes(const char *flat, const char *want)
{
	struct doc d;

	read_odf(flat, &d);
	CHECK_STR(str_text(&d.text), want);
	doc_free(&d);
}

#define TEXT(body, want) becomes(BODY("text", body), want)

TEST(paragraphs)
{
	TEXT(P("one") P("two <text:span>in a  span</text:span>\n  and more"), "one\n\ntwo in a span and more");
	TEXT(P("a<text:tab/>b<text:s text:c='3'/>c<text:line-break/>d<text:line-break/><text:line-break/>e"),
	     "a b c\nd\n\ne");
	TEXT(P("10<text:span text:style-name='sup'>3</text:span> and x<text:span text:style-name='sup'>th</text:span>"),
	     "10^3 and xth");
	TEXT(P("x<text:span text:style-name='sup'>2</text:span><text:span text:style-name='sup'>3</text:span>"),
	     "x^23");
	TEXT(P("<text:title>The title</text:title> <text:date>1 May</text:date>") P("&lt;b&gt; &#233;"),
	     "The title 1 May\n\n<b> \xc3\xa9");
	TEXT("<text:table-of-content><text:table-of-content-source><text:index-title-template>X</text:index-title-template></text:table-of-content-source>"
	     "<text:index-body>" P("Chapter 1<text:tab/>3") "</text:index-body></text:table-of-content>" P("text"),
	     "Chapter 1 3\n\ntext");
	TEXT(P("<text:ruby><text:ruby-base>\xe6\xbc\xa2</text:ruby-base><text:ruby-text>kan</text:ruby-text></text:ruby>"),
	     "\xe6\xbc\xa2");
}

/* In program text blanks are kept, and each paragraph is a line. */
TEST(kept_white_space)
{
	TEXT(P("text") SP("Pre", "if x:") SP("Pre", "<text:s text:c='4'/>return   1") SP("Pre", "")
	             SP("Pre", " end<text:line-break/> <text:s text:c='2'/>z") P("more"),
	     "text\n\nif x:\n    return 1\n\nend\n   z\n\nmore");
}

TEST(hidden_and_deleted_text)
{
	struct doc d;

	read_odf(
		BODY("text",
	             "<text:tracked-changes><text:changed-region><text:deletion>" P("gone") "</text:deletion></text:changed-region></text:tracked-changes>" P(
			     "a<text:span text:style-name='hid'>hid<text:span>den</text:span></text:span>b<office:annotation>" P(
				     "comment") "</office:annotation>")
	                     SP("Hid", "12345") "<text:section text:display='none'>" P(
				     "678") "</text:section><text:section>" P("end") "</text:section>"),
		&d);
	CHECK_STR(d.text.p, "ab\n\nend");
	CHECK_STR(d.notices.p, "1 comment left out\n14 hidden characters were left out\n");
	doc_free(&d);
}

TEST(lists)
{
	TEXT(P("x") LIST(
		     "L1",
		     I(P("one") P("goes on"))
			     I(P("two") SUB(I(P("deep") SUB(I(P("deeper")))) I(P("deep 2")))) "<text:list-header>" P(
				     "no item") "</text:list-header>"
						"<text:list-item text:start-value='9'>" P("nine") "</text:list-item>")
	             P("y"),
	     "x\n\na) one\n  goes on\nb) two\n  b.3. deep\n    - deeper\n  b.4. deep 2\n  no item\ni) nine\n\ny");
	/* A list restarts its numbers, unless it says that it continues. */
	TEXT(LIST("L1", I(P("1"))) P("-") LIST("L1", I(P("1")))
	             P("-") "<text:list text:style-name='L1' text:continue-numbering='true'>" I(P("2")) "</text:list>",
	     "a) 1\n\n-\n\na) 1\n\n-\n\nb) 2");
	TEXT(LIST("L1", I(P("one")) I(P("")) I(P("three"))), "a) one\n\nc) three");
	/* A list keeps its own count, even if another list of the same style stands between its parts, or in a note
	 * inside it. */
	TEXT("<text:list xml:id='one' text:style-name='L1'>" I(P("1")) I(P("2")) "</text:list>" LIST("L1", I(P("1")))
	             P("-") "<text:list xml:id='two' text:continue-list='one' text:style-name='L1'>" I(P("3")) "</text:list>" P("-") "<text:list text:continue-list='one' text:style-name='L1'>" I(
			     P("4")) "</text:list>" P("-") "<text:list text:continue-list='two' text:style-name='L1'>" I(P("5")) "</text:list>" P("-") "<text:list text:continue-list='none' text:style-name='L1'>" I(P("6")) "</text:list>",
	     "a) 1\nb) 2\na) 1\n\n-\n\nc) 3\n\n-\n\nd) 4\n\n-\n\ne) 5\n\n-\n\nf) 6");
	TEXT(LIST("L1", I(P("1" NOTE(LIST("L1", I(P("in")) I(P("a note")))))) I(P("2"))),
	     "a) 1[1]\nb) 2\n\n[1] a) in\nb) a note");
	/* After label z come aa, bb and so on. */
	TEXT(LIST("L1", "<text:list-item text:start-value='26'>" P("z") "</text:list-item>" I(
				P("27")) "<text:list-item text:start-value='703'>" P("703") "</text:list-item>"),
	     "z) z\naa) 27\naaa) 703");
	TEXT(LIST("S", "<text:list-item text:start-value='28'>" P("28") "</text:list-item>"), "BB 28");
	TEXT(LIST("B", I(P("x"))) LIST("unknown", I(P("y"))) SUB(I("")), "- x\n- y");
}

TEST(headings)
{
	static const char outline[] = ROOT
		"<office:styles><text:outline-style><text:outline-level-style text:level='1' style:num-format='1' style:num-prefix='Part '/>"
		"<text:outline-level-style text:level='2' style:num-format='1' text:display-levels='2'/></text:outline-style><style:style style:name='Title' "
		"style:family='paragraph'/></office:styles><office:body><office:text>" SP("Title", "Top") H(
			"1", "One") H("2", "Two") P("text") H("2", "")
			H("2",
	                  "Three") "<text:h text:outline-level='1' text:is-list-header='true'>Plain</text:h>" H("1",
	                                                                                                        "Four")
				H("9", "Deep") "</office:text></office:body></office:document>";
	struct doc d;

	read_odf(outline, &d);
	CHECK_STR(d.text.p, "Top\n\nPart 1 One\n\n1.1 Two\n\ntext\n\n1.3 Three\n\nPlain\n\nPart 2 Four\n\nDeep");
	CHECK_INT(d.n_mark, 7);
	CHECK_STR(d.mark[2].text, "1.1 Two");
	CHECK_INT(d.mark[2].level, 2);
	CHECK_INT(d.mark[6].level, 6);
	doc_free(&d);
	/* A heading can be an item of a list. */
	TEXT(LIST("L1", I(H("1", "A") SUB(I(H("2", "B"))))) P("c"), "a) A\n\na.3. B\n\nc");
}

static void pages_are(const char *flat, const char *want)
{
	struct str s = { 0 };
	struct doc d;

	read_odf(flat, &d);
	str_adds(&s, "");
	for (size_t i = 0; i < d.n_mark; i++)
		if (d.mark[i].kind == MARK_PAGE)
			str_addf(&s, "%s@%.1s ", d.mark[i].text, d.text.p + d.mark[i].at);
	CHECK_STR(s.p, want);
	str_free(&s);
	doc_free(&d);
}

TEST(pages)
{
	static const char many[] = "Long text without a break. ";
	struct str s = { 0 };

	pages_are(BODY("text", SP("Brk", "a") P("b<text:soft-page-break/>c") SP("NoBrk", "d") SP("Brk", "e")),
	          "1@a 2@c 3@e ");
	pages_are(BODY("text", SP("New", "a") SP("New", "b") P("<text:soft-page-break/>c")), "7@a 7@b 8@c ");
	/* Incomplete page marks are ignored: the file says that it has three pages, or a page would be too long. */
	pages_are(BODY("text", P("a") "<text:soft-page-break/>" P("b")), "");
	str_adds(&s, ROOT STYLES "<office:body><office:text>" P("a") SP("Brk", "b") "<text:p text:style-name='Brk'>");
	for (int i = 0; i < 400; i++)
		str_adds(&s, many);
	str_adds(&s, "</text:p></office:text></office:body></office:document>");
	pages_are(s.p, "");
	str_free(&s);
}

TEST(notes_and_frames)
{
	TEXT(P("a" NOTE(P("first") P("goes on")) " b")
	             LIST("B", I(P("c" NOTE(P("second") LIST("B", I(P("item")))) "."))) P("d"),
	     "a[1] b\n\n- c[2].\n\nd\n\n[1] first\n\ngoes on\n\n[2] second\n\n- item");
	TEXT(P("before<draw:frame><draw:text-box>" P("box") P(
		     "two") "</draw:text-box><svg:title>alt</svg:title><svg:desc>alt</svg:desc></draw:frame> after"
	                    "<draw:frame><draw:image><office:binary-data>iVBORw0KGgo</office:binary-data></draw:image></draw:frame>"),
	     "before\n\nbox\n\ntwo\nafter");
	TEXT(P("x<draw:custom-shape><svg:title>alt</svg:title>" P("shape") "</draw:custom-shape>y"), "x\n\nshape\ny");
	TEXT(P("x" NOTE(P("<text:s/>") P("n"))), "x[1]\n\n[1] n");
	/* In a flat file the end of a chart's body is not the end of the document's body. */
	TEXT(P("a<draw:frame><draw:object><office:document><office:body><office:chart>" P(
		     "no") "</office:chart></office:body></office:document></draw:object></draw:frame>") P("b"),
	     "a\n\nb");
}

#define C(text)    "<table:table-cell>" P(text) "</table:table-cell>"
#define ROW(cells) "<table:table-row>" cells "</table:table-row>"

TEST(tables)
{
	TEXT("<table:table><table:table-header-rows>" ROW(C("a") C("b")) "</table:table-header-rows>" ROW(
		     C("1") "<table:table-cell>" P("2") P("3") "</table:table-cell>")
	             ROW("<table:table-cell table:number-columns-spanned='2'>" P(
			     "wide") "</table:table-cell><table:covered-table-cell/>") "</table:table>" P("end"),
	     "a | b\n1 | 2 3\nwide\n\nend");
	TEXT("<table:table>" ROW("<table:table-cell>" P("out") "<table:table>" ROW(
		     C("in") C("in 2")) "</table:table></table:table-cell>" C("b")) "</table:table>",
	     "out\n\nin | in 2\n\nb");
}

TEST(sheets)
{
	static const char sheets[] = BODY(
		"spreadsheet",
		"<table:table table:name='Empty'>" ROW("<table:table-cell table:number-columns-repeated='16384'/>") "</table:table><table:table table:name='Costs'>" ROW(
			C("name") "<table:table-cell table:number-columns-repeated='3'>" P(
				"x") "</table:table-cell>") "<table:table-row table:number-rows-repeated='2'>" C("same")
			C("0") "</table:table-row>" ROW("<table:table-cell table:number-columns-repeated='2'/>" C("third") "<table:table-cell table:number-columns-repeated='1000'/>") "<table:table-row table:number-rows-repeated='1048000'><table:table-cell/></table:table-row>" ROW(
				C("sum") C("9")) "</table:table>");
	static const char many[] =
		BODY("spreadsheet",
	             "<table:table table:name='t'><table:table-row table:number-rows-repeated='900000'>" C("a")
	                     C("b") "</table:table-row></table:table>");
	struct doc d;

	becomes(sheets, "Costs\n\nname | x | x | x\nsame | 0\nsame | 0\n |  | third\n\nsum | 9");
	read_odf(many, &d);
	CHECK_INT(d.text.n, 3 + 1000 * 6 - 1);
	CHECK_STR(d.notices.p, "900000 equal rows of a table are shown 1000 times\n");
	CHECK_STR(d.mark[0].text, "t");
	doc_free(&d);
}

TEST(slides)
{
#define FRAME(class, text)                                                                                             \
	"<draw:frame presentation:class='" class "'><draw:text-box>" text "</draw:text-box></draw:frame>"
	static const char slides[] = BODY(
		"presentation",
		"<draw:page>" FRAME("title", P("First")) FRAME(
			"outline", LIST("B", I(P("a")) I(P("b")))) "<presentation:notes>" FRAME("page-number", P("1"))
			FRAME("notes", P("Say this.")) "</presentation:notes></draw:page><draw:page/><draw:page>" FRAME(
				"title", P("Third")) FRAME("subtitle", P("sub")) "</draw:page>");
	struct doc d;

	read_odf(slides, &d);
	CHECK_STR(d.text.p, "First\n\n- a\n- b\n\nNotes: Say this.\n\nThird\n\nsub");
	CHECK_INT(d.pages, 3);
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, 0)->text, "First");
	doc_mark_paragraphs(&d);
	CHECK_STR(doc_mark_at(&d, MARK_PAGE, d.text.n - 1)->text, "3");
	doc_free(&d);
}

/* ---- packages ---- */

#define MIME "mimetype", "application/vnd.oasis.opendocument.text"

TEST(packages)
{
	static const char content[] = ROOT
		"<office:body><office:text><text:p>y = <draw:frame><draw:object xlink:href='./Object 1'/></draw:frame>.</text:p>"
		"<text:p text:style-name='M'>low</text:p></office:text></office:body></office:document>";
	static const char formula[] =
		"<?xml version='1.0'?><math xmlns='http://www.w3.org/1998/Math/MathML'><semantics><mrow><mfrac><mn>1</mn><mrow><mi>a</mi>"
		"<mo>+</mo><mi>b</mi></mrow></mfrac></mrow>\n<annotation encoding='StarMath 5.0'>1 over {a+b}</annotation></semantics>\n</math>\n";
	static const char styles[] = ROOT
		"<office:styles><style:style style:name='M' style:family='paragraph' style:default-outline-level='2'/></office:styles></office:document>";
	static const struct part whole[] = { { MIME },
		                             { "META-INF/manifest.xml", "<manifest/>" },
		                             { "content.xml", content },
		                             { "styles.xml", styles },
		                             { "Object 1/content.xml", formula } };
	static const struct part locked[] = { { MIME },
		                              { "META-INF/manifest.xml",
		                                "<m:manifest xmlns:m='m'><m:encryption-data/></m:manifest>" },
		                              { "content.xml", "?" } };
	static const struct part bare[] = { { MIME }, { "styles.xml", styles } };
	static const struct part cut[] = {
		{ MIME }, { "content.xml", ROOT "<office:body><office:text>" P("whole") "<text:p>half" }
	};
	static const struct part empty[] = {
		{ MIME }, { "content.xml", ROOT "<office:body><office:text/></office:body></office:document>" }
	};
	static const char base[] = "PK\3\4                          mimetypeapplication/vnd.oasis.opendocument.base",
			  stored[] = "PK\3\4                          mimetype"
				     "application/vnd.oasis.opendocument.text";
	static const struct {
		const struct part *p;
		size_t n;
		const char *why;
	} refused[] = {
		{ locked, 3, "is encrypted: its text cannot be read without the password" },
		{ bare, 2, "is damaged: it lacks 'content.xml'" },
		{ empty, 2, "holds no text" },
	};
	struct err e = { 0 };
	struct doc d = { 0 };
	size_t n;
	char *p = zip(whole, 5, &n);

	CHECK_INT(doc_type_of("a", NULL, p, n), DOC_ODF);
	CHECK_MSG(!doc_decode("a.odt", p, n, &d, &e), "%s", e.msg);
	CHECK_STR(d.text.p, "y = 1/(a+b).\n\nlow");
	CHECK_INT(d.type, DOC_ODF);
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, 14)->text, "low");
	doc_free(&d);
	for (size_t i = 0; i < LEN(refused); i++) {
		p = zip(refused[i].p, refused[i].n, &n);
		d = (struct doc){ 0 };
		CHECK(odf_import(p, n, &d, &e) < 0);
		CHECK_STR(e.msg, refused[i].why);
		doc_free(&d);
	}
	p = zip(cut, 2, &n);
	CHECK_MSG(!odf_import(p, n, &d, &e), "%s", e.msg);
	CHECK(!strncmp(d.text.p, "whole", 5) && strstr(d.notices.p, "'content.xml' is not well-formed XML"));
	doc_free(&d);
	CHECK_INT(doc_type_of("a", NULL, stored, sizeof stored - 1), DOC_ODF);
	CHECK(doc_decode("a.odb", base, sizeof base - 1, &d, &e) < 0);
	CHECK_STR(e.msg, "document 'a.odb' is an OpenDocument formula, chart or database, not a text");
}

TEST(cells_with_values_alone)
{
#define V(attributes) "<table:table-cell " attributes "/>"
	becomes(BODY("spreadsheet",
	             "<table:table table:name='Wood'><table:table-row>" V("office:value-type='string' office:string-value='Pine'") V(
			     "office:value-type='float' office:value='48.2'") V("")
	                     V("office:value-type='percentage' office:value='0.125'") "</table:table-row><table:table-row>" V(
				     "office:value-type='date' office:date-value='2026-03-02'")
	                             V("office:value-type='boolean' office:boolean-value='true' table:number-columns-repeated='2'") "<table:table-cell office:value-type='float' office:value='3.14159'>" P(
					     "3.14") "</table:table-cell></table:table-row></table:table>"),
	        "Wood\n\nPine | 48.2 |  | 12.5%\n2026-03-02 | true | true | 3.14");
}

TEST(comments_are_counted)
{
	struct doc d;

	read_odf(BODY("text", P("a<office:annotation>" P("x") "</office:annotation>b")), &d);
	CHECK_STR(d.text.p, "ab");
	CHECK_STR(str_text(&d.notices), "1 comment left out\n");
	doc_free(&d);
}

TEST(one_xml_file)
{
	struct doc d = { 0 };
	struct err e = { 0 };

	CHECK_MSG(!doc_decode("a.fodt", BODY("text", P("flat")), strlen(BODY("text", P("flat"))), &d, &e), "%s", e.msg);
	CHECK_STR(d.text.p, "flat");
	CHECK_INT(d.type, DOC_ODF);
	doc_free(&d);
}
