/* app/chat/text_source.h - a text of any length from a file, a pipe, standard input or an address.
 *
 * Plain text is read as it comes, and only a few KiB of it are held. Documents of other formats (PDF, EPUB, DOCX,
 * OpenDocument, RTF, HTML, gzip), known by their first bytes, are read to their end first and imported
 * (sessions/import/): those have 64 MiB at most. What is neither is refused. The text is passed on as UTF-8 with \n
 * line ends in whole characters; bytes that cannot be decoded become U+FFFD. */
#ifndef WEIR_TEXT_SOURCE_H
#define WEIR_TEXT_SOURCE_H

#include "app/conversation/conversation.h"
#include "sessions/import/import.h"

struct text_source;
/* "-": the present standard input, which is duplicated: the caller may replace it afterwards. */
int text_source_open(struct text_source **out, const char *path_or_dash, struct err *);
void text_source_close(struct text_source *);

enum source_got { SOURCE_LATER, SOURCE_TEXT, SOURCE_END };
/* Append the next 2 KiB or so, or nothing yet, and wait for them so many milliseconds at most: enum source_got, or
 * -1. After SOURCE_END a plain text that has grown gives more. Importing a document takes longer: doc_stop_when()
 * stops it. */
int text_source_next(struct text_source *, int wait_ms, struct str *out, struct err *);

/* The name, clean, for the user. */
const char *text_source_name(const struct text_source *);
/* How far it is read: bytes of the file, or of the text of an imported document, which may have pages. */
struct source_place {
	uint64_t at, total; /* total 0: nobody knows */
	/* the page's label, NULL = it has none; its number among all; how many there are */
	const char *page;
	int32_t number, pages;
	int imports; /* the document is not imported yet */
};
void text_source_place(const struct text_source *, struct source_place *);
/* The imported document; NULL: plain text, or not imported yet. */
const struct doc *text_source_document(const struct text_source *);

#endif
