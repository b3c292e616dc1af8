/* sessions/import/import_private.h - private to sessions/: how documents of every format become text with marks.
 *
 *     type.c      what a document is, by its first bytes and its name
 *     charset.c   the encoding that an HTML page declares;  guess.c  the one that a text seems to have
 *     writer.c    text with marks, written by blocks, lines and cells: what all converters share
 *     html.c      HTML and XHTML, html_rules.c what their style sheets hide
 *     docx.c with docx_lists.c, odf.c with odf_*.c, epub.c  over zip.c and xml.c;  list_labels.c  the labels of list items
 *     rtf.c with rtf_text.c  RTF
 *     pdf.c       what pdftotext prints: pages, running heads and feet, hyphens, ligatures
 *     text.c      plain text of any encoding, and what is no text
 *     marks.c     marks of plain text: pages, headings, paragraphs
 *     jail.c      the limits of a process that parses;  helper.c  that process and its parent
 *     url.c       http and https;  document.c  puts all of it together
 *     stop.c      stopping an import
 *     list.c      the files that a folder or a pattern names
 *     origin.c    the file that a document was read from, and whether it has changed
 *
 * Everything that libxml2, libarchive or poppler parses is parsed by another process, in a jail (helper.c). */
#ifndef WEIR_IMPORT_PRIVATE_H
#define WEIR_IMPORT_PRIVATE_H

#include "sessions/import/import.h"

/* ---- type.c ---- */

/* What a document is; DOC_TEXT, DOC_MARKDOWN or DOC_SOURCE where nothing else is recognised.  name: only its ending counts.
 * mime: the Content-Type of a server, or NULL. */
enum doc_type doc_type_of(const char *name, const char *mime, const char *p, size_t n);

/* ---- charset.c ---- */

struct charset {
	const char *name;      /* as users know it: "windows-1251" */
	const char *iconv;     /* what iconv() calls it */
};
extern const struct charset charset_utf16le, charset_utf16be;   /* recognised by a byte order mark alone */
/* By a label of the web ("latin1", "utf8", "x-sjis"); NULL: unknown. */
const struct charset *charset_by_label(const char *label, size_t n);
/* The one that an HTML page declares in its first 1,024 bytes; NULL: none. */
const struct charset *charset_declared(const char *p, size_t n);
/* Load every conversion into this process, once, and keep it: the C library has most of them in files of their own, which a process in
 * the jail cannot open, and unloads those that nobody uses. */
void charset_load(void);
/* To UTF-8; bytes that cannot be decoded become U+FFFD and are counted.  -1: iconv does not know it. */
int charset_decode(const struct charset *, const char *p, size_t n, struct str *out, size_t *replaced);
/* The sign that a byte of the font Symbol stands for, which has a code of its own. */
const char *charset_symbol(unsigned char);

/* ---- guess.c ---- */

/* The one that a text seems to have which is no UTF-8.  NULL: none is better than Windows-1252. */
const struct charset *charset_guess(const char *p, size_t n);

/* ---- writer.c ---- */

enum gap { GAP_NONE, GAP_SPACE, GAP_LINE, GAP_BLOCK };

#define WRITER_TABLES 16

/* Text that grows block by block.  Gaps are pending until text follows, so the text begins and ends without one. */
struct writer {
	struct doc *doc;            /* text, marks, pages and notices go there */
	enum gap gap;               /* before the next text */
	int pre;                    /* > 0: white space is kept */
	int full;                   /* the text has reached DOC_BYTES_MAX: the rest is left out */
	struct str prefix;          /* of the next text: indent and bullet of a list item */
	struct str page;            /* label of the page that begins with the next text */
	int page_due;
	int heading;                /* level of the heading that is being written, 0 = none */
	size_t heading_at;
	size_t raised_end;          /* where the text that writer_raise() announced ends */
	struct table {
		size_t row, mark;       /* where the row and its marks begin */
		size_t *cell;           /* where its cells begin */
		size_t n_cell, cap;
		int nested;             /* the row holds another table, or must stay as it is */
	} table[WRITER_TABLES];
	int tables;                 /* how deep, may exceed WRITER_TABLES */
};
void writer_text(struct writer *, const char *s, size_t n);   /* UTF-8; white space collapses unless w->pre */
void writer_gap(struct writer *, enum gap);
void writer_line(struct writer *, int begun);   /* the next line of a paragraph; begun: it has text, so a second break makes an empty line */
/* Before text that stands above the line: a '^', where the text is a number behind a letter, a digit or a bracket.  10 and 3 are not 103. */
void writer_raise(struct writer *, const char *s, size_t n);
/* A part of a formula: the sign before it, and brackets around it once it has ended and turns out to be more than one word. */
size_t writer_part_begin(struct writer *, const char *sign);
void writer_part_end(struct writer *, size_t begin);
void writer_page(struct writer *, const char *label, size_t n);
void writer_heading_begin(struct writer *, int level);
void writer_heading_end(struct writer *);
/* Tables: a row becomes one line with " | " between cells, unless it holds headings, tables or much text. */
void writer_table_begin(struct writer *);
void writer_table_end(struct writer *);
void writer_row_begin(struct writer *);
void writer_cell_begin(struct writer *);
void writer_row_end(struct writer *);
/* The last cell, and the last row, `times` more times: spreadsheets keep equal neighbours once. */
void writer_cell_repeat(struct writer *, long times);
void writer_row_repeat(struct writer *, long times);
void writer_row_keep(struct writer *);   /* the open rows stay lines: somebody remembers a place of their text */
void writer_end(struct writer *);                             /* frees what the writer holds; the document stays */

/* ---- marks.c ---- */

void doc_mark(struct doc *, enum mark_kind, int level, size_t at, const char *text, size_t n);
void doc_forget_pages(struct doc *);     /* where they begin is not known */
void doc_mark_text(struct doc *);        /* pages and headings of plain text, Markdown; by doc->type */
void doc_mark_paragraphs(struct doc *);  /* of any text: runs of lines between blank ones.  Sorts all marks */
/* Only [from[i], to[i]) of the text stay, in order; marks move along. */
struct range { size_t from, to; };
void doc_keep(struct doc *, const struct range *, size_t n);
/* What DOCX and OpenDocument end with: a note on hidden characters, and on damage that ended the text (why, from its parser); -1 where there is none. */
int  doc_finish(struct doc *, size_t hidden, const struct err *why, struct err *);
void doc_note(struct doc *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));   /* one sentence */
/* A line that stands alone and looks like a heading ("3.1 Methods", "CHAPTER IV"): its level, or 0. */
int heading_level(const char *line, size_t n);
/* PDF has a heading's number in a block of its own, "3.1" or "Chapter 4": its level, or 0; and what its title looks like. */
int heading_number_level(const char *line, size_t n);
int heading_title(const char *line, size_t n);
/* Mark the headings of the page that the text has from byte `from` on, each a block of its own (pdf_headings.c). */
void pdf_mark_headings(struct doc *, size_t from);

/* A note: count, ends of the plural. */
#define HIDDEN_TEXT "%zu hidden character%s left out"

/* ---- converters: they run in the jail ----
 * Bytes to a zeroed document with text, marks, pages and notices.  -1: *e is the rest of a sentence that begins with the document's
 * name ("is encrypted"). */

/* Returns the characters of hidden text, which are left out. */
size_t html_convert(struct writer *, const char *utf8, size_t n);
int  html_import(const char *p, size_t n, struct doc *, struct err *);
int  epub_import(const char *p, size_t n, struct doc *, struct err *);
int  docx_import(const char *p, size_t n, struct doc *, struct err *);
int  odf_import(const char *p, size_t n, struct doc *, struct err *);    /* OpenDocument: text, spreadsheet, presentation; packed or one XML file */
int  rtf_import(const char *p, size_t n, struct doc *, struct err *);
int  gzip_import(const char *p, size_t n, struct doc *, struct err *);   /* text = the bytes unpacked */
int  pdf_import(const char *p, size_t n, struct doc *, struct err *);    /* what pdftotext printed */

/* ---- html_rules.c ---- */

enum { HTML_RULES = 256 };
struct html_rules { struct { char name[48]; } rule[HTML_RULES]; int n; };   /* ".secret", "#secret" */
/* The rules of a style sheet, which is emptied. */
void html_rules_read(struct html_rules *, struct str *css);
int  html_rules_hide(const struct html_rules *, const char *id, const char *classes);   /* NULL: the element has none */
/* Do these declarations hide an element? */
int  css_hides(const char *css, size_t n);

/* ---- zip.c ---- */

struct zip_entry { char *name; char *p; size_t n; };
struct zip { struct zip_entry *entry; size_t n, cap; };
/* Every entry whose name `want` accepts, unpacked in memory, within the limits on entries, sizes and ratio. */
int  zip_read(struct zip *, const char *p, size_t n, int want(const char *name), struct err *);
const struct zip_entry *zip_find(const struct zip *, const char *name);   /* NULL: not there */
void zip_free(struct zip *);

/* ---- xml.c ---- */

struct xml_attr { const char *name; const char *value; size_t n; };   /* local name; value is not terminated */
struct xml_handler {
	void (*start)(void *ud, const char *name, const struct xml_attr *, size_t n);   /* local names */
	void (*end)(void *ud, const char *name);
	void (*text)(void *ud, const char *s, size_t n);
};
/* Well-formed XML; no entities but the five of XML, nothing is fetched.  -1: *e says why and where; what was parsed until
 * there has been reported. */
int xml_parse(const char *what, const char *p, size_t n, const struct xml_handler *, void *ud, struct err *);
const struct xml_attr *xml_attr(const struct xml_attr *, size_t n, const char *name);
int xml_attr_is(const struct xml_attr *, size_t n, const char *name, const char *value);
long xml_number(const struct xml_attr *, long otherwise);   /* otherwise: the attribute is NULL, empty or too long */

/* ---- list_labels.c ---- */

enum { LIST_LEVELS = 9, LIST_PATTERN_MAX = 64 };
enum list_format { LIST_DECIMAL, LIST_LETTER, LIST_CAPITAL_LETTER, LIST_ROMAN, LIST_CAPITAL_ROMAN, LIST_BULLET /* no label */ };
struct list_level {
	enum list_format format;
	int as_columns;                  /* letters go on behind z with aa, ab, like the columns of a sheet; 0: with aa, bb */
	long start, count;               /* count: of the last item, start - 1 before the first one */
	char pattern[LIST_PATTERN_MAX];  /* "%1.%2." */
};
void list_levels_begin(struct list_level[LIST_LEVELS]);               /* decimal numbers from 1, one a level */
void list_levels_restart(struct list_level[LIST_LEVELS], int from);   /* level `from` and those below it */
void list_levels_count(struct list_level[LIST_LEVELS], int level);    /* one more item; the levels below begin anew */
/* Append the label of the item that was counted last, "2.a) ".  0: it has none. */
int  list_label(const struct list_level[LIST_LEVELS], int level, struct str *out);
long list_start(const struct xml_attr *);                             /* what an item or a level begins with, made safe; 1: it does not say */

/* ---- docx_lists.c ---- */

struct docx_lists;
struct docx_lists *docx_lists_read(const struct zip_entry *numbering);   /* NULL: the file has no lists */
/* Counts one more item of a list and appends its label, "2.a) ".  0: a bullet, or an unknown list. */
int  docx_lists_label(struct docx_lists *, long num, long level, struct str *out);
void docx_lists_free(struct docx_lists *);

/* ---- odf_styles.c ---- */

/* What a style and those that it is based on say of a paragraph, a run of text, a section or a table. */
struct odf_look {
	int level;            /* of the heading that it makes, 0 = none */
	int hidden, raised, kept;    /* kept: white space counts, as in program text */
	int break_before, break_after;
	long page_number;     /* of the page that begins before it, 0 = the next one */
	const char *list;     /* name of the list style, of the styles; NULL = none */
};
struct odf_styles;
size_t odf_name_hash(char family, const char *name, size_t n);   /* for tables of names; family: a letter for each kind of name */
struct odf_styles *odf_styles_read(const struct zip_entry *styles, const struct zip_entry *content);   /* either may be NULL: there is no such part */
/* family: "paragraph", "text", "section", "table". */
void odf_style(const struct odf_styles *, const char *family, const struct xml_attr *name, struct odf_look *out);
/* How a list style numbers items; the count of a level is that of the item numbered last, of whichever list. */
struct odf_list_style {
	struct list_level level[LIST_LEVELS];
	int used;             /* a list has this style; counter: of the last one */
	size_t counter;
};
struct odf_list_style *odf_list_style(struct odf_styles *, const char *name, size_t n);   /* NULL: there is none of this name */
struct list_level *odf_outline(struct odf_styles *);   /* the levels of headings, which count themselves */
void odf_styles_free(struct odf_styles *);

/* ---- jail.c ---- */

enum jail_kind {
	JAIL_PARSE,     /* reads and writes what is open, and nothing else */
	JAIL_EXEC,      /* may execute one program and read the libraries and data files that it needs */
	JAIL_MODEL,     /* may also open a model file, and those beside it where the model has several */
};
struct jail_level { int root, landlock; };   /* 0: the kernel has none, or does not let its users; landlock: ABI version.  The other parts are always there */
/* Confine this process for good.  path: what JAIL_EXEC may execute, JAIL_MODEL may read; absolute.  -1: it could not, and nothing should be parsed. */
int jail_enter(enum jail_kind, const char *path, struct jail_level *, struct err *);

/* ---- jailed.c ---- */

/* argv[1] of the process that parses; argv[2] is a name of enum doc_type, or this one, argv[3] the path of the model file or of pdftotext; a PDF
 * without it is the text that pdftotext printed. */
extern const char helper_argument[], helper_model_type[];

/* ---- helper.c ---- */

/* Convert in another process; *out is zeroed first.  e.msg is a whole sentence. */
int helper_convert(enum doc_type, const char *name, const char *p, size_t n, struct doc *out, struct err *);

/* Read a model file, by its absolute path, in another process.  0: its reader likes it; 1: it does not, or there is no jail: the caller hears why
 * when it reads the file itself; -1: the reader crashed or took too much, *e says so. */
int helper_model(const char *path, struct err *);

/* ---- stop.c ---- */

#define STOP_EVERY_MS 50
/* Has the user stopped the import?  Asked every STOP_EVERY_MS. */
int import_stopped(void);
int import_refuse_stopped(const char *shown, struct err *);   /* ERR_CANCELLED: "document 'SHOWN' was not read: stopped" */

/* ---- url.c ---- */

int url_document(const char *url, struct doc *, struct err *);

/* ---- document.c ---- */

/* Bytes of any format; mime: a server's Content-Type, or NULL. */
int document_import(const char *name, const char *mime, const char *p, size_t n, struct doc *, struct err *);

/* ---- origin.c ---- */

struct stat;
/* A regular file: st as it was opened, and what was read of it. */
void origin_note(struct doc_origin *, const char *path, const struct stat *st, const void *bytes, size_t n);

/* ---- text.c ---- */

/* Plain text of any encoding to UTF-8; what is no text is refused by name.  No type, no marks. */
int text_decode(const char *name, const char *p, size_t n, struct doc *, struct err *);
const char *doc_shown(const char *path);   /* the end of a path, as errors name it */
/* ERR_DOCUMENT: "document 'PATH' WHY". */
int  doc_refuse(struct err *, const char *path, const char *why);

#endif
