/* sessions/import/import_private.h - declarations shared by the files of sessions/import.
 *
 *     import.c              reads files, pipes and addresses
 *     url.c                 reads http and https
 *     list.c                lists the files of a folder or a pattern
 *     ignore.c              finds the files that git ignores
 *     type.c                finds a document's format
 *     document.c            chooses a document's converter
 *     charset.c             encodings by name
 *     guess.c               guesses the encoding of a text
 *     writer.c              output of all converters: text in blocks, lines and table cells, with marks
 *     html.c                HTML and XHTML
 *     html_tree.c           parses HTML
 *     html_elements.c, html_table.c, html_formula.c    write the text of HTML elements
 *     html_rules.c, html_css.c, html_selectors.c       find what style sheets hide
 *     docx.c, docx_*.c      DOCX
 *     odf.c, odf_*.c        OpenDocument
 *     epub.c                EPUB
 *     fb2.c                 FictionBook
 *     rtf.c, rtf_text.c     RTF
 *     form_field.c          form fields of DOCX and RTF
 *     symbol_fonts.c        text for fonts of pictures, such as Wingdings
 *     xlsx.c, xlsx_*.c      Excel workbooks
 *     pptx.c, pptx_layout.c  PowerPoint
 *     opc.c                 parts of DOCX, XLSX and PPTX
 *     feed.c                feeds of news
 *     notebook.c            Jupyter notebooks
 *     subtitles.c           subtitles
 *     mail.c, mime.c        mail
 *     zip.c                 unpacks archives
 *     xml.c                 parses XML
 *     list_labels.c         labels of list items
 *     pdf.c, pdf_*.c        PDF: arrange the words that pdftotext prints by their positions on the page
 *     pdf_convert.c         runs pdftohtml and pdftotext, which parse a PDF in the jail
 *     pdf_scan.c            PDF pages without text
 *     foreign.c             recognises formats that are not read, and names a converter
 *     text.c                plain text of any encoding; refuses binary files
 *     clean.c               removes from a text what only a terminal or printer understands
 *     divided.c             joins words that hyphens divide at the ends of lines
 *     man.c, man_escapes.c, man_mdoc.c    source of manual pages
 *     properties.c          title and author of a file's metadata
 *     marks.c               marks: offsets of pages, headings and paragraphs
 *     marks_text.c          finds the marks of a text
 *     marks_plain.c, marks_markup.c, marks_tex.c       find the headings in one kind of text each
 *     helper.c              parses documents in jailed processes
 *     child.c               starts a jailed process
 *     jailed.c              main function of a jailed process
 *     jail.c                confines a jailed process
 *     records.c             reads what a jailed process prints
 *     ocr.c, ocr_*.c        recognise the text of pictures with tesseract
 *     picture.c             pictures
 *     model.c               checks model files in the jail
 *     stop.c                lets the user stop an import
 *     origin.c              detects changes of a document's file
 *
 * The parsers gumbo, libxml2, libarchive and poppler run only in the jailed process. */
#ifndef WEIR_IMPORT_PRIVATE_H
#define WEIR_IMPORT_PRIVATE_H

#include "sessions/import/import.h"

/* ---- type.c ---- */

/* Find the type of a document by its first bytes, mime (a server's Content-Type, or NULL) and the ending of its name.
 * Returns DOC_TEXT, DOC_MARKDOWN or DOC_SOURCE if no other format is recognised. */
enum doc_type doc_type_of(const char *name, const char *mime, const char *p, size_t n);
/* 1 if the ending of the name says that the lines of the text are rows of a table. */
int doc_is_table(const char *name);

/* ---- charset.c ---- */

struct charset {
	const char *name;  /* name for users: "Windows-1251" */
	const char *iconv; /* name for iconv() */
};
extern const struct charset charset_utf16le, charset_utf16be; /* these two are recognised by a byte order mark */
/* Find a charset by a web label ("latin1", "utf8", "x-sjis"); NULL: unknown. */
const struct charset *charset_by_label(const char *label, size_t n);
/* Find the charset that an HTML page declares in its first 1,024 bytes; NULL: none. */
const struct charset *charset_declared(const char *p, size_t n);
/* 1 if a character may have several bytes: Chinese, Japanese, Korean. */
int charset_is_wide(const struct charset *);
/* Load all of iconv's conversions and keep them in memory. Call this before jail_enter(): glibc loads each conversion
 * from a file, and the jailed process cannot open files. */
void charset_load(void);
/* Append p[n] to *out as UTF-8. Bytes that cannot be decoded become U+FFFD; *replaced receives their number. Returns 0;
 * or -1 if iconv does not know the charset. */
int charset_decode(const struct charset *, const char *p, size_t n, struct str *out, size_t *replaced);
/* Append a page (HTML, XHTML or text) as valid UTF-8. The encoding is the one that the page declares, or else it is
 * guessed from the bytes. The output of iconv() is checked and made valid, too. */
void charset_decode_page(const char *p, size_t n, struct str *out);
/* Return the UTF-8 character of a byte in Adobe's font Symbol, which has an encoding of its own. */
const char *charset_symbol(unsigned char);

/* ---- form_field.c ---- */

enum { FORM_ENTRIES = 64 }; /* maximum number of entries of a list; further entries are ignored */
enum form_kind { FORM_NONE, FORM_BOX, FORM_LIST };

/* A form field of DOCX or RTF. If all members are zero, there is none. */
struct form_field {
	enum form_kind kind;
	int is_set; /* 1: the value was set by the user, and is not the default */
	long value; /* for a box: 1 = ticked; for a list: index of the chosen entry */
	char *entry[FORM_ENTRIES];
	size_t n_entry;
};
/* Set the value of a form field. `by_user` is 1 if the user has set it, and 0 if it is the default, which does not
 * replace a value of the user. */
void form_field_set(struct form_field *, long value, int by_user);
void form_field_entry(struct form_field *, const char *s, size_t n);
/* Return the text for the value of a box or list; NULL: there is none. The field owns the text. */
const char *form_field_value(const struct form_field *);
void form_field_clear(struct form_field *);

/* ---- symbol_fonts.c ---- */

/* Return a number for a font whose characters are pictures, such as Wingdings; 0 for any other font. */
int symbol_font(const char *name, size_t n);
/* Return the text for a byte in a font of pictures; a bullet if the byte has no text. `font` is the result of
 * symbol_font(). */
const char *symbol_text(int font, unsigned char byte);

/* ---- guess.c ---- */

/* Guess the charset of a text that is not UTF-8.  Returns NULL if no charset fits better than Windows-1252. */
const struct charset *charset_guess(const char *p, size_t n);

/* ---- clean.c ---- */

/* Leave out escape sequences, overstruck characters and earlier states of progress lines, and add notices that say so.
 * Other carriage returns end a line. */
void doc_clean_printed(struct doc *);
/* Leave out the data of addresses that hold a whole file ("data:image/png;base64,..."), and add a notice that says
 * so. */
void doc_shorten_data(struct doc *);

/* ---- divided.c ---- */

/* Join the words of a plain text that hyphens divide at the ends of lines, if the text also has these words undivided.
 * Lines keep their numbers. */
void doc_join_divided(struct doc *);

/* ---- man.c ---- */

/* 1 or 2 if the beginning of a text shows that it is the source of a manual page: 1 = with macros of man(7), 2 = of
 * mdoc(7). Else 0. */
int man_is_source(const char *text, size_t n);
/* Replace the source of a manual page by the text that the page shows, and mark its title and headings. */
void man_read(struct doc *);

/* ---- writer.c ---- */

enum gap { GAP_NONE, GAP_SPACE, GAP_LINE, GAP_BLOCK };

#define WRITER_TABLES 16

/* Writes text to a document, block by block. A gap between two texts (a blank, line break or blank line) is first
 * stored in `gap`. It is written when the second text follows. */
struct writer {
	struct doc *doc;   /* receives text, marks, pages and notices */
	enum gap gap;      /* gap that must be written before the next text */
	int pre;           /* > 0: white space is kept */
	int quoting;       /* 1: <blockquote> means a quotation in a mail, whose lines begin with "> " */
	int quotes;        /* number of open quotations */
	int full;          /* 1: the text reached DOC_BYTES_MAX; the rest is dropped */
	struct str prefix; /* indent and label of a list item, which are written before the item's text */
	struct str page;   /* label of a page whose mark must be set at the next text */
	int page_due;
	int heading; /* level of the current heading; 0 = none */
	size_t heading_at;
	size_t raised_end; /* text offset at which the superscript of the last writer_raise() ends */
	struct table {
		size_t row, mark; /* text offset, and index in doc->mark, at which the row begins */
		size_t *cell;     /* [n_cell] text offsets at which the cells of the row begin */
		size_t n_cell, cap;
		/* 1: the cells of this row remain on lines of their own, because the row contains a table or
		 * writer_row_keep() was called */
		int nested;
	} table[WRITER_TABLES];
	int tables; /* nesting depth of the open tables; may exceed WRITER_TABLES */
	int sheet;  /* 1: the tables are sheets of a workbook; each row becomes one line, even a long row */
};
/* write UTF-8 text; white space is collapsed unless w->pre is set */
void writer_text(struct writer *, const char *s, size_t n);
void writer_gap(struct writer *, enum gap);
/* Write a line break. `begun` is 1 if the paragraph already has text; if so, two line breaks in a row make a blank
 * line. */
void writer_line(struct writer *, int begun);
/* Call before superscript text. If the text is a number and follows a letter, digit or bracket, '^' is written first.
 * Without the '^', 10 with exponent 3 would become 103. */
void writer_raise(struct writer *, const char *s, size_t n);
/* Write a part of a formula, such as an exponent. writer_part_begin() writes the part's sign ("^") and returns the
 * offset after it. Pass this offset to writer_part_end(), which puts a part of several words into brackets. */
size_t writer_part_begin(struct writer *, const char *sign);
void writer_part_end(struct writer *, size_t begin);
void writer_page(struct writer *, const char *label, size_t n);
void writer_heading_begin(struct writer *, int level);
void writer_heading_end(struct writer *);
/* Write tables. A row becomes one line with " | " between its cells. A row with headings, tables or long text stays as
 * several lines. In a sheet, a row with long text becomes one line, too. */
void writer_table_begin(struct writer *);
void writer_table_end(struct writer *);
void writer_row_begin(struct writer *);
void writer_cell_begin(struct writer *);
void writer_row_end(struct writer *);
/* Write the last cell or row `times` more times. A spreadsheet file stores a sequence of equal cells or rows only
 * once. */
void writer_cell_repeat(struct writer *, long times);
void writer_row_repeat(struct writer *, long times);
/* Keep each cell of the open rows on a line of its own. Call this if the offset of a text in these rows was stored,
 * because joining the cells would move the text. */
void writer_row_keep(struct writer *);
/* End the open heading and page, and free the writer's memory, but not the document. */
void writer_end(struct writer *);

/* ---- marks.c, marks_*.c ---- */

void doc_mark(struct doc *, enum mark_kind, int level, size_t at, const char *text, size_t n);
void doc_forget_pages(struct doc *); /* delete the page marks, because nobody knows where the pages begin */
/* Mark form feeds as pages. If the type is DOC_TEXT or DOC_MARKDOWN, also mark the headings. */
void doc_mark_text(struct doc *);
/* mark sequences of lines between blank lines as paragraphs; then sort all marks */
void doc_mark_paragraphs(struct doc *);
/* Bytes [from, to) of a text. */
struct range {
	size_t from, to;
};
/* Keep only the given ranges of the document's text, in order, with their marks. Page marks outside of the ranges move
 * to the next text that is kept. */
void doc_keep(struct doc *, const struct range *, size_t n);
/* End the import of DOCX or OpenDocument. Add a notice if hidden characters were left out; `hidden` is their number.
 * Add another notice if damage has ended the text early; *why is then the parser's error. Returns 0, or -1 if there is
 * no text. */
int doc_finish(struct doc *, size_t hidden, const struct err *why, struct err *);
/* Add a notice such as "3 comments left out", unless n is 0. `what` is the noun, "comment". */
void doc_note_left_out(struct doc *, size_t n, const char *what);
/* add one notice, which is a sentence */
void doc_note(struct doc *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Return the level of a line between blank lines that looks like a heading ("3.1 Methods", "CHAPTER IV"); 0 if it
 * does not. */
int heading_level(const char *line, size_t n);
/* The next two functions are for headings in a PDF, where number and title may be on different lines.
 * heading_number_level() returns the level of a line that is only a number ("3.1", "Chapter 4"), or 0. heading_title()
 * returns 1 if the line looks like a title without a number. */
int heading_number_level(const char *line, size_t n);
int heading_title(const char *line, size_t n);

/* Format of the notice about hidden text. Its arguments are the number of characters, and " was" or "s were". */
#define HIDDEN_TEXT "%zu hidden character%s left out"

/* ---- converters, run in the jailed process ----
 *
 * Each converter turns bytes into text with marks, page count and notices, in a zeroed document. Returns 0 or -1.
 * e->msg then is only the end of a sentence, such as "is encrypted". The parent process puts "document 'NAME' " before
 * it. */

/* How to find the style sheets that a page names by <link>. find() returns the n bytes of the sheet `href`, which stay
 * valid until the page is converted. It returns NULL if the sheet is missing. */
struct html_sheets {
	const char *(*find)(void *ud, const char *href, size_t *n);
	void *ud;
};
/* Write XHTML or MathML that is a part of a document, such as an EPUB chapter. If `sheets` is NULL, linked style sheets
 * are not applied. Returns the number of hidden characters left out. */
size_t html_convert(struct writer *, const char *utf8, size_t n, const struct html_sheets *sheets);
int html_import(const char *p, size_t n, struct doc *, struct err *);
int epub_import(const char *p, size_t n, struct doc *, struct err *);
int docx_import(const char *p, size_t n, struct doc *, struct err *);
/* convert OpenDocument texts, spreadsheets and presentations, as zip archives or single XML files */
int odf_import(const char *p, size_t n, struct doc *, struct err *);
int rtf_import(const char *p, size_t n, struct doc *, struct err *);
int xlsx_import(const char *p, size_t n, struct doc *, struct err *);
int pptx_import(const char *p, size_t n, struct doc *, struct err *);
int feed_import(const char *p, size_t n, struct doc *, struct err *);
/* convert FictionBook: an XML file, or a zip archive with one */
int fb2_import(const char *p, size_t n, struct doc *, struct err *);
int mail_import(const char *p, size_t n, struct doc *, struct err *);
/* unpack a gzip file: the document's text becomes the unpacked bytes */
int gzip_import(const char *p, size_t n, struct doc *, struct err *);
/* these two functions need text that text_decode() has decoded */
int notebook_import(const char *p, size_t n, struct doc *, struct err *);
int subtitles_import(const char *p, size_t n, struct doc *, struct err *);
/* Import a PDF; pdf_feed() describes the input. A page without readable text gets a mark of level PAGE_EMPTY or
 * PAGE_UNREADABLE, and the parent process then recognises its text. The document may have no text at all. */
int pdf_import(const char *p, size_t n, struct doc *, struct err *);
/* Append the language that the catalog of a PDF names, such as "de-AT", truncated to 15 bytes. In pdf_language.c. */
void pdf_language(const char *p, size_t n, struct str *out);

/* ---- zip.c ---- */

struct zip_entry {
	char *name;
	/* other names under which zip_find() finds the entry. They are in Unicode NFC with case folded, and each is
	 * between newlines. */
	char *keys;
	char *p;
	size_t n;
};
struct zip {
	struct zip_entry *entry;
	size_t n, cap;
};
/* Unpack the entries whose name want() accepts. Too many entries, entries that are too large, and a compression ratio
 * that is too high are errors. */
int zip_read(struct zip *, const char *p, size_t n, int want(const char *name), struct err *);
/* Find an entry by its name. If no entry has exactly this name, find one by its keys (struct zip_entry). NULL: there is
 * none. */
const struct zip_entry *zip_find(const struct zip *, const char *name);
/* Resolve href, a link in the entry `base`, to the name of an entry, which the caller frees: decode %XX, resolve "."
 * and "..", drop "#...". Returns NULL if the path would leave the archive. */
char *zip_path(const char *base, const char *href, size_t n);
void zip_free(struct zip *);

/* ---- xml.c ---- */

struct xml_attr {
	const char *name;
	const char *value;
	size_t n;
}; /* `name` has no namespace prefix; `value` has n bytes and no NUL */
struct xml_handler {
	/* the names of elements and attributes have no namespace prefix */
	void (*start)(void *ud, const char *name, const struct xml_attr *, size_t n);
	void (*end)(void *ud, const char *name);
	void (*text)(void *ud, const char *s, size_t n);
};
/* Parse well-formed XML without external files and without entities other than the five predefined ones. Returns 0 or
 * -1. After -1, *e says what is wrong and where; the handler was called for everything before that place. */
int xml_parse(const char *what, const char *p, size_t n, const struct xml_handler *, void *ud, struct err *);
/* Append a file as UTF-8 to *text. Returns the offset in *text after the XML declaration. Pass this offset to
 * xml_parse(). */
const char *xml_decode(const char *p, size_t n, struct str *text);
const struct xml_attr *xml_attr(const struct xml_attr *, size_t n, const char *name);
int xml_attr_is(const struct xml_attr *, size_t n, const char *name, const char *value);
/* Return the number in an attribute, or the value `otherwise` if the attribute is NULL, empty or too long. */
long xml_number(const struct xml_attr *, long otherwise);

/* ---- properties.c ---- */

/* Title and authors that a file's metadata name, as they are in the file. */
struct properties {
	struct str title, author;
	struct str *into; /* the string that receives the text of the open XML element; NULL: none */
};
/* Handle the elements dc:title and dc:creator, as an xml_handler does. A creator with a role other than "aut" is not an
 * author. At the end of any element, set `into` to NULL. */
void properties_start(struct properties *, const char *name, const struct xml_attr *, size_t n);
void properties_text(struct properties *, const char *s, size_t n);
/* Write "Title: ..." and "Author: ..." before the text of a complete document, and move its marks, unless the beginning
 * of the text has the same words. `is_book` is 1 for a format whose metadata a publisher writes. Otherwise the title is
 * left out, and an author that may be an account or a program. */
void properties_write(struct doc *, const struct properties *, int is_book);
void properties_free(struct properties *);

/* ---- opc.c ---- */

/* Write the author that the file's core properties name before the text (properties_write()). */
void opc_properties(const struct zip *, struct doc *);

/* The relationships of a part of an Office file: the ids by which this part refers to other parts. */
struct opc {
	const struct zip *zip;
	struct opc_relation {
		char *id, *type; /* `type` is a URL; its end, such as "/worksheet", names the kind of the part */
		char *target;    /* name of the part's entry; the archive may lack this entry */
	} * relation;
	size_t n, cap;
};
/* Read the relationships of the part with this name, or of the whole file if the name is "". A part without
 * relationships gives an empty list. */
void opc_read(struct opc *, const struct zip *, const char *part);
void opc_free(struct opc *);
/* Find the part that an id names, or the first one of a type, such as "worksheet". NULL: missing. */
const struct zip_entry *opc_by_id(const struct opc *, const struct xml_attr *id);
const struct zip_entry *opc_by_type(const struct opc *, const char *type);
/* Find the main part of the file, which the file's relationships name. If they do not name it, take the entry with the
 * name `usual`. Returns NULL if the part is missing. */
const struct zip_entry *opc_main(const struct zip *, const char *usual);
/* A callback for zip_read(): 1 for XML that may contain text of the document. */
int opc_want(const char *name);
/* Count the entries whose names begin with `beginning`, such as "xl/charts/chart", and that contain an element with
 * this name. */
size_t opc_count(const struct zip *, const char *beginning, const char *element);
/* Count the elements with this name in the entries whose names begin with `beginning`. */
size_t opc_elements(const struct zip *, const char *beginning, const char *element);

/* ---- list_labels.c ---- */

enum { LIST_LEVELS = 9, LIST_PATTERN_MAX = 64 };
enum list_format {
	LIST_DECIMAL,
	LIST_LETTER,
	LIST_CAPITAL_LETTER,
	LIST_ROMAN,
	LIST_CAPITAL_ROMAN,
	LIST_BULLET /* items have no number */
};
struct list_level {
	enum list_format format;
	/* how letters number the items after item 26 (z): 1 = aa, ab, ac, like the columns of a spreadsheet; 0 = aa,
	 * bb, cc */
	int as_columns;
	/* `count` is the number of the last item; before the first item it is start - 1 */
	long start, count;
	char pattern[LIST_PATTERN_MAX]; /* pattern of the label, such as "%1.%2."; %N stands for the count of level N */
};
void list_levels_begin(struct list_level[LIST_LEVELS]); /* set all levels to decimal numbers from 1 */
/* let level `from` and deeper levels begin with their start values again */
void list_levels_restart(struct list_level[LIST_LEVELS], int from);
/* count one item of `level`; deeper levels begin again */
void list_levels_count(struct list_level[LIST_LEVELS], int level);
/* Append the number of the item that was counted last, such as "2.a) ". Returns 0 if the item has no number. */
int list_label(const struct list_level[LIST_LEVELS], int level, struct str *out);
/* Return the start value of an item or level, clamped to a sane range; 1 if the attribute is missing. */
long list_start(const struct xml_attr *);

/* ---- docx_lists.c ---- */

struct docx_lists;
struct docx_lists *docx_lists_read(const struct zip_entry *numbering);
/* Count one item of a list and append its number, such as "2.a) ". Returns 0 if the list is unknown or its items have
 * bullets. */
int docx_lists_label(struct docx_lists *, long num, long level, struct str *out);
void docx_lists_free(struct docx_lists *);

/* ---- odf_styles.c ---- */

/* Properties of a paragraph, text span, section or table: the properties of its style, and those that the style
 * inherits. */
struct odf_look {
	int level; /* heading level; 0 = not a heading */
	/* flags: `hidden` is 1 for hidden text, `raised` for a superscript, `kept` if white space is kept, as in
	 * program text */
	int hidden, raised, kept;
	int break_before, break_after;
	long page_number; /* if break_before is 1: number of the new page, or 0 for the next number */
	const char *list; /* name of the list style (owned by the styles); NULL = none */
};
struct odf_styles;
/* Hash a name. `family` is a letter for the kind of the name, because a style and a list may have the same name. */
size_t odf_name_hash(char family, const char *name, size_t n);
/* Read the styles of styles.xml and content.xml. NULL: the file is missing. */
struct odf_styles *odf_styles_read(const struct zip_entry *styles, const struct zip_entry *content);
/* Set *out to the properties of a style, including those that the style inherits. `family` is "paragraph", "text",
 * "section" or "table". */
void odf_style(const struct odf_styles *, const char *family, const struct xml_attr *name, struct odf_look *out);
/* How a list style numbers its items. level[].count is the number of the item that was counted last, in any list of
 * this style. */
struct odf_list_style {
	struct list_level level[LIST_LEVELS];
	int used;       /* 1: some list has this style */
	size_t counter; /* index, in struct odf_lists, of the counter of the last list with this style */
};
/* Find a list style by its name; NULL: there is none. */
struct odf_list_style *odf_list_style(struct odf_styles *, const char *name, size_t n);
struct list_level *odf_outline(struct odf_styles *); /* return the levels of numbered headings, with their counts */
void odf_styles_free(struct odf_styles *);

/* ---- jail.c ---- */

enum jail_kind {
	JAIL_PARSE, /* the process may only read and write files that are open already */
	JAIL_EXEC,  /* the process may execute one program, which may read its libraries and data */
	/* the process may do what JAIL_PARSE allows, and open a model file, or its folder if the model is split
	 * into files */
	JAIL_MODEL,
};
/* Which parts the jail has in addition to its limits. `root` is 1 if the jail has a root directory of its own.
 * `landlock` is the version of Landlock's ABI. 0 means that the kernel does not offer this part to users. `seccomp` is
 * 0 on systems other than Linux, where the jail has only limits. */
struct jail_level {
	int root, landlock, seccomp;
};
/* Confine this process for good. `path` is the absolute path of the program (JAIL_EXEC) or of the model file
 * (JAIL_MODEL). `data` is the absolute path of a further folder that the program may read; NULL or "" = none. Returns
 * 0; or -1 if the process is not confined, and then the caller must not parse anything. */
int jail_enter(enum jail_kind, const char *path, const char *data, struct jail_level *, struct err *);

/* ---- jailed.c ---- */

/* Arguments of the jailed process. argv[1] is helper_argument. argv[2] says what to do:
 * - If it is a doc_type_name, parse a document. For a PDF, parse the output of pdftohtml and pdftotext.
 * - If it is helper_language_type, find the language of a PDF.
 * - If it is helper_model_type, read the model file argv[3].
 * - If it is helper_program_type, execute the program argv[3] with the arguments from argv[5] on. The program may read
 *   the folder argv[4]; "" means that there is none. */
extern const char helper_argument[], helper_language_type[], helper_model_type[], helper_program_type[];
/* Exit status of the jailed process if jail_enter() failed. Executed programs do not use this status. */
enum { EXIT_NO_JAIL = 125 };

/* ---- helper.c ---- */

/* Convert a document in a jailed process. *out is overwritten. Returns 0; or -1, and then e->msg is a complete
 * sentence. */
int helper_convert(enum doc_type, const char *name, const char *p, size_t n, struct doc *out, struct err *);

/* Read a model file (absolute path) in a jailed process. Returns 0 if the file is good. Returns 1 if the reader has
 * refused the file, or if there is no jail: the caller then reads the file itself and reports the error. Returns -1 if
 * the reader crashed, or used too much time or memory; *e says so. */
int helper_model(const char *path, struct err *);

/* ---- stop.c ---- */

#define STOP_EVERY_MS 50
/* 1 if the user has stopped the import. Call this every STOP_EVERY_MS milliseconds. */
int import_stopped(void);
/* Set ERR_CANCELLED: "document 'SHOWN' was not read: stopped". Returns -1. */
int import_refuse_stopped(const char *shown, struct err *);

/* ---- url.c ---- */

int url_document(const char *url, struct doc *, struct err *);

/* ---- document.c ---- */

/* Import bytes of any format. `mime` is a server's Content-Type, or NULL. */
int document_import(const char *name, const char *mime, const char *p, size_t n, struct doc *, struct err *);

/* ---- ignore.c ---- */

/* The .gitignore files that apply to a folder, from the highest folder to the deepest one. All paths are absolute. */
struct ignores {
	struct ignore_file *at;
	size_t n, cap;
};
/* Read the .gitignore files of the folders above a folder, if it is part of a git repository. */
void ignores_above(struct ignores *, const char *folder);
/* Read the .gitignore of a folder. `level` is 0 for the folder that is listed, 1 for a folder in it, and so on. Before
 * that, drop the .gitignore files that were read for this level and deeper levels, because they belong to other
 * folders. */
void ignores_enter(struct ignores *, const char *folder, int level);
void ignores_leave(struct ignores *, int level);
/* 1 if git ignores the path. Call it only if git does not ignore the folders of the path. */
int ignores_tell(const struct ignores *, const char *path, int is_folder);
void ignores_free(struct ignores *);

/* ---- origin.c ---- */

struct stat;
int64_t origin_mtime(const struct stat *); /* return the time of the last change, in nanoseconds since 1970 */
/* Record the file that a document was read from: its path, size, time and hash. `st` must be taken when the file was
 * opened. */
void origin_note(struct doc_origin *, const char *path, const struct stat *st, const void *bytes, size_t n);

/* ---- foreign.c ---- */

/* Recognise a file of a format that is not read, by its bytes. Returns 1 and appends "is a DjVu file: convert it with
 * ..."; 0 if the format is not recognised. */
int foreign_why(const char *p, size_t n, struct str *why);

/* ---- text.c ---- */

/* Decode plain text of any encoding to UTF-8. Binary files are refused; *e says what they are. Type and marks of the
 * document are not set. */
int text_decode(const char *name, const char *p, size_t n, struct doc *, struct err *);
/* Make bytes valid UTF-8 with \n line ends and without NULs. */
void text_tidy(struct str *);
const char *doc_shown(const char *path); /* Return the last part of a path, for messages. */
/* Set ERR_DOCUMENT: "document 'PATH' WHY". Returns -1. */
int doc_refuse(struct err *, const char *path, const char *why);

#endif
