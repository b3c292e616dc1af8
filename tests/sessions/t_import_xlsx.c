/* tests/sessions/t_import_xlsx.c - Excel workbooks: values and their formats, places of cells, sheets, limits. */
#include "sessions/import/xlsx.h"
#include "tests/lib/cut_short.h"
#include "tests/lib/test.h"
#include "tests/lib/zip.h"

#include <stdlib.h>
#include <string.h>

#define RELS(body) "<Relationships>" body "</Relationships>"
#define REL(id, type, target)                                                                                          \
	"<Relationship Id='" id "' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/" type    \
	"' Target='" target "'/>"
#define SHEETS(body) "<workbook xmlns:r='r'><sheets>" body "</sheets></workbook>"
#define ROWS(body)   "<worksheet><sheetData>" body "</sheetData></worksheet>"
#define C(ref, v)    "<c r='" ref "'><v>" v "</v></c>"
#define T(ref, text) "<c r='" ref "' t='inlineStr'><is><t>" text "</t></is></c>"

static const char strings[] =
	"<sst><si><t>Pump</t></si><si><r><t>ra</t></r><r><rPr/><t xml:space='preserve'>in </t></r><rPh><t>x</t></rPh><r><t>gauge</t></r></si>"
	"<si><t>a_x000D_\nb _x00e9_x _x12</t></si><si/></sst>";
static const char styles[] =
	"<styleSheet><numFmts><numFmt numFmtId='164' formatCode='dd/mm/yyyy\\ hh:mm'/><numFmt numFmtId='165' formatCode='[h]:mm'/>"
	"<numFmt numFmtId='166' formatCode='[Red]#,##0.00\\ \"days\"'/><numFmt numFmtId='167' formatCode='h:mm AM/PM'/></numFmts>"
	"<cellStyleXfs><xf numFmtId='9'/></cellStyleXfs><cellXfs><xf numFmtId='0'/><xf numFmtId='14'/><xf numFmtId='10'/><xf numFmtId='164'/>"
	"<xf numFmtId='165'/><xf numFmtId='166'/><xf numFmtId='167'/></cellXfs></styleSheet>";

static const char two_sheets[] = SHEETS("<sheet name='Sales &amp; more' sheetId='1' r:id='r1'/>"
                                        "<sheet name='Old' state='hidden' sheetId='2' r:id='r2'/>");

/* Convert a workbook of two sheets. second: NULL = the second sheet is missing. */
static int convert(const char *workbook, const char *first, const char *second, struct doc *d, struct err *e)
{
	struct part parts[] = {
		{ "xl/workbook.xml", workbook },
		{ "xl/_rels/workbook.xml.rels",
		  RELS(REL("r1", "worksheet", "worksheets/a.xml") REL("r2", "worksheet", "/xl/worksheets/b%20c.xml")
		               REL("s", "styles", "styles.xml") REL("t", "sharedStrings", "../xl/strings.xml")) },
		{ "xl/styles.xml", styles },
		{ "xl/strings.xml", strings },
		{ "xl/worksheets/a.xml", first },
		{ "xl/worksheets/b c.xml", second }
	};
	size_t n;
	char *p = zip(parts, LEN(parts) - !second, &n);

	*d = (struct doc){ 0 };
	return doc_decode("a.xlsx", p, n, d, e);
}

static void becomes(const char *rows, const char *want, const char *notes)
{
	struct doc d;
	struct err e = { 0 };

	CHECK_MSG(!convert(two_sheets, rows, ROWS(""), &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.text), want);
	CHECK_STR(str_text(&d.notices), notes);
	CHECK_INT(d.type, DOC_XLSX);
	doc_free(&d);
}

#define HEAD "Sales & more\n\n"

TEST(values)
{
	becomes(ROWS("<row r='1'><c r='A1' t='s'><v>0</v></c><c r='B1' t='s'><v>1</v></c><c r='C1' t='s'><v>2</v></c>"
	             "<c r='D1' t='s'><v>3</v></c><c r='E1' t='s'><v>99</v></c></row>"),
	        HEAD "Pump | rain gauge | a b éx _x12", "");
	becomes(ROWS("<row r='1'><c r='A1' t='b'><v>1</v></c><c r='B1' t='b'><v>0</v></c><c r='C1' t='e'><v>#DIV/0!</v></c>"
	             "<c r='D1' t='str'><f>A1&amp;B1</f><v>sum</v></c><c r='E1'><f>1+1</f><v>2</v></c>"
	             "<c r='F1' t='inlineStr'><is><r><t>in</t></r><rPh><t>x</t></rPh><r><t>line</t></r></is></c></row>"),
	        HEAD "TRUE | FALSE | #DIV/0! | sum | 2 | inline", "");
	becomes(ROWS("<row><c><v>0.30000000000000004</v></c><c><v>1E+20</v></c><c><v>-7</v></c><c><v>x</v></c>"
	             "<c t='d'><v>2025-03-01</v></c><c><f>A1</f></c></row>"),
	        HEAD "0.3 | 1e+20 | -7 | x | 2025-03-01",
	        "1 formula has no result in the file and was left out: a spreadsheet program that saves it adds them\n");
}

#define S(style, v) "<c s='" style "'><v>" v "</v></c>"

TEST(number_formats)
{
	becomes(ROWS("<row>" S("1", "45717") S("1", "1") S("1", "59") S("1", "61") S("1", "-3")
	                     S("1", "99999999") "</row>"),
	        HEAD "2025-03-01 | 1900-01-01 | 1900-02-28 | 1900-03-01 | -3 | 99999999", "");
	becomes(ROWS("<row>" S("2", "0.125") S("3", "45717.5868055556") S("3", "45716.9999999") S("4", "1.25")
	                     S("5", "1.5") S("6", "0.5") S("77", "0.5") "</row>"),
	        HEAD "12.5% | 2025-03-01 14:05 | 2025-03-01 00:00 | 30:00:00 | 1.5 | 12:00 | 0.5", "");
}

TEST(looks_of_formats)
{
	static const struct {
		const char *format;
		enum xlsx_look look;
	} all[] = { { "General", XLSX_NUMBER },    { "0.0%;\\d", XLSX_PERCENT },
		    { "mmm", XLSX_DATE },          { "[$-407]d. mmmm yyyy", XLSX_DATE },
		    { "mm:ss", XLSX_TIME },        { "[mm]:ss", XLSX_ELAPSED },
		    { "[Magenta]0", XLSX_NUMBER }, { "0 \"hours", XLSX_NUMBER },
		    { "#,##0_d", XLSX_NUMBER },    { "yyyy-mm-ddThh:mm", XLSX_DATE_TIME },
		    { "\\", XLSX_NUMBER },         { "[", XLSX_NUMBER },
		    { "[]", XLSX_NUMBER },         { "", XLSX_NUMBER } };

	for (size_t i = 0; i < LEN(all); i++)
		CHECK_MSG(xlsx_look_of(all[i].format, strlen(all[i].format)) == all[i].look, "%s", all[i].format);
}

TEST(days_from_1904)
{
	struct doc d;
	struct err e = { 0 };

	CHECK(!convert("<workbook><workbookPr date1904='1'/><sheets><sheet name='A' id='r1'/></sheets></workbook>",
	               ROWS("<row>" S("1", "0") S("1", "44255") "</row>"), NULL, &d, &e));
	CHECK_STR(str_text(&d.text), "A\n\n1904-01-01 | 2025-03-01");
	doc_free(&d);
}

TEST(places)
{
	/* columns without cells are left out, rows without cells separate blocks */
	becomes(ROWS("<row r='3'>" C("C3", "1") C("E3", "2") "</row><row r='4'>" C(
			"E4", "3") "<c r='F4'/><c r='G4'><v> </v></c></row>"
	                           "<row r='9'>" C("C9", "4")
	                                   C("XFD9", "5") "</row><row r='1048576'>" C("XFD1048576", "6") "</row>"),
	        HEAD "1 | 2\n | 3\n\n4 |  | 5\n\n |  | 6", "");
	/* cells without positions, or with impossible ones, are put behind the cell before */
	becomes(ROWS("<row><c><v>1</v></c><c><v>2</v></c></row><row r='0'><c r='XFE2'><v>3</v></c><c r='7'><v>4</v></c></row>"),
	        HEAD "1 | 2\n3 | 4", "");
	becomes(ROWS("<row r='1' hidden='1'>" T("A1", "a\nb  c") T("B1", "x &lt; y") "</row>"), HEAD "a b c | x < y",
	        "1 hidden row is in the text\n");
}

TEST(sheets)
{
	struct doc d;
	struct err e = { 0 };

	CHECK(!convert(two_sheets, ROWS("<row>" C("A1", "1") "</row>"), ROWS("<row>" C("A1", "2") "</row>"), &d, &e));
	CHECK_STR(str_text(&d.text), HEAD "1\n\nOld\n\n2");
	CHECK_STR(str_text(&d.notices), "1 hidden sheet is in the text: 'Old'\n");
	CHECK_INT(d.pages, 2);
	CHECK_STR(doc_mark_at(&d, MARK_PAGE, d.text.n)->text, "Old");
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, 0)->text, "Sales & more");
	doc_free(&d);
	/* A sheet is read only once, a missing one is reported, a damaged one is read up to the damage. */
	CHECK(!convert(SHEETS("<sheet name='A' r:id='r1'/><sheet name='B' r:id='r1'/><sheet name='C' r:id='r2'/>"),
	               "<worksheet><sheetData><row>" C("A1", "1") "</row><row", NULL, &d, &e));
	CHECK_STR(str_text(&d.text), "A\n\n1");
	CHECK_STR(
		str_text(&d.notices),
		"the document is damaged: 'xl/worksheets/a.xml' is not well-formed XML after line 1: the text of this sheet ends there\n"
		"1 sheet is missing in the file\n");
	doc_free(&d);
}

static void refuses(const char *workbook, const char *first, const char *want)
{
	struct doc d;
	struct err e = { 0 };

	CHECK(convert(workbook, first, NULL, &d, &e) < 0);
	CHECK_STR(e.msg, want);
}

TEST(refusals)
{
	refuses(two_sheets, ROWS(""), "document 'a.xlsx' holds no text");
	refuses(two_sheets, "<worksheet",
	        "document 'a.xlsx' is damaged: 'xl/worksheets/a.xml' is not well-formed XML after line 1");
	refuses("<workbook", ROWS(""),
	        "document 'a.xlsx' is damaged: 'xl/workbook.xml' is not well-formed XML after line 1");
	refuses("<!DOCTYPE x [<!ENTITY a 'b'>]><workbook/>", ROWS(""),
	        "document 'a.xlsx' declares entities in 'xl/workbook.xml', which is not allowed there");
}

TEST(charts_and_comments)
{
	struct part parts[] = { { "xl/workbook.xml", SHEETS("<sheet name='A' r:id='1'/>") },
		                { "xl/_rels/workbook.xml.rels", RELS(REL("1", "worksheet", "sheet.xml")) },
		                { "xl/sheet.xml", ROWS("<row>" C("A1", "1") "</row>") },
		                { "xl/charts/chart1.xml", "<c:chartSpace xmlns:c='c'/>" },
		                { "xl/charts/style1.xml", "<a/>" },
		                { "xl/comments1.xml", "<comments><comment/><comment/></comments>" } };
	struct doc d = { 0 };
	struct err e = { 0 };
	size_t n;
	char *p = zip(parts, LEN(parts), &n);

	CHECK_MSG(!xlsx_import(p, n, &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.notices), "1 chart left out\n2 comments left out\n");
	doc_free(&d);
}

#define BOX(paragraphs) "<xdr:sp><xdr:nvSpPr/><xdr:txBody>" paragraphs "</xdr:txBody></xdr:sp>"
#define DRAWING(body)   "<xdr:wsDr xmlns:xdr='x' xmlns:a='a' xmlns:mc='m'>" body "</xdr:wsDr>"
#define LINE(text)      "<a:p><a:r><a:rPr/><a:t>" text "</a:t></a:r></a:p>"

TEST(text_boxes)
{
	static const char drawing[] = DRAWING(
		BOX(LINE("First") "<a:p/>" LINE("second")) "<xdr:pic><a:t>no</a:t></xdr:pic><mc:AlternateContent><mc:Choice>" BOX(
			"<a:p><a:r><a:t>thi</a:t></a:r><a:r><a:t>rd</a:t></a:r><a:br/><a:fld><a:t>4</a:t></a:fld></a:p>") "</mc:Choice><mc:Fallback>" BOX(LINE("no")) "</mc:Fallback></mc:AlternateContent>");
	struct part parts[] = {
		{ "xl/workbook.xml",
		  SHEETS("<sheet name='A' r:id='1'/><sheet name='B' r:id='2'/><sheet name='C' r:id='3'/>") },
		{ "xl/_rels/workbook.xml.rels", RELS(REL("1", "worksheet", "s/1.xml") REL("2", "worksheet", "s/2.xml")
		                                             REL("3", "worksheet", "s/3.xml")) },
		{ "xl/s/1.xml", ROWS("<row>" C("A1", "1") "</row>") },
		{ "xl/s/2.xml", ROWS("") },
		{ "xl/s/3.xml", ROWS("<row>" C("A1", "3") "</row>") },
		{ "xl/s/_rels/1.xml.rels", RELS(REL("1", "drawing", "../d/1.xml")) },
		{ "xl/s/_rels/2.xml.rels", RELS(REL("1", "drawing", "../d/2.xml")) },
		{ "xl/s/_rels/3.xml.rels", RELS(REL("1", "drawing", "../d/1.xml")) },
		{ "xl/d/1.xml", drawing },
		{ "xl/d/2.xml", DRAWING(BOX(LINE("alone"))) }
	};
	struct doc d = { 0 };
	struct err e = { 0 };
	size_t n;
	char *p = zip(parts, LEN(parts), &n);

	/* A sheet may have text boxes and no cells. A drawing is read only once. */
	CHECK_MSG(!xlsx_import(p, n, &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.text), "A\n\n1\n\nFirst\nsecond\n\nthird\n4\n\nB\n\nalone\n\nC\n\n3");
	CHECK_STR(str_text(&d.notices), "");
	CHECK_INT(d.pages, 3);
	doc_free(&d);
	check_cut_short(xlsx_import, p, n);
}

/* A million cells in one column or one row, and cells in a diagonal, take time and text in proportion to the file. */
TEST(many_cells)
{
	struct str rows = { 0 };
	struct doc d;
	struct err e = { 0 };

	str_adds(&rows, "<worksheet><sheetData>");
	for (int i = 1; i <= 3000; i++)
		str_addf(&rows, "<row r='%d'><c r='%c%c%d'><v>1</v></c></row>", i * 300, 'A' + i / 26 % 26,
		         'A' + i % 26, i * 300);
	str_adds(&rows, "<row>");
	for (int i = 0; i < 20000; i++)
		str_adds(&rows, "<c><v>1</v></c>");
	str_adds(&rows, "</row></sheetData></worksheet>");
	CHECK_MSG(!convert(two_sheets, rows.p, NULL, &d, &e), "%s", e.msg);
	CHECK(d.text.n < 3000 * 200 + 20000 * 4);
	doc_free(&d);
	str_free(&rows);
}

TEST(cut_short)
{
	struct part parts[] = { { "xl/workbook.xml", SHEETS("<sheet name='A' r:id='1'/>") },
		                { "xl/_rels/workbook.xml.rels", RELS(REL("1", "worksheet", "sheet.xml")) },
		                { "xl/sheet.xml", ROWS("<row>" C("A1", "1") T("B1", "b") "</row>") } };
	size_t n;
	char *p = zip(parts, LEN(parts), &n);

	check_cut_short(xlsx_import, p, n);
}
