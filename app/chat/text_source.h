/* app/chat/text_source.h - a text of any length from a file, a pipe, standard input or an address.
 *
 * Plain text is read as it comes; only a few KiB of it are in memory. Documents of other formats (PDF, EPUB, DOCX,
 * OpenDocument, RTF, HTML, gzip), recognized by their first bytes, are read whole and imported (sessions/import/); at
 * most 64 MiB. Other files are refused. The text comes as UTF-8 in whole characters with \n line ends; bytes that
 * cannot be decoded become U+FFFD. */
#ifndef WEIR_TEXT_SOURCE_H
#define WEIR_TEXT_SOURCE_H

#include "app/conversation/conversation.h"
#include "sessions/import/import.h"

struct text_source;
/* Open a text. "-" is standard input, which is duplicated: the caller may replace it afterwards. */
int text_source_open(struct text_source **out, const char *path_or_dash, struct err *);
void text_source_close(struct text_source *);

enum source_got { SOURCE_LATER, SOURCE_TEXT, SOURCE_END };
/* Append up to about 2 KiB of text, waiting at most wait_ms milliseconds for it. Returns enum source_got or -1. After
 * SOURCE_END, a plain text file that has grown gives more. Importing a document takes longer than wait_ms;
 * doc_stop_when() stops it. */
int text_source_next(struct text_source *, int wait_ms, struct str *out, struct err *);

/* The name, filtered for the user. */
const char *text_source_name(const struct text_source *);
/* The position in the text: bytes of the file, or of the text of an imported document, which may have pages. */
struct source_place {
	uint64_t at, total; /* total 0: unknown */
	/* The page's label, NULL = none; its number among all pages; how many pages there are. */
	const char *page;
	int32_t number, pages;
	int imports; /* the document is not imported yet */
};
void text_source_place(const struct text_source *, struct source_place *);
/* The imported document; NULL: plain text, or not imported yet. */
const struct doc *text_source_document(const struct text_source *);

#endif
