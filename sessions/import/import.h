/* sessions/import/import.h - documents: turns the bytes of a file of any format into text with marks, or refuses with
 * one sentence that names the document. Formats that need a complex parser are parsed by a second process in a jail.
 *
 * Functions return 0, or -1 with *err set, unless their comment says otherwise. */
#ifndef WEIR_IMPORT_H
#define WEIR_IMPORT_H

#include "engine/base/base.h"

#define DOC_BYTES_MAX (64u << 20) /* most bytes of a document, as read */

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
	DOC_TYPES
};
/* "text", "markdown", "source", "html", "epub", "docx", "pdf", "gzip", "odf", "rtf" */
extern const char *const doc_type_name[];

enum mark_kind { MARK_PAGE, MARK_HEADING, MARK_PARAGRAPH, MARK_KINDS };
struct mark {
	enum mark_kind kind;
	int level;  /* headings: 1 to 6 */
	size_t at;  /* first byte in the text; a page or section extends to the next mark of its kind */
	char *text; /* label of a page ("12", "xii") or text of a heading; NULL for a paragraph */
	/* number (from 1) of the last mark of each kind up to this one, for marks_at(); all 0: not set */
	uint32_t last[MARK_KINDS];
};

/* The file that a document was read from, so that later changes can be noticed. */
struct doc_origin {
	char *path;          /* absolute; NULL: not a file, or unknown */
	int64_t size, mtime; /* bytes; nanoseconds since 1970 */
	uint8_t hash[32];    /* SHA-256 of the file */
};

/* A document as UTF-8 text with \n line ends.  The text is untrusted data, never instructions: the tokenizer reads
 * it with special tokens off, and clean_text() filters it before it reaches a terminal. */
struct doc {
	char *name;           /* last part of the path, or "standard input"; unfiltered: see clean_text() */
	enum doc_type type;   /* type after unpacking, so never DOC_GZIP; stored in chat.db */
	const char *encoding; /* "UTF-8", "UTF-16LE", "UTF-16BE", "Windows-1252", ... */
	uint64_t bytes;       /* size as read */
	struct str text;
	struct mark *mark; /* [n_mark], ascending by `at` */
	size_t n_mark;
	int32_t pages;      /* 0: the format has no pages */
	struct str notices; /* notices for the user, one sentence a line; may be empty */
	struct doc_origin origin;
};

/* Read a regular file, standard input ("-": a pipe, a socket or a redirected file), or an http(s) address.  -1:
 * *out is empty; the error is ERR_DOCUMENT, or ERR_FIT if memory is short. */
int doc_read(const char *path_or_dash, struct doc *out, struct err *e);
/* Read a document from memory.  Its name helps to find its type, and appears in messages. */
int doc_decode(const char *name, const void *bytes, size_t n, struct doc *out, struct err *e);
/* 1 if name and first bytes show plain text, source code or Markdown, which can be read in parts.  0: another
 * format; doc_decode() needs the whole file. */
int doc_is_plain(const char *name, const void *bytes, size_t n);
/* Check a web address.  Append to url the form to fetch (blanks as %20).  Append to shown the form for the screen:
 * without "?..." and "#...", which may be secret.  -1 with ERR_DOCUMENT: refused, for example for its user name. */
int doc_address(const char *said, struct str *url, struct str *shown, struct err *);
/* Set a function that imports poll twenty times a second, from any thread; nonzero ends the import with
 * ERR_CANCELLED.  There is one such function per process; NULL removes it. */
void doc_stop_when(int (*stopped)(void));
void doc_free(struct doc *);
/* Find the page or heading that contains byte `at` of the text; NULL: none. */
const struct mark *doc_mark_at(const struct doc *, enum mark_kind, size_t at);
const struct mark *marks_at(const struct mark *, size_t n, enum mark_kind, size_t at);
/* Copy the marks of pages and headings; paragraphs can be found again by blank lines.  Return the number copied. */
size_t marks_copy(const struct mark *, size_t n, struct mark **out);
void marks_free(struct mark *, size_t n);
/* Find marks in a stored text, whose original marks are lost: pages by form feeds, headings of Markdown and plain
 * text. */
void doc_mark_again(struct doc *);

enum doc_change { DOC_SAME, DOC_CHANGED, DOC_GONE };
void origin_copy(struct doc_origin *to, const struct doc_origin *from);
void origin_free(struct doc_origin *);
/* Compare the file with its size and time when it was read, and its content if only the time differs.  If the content
 * is unchanged, store the new time in *o. */
enum doc_change doc_changed(struct doc_origin *o);

/* List the documents that an argument names, at most 1,000.  A file, "-" or an address names itself.  A
 * folder names the files below it, sorted, without hidden files, links, pictures and programs.  A pattern with * ? [
 * names the files that match, unless a file has exactly that name.  -1: *out is empty; ERR_DOCUMENT if none. */
/* skipped because of their names: one of them, and how many */
struct doc_paths {
	char **path;
	size_t n;
	char *other;
	size_t n_other;
};
int doc_find(const char *what, struct doc_paths *out, struct err *e);
void doc_paths_free(struct doc_paths *);

/* Entry point of the jailed process; main() calls it first.  -1: this is an ordinary process.  Else: the exit code
 * of the jailed process, which parses a document that is not plain text, or a model file. */
int doc_helper(int argc, char **argv);
/* Read a model file (header, keys, tensors, vocabulary, template) in the jail before this process reads it.  -1
 * with ERR_MODEL or ERR_CANCELLED: the reader crashed or used too much.  0 otherwise: other errors reappear when
 * the caller reads the file.  list: file that remembers good model files, which are not checked again while
 * unchanged (NULL: none); remember = 1: add to it. */
int model_check(const char *path, const char *list, int remember, struct err *e);
/* Describe the jail's parts on this machine.  -1: there is no jail, and *e says why. */
int doc_jail(struct str *out, struct err *e);

#endif
