/* tests/sessions/t_patterns_import.c - on repeating patterns the time is in proportion to the text
 * (tests/lib/patterns.h): importers, sentences, the index of passages, tokens, header lines. */
#include "engine/gguf/gguf.h"
#include "engine/token/token.h"
#include "sessions/fetch/curl.h"
#include "engine/base/utf8.h"
#include "sessions/import/pdf.h"
#include "sessions/store/passages.h"
#include "tests/lib/patterns.h"

/* ---- passes ---- */

static void import_plain(const char *name, enum doc_type type, const char *p, size_t n)
{
	struct doc d;
	struct err e;

	doc_type_of(name, NULL, p, n);
	if (text_decode(name, p, n, &d, &e))
		return;
	d.type = type;
	doc_mark_text(&d);
	doc_mark_paragraphs(&d);
	/* Look up the page and heading of 64 places, one after the other, as is done for the passages of a document. */
	for (size_t at = 0; at < d.text.n; at += d.text.n / 64 + 1) {
		doc_mark_at(&d, MARK_PAGE, at);
		doc_mark_at(&d, MARK_HEADING, at);
	}
	doc_free(&d);
}

static void pass_text(const char *p, size_t n)
{
	import_plain("a.txt", DOC_TEXT, p, n);
}
static void pass_markdown_document(const char *p, size_t n)
{
	import_plain("a.md", DOC_MARKDOWN, p, n);
}

static void pass_markup(const char *p, size_t n)
{
	for (const char *const *name = (const char *const[]){ "a.rst", "a.org", "a.adoc", "a.tex", NULL }; *name;
	     name++)
		import_plain(*name, DOC_TEXT, p, n);
}
static void pass_man(const char *p, size_t n)
{
	struct doc d = { 0 };

	str_adds(&d.text, ".Dd today\n.Nm a\n");
	str_add(&d.text, p, n);
	man_read(&d);
	doc_free(&d);
}

static void import(int (*fn)(const char *, size_t, struct doc *, struct err *), const char *p, size_t n)
{
	struct doc d = { 0 };
	struct err e;

	if (!fn(p, n, &d, &e))
		doc_mark_paragraphs(&d);
	doc_free(&d);
}

static void pass_print(const char *p, size_t n)
{
	struct doc d;
	struct err e;

	if (text_decode("a.txt", p, n, &d, &e))
		return;
	doc_clean_printed(&d);
	doc_shorten_data(&d);
	doc_free(&d);
}
static void pass_mail(const char *p, size_t n)
{
	import(mail_import, p, n);
}
static void pass_notebook(const char *p, size_t n)
{
	import(notebook_import, p, n);
}
static void pass_subtitles(const char *p, size_t n)
{
	import(subtitles_import, p, n);
}

static void le(struct str *s, uint32_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		str_add(s, &(char){ (char)(v >> 8 * i) }, 1);
}

struct zipped {
	const char *name, *p;
	size_t n;
};

static uint32_t crc(const char *p, size_t n)
{
	static uint32_t table[256];
	uint32_t c = ~0u;

	for (uint32_t i = 0; i < 256 && !table[255]; i++) {
		uint32_t v = i;
		for (int bit = 0; bit < 8; bit++)
			v = v & 1 ? 0xedb88320u ^ v >> 1 : v >> 1;
		table[i] = v;
	}
	for (size_t i = 0; i < n; i++)
		c = table[(c ^ (unsigned char)p[i]) & 255] ^ c >> 8;
	return ~c;
}

/* Make a zip archive without compression. */
static void zip_parts(struct str *out, const struct zipped *f, size_t n)
{
	uint32_t at[8];
	size_t directory;
	uint32_t central_size;

	str_clear(out);
	for (size_t i = 0; i < n; i++) {
		at[i] = (uint32_t)out->n;
		le(out, 0x04034b50, 4), le(out, 20, 2), le(out, 0, 2), le(out, 0, 2), le(out, 0, 4),
			le(out, crc(f[i].p, f[i].n), 4);
		le(out, (uint32_t)f[i].n, 4), le(out, (uint32_t)f[i].n, 4), le(out, (uint32_t)strlen(f[i].name), 2),
			le(out, 0, 2);
		str_adds(out, f[i].name);
		str_add(out, f[i].p, f[i].n);
	}
	directory = out->n;
	for (size_t i = 0; i < n; i++) {
		le(out, 0x02014b50, 4), le(out, 20, 2), le(out, 20, 2), le(out, 0, 4), le(out, 0, 4),
			le(out, crc(f[i].p, f[i].n), 4);
		le(out, (uint32_t)f[i].n, 4), le(out, (uint32_t)f[i].n, 4), le(out, (uint32_t)strlen(f[i].name), 2);
		le(out, 0, 2), le(out, 0, 2), le(out, 0, 2), le(out, 0, 2), le(out, 0, 4), le(out, at[i], 4);
		str_adds(out, f[i].name);
	}
	central_size = (uint32_t)(out->n - directory);
	le(out, 0x06054b50, 4), le(out, 0, 4), le(out, (uint32_t)n, 2), le(out, (uint32_t)n, 2);
	le(out, central_size, 4), le(out, (uint32_t)directory, 4), le(out, 0, 2);
}

#define WORD "<w:document xmlns:w=\"w\"><w:body>"
#define ODF                                                                                                            \
	"<office:document xmlns:office=\"office\" xmlns:text=\"text\" xmlns:table=\"table\" office:mimetype=\"application/vnd.oasis.opendocument.text\"><office:body><office:text>"

static int docx_of(const char *p, size_t n, int escape, struct doc *d, struct err *e)
{
	static struct str body, file;

	wrap(&body, escape ? WORD "<w:p><w:r><w:t xml:space=\"preserve\">" : WORD, p, n, escape,
	     escape ? "</w:t></w:r></w:p></w:body></w:document>" : "</w:body></w:document>");
	zip_parts(&file, &(struct zipped){ "word/document.xml", body.p, body.n }, 1);
	return docx_import(file.p, file.n, d, e);
}

static int odf_of(const char *p, size_t n, int escape, struct doc *d, struct err *e)
{
	static struct str body;

	wrap(&body, escape ? ODF "<text:p>" : ODF, p, n, escape,
	     escape ? "</text:p></office:text></office:body></office:document>"
	            : "</office:text></office:body></office:document>");
	return odf_import(body.p, body.n, d, e);
}

static int epub_of(const char *p, size_t n, struct doc *d, struct err *e)
{
	static const char container[] = "<container><rootfiles><rootfile full-path='o'/></rootfiles></container>";
	static const char package[] =
		"<package><manifest><item id='1' href='a.xhtml'/></manifest><spine><itemref idref='1'/></spine></package>";
	static struct str file, s;

	wrap(&s, "<html><body><p>", p, n, 0, "</p></body></html>");
	zip_parts(&file,
	          (struct zipped[]){ { "META-INF/container.xml", container, sizeof container - 1 },
	                             { "o", package, sizeof package - 1 },
	                             { "a.xhtml", s.p, s.n } },
	          3);
	return epub_import(file.p, file.n, d, e);
}

static int xlsx_of(const char *p, size_t n, int escape, struct doc *d, struct err *e)
{
	static const char workbook[] = "<w><sheet name='A' id='1'/></w>";
	static const char relations[] = "<r><Relationship Id='1' Target='s.xml'/></r>";
	static struct str body, file;

	wrap(&body, escape ? "<w><row><c t=\"inlineStr\"><is><t>" : "<w><row>", p, n, escape,
	     escape ? "</t></is></c></row></w>" : "</row></w>");
	zip_parts(&file,
	          (struct zipped[]){ { "xl/workbook.xml", workbook, sizeof workbook - 1 },
	                             { "xl/_rels/workbook.xml.rels", relations, sizeof relations - 1 },
	                             { "xl/s.xml", body.p, body.n } },
	          3);
	return xlsx_import(file.p, file.n, d, e);
}

static int pptx_of(const char *p, size_t n, int escape, struct doc *d, struct err *e)
{
	static const char presentation[] = "<w><sldId id='1'/></w>";
	static const char relations[] = "<r><Relationship Id='1' Target='s.xml'/></r>";
	static struct str body, file;

	wrap(&body, escape ? "<s><sp><p><r><t>" : "<s><sp>", p, n, escape,
	     escape ? "</t></r></p></sp></s>" : "</sp></s>");
	zip_parts(&file,
	          (struct zipped[]){ { "ppt/presentation.xml", presentation, sizeof presentation - 1 },
	                             { "ppt/_rels/presentation.xml.rels", relations, sizeof relations - 1 },
	                             { "ppt/s.xml", body.p, body.n } },
	          3);
	return pptx_import(file.p, file.n, d, e);
}

static int fb2_of(const char *p, size_t n, int escape, struct doc *d, struct err *e)
{
	static struct str body;

	wrap(&body, escape ? "<F><body><p>" : "<F><body>", p, n, escape, escape ? "</p></body></F>" : "</body></F>");
	return fb2_import(body.p, body.n, d, e);
}

static int feed_of(const char *p, size_t n, int escape, struct doc *d, struct err *e)
{
	static struct str body;

	wrap(&body, escape ? "<rss><item><content>" : "<rss>", p, n, escape,
	     escape ? "</content></item></rss>" : "</rss>");
	return feed_import(body.p, body.n, d, e);
}

static int docx_text(const char *p, size_t n, struct doc *d, struct err *e)
{
	return docx_of(p, n, 1, d, e);
}
static int docx_elements(const char *p, size_t n, struct doc *d, struct err *e)
{
	return docx_of(p, n, 0, d, e);
}
static int odf_text(const char *p, size_t n, struct doc *d, struct err *e)
{
	return odf_of(p, n, 1, d, e);
}
static int odf_elements(const char *p, size_t n, struct doc *d, struct err *e)
{
	return odf_of(p, n, 0, d, e);
}

static int xlsx_text(const char *p, size_t n, struct doc *d, struct err *e)
{
	return xlsx_of(p, n, 1, d, e);
}
static int xlsx_elements(const char *p, size_t n, struct doc *d, struct err *e)
{
	return xlsx_of(p, n, 0, d, e);
}

static int pptx_text(const char *p, size_t n, struct doc *d, struct err *e)
{
	return pptx_of(p, n, 1, d, e);
}
static int pptx_elements(const char *p, size_t n, struct doc *d, struct err *e)
{
	return pptx_of(p, n, 0, d, e);
}

static int fb2_text(const char *p, size_t n, struct doc *d, struct err *e)
{
	return fb2_of(p, n, 1, d, e);
}
static int fb2_elements(const char *p, size_t n, struct doc *d, struct err *e)
{
	return fb2_of(p, n, 0, d, e);
}

static int feed_text(const char *p, size_t n, struct doc *d, struct err *e)
{
	return feed_of(p, n, 1, d, e);
}
static int feed_elements(const char *p, size_t n, struct doc *d, struct err *e)
{
	return feed_of(p, n, 0, d, e);
}

static void pass_docx_text(const char *p, size_t n)
{
	import(docx_text, p, n);
}
static void pass_docx_elements(const char *p, size_t n)
{
	import(docx_elements, p, n);
}
static void pass_odf_text(const char *p, size_t n)
{
	import(odf_text, p, n);
}
static void pass_odf_elements(const char *p, size_t n)
{
	import(odf_elements, p, n);
}
static void pass_xlsx_text(const char *p, size_t n)
{
	import(xlsx_text, p, n);
}
static void pass_xlsx_elements(const char *p, size_t n)
{
	import(xlsx_elements, p, n);
}
static void pass_pptx_text(const char *p, size_t n)
{
	import(pptx_text, p, n);
}
static void pass_pptx_elements(const char *p, size_t n)
{
	import(pptx_elements, p, n);
}
static void pass_fb2_text(const char *p, size_t n)
{
	import(fb2_text, p, n);
}
static void pass_fb2_elements(const char *p, size_t n)
{
	import(fb2_elements, p, n);
}
static void pass_feed_text(const char *p, size_t n)
{
	import(feed_text, p, n);
}
static void pass_feed_elements(const char *p, size_t n)
{
	import(feed_elements, p, n);
}
static void pass_pdf(const char *p, size_t n)
{
	import(pdf_import, p, n);
}

/* Import the text as pages of a PDF, word by word, at positions that recur; after a tab each word is on a line of its
 * own. */
static void pass_pdf_pages(const char *p, size_t n)
{
	static struct str s;
	size_t y = 0, x = 0;

	str_clear(&s);
	str_adds(&s, "<page width=\"600\" height=\"800\"><flow><block><line>");
	for (size_t i = 0, k; i < n; i += k + 1) {
		for (k = 0; i + k < n && !byte_is_blank(p[i + k]) && p[i + k] != '<'; k++)
			;
		str_addf(&s, "<word xMin=\"%zu\" yMin=\"%zu\" xMax=\"%zu\" yMax=\"%zu\">", x, y, x + 5 * MIN(k, 100),
		         y + 10);
		str_add(&s, p + i, k);
		str_adds(&s, "</word>\n");
		x = (x + 5 * MIN(k, 100) + 5) % 600;
		if (i + k < n && p[i + k] != ' ') {
			str_adds(&s, i % 7 ? "</line><line>" : "</line></block></flow><flow><block><line>");
			x = p[i + k] == '\t' ? x : 0;
			y += p[i + k] == '\t' ? 0 : 12;
			if (y > 700) {
				str_adds(
					&s,
					"</line></block></flow></page><page width=\"600\" height=\"800\"><flow><block><line>");
				y = 0;
			}
		}
	}
	str_adds(&s, "</line></block></flow></page>");
	import(pdf_import, s.p, s.n);
}

/* Import the text as one page of a PDF, each character a word of one line. The lowest bit of a character tells whether
 * its word has a place of its own, or the place that all such words share. */
static void pass_pdf_line(const char *p, size_t n)
{
	static struct str s;

	str_clear(&s);
	str_adds(&s, "<page width=\"600\" height=\"800\">");
	for (size_t i = 0; i < n; i++)
		str_addf(
			&s,
			"<flow><block><line><word xMin=\"%zu\" yMin=\"1\" xMax=\"%zu\" yMax=\"9\">%c</word></line></block></flow>",
			p[i] & 1 ? i : 7, p[i] & 1 ? i + 1 : 8, p[i] == '<' ? '1' : p[i]);
	str_adds(&s, "</page><page/><page/>");
	import(pdf_import, s.p, s.n);
}

static void pass_html(const char *p, size_t n)
{
	struct doc text;
	struct err e;

	if (text_decode("a.html", p, n, &text, &e))
		return;
	import(html_import, text.text.p, text.text.n);
	doc_free(&text);
}

static void pass_rtf(const char *p, size_t n)
{
	static struct str s;

	wrap(&s, "{\\rtf1\\ansi ", p, n, 0, "}");
	import(rtf_import, s.p, s.n);
}

static void pass_epub(const char *p, size_t n)
{
	import(epub_of, p, n);
}

static void pass_sentences(const char *p, size_t n)
{
	struct sentence *s;

	sentences_cut(p, n, &s, NULL, NULL);
	free(s);
}

static void pass_index(const char *p, size_t n)
{
	struct passage_index *x = NULL;
	struct indexed_text text = { p, n };
	struct found_passage hit[8];
	struct err e;

	CHECK(!passage_index_open(&x, NULL, &e));
	passages_find(x, &text, 1, p, MIN(n, 300), hit, 8, &e);
	passages_find(x, &text, 1, "word line of text", 17, hit, 8, &e);
	passage_index_close(x);
}

static void pass_question(const char *p, size_t n)
{
	struct passage_index *x = NULL;
	struct indexed_text text = { "A word. Another line of text.", 29 };
	struct found_passage hit[8];
	struct found_sentence *s = NULL;
	size_t n_s;
	uint64_t words;
	struct err e;

	CHECK(!passage_index_open(&x, NULL, &e));
	passages_find(x, &text, 1, p, n, hit, 8, &e);
	sentences_find(x, p, n, &s, &n_s, &words, &e);
	free(s);
	passage_index_close(x);
}

static void pass_http_head(const char *p, size_t n)
{
	struct http_reply r = { .length = -1, .first = -1, .total = -1, .linked_size = -1 };

	http_head_line(&r, p, n);
	for (size_t at = 0, end; at < n; at = end + 1) {
		const char *nl = memchr(p + at, '\n', n - at);
		end = nl ? (size_t)(nl - p) : n;
		http_head_line(&r, p + at, end - at);
	}
}

static void pass_tokens(const char *p, size_t n)
{
	static struct vocab *vocab;
	struct tokens t = { 0 };
	struct gguf *g;
	struct err e;

	if (!vocab) {
		CHECK(!gguf_open(&g, test_file("tests/vectors/models/llama-linear.gguf"), &e) &&
		      !vocab_load(&vocab, g, NULL, &e));
		gguf_close(g);
	}
	vocab_encode(vocab, p, n, NULL, 0, &t, &e);
	tokens_free(&t);
}

static const struct pass passes[] = {
	{ "import of text", pass_text, 2 },
	{ "import of Markdown", pass_markdown_document, 2 },
	{ "import of markup", pass_markup, 2 },
	{ "import of man pages", pass_man, 2 },
	{ "import of HTML", pass_html, 4 },
	{ "import of RTF", pass_rtf, 2 },
	{ "what a printer would print", pass_print, 2 },
	{ "import of mail", pass_mail, 2 },
	{ "import of notebooks", pass_notebook, 2 },
	{ "import of subtitles", pass_subtitles, 2 },
	{ "import of DOCX: text", pass_docx_text, 2 },
	{ "import of DOCX: elements", pass_docx_elements, 2 },
	{ "import of OpenDocument: text", pass_odf_text, 2 },
	{ "import of OpenDocument: elements", pass_odf_elements, 2 },
	{ "import of XLSX: text", pass_xlsx_text, 2 },
	{ "import of XLSX: elements", pass_xlsx_elements, 2 },
	{ "import of PPTX: text", pass_pptx_text, 2 },
	{ "import of PPTX: elements", pass_pptx_elements, 2 },
	{ "import of FictionBook: text", pass_fb2_text, 2 },
	{ "import of FictionBook: elements", pass_fb2_elements, 2 },
	{ "import of a feed: text", pass_feed_text, 2 },
	{ "import of a feed: elements", pass_feed_elements, 2 },
	{ "import of EPUB", pass_epub, 4 },
	{ "text of a PDF", pass_pdf, 2 },
	{ "pages of a PDF", pass_pdf_pages, 2 },
	{ "a line of a PDF", pass_pdf_line, 2 },
	{ "sentences", pass_sentences, 2 },
	{ "index and search of passages", pass_index, 8 },
	{ "a question that is searched", pass_question, 4 },
	{ "header lines", pass_http_head, 2 },
	{ "tokens", pass_tokens, 8 },
};

/* The wrapped patterns are valid documents. */
TEST(the_documents_are_read)
{
	static const char words[] = "one two three";
	struct doc d = { 0 };
	struct err e = { 0 };

	CHECK_MSG(!docx_of(words, 13, 1, &d, &e) && !strcmp(d.text.p, words), "%s", e.msg);
	doc_free(&d);
	CHECK_MSG(!docx_of("<w:p><w:r><w:t>a</w:t></w:r></w:p>", 34, 0, &d, &e) && !strcmp(d.text.p, "a"), "%s", e.msg);
	doc_free(&d);
	CHECK_MSG(!odf_of(words, 13, 1, &d, &e) && !strcmp(d.text.p, words), "%s", e.msg);
	doc_free(&d);
	CHECK_MSG(!xlsx_of(words, 13, 1, &d, &e) && strstr(d.text.p, words), "%s", e.msg);
	doc_free(&d);
	CHECK_MSG(!xlsx_of("<c><v>12</v></c>", 16, 0, &d, &e) && strstr(d.text.p, "12"), "%s", e.msg);
	doc_free(&d);
	CHECK_MSG(!pptx_of(words, 13, 1, &d, &e) && !strcmp(d.text.p, words), "%s", e.msg);
	doc_free(&d);
	CHECK_MSG(!pptx_of("<p><t>a</t></p>", 15, 0, &d, &e) && !strcmp(d.text.p, "a"), "%s", e.msg);
	doc_free(&d);
	CHECK_MSG(!fb2_of(words, 13, 1, &d, &e) && !strcmp(d.text.p, words), "%s", e.msg);
	doc_free(&d);
	CHECK_MSG(!fb2_of("<p>a</p>", 8, 0, &d, &e) && !strcmp(d.text.p, "a"), "%s", e.msg);
	doc_free(&d);
	CHECK_MSG(!feed_of(words, 13, 1, &d, &e) && !strcmp(d.text.p, words), "%s", e.msg);
	doc_free(&d);
	CHECK_MSG(!feed_of("<title>a</title>", 16, 0, &d, &e) && !strcmp(d.text.p, "a"), "%s", e.msg);
	doc_free(&d);
	CHECK_MSG(!epub_of(words, 13, &d, &e) && !strcmp(d.text.p, words), "%s", e.msg);
	doc_free(&d);
}

TEST(twice_the_text_takes_no_more_than_three_times_as_long)
{
	measure_all(passes, LEN(passes));
}
