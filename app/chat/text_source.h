/* app/chat/text_source.h - reads text of any length from a file, a pipe, standard input or a web address.
 *
 * Plain text is read as it comes; only a few KiB are in memory. Documents of other formats (PDF, HTML, gzip ...) are
 * recognized by their first bytes, read whole (at most 64 MiB) and imported (sessions/import/). Other binary files are
 * refused. The result is UTF-8 in whole characters, with \n as line end and U+FFFD for bytes that cannot be decoded. */
#ifndef WEIR_TEXT_SOURCE_H
#define WEIR_TEXT_SOURCE_H

#include "app/conversation/conversation.h"
#include "sessions/import/import.h"

struct text_source;
/* Open a file, or "-" for standard input. Standard input is duplicated, so the caller may close descriptor 0. */
int text_source_open(struct text_source **out, const char *path_or_dash, struct err *);
void text_source_close(struct text_source *);

enum source_got { SOURCE_LATER, SOURCE_TEXT, SOURCE_END };
/* Append up to about 2 KiB of text. Waits at most wait_ms milliseconds; only the import of a document takes longer
 * (doc_stop_when() can stop it). Returns enum source_got, or -1. May be called again after SOURCE_END, because a
 * plain text file may have grown. */
int text_source_next(struct text_source *, int wait_ms, struct str *out, struct err *);

/* Return the name of the source, without control characters. */
const char *text_source_name(const struct text_source *);
/* How much has been read: bytes of the file, or of an imported document's text. */
struct source_progress {
	uint64_t at, total; /* `total` is 0 if it is unknown */
	/* `page` is the label of the current page, or NULL. `number` is the page's number from 1, and `pages` the
	 * number of pages. */
	const char *page;
	int32_t number, pages;
	int imports; /* 1 = the document is not imported yet */
};
void text_source_progress(const struct text_source *, struct source_progress *);
/* Return the imported document; NULL if the source is plain text or is not imported yet. */
const struct doc *text_source_document(const struct text_source *);

#endif
