/* sessions/import/import.h - documents: the bytes of a file of any format become text with marks, or are refused with one sentence
 * that names the document.  What is hostile is parsed by a second process in a jail. */
#ifndef WEIR_IMPORT_H
#define WEIR_IMPORT_H

#include "engine/base/base.h"

#define DOC_BYTES_MAX (64u << 20)   /* bytes of a document as read */

enum doc_type { DOC_TEXT, DOC_MARKDOWN, DOC_SOURCE, DOC_HTML, DOC_EPUB, DOC_DOCX, DOC_PDF, DOC_GZIP, DOC_ODF, DOC_RTF, DOC_TYPES };
extern const char *const doc_type_name[];   /* "text", "markdown", "source", "html", "epub", "docx", "pdf", "gzip", "odf", "rtf" */

enum mark_kind { MARK_PAGE, MARK_HEADING, MARK_PARAGRAPH, MARK_KINDS };
struct mark {
	enum mark_kind kind;
	int level;             /* of a heading: 1 to 6 */
	size_t at;             /* byte of the text where it begins; a page or section lasts until the next one */
	char *text;            /* label of a page ("12", "xii"), text of a heading; NULL for a paragraph */
	uint32_t last[MARK_KINDS];   /* for marks_at(): the number, from 1, of the last mark of each kind up to this one; zeros: not numbered yet */
};

/* The file that a document was read from, to notice later that it has changed. */
struct doc_origin {
	char *path;            /* absolute; NULL: it was no file, or is not known */
	int64_t size, mtime;   /* in bytes; in nanoseconds since 1970 */
	uint8_t hash[32];      /* SHA-256 of its bytes */
};

/* A document as plain UTF-8 text with \n line ends.  The text is data, never instructions, and hostile: it goes
 * to a tokenizer with special tokens off and to a terminal through clean_text(). */
struct doc {
	char *name;            /* last part of the path, "standard input" for "-": raw bytes, clean before showing */
	enum doc_type type;    /* never DOC_GZIP: that is unpacked; stored as this number */
	const char *encoding;  /* "UTF-8", "UTF-16LE", "UTF-16BE", "Windows-1252", ... */
	uint64_t bytes;        /* as read */
	struct str text;
	struct mark *mark;     /* ascending by place */
	size_t n_mark;
	int32_t pages;         /* 0: a format without pages */
	struct str notices;    /* what the user should know, one sentence a line; empty when all is plain */
	struct doc_origin origin;
};

/* Read a regular file, standard input when path is "-" (a pipe, a socket or a redirected file), or an http(s) address.
 * -1: *out is empty and *e is ERR_DOCUMENT, or ERR_FIT when there is no memory for it. */
int  doc_read(const char *path_or_dash, struct doc *out, struct err *e);
/* The same for bytes in memory. */
int  doc_decode(const char *name, const void *bytes, size_t n, struct doc *out, struct err *e);
/* By its name and its first bytes: is it plain text, or source code or Markdown, which can be read piece by piece?  0: another format, which
 * doc_decode() needs whole. */
int  doc_is_plain(const char *name, const void *bytes, size_t n);
/* An address as it is fetched, with %20 for blanks, and as it is shown: without what stands behind "?" or "#", which may be secret.  -1: a document
 * cannot have this address, for example since it has a user name and a password; ERR_DOCUMENT.  Appended. */
int  doc_address(const char *said, struct str *url, struct str *shown, struct err *);
/* While documents are read, fetched or parsed, `stopped` is asked twenty times a second, in any thread: not 0 ends the import with
 * ERR_CANCELLED.  One for the process; NULL: imports run to their end. */
void doc_stop_when(int (*stopped)(void));
void doc_free(struct doc *);
/* The page or heading that a byte of the text belongs to; NULL: none. */
const struct mark *doc_mark_at(const struct doc *, enum mark_kind, size_t at);
const struct mark *marks_at(const struct mark *, size_t n, enum mark_kind, size_t at);
/* A copy of the pages and headings; paragraphs are left out, since blank lines of the text show them.  Returns their number. */
size_t marks_copy(const struct mark *, size_t n, struct mark **out);
void marks_free(struct mark *, size_t n);
/* The marks of a text that was stored without them, as far as the text shows them: form feeds, headings of Markdown and plain text. */
void doc_mark_again(struct doc *);

enum doc_change { DOC_SAME, DOC_CHANGED, DOC_GONE };
void origin_copy(struct doc_origin *to, const struct doc_origin *from);
void origin_free(struct doc_origin *);
/* Compares the file with what was read: by size and time, and by content where these differ.  A new time alone is noted in *o. */
enum doc_change doc_changed(struct doc_origin *o);

/* The documents that an argument names, in order: a file, "-" or an address is itself; a folder is the files below it by name, without
 * hidden ones, links, pictures and programs; a pattern with * ? [ that is no file's name is the files that match.  At most 1,000.
 * -1: *out is empty; ERR_DOCUMENT when there are none. */
struct doc_paths { char **path; size_t n; char *other; size_t n_other; };   /* files left out for their names: one of them, how many */
int  doc_find(const char *what, struct doc_paths *out, struct err *e);
void doc_paths_free(struct doc_paths *);

/* Documents that are no plain text, and model files, are parsed by a second process of this program in a jail.  main() begins with this call: it returns -1 in
 * an ordinary process; anything else is the exit code of the second process. */
int  doc_helper(int argc, char **argv);
/* Read a model file in the jail, before this process reads it: header, keys, tensors, vocabulary, template.  -1: its reader crashed or took too
 * much there, and *e says so (ERR_MODEL, ERR_CANCELLED).  0 otherwise: what the reader refuses it refuses again.  A file that was found good
 * is not read again while it stays the same; list: the file that notes this, or NULL; remember: write it, too. */
int  model_check(const char *path, const char *list, int remember, struct err *e);
/* What the jail consists of on this machine, as a list; -1: there is none, and *e says why. */
int  doc_jail(struct str *out, struct err *e);

#endif
