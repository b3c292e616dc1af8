/* tests/sessions/t_import_packed.c - EPUB and DOCX: names of entries in every form, SVG pages, parts beside the
 * text. */
#include "sessions/import/import_private.h"
#include "tests/lib/test.h"
#include "tests/lib/zip.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- archives whose names have any bytes and flags ---- */

static void put(struct str *s, uint64_t v, int bytes)
{
	for (; bytes; bytes--, v >>= 8) {
		char c = (char)v;
		str_add(s, &c, 1);
	}
}

static void put_header(struct str *s, const struct part *p, unsigned flags, int central)
{
	unsigned n = (unsigned)strlen(p->text);

	put(s, central ? 0x02014b50 : 0x04034b50, 4);
	if (central)
		put(s, 20, 2);
	put(s, 20, 2);
	put(s, flags, 2);
	put(s, 0, 6); /* method 0 (stored), no time */
	put(s, (unsigned)crc32(0, (const Bytef *)p->text, n), 4);
	put(s, n, 4);
	put(s, n, 4);
	put(s, (unsigned)strlen(p->name), 2);
	put(s, 0, 2);
	if (central)
		put(s, 0, 10);
}

/* Build an archive of stored entries. flags: 0x800 = names are UTF-8. */
static struct str archive(const struct part *p, size_t n, unsigned flags)
{
	struct str s = { 0 }, central = { 0 };
	size_t at;

	for (size_t i = 0; i < n; i++) {
		at = s.n;
		put_header(&s, &p[i], flags, 0);
		str_adds(&s, p[i].name);
		str_adds(&s, p[i].text);
		put_header(&central, &p[i], flags, 1);
		put(&central, (unsigned)at, 4);
		str_adds(&central, p[i].name);
	}
	at = s.n;
	str_add(&s, central.p, central.n);
	put(&s, 0x06054b50, 4);
	put(&s, 0, 4);
	put(&s, (unsigned)n, 2);
	put(&s, (unsigned)n, 2);
	put(&s, (unsigned)central.n, 4);
	put(&s, (unsigned)at, 4);
	put(&s, 0, 2);
	str_free(&central);
	return s;
}

/* ---- EPUB ---- */

#define CONTAINER "<container><rootfiles><rootfile full-path='OPS/p.opf'/></rootfiles></container>"
#define TWO       "<itemref idref='a'/></spine></package>"

/* Check the text of a book with one chapter. name: the chapter's name in the archive; href: the link in the package
 * file. */
static void chapter(const char *name, const char *href, const char *type, unsigned flags, const char *body,
                    const char *want)
{
	struct str opf = { 0 }, path = { 0 }, file;
	struct err e = { 0 };
	struct doc d = { 0 };

	str_addf(&opf, "<package><manifest><item id='a' href='%s' media-type='%s'/></manifest><spine>" TWO, href, type);
	str_addf(&path, "OPS/%s", name);
	struct part parts[] = { { "mimetype", "application/epub+zip" },
		                { "META-INF/container.xml", CONTAINER },
		                { "OPS/p.opf", opf.p },
		                { path.p, body } };
	file = archive(parts, 4, flags);
	CHECK_MSG(!doc_decode("b.epub", file.p, file.n, &d, &e), "%s as %s: %s", name, href, e.msg);
	CHECK_STR(str_text(&d.text), want);
	doc_free(&d);
	str_free(&opf);
	str_free(&path);
	str_free(&file);
}

static void page(const char *name, const char *href, unsigned flags)
{
	chapter(name, href, "application/xhtml+xml", flags, "<html><body><p>The ferry sails.</p></body></html>",
	        "The ferry sails.");
}

TEST(names_beyond_ascii)
{
	for (unsigned flags = 0; flags <= 0x800; flags += 0x800) {
		page("xhtml/\xe4\xb8\x80.xhtml", "xhtml/\xe4\xb8\x80.xhtml", flags);
		page("xhtml/\xe4\xb8\x80.xhtml", "xhtml/%E4%B8%80.xhtml", flags);
		page("kapitel \xc3\xbc.xhtml", "kapitel%20%c3%bc.xhtml", flags);
		page("\xd0\xb3\xd0\xbb.xhtml", "\xd0\xb3\xd0\xbb.xhtml#a", flags);
	}
}

TEST(names_in_old_encodings)
{
	page("\x88\xea.xhtml", "\xe4\xb8\x80.xhtml", 0); /* name in Shift_JIS */
	page("\x81"
	     "ber.xhtml",
	     "\xc3\xbc"
	     "ber.xhtml",
	     0);                                      /* name in a code page of DOS */
	page("\xb5\xda.xhtml", "%E7%AC%AC.xhtml", 0); /* name in GBK */
}

TEST(names_in_nfd_and_other_case)
{
	page("caf\xc3\xa9.xhtml", "cafe\xcc\x81.xhtml", 0x800);
	page("cafe\xcc\x81.xhtml", "caf%C3%A9.xhtml", 0);
	page("Text/Chapter.XHTML", "text/chapter.xhtml", 0);
	page("\xc3\x84.xhtml", "a\xcc\x88.xhtml", 0x800);
}

TEST(svg_pages)
{
#define SVG(body) "<svg xmlns='http://www.w3.org/2000/svg'><style>text{}</style>" body "</svg>"
	chapter("1.svg", "1.svg", "image/svg+xml", 0,
	        SVG("<title>Cover</title><g><text>The <tspan>Harbour</tspan></text><text x='1'>1904</text></g>"),
	        "Cover\nThe Harbour\n1904");
	chapter("2.xml", "2.xml", "image/svg+xml", 0,
	        SVG("<text><tspan x='0'>one</tspan><tspan x='0'>two</tspan></text>"), "one two");
}

/* Check the text and notices of a book whose chapter OPS/text/a.html has this head and body, and whose style sheet
 * OPS/css/a b.css hides the class "h". */
static void styled(const char *link, const char *want, const char *notes)
{
	struct str page = { 0 }, file;
	struct err e = { 0 };
	struct doc d = { 0 };

	str_addf(&page, "<html><head>%s</head><body><p>a<i class='h'>no</i>b</p></body></html>", link);
	struct part parts[] = {
		{ "META-INF/container.xml", CONTAINER },
		{ "OPS/p.opf",
		  "<package><manifest><item id='a' href='text/a.html' media-type='application/xhtml+xml'/></manifest><spine>" TWO },
		{ "OPS/text/a.html", page.p },
		{ "OPS/css/a b.css", ".h { display: none }" }
	};
	file = archive(parts, LEN(parts), 0);
	CHECK_MSG(!doc_decode("b.epub", file.p, file.n, &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.text), want);
	CHECK_STR(str_text(&d.notices), notes);
	doc_free(&d);
	str_free(&page);
	str_free(&file);
}

TEST(style_sheets_of_a_book)
{
	static const char hidden[] = "2 hidden characters were left out\n";

	styled("<link rel='stylesheet' href='../css/a%20b.css'/>", "ab", hidden);
	styled("<link rel='STYLESHEET' href='/OPS/css/a b.css' media='screen'/>", "ab", hidden);
	styled("<link rel='stylesheet' href='../css/a b.css' media='print'/>", "anob", "");
	styled("<link rel='alternate stylesheet' href='../css/a b.css'/>", "anob", "");
	styled("<link rel='next' href='../css/a b.css'/>", "anob", "");
	styled("<link rel='stylesheet' href='../../../css/a b.css'/><link rel='stylesheet'/>", "anob", "");
	styled("<link rel='stylesheet' href='http://example.org/a.css'/><link rel='stylesheet' href='b.css'/>", "anob",
	       "");
	styled("<link rel='stylesheet' href='../css/a b.css'/><style>.h{display:inline}</style>", "anob", "");
}

/* ---- DOCX ---- */

#define W(body)        "<w:document xmlns:w='w' xmlns:r='r'><w:body>" body "</w:body></w:document>"
#define RUN(text)      "<w:r><w:t>" text "</w:t></w:r>"
#define P(text)        "<w:p>" RUN(text) "</w:p>"
#define RELS(id, path) "<Relationships><Relationship Id='" id "' Type='aFChunk' Target='" path "'/></Relationships>"
#define CHUNK          W(P("before") "<w:altChunk r:id='c1'/>" P("after"))

/* Check text and notes of a DOCX with up to two parts besides the main text. */
static void docx(const char *document, struct part one, struct part two, const char *want, const char *notes)
{
	struct part parts[] = { { "word/document.xml", document }, one, two };
	struct str file = archive(parts, 1 + (one.name != NULL) + (two.name != NULL), 0);
	struct err e = { 0 };
	struct doc d = { 0 };

	CHECK_MSG(!doc_decode("d.docx", file.p, file.n, &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.text), want);
	CHECK_STR(str_text(&d.notices), notes);
	doc_free(&d);
	str_free(&file);
}

static void text_is(const char *document, const char *want)
{
	docx(document, (struct part){ 0 }, (struct part){ 0 }, want, "");
}

TEST(parts_of_other_names)
{
#define REL(type, target) "<Relationship Id='x' Type='http://o/" type "' Target='" target "'/>"
	struct part parts[] = {
		{ "_rels/.rels", "<Relationships>" REL("officeDocument", "/word/document22.xml") "</Relationships>" },
		{ "word/document22.xml", W("<w:p><w:pPr><w:pStyle w:val='a'/></w:pPr>" RUN("Title") "</w:p><w:p>" RUN(
						 "text") "<w:r><w:footnoteReference w:id='2'/></w:r></w:p>") },
		{ "word/_rels/document22.xml.rels",
		  "<Relationships>" REL("styles", "styles2.xml") REL("footnotes", "../n.xml") "</Relationships>" },
		{ "word/styles2.xml",
		  "<w:styles xmlns:w='w'><w:style w:styleId='a'><w:name w:val='heading 2'/></w:style></w:styles>" },
		{ "n.xml", "<w:footnotes xmlns:w='w'><w:footnote w:id='2'>" P("note") "</w:footnote></w:footnotes>" }
	};
	struct str file = archive(parts, LEN(parts), 0);
	struct err e = { 0 };
	struct doc d = { 0 };

	CHECK_MSG(!doc_decode("d.docx", file.p, file.n, &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.text), "Title\n\ntext[1]\n\n[1] note");
	CHECK_INT(doc_mark_at(&d, MARK_HEADING, 0)->level, 2);
	doc_free(&d);
	str_free(&file);
}

static void chunk(const char *target, const char *name, const char *body, const char *want, const char *notes)
{
	struct str rels = { 0 };

	str_addf(&rels, RELS("c1", "%s"), target);
	docx(CHUNK, (struct part){ "word/_rels/document.xml.rels", rels.p }, (struct part){ name, body }, want, notes);
	str_free(&rels);
}

TEST(inserted_documents)
{
	chunk("chunk1.html", "word/chunk1.html", "<html><h2>Fish</h2><p>herring<p>cod</html>",
	      "before\n\nFish\n\nherring\n\ncod\n\nafter", "");
	chunk("/a.xhtml", "a.xhtml", "<html><body><p>f&#252;r</p></body></html>", "before\n\nf\xc3\xbcr\n\nafter", "");
	chunk("a.txt", "word/a.txt", "one\ntwo", "before\n\none\ntwo\n\nafter", "");
	chunk("a.rtf", "word/A.rtf", "{\\rtf1 in bold\\par}", "before\n\nin bold\n\nafter", "");
	chunk("a.html", "word/b.html", "x", "before\n\nafter", "1 inserted document cannot be read\n");
}

TEST(inserted_web_archives)
{
#define MHT(how, body)                                                                                                            \
	"MIME-Version: 1.0\r\nContent-Type: multipart/related;\r\n\tboundary=\"=_x\"\r\n\r\n--=_x\r\nContent-Type: image/png\r\n" \
	"\r\nAAAA\r\n--=_x\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: " how                          \
	"\r\n\r\n" body "\r\n--=_x--\r\n"
	chunk("a.mht", "word/a.mht", MHT("quoted-printable", "<p>5=20km f=C3=BC=\r\nr two"),
	      "before\n\n5 km f\xc3\xbcr two\n\nafter", "");
	chunk("a.mht", "word/a.mht", MHT("base64", "PHA+aGVy\r\ncmluZw=="), "before\n\nherring\n\nafter", "");
	chunk("a.mht", "word/a.mht", "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=y\n\n--y\nno",
	      "before\n\nafter", "1 inserted document cannot be read\n");
}

TEST(form_fields)
{
#define FIELD(data, rest)                                                                                              \
	"<w:r><w:fldChar w:fldCharType='begin'><w:ffData><w:name w:val='x'/>" data                                     \
	"</w:ffData></w:fldChar></w:r><w:r><w:instrText>FORM</w:instrText></w:r>" rest                                 \
	"<w:r><w:fldChar w:fldCharType='end'/></w:r>"
#define BOX(v)  FIELD("<w:checkBox><w:sizeAuto/>" v "</w:checkBox>", "")
#define LIST(v) FIELD("<w:ddList>" v "<w:listEntry w:val='red'/><w:listEntry w:val='green'/></w:ddList>", "")
	text_is(W("<w:p>" BOX("<w:default w:val='0'/><w:checked/>") RUN(" car ") BOX("<w:default w:val='0'/>")
	                  RUN(" train") "</w:p>"),
	        "\xe2\x98\x92 car \xe2\x98\x90 train");
	text_is(W("<w:p>" BOX("<w:default w:val='1'/><w:checked w:val='0'/>")
	                  BOX("<w:default w:val='true'/>") "</w:p>"),
	        "\xe2\x98\x90\xe2\x98\x92");
	text_is(W("<w:p>" RUN("Colour: ") LIST("<w:result w:val='1'/>") RUN(", ") LIST("") "</w:p>"),
	        "Colour: green, red");
	text_is(W("<w:p>" RUN("Colour: ")
	                  FIELD("<w:ddList><w:listEntry w:val='red'/></w:ddList>", RUN("red")) "</w:p>"),
	        "Colour: red");
	text_is(W("<w:p>" RUN("Name: ") FIELD("<w:textInput/>", RUN("Marlow")) "</w:p>"), "Name: Marlow");
}

TEST(boxes_of_symbol_fonts)
{
#define SYM(font, c)   "<w:r><w:sym w:font='" font "' w:char='" c "'/></w:r>"
#define IN(font, text) "<w:r><w:rPr><w:rFonts w:ascii='" font "'/></w:rPr><w:t>" text "</w:t></w:r>"
	text_is(W("<w:p>" SYM("Wingdings", "F0FE") SYM("Wingdings", "F0FD") SYM("Wingdings", "F0A8")
	                  SYM("Wingdings", "006F") SYM("Wingdings", "F0FC") SYM("Wingdings", "F0FB")
	                          SYM("Wingdings 2", "F052") SYM("Wingdings 2", "F0A3") SYM("Webdings", "F061")
	                                  SYM("Wingdings", "F0C3") "</w:p>"),
	        "\xe2\x98\x91\xe2\x98\x92\xe2\x98\x90\xe2\x98\x90\xe2\x9c\x93\xe2\x9c\x97\xe2\x98\x91\xe2\x98\x90\xe2\x9c\x93\xe2\x80\xa2");
	text_is(W("<w:p>" IN("Wingdings", "&#xF0FE; yes") RUN("&#xF0FE;") IN("Symbol", "&#xF061;") "</w:p>"),
	        "\xe2\x98\x91 yes\xef\x83\xbe\xce\xb1");
}

TEST(what_is_left_out_is_said)
{
	docx(W(P("a")),
	     (struct part){ "word/comments.xml",
	                    "<w:comments xmlns:w='w'><w:comment>" P("x") "</w:comment><w:comment/></w:comments>" },
	     (struct part){ "word/diagrams/data1.xml", "<dgm:m xmlns:dgm='d' xmlns:a='a'><a:t>Hull</a:t></dgm:m>" },
	     "a", "2 comments left out\n1 SmartArt diagram left out\n");
}
