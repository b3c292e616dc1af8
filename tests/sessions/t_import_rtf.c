/* tests/sessions/t_import_rtf.c - RTF: groups, code pages, paragraphs, lists, tables and notes. */
#include "sessions/import/import_private.h"
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

#define FONTS                                                                                                                                            \
	"{\\fonttbl{\\f0\\froman\\fcharset0 Times;}{\\f1\\fmodern Courier;}{\\f2\\fcharset204 Cyr;}{\\f3\\fcharset128 Mincho;}{\\f4\\fcharset2 Symbol;}" \
	"{\\f5\\fcharset134 Song;}}"
#define STYLES                                                                                                         \
	"{\\stylesheet{\\ql Normal;}{\\s1\\sbasedon0 heading 1;}{\\*\\cs10\\additive Heading 1 Char;}{\\s5 Mine;}{\\s6\\outlinelevel2 Own;}}"
#define RTF(body) "{\\rtf1\\ansi\\ansicpg1252\\deff0" FONTS STYLES "{\\info{\\title No}{\\author No}}" body "}"

static void becomes_noting(const char *rtf, const char *want, const char *note)
{
	struct doc d = { 0 };
	struct err e = { 0 };

	CHECK_MSG(!rtf_import(rtf, strlen(rtf), &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.text), want);
	CHECK_STR(str_text(&d.notices), note);
	doc_free(&d);
}

static void becomes(const char *body, const char *want)
{
	becomes_noting(body, want, "");
}

TEST(paragraphs)
{
	becomes(RTF("one\\par two\n\n and\r\n more\\par\\pard {\\b bold}{\\i  it}\\line next\\line\\line last\\~x\\_y\\-z\\{\\}\\\\"),
	        "one\n\ntwo and more\n\nbold it\nnext\n\nlast x-yz{}\\");
	becomes(RTF("10{\\super 3} \\up6 th\\up0  x\\nosupersub\\emdash \\ldblquote q\\rdblquote\\bullet  a\\tab b"),
	        "10^3 th x—“q”• a b");
	/* TextEdit ends paragraphs with a backslash before the end of the line. */
	becomes("{\\rtf1\\ansi\\ansicpg1252\\cocoartf2639\n{\\fonttbl\\f0\\fswiss\\fcharset0 Helvetica;}\n{\\colortbl;\\red255;}\n\\pard\\f0\\fs24 \\cf0 one\\\ntwo\\\n\\\nthree}",
	        "one\n\ntwo\n\nthree");
	becomes("{\\rtf1 a}}} b{\\b c", "a bc");
}

TEST(code_pages_and_unicode)
{
	becomes(RTF("caf\\'e9 \\'80 {\\f2 \\'cf\\'f0\\'e8\\'e2\\'e5\\'f2} {\\f3 \\'93\\'fa\\'96\\{\\'8c\\'ea \\'83\\\\} {\\f5 \\'c4\\'e3}{\\f4 a\\'b7}"),
	        "caf\xc3\xa9 \xe2\x82\xac Привет 日本語 ソ 你α•");
	becomes(RTF("\\u8364?\\u-10179?\\u-8704? {\\uc2\\u233\\'c3\\'a9}{\\uc0\\u1055\\u1088}x\\u233 {y}\\u0?z"),
	        "€😀 éПрxéyz");
	/* Characters of the font Symbol become text, also those in the private use area; characters of Wingdings become
	 * bullets if they have no text. */
	becomes("{\\rtf1\\deff0{\\fonttbl{\\f0 T;}{\\f1\\fcharset2 Symbol;}{\\f2\\fcharset2 Wingdings;}}5 {\\f1\\u61549\\'3f}m \\f1\\'b1\\'a3\\'b0W \\f2 l}",
	        "5 μm ±≤°Ω •");
	becomes("{\\rtf1\\ansicpg1251{\\fonttbl{\\f0\\fcharset204 A;}{\\f1\\fcharset0 B;}{\\f2\\fcharset128 \\'82\\'6c;}}{\\f1 caf\\'e9}",
	        "café");
	becomes(RTF("{\\upr{??}{\\*\\ud{\\u1046?\\u1047?}}}."), "ЖЗ.");
	becomes("{\\rtf1\\mac{\\fonttbl{\\f0 x;}}\\f0 caf\\'8e}", "café");
	becomes("{\\rtf1\\ansi\\ansicpg1251 \xcf\xf0\xe8}", "При");
}

TEST(what_is_not_shown)
{
	becomes_noting(
		RTF("a{\\v hid}{\\deleted gone}\\v no\\v0 b{\\*\\unknown x{y}}{\\header h}{\\footerl f}{\\pict\\pngblip 89504e47}{\\field{\\*\\fldinst HYPERLINK \"u\"}"
	            "{\\fldrslt link}}{\\*\\bkmkstart m}{\\object{\\objdata 00}{\\result r}}{\\nonshppict{\\pict 00}}{\\xe index}{\\bin5 {{{{{c}"),
		"ablinkrc", "9 hidden characters were left out\n");
	becomes_noting(RTF("{\\deleted gone {\\footnote\\pard\\plain NOTE}} end"), "end",
	               "5 hidden characters were left out\n");
	becomes(RTF("{\\shp{\\*\\shpinst\\shpleft1{\\sp{\\sn shapeType}{\\sv 202}}{\\shptxt box\\par}}{\\shprslt box}}after"),
	        "box\n\nafter");
}

TEST(headings_and_program_text)
{
	struct doc d = { 0 };
	struct err e = { 0 };
	static const char rtf[] = RTF(
		"\\pard\\s1 Top\\par\\pard text\\par\\pard\\s6 Third\\par\\pard\\outlinelevel1 Second\\par\\pard\\s5 plain\\par"
		"\\pard\\f1 if x:\\par     y\\tab z\\par\\par end\\par\\pard\\f0 more");

	CHECK_MSG(!rtf_import(rtf, sizeof rtf - 1, &d, &e), "%s", e.msg);
	CHECK_STR(d.text.p, "Top\n\ntext\n\nThird\n\nSecond\n\nplain\n\nif x:\n    y\tz\n\nend\n\nmore");
	CHECK_INT(d.n_mark, 3);
	CHECK_INT(d.mark[0].level, 1);
	CHECK_STR(d.mark[1].text, "Third");
	CHECK_INT(d.mark[1].level, 3);
	CHECK_INT(d.mark[2].level, 2);
	CHECK_INT(d.pages, 0);
	doc_free(&d);
}

TEST(lists)
{
	becomes(RTF("x\\par{\\listtext\\pard\\plain\\f4 \\'b7\\tab}\\pard\\ls1\\ilvl0 one\\par{\\listtext\\tab 1.a)\\tab}\\pard\\ls1\\ilvl1 deep\\par"
	            "{\\pntext\\f4\\'B7\\tab}{\\*\\pn\\pnlvlblt{\\pntxtb\\'B7}}\\pard two\\par{\\listtext\\tab}\\pard none\\par"),
	        "x\n\n- one\n  1.a) deep\n- two\n\nnone");
	becomes(RTF("{\\listtext \\u1072?)\\tab}\\pard first\\par{\\listtext\\u19968?\\u12289?\\tab}\\pard second"),
	        "а) first\n一、 second");
	becomes(RTF("{\\listtext\\tab 1.\\tab}\\pard one{\\footnote\\pard n}\\par{\\listtext\\tab 2.\\tab}\\pard two"),
	        "1. one[1]\n2. two\n\n[1] n");
	becomes(RTF("{\\listtext\\pard 2.\\tab}\\pard\\s1 Scope\\par\\pard text"), "2. Scope\n\ntext");
}

TEST(tables)
{
	becomes(RTF("a\\par\\trowd\\cellx100\\cellx200\\pard\\intbl 1\\cell 2\\par 3\\cell\\row\\trowd\\pard\\intbl\\cell 4\\cell\\row\\pard end"),
	        "a\n\n1 | 2 3\n | 4\n\nend");
	becomes(RTF("{\\pard\\intbl\\trowd\\cellx1 A\\cell B\\cell\\row}tail"), "A | B\n\ntail");
	becomes(RTF("\\trowd\\pard\\intbl {\\shp{\\*\\shpinst{\\shptxt \\pard BOX\\par}}}a\\cell b\\cell\\row"),
	        "BOX\n\na | b");
	becomes(RTF("\\trowd x\\cell y\\cell\\row\\trowd z\\cell\\cell\\row"), "x | y\nz");
}

TEST(notes_and_formulas)
{
	becomes(RTF("a{\\super\\chftn}{\\footnote{\\super\\chftn} first\\par more} b{\\*\\footnote\\ftnalt end} c\\par d"),
	        "a[1] b[2] c\n\nd\n\n[1] first\n\nmore\n\n[2] end");
	becomes(RTF("\\trowd\\pard\\intbl x{\\footnote\\pard n}\\par y\\cell z\\cell\\row"), "x[1] y | z\n\n[1] n");
	becomes(RTF("y={\\mmath{\\*\\moMath{\\mf{\\mfPr{\\mctrlPr no}{\\mtype bar}}{\\mnum{\\mr 1}}{\\mden{\\mr a+b}}}}}"),
	        "y=1/(a+b)");
	becomes(RTF("f{\\md{\\mdPr{\\mctrlPr no}}{\\me z}}, 10{\\super 1}{\\super 2}"), "f(z), 10^12");
}

TEST(form_fields_boxes_and_comments)
{
	becomes(RTF("By {\\field{\\*\\fldinst {FORMCHECKBOX }{\\*\\formfield{\\fftype1\\ffres25\\ffdefres1{\\*\\ffname C}}}}{\\fldrslt }}car"
	            "{\\field{\\*\\fldinst {FORMCHECKBOX }{\\*\\formfield{\\fftype1\\ffres0\\ffdefres1}}}{\\fldrslt }} train"),
	        "By \xe2\x98\x92"
	        "car\xe2\x98\x90 train");
	becomes(RTF("Colour: {\\field{\\*\\fldinst {FORMDROPDOWN }{\\*\\formfield{\\fftype2\\ffres1{\\*\\ffl red}{\\*\\ffl gr\\'fcn}}}}{\\fldrslt }}."
	            "{\\field{\\*\\fldinst {FORMTEXT }{\\*\\formfield{\\fftype0{\\*\\ffdeftext no}}}}{\\fldrslt  Yes}}"),
	        "Colour: gr\xc3\xbcn. Yes");
	becomes(RTF("{\\header {\\field{\\*\\fldinst {FORMCHECKBOX }{\\*\\formfield{\\fftype1\\ffres1}}}{\\fldrslt }}}text"),
	        "text");
	becomes("{\\rtf1{\\fonttbl{\\f0 T;}{\\f1\\fcharset2 Wingdings;}{\\f2\\fcharset2 Wingdings 2;}}{\\f1\\u-3842\\'3f}a {\\f1\\'a8}b {\\f2 R}c",
	        "\xe2\x98\x91"
	        "a \xe2\x98\x90"
	        "b \xe2\x98\x91"
	        "c");
	becomes_noting(RTF("a{\\*\\atnid X}{\\*\\atnauthor Y}\\chatn {\\*\\annotation{\\*\\atndate 1}\\pard no}b"),
	               "ab", "1 comment left out\n");
}

TEST(empty_and_deep)
{
	struct doc d = { 0 };
	struct err e = { 0 };
	struct str s = { 0 };

	CHECK(rtf_import("{\\rtf1{\\pict 00}}", 17, &d, &e) < 0);
	CHECK_STR(e.msg, "holds no text");
	str_adds(&s, "{\\rtf1 ");
	for (int i = 0; i < 1000; i++)
		str_adds(&s, "{\\b ");
	str_adds(&s, "deep");
	for (int i = 0; i < 1000; i++)
		str_adds(&s, "}");
	str_adds(&s, " out}");
	becomes(s.p, "deep out");
	str_free(&s);
	CHECK_MSG(!doc_decode("a.rtf", RTF("caf\\'e9 {\\f3\\'93\\'fa}"), strlen(RTF("caf\\'e9 {\\f3\\'93\\'fa}")), &d,
	                      &e),
	          "%s", e.msg);
	CHECK_STR(d.text.p, "café 日");
	CHECK_INT(d.type, DOC_RTF);
	doc_free(&d);
}
