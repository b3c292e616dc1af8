/* tests/fuzz/fuzz_documents.c - libFuzzer target for the converters in sessions/import/, run without the jail.
 *
 * The first byte chooses the input: an HTML page, the body of a DOCX, a chapter or package file of an EPUB, output of
 * pdftotext, a whole archive; above 127, OpenDocument as one XML file or in an archive, RTF, mail, a notebook,
 * subtitles, the sheet, texts and styles of an XLSX, or its workbook and relationships, a
 * slide of a PPTX with its notes, or the presentation and its relationships, FictionBook. Seeds are in
 * tests/fuzz/documents. */
#include "sessions/import/import_private.h"

#include <stdlib.h>
#include <string.h>

static void must(int ok)
{
	if (!ok)
		abort();
}

/* An entry of a zip archive without compression. CRCs are computed, because libarchive checks them. */
struct part {
	const char *name;
	const char *p;
	size_t n;
};

static void put(struct str *s, uint32_t v, int bytes)
{
	for (int i = 0; i < bytes; i++, v >>= 8) {
		char c = (char)(v & 255);
		str_add(s, &c, 1);
	}
}

static uint32_t crc32_of(const char *p, size_t n)
{
	uint32_t c = 0xffffffffu;

	for (size_t i = 0; i < n; i++) {
		c ^= (unsigned char)p[i];
		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
	}
	return ~c;
}

static void header(struct str *s, const struct part *f)
{
	put(s, 0, 2), put(s, 0, 2), put(s, 0, 4); /* flags, stored, time */
	put(s, crc32_of(f->p, f->n), 4), put(s, (uint32_t)f->n, 4), put(s, (uint32_t)f->n, 4),
		put(s, (uint32_t)strlen(f->name), 2), put(s, 0, 2);
}

static void zip(struct str *s, const struct part *f, int n)
{
	uint32_t at[8], directory;

	for (int i = 0; i < n; i++) {
		at[i] = (uint32_t)s->n;
		put(s, 0x04034b50, 4), put(s, 20, 2);
		header(s, &f[i]);
		str_adds(s, f[i].name);
		str_add(s, f[i].p, f[i].n);
	}
	directory = (uint32_t)s->n;
	for (int i = 0; i < n; i++) {
		put(s, 0x02014b50, 4), put(s, 20, 2), put(s, 20, 2);
		header(s, &f[i]);
		put(s, 0, 2), put(s, 0, 2), put(s, 0, 2), put(s, 0, 4), put(s, at[i], 4);
		str_adds(s, f[i].name);
	}
	put(s, 0x06054b50, 4), put(s, 0, 4), put(s, (uint32_t)n, 2), put(s, (uint32_t)n, 2),
		put(s, (uint32_t)s->n - directory - 12, 4);
	put(s, directory, 4), put(s, 0, 2);
}

#define TEXT(s) s, sizeof s - 1
static const char container[] = "<c><rootfile full-path='o'/></c>";
static const char package[] =
	"<p><item id='1' href='a.xhtml'/><item id='n' href='n' properties='nav'/><itemref idref='1'/></p>";
static const char chapter[] = "<html><p>x";
static const char content[] =
	"<d><body><text><h outline-level='1' style-name='A'>x</h><list style-name='L'><list-item><p style-name='B'>y <span style-name='S'>2</span> MathML"
	"<frame><object href='./O'/></frame></p></list-item></list><table style-name='T'><table-row><table-cell><p>z</p></table-cell></table-row></table></text></body></d>";
static const char relation[] =
	"<R><Relationship Id='1' Type='/x' Target='s.xml'/><Relationship Id='2' Type='/styles' Target='t.xml'/>"
	"<Relationship Id='3' Type='/sharedStrings' Target='t.xml'/><Relationship Id='4' Type='/notesSlide' Target='t.xml'/>"
	"<Relationship Id='5' Type='/drawing' Target='t.xml'/><Relationship Id='6' Type='/slideLayout' Target='t.xml'/>"
	"<Relationship Id='7' Type='/slideMaster' Target='t.xml'/></R>";
static const char core[] = "<R><Relationship Id='1' Type='/core-properties' Target='core.xml'/></R>";
static const char workbook[] = "<w><sheet name='A' id='1'/></w>";
static const char sheet[] = "<w><row><c><v>1</v></c></row></w>";
static const char presentation[] = "<p><sldId id='1'/></p>";
static const char slide[] = "<s><sp><p><r><t>x</t></r></p></sp></s>";
static const char document[] = "<d><p><r><t>x</t><footnoteReference id='1'/></r></p></d>";

static int convert(int how, const char *p, size_t n, struct doc *d, struct err *e)
{
	struct part docx[] = { { "word/document.xml", p, n },
		               { "word/styles.xml", p, n },
		               { "_rels/.rels", TEXT(core) },
		               { "core.xml", p, n } };
	struct part notes[] = { { "word/document.xml", TEXT(document) },
		                { "word/footnotes.xml", p, n },
		                { "word/numbering.xml", p, n } };
	struct part epub[] = { { "META-INF/container.xml", TEXT(container) },
		               { "o", TEXT(package) },
		               { "a.xhtml", p, n },
		               { "n", p, n },
		               { "c.css", p, n } };
	struct part odf[] = { { "content.xml", TEXT(content) }, { "styles.xml", p, n }, { "O/content.xml", p, n } };
	struct part opf[] = { { "META-INF/container.xml", TEXT(container) },
		              { "o", p, n },
		              { "a.xhtml", TEXT(chapter) } };
	struct part xlsx[] = { { "xl/workbook.xml", TEXT(workbook) },
		               { "xl/_rels/workbook.xml.rels", TEXT(relation) },
		               { "xl/s.xml", p, n },
		               { "xl/_rels/s.xml.rels", TEXT(relation) },
		               { "xl/t.xml", p, n } };
	struct part book[] = { { "xl/workbook.xml", p, n },
		               { "xl/_rels/workbook.xml.rels", p, n },
		               { "xl/s.xml", TEXT(sheet) } };
	struct part pptx[] = { { "ppt/presentation.xml", TEXT(presentation) },
		               { "ppt/_rels/presentation.xml.rels", TEXT(relation) },
		               { "ppt/s.xml", p, n },
		               { "ppt/_rels/s.xml.rels", TEXT(relation) },
		               { "ppt/_rels/t.xml.rels", TEXT(relation) },
		               { "ppt/t.xml", p, n } };
	struct part show[] = { { "ppt/presentation.xml", p, n },
		               { "ppt/_rels/presentation.xml.rels", p, n },
		               { "ppt/s.xml", TEXT(slide) } };
	struct str s = { 0 };
	int rc;

	switch (how) {
	case 0: return html_import(p, n, d, e);
	case 1: return pdf_import(p, n, d, e);
	case 2: return epub_import(p, n, d, e);
	case 3: return docx_import(p, n, d, e);
	case 4: return gzip_import(p, n, d, e);
	case 5: zip(&s, docx, 4); break;
	case 6: zip(&s, notes, 3); break;
	case 7: zip(&s, epub, 5); break;
	case 8: zip(&s, opf, 3); break;
	case 9: return odf_import(p, n, d, e);
	case 11: return rtf_import(p, n, d, e);
	case 12: return mail_import(p, n, d, e);
	case 13: return notebook_import(p, n, d, e);
	case 14: return subtitles_import(p, n, d, e);
	case 15: zip(&s, xlsx, 5); break;
	case 16: zip(&s, book, 3); break;
	case 17: zip(&s, pptx, 6); break;
	case 18: zip(&s, show, 3); break;
	case 19: return fb2_import(p, n, d, e);
	case 20: return feed_import(p, n, d, e);
	default: zip(&s, odf, 3); break;
	}
	rc = how <= 6    ? docx_import(s.p, s.n, d, e)
	     : how <= 8  ? epub_import(s.p, s.n, d, e)
	     : how <= 10 ? odf_import(s.p, s.n, d, e)
	     : how <= 16 ? xlsx_import(s.p, s.n, d, e)
	                 : pptx_import(s.p, s.n, d, e);
	str_free(&s);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct doc d = { 0 };
	struct err e = { 0 };
	int how = !size ? 0 : data[0] > 127 ? 9 + data[0] % 128 % 12 : data[0] % 9, rc;
	char *copy;

	if (!size)
		return 0;
	/* The converters of pages, notebooks and subtitles get UTF-8 without NUL bytes. */
	copy = malloc(size);
	memcpy(copy, data + 1, size - 1);
	if (how == 0 || how == 13 || how == 14) {
		struct doc text;
		if (text_decode("x", copy, size - 1, &text, &e)) {
			free(copy);
			return 0;
		}
		rc = convert(how, text.text.p, text.text.n, &d, &e);
		doc_free(&text);
	} else {
		rc = convert(how, copy, size - 1, &d, &e);
	}
	free(copy);
	must(rc ? e.msg[0] != 0 : how == 4 || how == 1 || d.text.n > 0); /* the pages of a PDF may be pictures */
	if (!rc && how != 4) {
		for (size_t i = 0; i < d.text.n;) {
			int32_t cp;
			i += (size_t)utf8_decode(d.text.p + i, d.text.n - i, &cp);
			must(cp > 0);
		}
		doc_mark_paragraphs(&d);
		for (size_t i = 0; i < d.n_mark; i++)
			must(d.mark[i].at <= d.text.n && (!i || d.mark[i].at >= d.mark[i - 1].at) &&
			     (d.mark[i].text || d.mark[i].kind == MARK_PARAGRAPH) &&
			     (d.mark[i].at == d.text.n || ((unsigned char)d.text.p[d.mark[i].at] & 0xc0) != 0x80));
	}
	doc_free(&d);
	return 0;
}
