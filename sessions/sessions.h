/* sessions/sessions.h - what app/ and ui/ may know about what is kept between runs: for now, documents.
 *
 * doc_read() turns a file into text for the prompt, or refuses it with one sentence that names it. */
#ifndef WEIR_SESSIONS_H
#define WEIR_SESSIONS_H

#include "engine/base.h"

#define DOC_BYTES_MAX (64u << 20)   /* bytes of a document as read */

/* A document as plain UTF-8 text with \n line ends.  The text is data, never instructions, and hostile: it goes
 * to a tokenizer with special tokens off and to a terminal through clean_text(). */
struct doc {
	char *name;            /* last part of the path, "standard input" for "-": raw bytes, clean before showing */
	const char *encoding;  /* "UTF-8", "UTF-16LE", "UTF-16BE", "Windows-1252" */
	uint64_t bytes;        /* as read */
	struct str text;
	struct str notices;    /* what the user should know, one sentence a line; empty when all is plain */
};

/* Read a regular file, or standard input when path is "-" (a pipe, a socket or a redirected file).
 * -1: *out is empty and *e is ERR_DOCUMENT, or ERR_FIT when there is no memory for it. */
int  doc_read(const char *path_or_dash, struct doc *out, struct err *e);
/* The same for bytes in memory. */
int  doc_decode(const char *name, const void *bytes, size_t n, struct doc *out, struct err *e);
void doc_free(struct doc *);

#endif
