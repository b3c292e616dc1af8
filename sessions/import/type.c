/* sessions/import/type.c - finds the format of a document by its first bytes, then by its name. */
#include "sessions/import/import_private.h"
#include "engine/base/utf8.h"

#include <string.h>

const char *const doc_type_name[] = {
	[DOC_TEXT] = "text", [DOC_MARKDOWN] = "markdown", [DOC_SOURCE] = "source",     [DOC_HTML] = "html",
	[DOC_EPUB] = "epub", [DOC_DOCX] = "docx",         [DOC_PDF] = "pdf",           [DOC_GZIP] = "gzip",
	[DOC_ODF] = "odf",   [DOC_RTF] = "rtf",           [DOC_NOTEBOOK] = "notebook", [DOC_SUBTITLES] = "subtitles",
	[DOC_MAIL] = "mail", [DOC_XLSX] = "xlsx",         [DOC_PICTURE] = "picture",   [DOC_PPTX] = "pptx",
	[DOC_FB2] = "fb2",   [DOC_FEED] = "feed",
};
_Static_assert(LEN(doc_type_name) == DOC_TYPES, "a type has no name");

static int ends_in(const char *name, const char *const *endings)
{
	const char *dot = strrchr(name, '.');

	if (!dot || strchr(dot, '/'))
		return 0;
	for (; *endings; endings++)
		if (!strcasecmp(dot + 1, *endings))
			return 1;
	return 0;
}

static const char *const html_endings[] = { "html", "htm", "xhtml", "xht", "shtml", NULL };
static const char *const markdown_endings[] = { "md", "markdown", "mkd", "mdown", NULL };
static const char *const text_endings[] = { "txt", "text", "log",      "csv", "tsv", "rst",   "rest",
	                                    "org", "adoc", "asciidoc", "tex", "ltx", "latex", NULL };
static const char *const source_endings[] = {
	"c",    "h",    "cc",  "cpp",   "cxx", "hh",    "hpp",   "cu",   "cuh",   "m",   "mm",   "py",  "js",
	"mjs",  "ts",   "tsx", "jsx",   "go",  "rs",    "java",  "kt",   "scala", "cs",  "fs",   "vb",  "rb",
	"pl",   "pm",   "php", "lua",   "r",   "jl",    "hs",    "ml",   "mli",   "ex",  "exs",  "erl", "clj",
	"el",   "lisp", "scm", "swift", "d",   "zig",   "nim",   "v",    "vhd",   "asm", "s",    "sh",  "bash",
	"zsh",  "fish", "awk", "sed",   "sql", "cmake", "mk",    "json", "yaml",  "yml", "toml", "ini", "cfg",
	"conf", "xml",  "xsl", "svg",   "css", "scss",  "proto", "diff", "patch", NULL,
};

/* 1 if the text begins with an HTML doctype, <html> or <head>, after white space, comments and an XML declaration. */
static int is_html(const char *p, size_t n)
{
	const char *end = p + MIN(n, 4096);

	if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3;
	while (p < end) {
		while (p < end && (unsigned char)*p <= ' ')
			p++;
		if (end - p >= 4 && !memcmp(p, "<!--", 4)) {
			p = memmem(p, (size_t)(end - p), "-->", 3);
			if (!p)
				return 0;
			p += 3;
		} else if (end - p >= 5 && !memcmp(p, "<?xml", 5)) {
			p = memchr(p, '>', (size_t)(end - p));
			if (!p)
				return 0;
			p++;
		} else {
			break;
		}
	}
	return (end - p >= 14 && !strncasecmp(p, "<!doctype html", 14)) ||
	       (end - p >= 6 && !strncasecmp(p, "<html", 5) && strchr(" \t\r\n>", p[5])) ||
	       (end - p >= 6 && !strncasecmp(p, "<head", 5) && strchr(" \t\r\n>", p[5]));
}

static int has_tag(const char *p, size_t n)
{
	for (size_t i = 0; i + 1 < n && i < 4096; i++)
		if (p[i] == '<' && ((p[i + 1] | 32) >= 'a' && (p[i + 1] | 32) <= 'z'))
			return 1;
	return 0;
}

/* Convert UTF-16 with a byte order mark to ASCII, to search it for tags. Other characters become '?'. */
static size_t utf16_to_ascii(const char *p, size_t n, char *out, size_t cap)
{
	size_t k = 0;
	int be = n >= 2 && (unsigned char)p[0] == 0xfe;

	for (size_t i = 2; i + 1 < n && k < cap; i += 2)
		out[k++] = p[i + !be] ? '?' : p[i + be];
	return k;
}

/* 1 if `kind` (the end of an OpenDocument media type) means text, sheets, slides or a drawing, or a template for
 * these. */
static int is_odf_kind(const char *kind, size_t n)
{
	static const char *const kinds[] = { "text", "spreadsheet", "presentation", "graphics" };

	for (size_t i = 0; i < LEN(kinds); i++)
		if (n >= strlen(kinds[i]) && !memcmp(kind, kinds[i], strlen(kinds[i])))
			return 1;
	return 0;
}

static const char odf_mime[] = "application/vnd.oasis.opendocument.";

/* 1 for an OpenDocument file that is one XML file (.fodt), by its root element. */
static int is_flat_odf(const char *p, size_t n)
{
	const char *end = p + MIN(n, 16384), *root, *kind;

	if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3, n -= 3;
	if (n < 5 || memcmp(p, "<?xml", 5) != 0 || !(root = memmem(p, (size_t)(end - p), "<office:document", 16)))
		return 0;
	kind = memmem(root, (size_t)(end - root), odf_mime, sizeof odf_mime - 1);
	return kind && is_odf_kind(kind + sizeof odf_mime - 1, (size_t)(end - kind) - (sizeof odf_mime - 1));
}

/* Find the type of an Office file by the name of its main part. If there are several such names, the first one decides,
 * because the names in an embedded document may be readable as well. */
static enum doc_type office_type(const char *p, size_t n)
{
	static const struct {
		const char *name;
		enum doc_type type;
	} parts[] = { { "word/document", DOC_DOCX },
		      { "xl/workbook.xml", DOC_XLSX },
		      { "ppt/presentation.xml", DOC_PPTX } };
	const char *first = NULL;
	enum doc_type type = DOC_TEXT;

	for (size_t i = 0; i < LEN(parts); i++) {
		const char *at = memmem(p, first ? (size_t)(first - p) : n, parts[i].name, strlen(parts[i].name));

		if (at)
			first = at, type = parts[i].type;
	}
	return type;
}

/* 1 for a FictionBook, by its name or its root element. */
static int is_fb2(const char *name, const char *p, size_t n)
{
	static const char *const endings[] = { "fb2", NULL };

	return ends_in(name, endings) ||
	       (n > 5 && !memcmp(p, "<?xml", 5) && memmem(p, MIN(n, 1024), "<FictionBook", 12));
}

/* 1 for a feed of news, RSS or Atom, by its root element. */
static int is_feed(const char *p, size_t n)
{
	size_t head = MIN(n, 1024);

	if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3, head -= 3;
	if (head < 5 || (memcmp(p, "<?xml", 5) && memcmp(p, "<rss ", 5) && memcmp(p, "<feed", 5)))
		return 0;
	return memmem(p, head, "<rss ", 5) ||
	       (memmem(p, head, "<feed", 5) && memmem(p, head, "http://www.w3.org/2005/Atom", 27)) ||
	       (memmem(p, head, "<rdf:RDF", 8) && memmem(p, head, "http://purl.org/rss/1.0/", 24));
}

/* 1 for an archive whose first entry is a FictionBook, by its name. */
static int is_packed_fb2(const char *p, size_t n)
{
	static const char *const endings[] = { "fb2", NULL };
	char name[256] = "";

	if (n <= 30)
		return 0;
	memcpy(name, p + 30, MIN((unsigned char)p[26], n - 30));
	return ends_in(name, endings);
}

static enum doc_type zip_type(const char *p, size_t n)
{
	static const char epub[] = "mimetypeapplication/epub+zip";
	const char *kind = n >= 38 + sizeof odf_mime && !memcmp(p + 30, "mimetype", 8) &&
	                                   !memcmp(p + 38, odf_mime, sizeof odf_mime - 1)
	                           ? p + 38 + sizeof odf_mime - 1
	                           : NULL;
	enum doc_type type;

	/* in EPUB and OpenDocument, the first entry of the archive contains the media type; the entry is not
	 * compressed, so its name is at offset 30, and the media type follows the name */
	if (n >= 30 + sizeof epub - 1 && !memcmp(p + 30, epub, sizeof epub - 1))
		return DOC_EPUB;
	if (kind)
		return is_odf_kind(kind, n - (size_t)(kind - p)) ? DOC_ODF : DOC_TEXT;
	if (is_packed_fb2(p, n))
		return DOC_FB2;
	if ((type = office_type(p, n)) != DOC_TEXT)
		return type;
	/* the entry with the media type may be compressed, or may not be the first one: so search for the names of
	 * other entries */
	if (memmem(p, n, "META-INF/manifest.xml", 21) && memmem(p, n, "content.xml", 11))
		return DOC_ODF;
	return memmem(p, n, "META-INF/container.xml", 22) ? DOC_EPUB : DOC_TEXT;
}

/* 1 if an object of a PDF, such as "1 0 obj <<", begins at p. */
static int has_object(const char *p, size_t n)
{
	for (const char *end = p + n; (p = memmem(p, (size_t)(end - p), " obj", 4)) && p + 4 < end; p += 4)
		if (byte_is_blank(p[4]) || p[4] == '<')
			return 1;
	return 0;
}

/* 1 for a PDF. A PDF begins with "%PDF-", or with a byte order mark or white space before it. "%PDF-" may also come
 * later in the first 1,024 bytes, after the header of a mail or a print job. In this case the name must end in .pdf. If
 * it does not, an object must follow "%PDF-", and the ending of the name must not be that of a text, because a text may
 * quote a PDF. */
static int is_pdf(const char *name, const char *p, size_t n)
{
	static const char *const endings[] = { "pdf", NULL };
	size_t i = n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3) ? 3 : 0;
	const char *head = memmem(p, MIN(n, 1024), "%PDF-", 5);

	if (!head)
		return 0;
	while (i < n && i < 64 && p[i] && strchr(" \t\r\n", p[i]))
		i++;
	if (head == p + i || ends_in(name, endings))
		return 1;
	n -= (size_t)(head - p);
	return !ends_in(name, text_endings) && !ends_in(name, markdown_endings) && !ends_in(name, source_endings) &&
	       !ends_in(name, html_endings) && n > 8 && byte_is_digit(head[5]) && head[6] == '.' &&
	       byte_is_digit(head[7]) && has_object(head, MIN(n, 2048));
}

/* 1 for a Jupyter notebook, by its name or its keys. */
static int is_notebook(const char *name, const char *p, size_t n)
{
	static const char *const endings[] = { "ipynb", NULL };

	return ends_in(name, endings) ||
	       (n && *p == '{' &&
	        (memmem(p, MIN(n, 256), "\"cells\"", 7) || memmem(p, MIN(n, 256), "\"metadata\"", 10)) &&
	        memmem(p, n, "\"nbformat\"", 10) && memmem(p, n, "\"cell_type\"", 11));
}

/* 1 for subtitles: by the name, by "WEBVTT" at the beginning, or by a first cue: "1" and a line with two times. */
static int is_subtitles(const char *name, const char *p, size_t n)
{
	static const char *const endings[] = { "srt", "vtt", "sbv", "ass", "ssa", NULL };

	if (ends_in(name, endings) || (n > 6 && !memcmp(p, "WEBVTT", 6)))
		return 1;
	return n > 40 && *p == '1' && memmem(p, 8, "\n0", 2) && memmem(p, 40, " --> ", 5);
}

/* 1 if the text has a header field with this name: the name and ":" at the beginning of a line. */
static int has_field(const char *p, size_t n, const char *name)
{
	size_t k = strlen(name);

	for (const char *end = p + n; p && (size_t)(end - p) > k; p = memchr(p, '\n', (size_t)(end - p))) {
		p += *p == '\n';
		if ((size_t)(end - p) > k && p[k] == ':' && !strncasecmp(p, name, k))
			return 1;
	}
	return 0;
}

/* 1 for mail: by the name, or by header fields at the beginning, such as "From" and "Message-ID". */
static int is_mail(const char *name, const char *p, size_t n)
{
	static const char *const endings[] = { "eml", "emlx", "mbox", "mbx", "mht", "mhtml", NULL };
	const char *blank = memmem(p, MIN(n, 16384), "\n\n", 2), *crlf = memmem(p, MIN(n, 16384), "\r\n\r\n", 4);
	size_t head = crlf ? (size_t)(crlf - p) : blank ? (size_t)(blank - p) : MIN(n, 16384);

	if (ends_in(name, endings))
		return 1;
	return n > 5 && byte_is_upper(*p) && has_field(p, head, "From") &&
	       (has_field(p, head, "Message-ID") || has_field(p, head, "MIME-Version") ||
	        has_field(p, head, "Received"));
}

/* 1 for PNG, JPEG and TIFF. */
static int is_picture(const char *p, size_t n)
{
	return (n >= 8 && !memcmp(p, "\x89PNG\r\n\x1a\n", 8)) || (n >= 3 && !memcmp(p, "\xff\xd8\xff", 3)) ||
	       (n >= 4 && (!memcmp(p, "II*\0", 4) || !memcmp(p, "MM\0*", 4)));
}

enum doc_type doc_type_of(const char *name, const char *mime, const char *p, size_t n)
{
	char ascii[2048];
	size_t k;
	int utf16 = n >= 2 && (!memcmp(p, "\xff\xfe", 2) || !memcmp(p, "\xfe\xff", 2));

	if (is_pdf(name, p, n))
		return DOC_PDF;
	if (is_picture(p, n))
		return DOC_PICTURE;
	if (n >= 2 && !memcmp(p, "\x1f\x8b", 2))
		return DOC_GZIP;
	if (n >= 4 && !memcmp(p, "PK\3\4", 4))
		return zip_type(p, n);
	if (is_flat_odf(p, n))
		return DOC_ODF;
	if (n >= 5 && !memcmp(p, "{\\rtf", 5))
		return DOC_RTF;
	if (is_fb2(name, p, n))
		return DOC_FB2;
	if (is_feed(p, n))
		return DOC_FEED;
	if (is_notebook(name, p, n))
		return DOC_NOTEBOOK;
	if (ends_in(name, markdown_endings))
		return DOC_MARKDOWN;
	if (ends_in(name, source_endings))
		return DOC_SOURCE;
	if (ends_in(name, text_endings))
		return DOC_TEXT;
	if (is_mail(name, p, n))
		return DOC_MAIL;
	if (is_subtitles(name, p, n))
		return DOC_SUBTITLES;
	k = utf16 ? utf16_to_ascii(p, n, ascii, sizeof ascii) : 0;
	if (is_html(utf16 ? ascii : p, utf16 ? k : n))
		return DOC_HTML;
	if ((ends_in(name, html_endings) ||
	     (mime && (strstr(mime, "text/html") || strstr(mime, "application/xhtml")))) &&
	    has_tag(utf16 ? ascii : p, utf16 ? k : n))
		return DOC_HTML;
	if (mime && strstr(mime, "markdown"))
		return DOC_MARKDOWN;
	return DOC_TEXT;
}

int doc_is_table(const char *name)
{
	static const char *const endings[] = { "csv", "tsv", NULL };

	return ends_in(name, endings);
}

int doc_is_plain(const char *name, const void *bytes, size_t n)
{
	enum doc_type type = doc_type_of(name, NULL, bytes, n);

	/* return 0 for an archive: its first bytes do not show what it contains */
	return !(n >= 4 && !memcmp(bytes, "PK\3\4", 4)) && type <= DOC_SOURCE &&
	       !(type == DOC_TEXT && man_is_source(bytes, n));
}
