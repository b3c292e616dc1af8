/* sessions/import/import.h - converts a document of any format to text with marks (offsets of pages, headings and
 * paragraphs), or refuses it with one sentence that names the document.
 *
 * Formats that need a complex parser are parsed by a second process in a jail. Functions return 0, or -1 with *err
 * set, unless their comment says otherwise. */
#ifndef WEIR_IMPORT_H
#define WEIR_IMPORT_H

#include "engine/base/base.h"

#define DOC_BYTES_MAX (64u << 20) /* maximum size in bytes of a document's file, and of the text made from it */

enum doc_type {
	DOC_TEXT,
	DOC_MARKDOWN,
	DOC_SOURCE,
	DOC_HTML,
	DOC_EPUB,
	DOC_DOCX,
	DOC_PDF,
	DOC_GZIP,
	DOC_ODF,
	DOC_RTF,
	DOC_NOTEBOOK,
	DOC_SUBTITLES,
	DOC_MAIL,
	DOC_XLSX,
	DOC_PICTURE, /* PNG, JPEG or TIFF, whose text is recognised */
	DOC_PPTX,
	DOC_FB2,
	DOC_FEED,
	DOC_TYPES
};
/* names of enum doc_type: "text", "markdown", "source", "html", "epub", "docx", "pdf", "gzip", "odf", "rtf",
 * "notebook", "subtitles", "mail", "xlsx", "picture", "pptx", "fb2", "feed" */
extern const char *const doc_type_name[];

enum mark_kind { MARK_PAGE, MARK_HEADING, MARK_PARAGRAPH, MARK_KINDS };
/* How the text of a page was found. Only PAGE_TEXT and PAGE_RECOGNISED are stored in chat.db. */
enum page_state {
	PAGE_TEXT,       /* the text is in the file */
	PAGE_RECOGNISED, /* the text was recognised in a picture of the page, and may hold errors */
	PAGE_EMPTY,      /* the page has no text */
	PAGE_UNREADABLE, /* the page's fonts do not say which characters its glyphs stand for */
};
struct mark {
	enum mark_kind kind;
	int level; /* level of a heading, 1 to 6; for a page, an enum page_state */
	/* offset of the first byte of the page, heading or paragraph. A page or section ends where the next one
	 * begins */
	size_t at;
	char *text; /* label of a page ("12", "xii") or text of a heading; NULL for a paragraph */
	/* Used by marks_at(). last[kind] is 1 + the index of the last mark of that kind among the marks up to and
	 * including this one; 0 = there is none. If all three are 0, they are not computed yet. */
	uint32_t last[MARK_KINDS];
};

/* The file that a document was read from, so that later changes can be noticed. */
struct doc_origin {
	char *path;          /* absolute path; NULL: the document is not from a file, or its path is unknown */
	int64_t size, mtime; /* size in bytes; mtime in nanoseconds since 1970 */
	uint8_t hash[32];    /* SHA-256 of the file */
};

/* A document as UTF-8 text with \n line ends. The text is untrusted: tokenize it without special tokens, and pass
 * it through clean_text() before it reaches a terminal. */
struct doc {
	char *name;           /* last part of the path, or "standard input"; it may contain control characters */
	enum doc_type type;   /* type after unpacking, so never DOC_GZIP; stored in chat.db */
	const char *encoding; /* name of the file's encoding: "UTF-8", "UTF-16LE", "UTF-16BE", "Windows-1252", ... */
	uint64_t bytes;       /* size of the imported file */
	struct str text;
	struct mark *mark; /* [n_mark] marks in ascending order of `at` */
	size_t n_mark;
	int32_t pages;      /* number of pages; 0: the format has no pages */
	struct str notices; /* notices for the user, one sentence a line; may be empty */
	/* Running heads, feet and page numbers of a PDF. They are not in `text`. Each of them is a line
	 * "PAGE\tLINE\n". */
	struct str left_out;
	struct doc_origin origin;
};

/* Read a regular file, standard input ("-": a pipe, a socket or a redirected file), or an http(s) address. After -1,
 * *out is empty, and the error is ERR_DOCUMENT, ERR_CANCELLED, or ERR_FIT if memory is short. */
int doc_read(const char *path_or_dash, struct doc *out, struct err *e);
/* Convert a document in memory. Its name helps to find its type, and appears in messages. */
int doc_decode(const char *name, const void *bytes, size_t n, struct doc *out, struct err *e);
/* 1 if name and first bytes show that the file is plain text, source code or Markdown, so that a part of it can be read
 * alone. 0 if doc_decode() needs the whole file. */
int doc_is_plain(const char *name, const void *bytes, size_t n);
/* 1 if doc_decode() cleans a document of this name and type in the way of printed_clean(). 0 for source code and
 * tables. */
int doc_may_be_printed(const char *name, enum doc_type);
/* Clean whole lines of a text that a program printed, in place: leave out escape sequences, overstruck characters and
 * earlier states of progress lines. Other carriage returns end a line. The text does not grow. */
void printed_clean(struct str *lines);
/* Check the web address `said`. Append the address to fetch to *url, with blanks as %20. Append the address to show to
 * *shown, without "?..." and "#...", which may be secret. Returns 0; or -1 with ERR_DOCUMENT if the address is refused,
 * for example because it contains a user name. */
int doc_address(const char *said, struct str *url, struct str *shown, struct err *);
/* Set a function that every import of this process calls twenty times a second, from any thread. If it returns nonzero,
 * the import ends with ERR_CANCELLED. NULL removes it. */
void doc_stop_when(int (*stopped)(void));
/* How text in pictures is recognised (OCR). It is used for documents that are pictures, and for pages of a PDF without
 * readable text. The program tesseract must be installed. Strings are not copied. */
struct doc_recognition {
	/* languages, with the names of tesseract: "deu+eng". NULL: the language of the document, or else English */
	const char *languages;
	/* folder in which recognised pages are stored, so that no page is recognised twice. NULL: they are not
	 * stored */
	const char *kept;
	/* Called before a page is recognised, from the thread of the import. `page` is the number of this page, from 1,
	 * among the pages to recognise. `left` is an estimate of the seconds until all of them are recognised, < 0 =
	 * unknown. May be NULL. */
	void (*progress)(int32_t page, int32_t pages, double left, void *ud);
	void *ud;
};
/* Set how all later imports of this process recognise text. NULL: the defaults, all 0. */
void doc_recognise_by(const struct doc_recognition *);
/* Delete recognised pages from the folder in which they are stored (struct doc_recognition). Keep only the pages of
 * documents whose files have one of the SHA-256 hash[0] .. hash[n - 1]. */
void doc_recognised_prune(const char *folder, const uint8_t (*hash)[32], size_t n);
/* Append the name of the program that recognises text, and its languages. Returns 0; or -1 if no such program is
 * installed, and then *e says what to install. */
int doc_recogniser(struct str *out, struct err *e);
void doc_free(struct doc *);
/* Find the page or heading that contains byte `at` of the text; NULL: none. */
const struct mark *doc_mark_at(const struct doc *, enum mark_kind, size_t at);
const struct mark *marks_at(const struct mark *, size_t n, enum mark_kind, size_t at);
/* Copy the marks of pages and headings. Paragraphs are left out, because blank lines show them. Returns the number of
 * copied marks. */
size_t marks_copy(const struct mark *, size_t n, struct mark **out);
void marks_free(struct mark *, size_t n);
/* Compute the marks of a stored text if its original marks are lost. Form feeds mark pages; headings are found as in
 * Markdown and plain text. */
void doc_mark_again(struct doc *);

enum doc_change { DOC_SAME, DOC_CHANGED, DOC_GONE };
void origin_copy(struct doc_origin *to, const struct doc_origin *from);
void origin_free(struct doc_origin *);
/* Tell whether the file of a document has changed since it was read. If only the file's time differs, the content is
 * compared. If the content is unchanged, the new time is stored in *o. */
enum doc_change doc_changed(struct doc_origin *o);

#define DOC_PATHS_MAX 20000 /* maximum number of documents that one argument may name */

/* A document that an argument names. */
struct doc_path {
	char *path;
	int64_t size, mtime; /* if the file was found in a folder: size and time, as in struct doc_origin; else 0 */
};
/* The documents that an argument names. Files are skipped if the endings of their names show that they are not
 * documents. `n_other` is the number of skipped files, and `other` is the name of the first one. */
struct doc_paths {
	struct doc_path *at;
	size_t n, cap;
	char *other;
	size_t n_other;
};
/* List the documents that an argument names, at most DOC_PATHS_MAX. A file, "-" or an address names itself. A folder
 * names the files that doc_list() finds. A pattern with * ? [ names the matching files, unless a file has exactly that
 * name. Returns 0; or -1 on error, which is ERR_DOCUMENT if there is no such file. */
int doc_find(const char *what, struct doc_paths *out, struct err *e);
/* List the files below a folder, sorted, without hidden files, links, pictures, programs and files that git ignores.
 * The .gitignore files in the folder, below it, and above it in the same repository are read. */
int doc_list(const char *folder, struct doc_paths *out, struct err *e);
void doc_paths_free(struct doc_paths *);

/* Call first in main(). If argv says so, run as the jailed process, which parses a document or a model file, and exit.
 * In an ordinary process, do nothing and return -1. */
int doc_helper(int argc, char **argv);
/* Read a model file (header, keys, tensors, vocabulary, template) in the jail, because a bad file could crash this
 * process. Returns -1 with ERR_MODEL if the reader crashed or used too much time or memory; -1 with ERR_CANCELLED if
 * the user stopped it; else 0. Other errors are reported when the caller reads the file itself. `list` is the path of a
 * list of good files, which are not read again unless they have changed; it may be NULL. If `remember` is 1, the file
 * is added to the list. */
int model_check(const char *path, const char *list, int remember, struct err *e);
/* Append the names of the parts of the jail that this machine offers. Returns 0; or -1 if there is no jail, and then *e
 * says why. */
int doc_jail(struct str *out, struct err *e);

#endif
