/* ui/panes/doc_text.h (private to doc_text.c and the documents pane) - a document's text, prepared for display. */
#ifndef WEIR_DOC_TEXT_H
#define WEIR_DOC_TEXT_H

#include "ui/ui.h"

/* maximum size of an original text in bytes, because filtered text can be eight times as long, and offsets have 32
 * bits */
#define DOC_TEXT_MOST (256u << 20)

/* The two offsets of a place in a document: `clean` is the offset in the filtered text, `raw` the offset in the
 * original text. Points are stored where the filter changes the length. Between two points, both offsets grow by the
 * same amount. */
struct point {
	uint32_t raw, clean;
};
/* A heading. Its line, including the '#', is n bytes of the filtered text from byte `at` on. */
struct head {
	uint32_t at, n;
	int level;
};
/* A part of the filtered text. `at` is the offset of the chunk's first byte, and `line` the number of lines before the
 * chunk. */
struct chunk {
	uint32_t at, line;
};

struct doc_text {
	struct str name; /* name of the document, without control characters */
	char *raw;
	/* number of bytes of `raw`, the text as posted; both are compared to recognise a document that is posted
	 * again */
	size_t n_raw;
	int ready;
	int32_t tokens, first; /* see struct ui_document */
	struct str text;       /* the filtered text; text.p is not NULL if ready is 1 */
	struct point *point;
	size_t n_point, cap_point;
	struct mark *mark;
	size_t n_mark; /* mark[n_mark] has the page and heading marks as posted, at offsets in the original text */
	/* page[i] is the offset of the page separator before page i + 2 */
	uint32_t *page;
	size_t n_page, cap_page;
	/* label[i] is the label of page i + 1, for n_page + 1 pages; `label` is NULL if the document has no page
	 * marks */
	const char **label;
	struct head *head;
	size_t n_head, cap_head;
	struct chunk *chunk;
	size_t n_chunk, cap_chunk; /* n_chunk is at least 1 */
	uint32_t n_line;
	struct ui_span *span;
	size_t n_span; /* span[n_span] has ascending byte ranges of the original text; each is kept or evicted */
	double kept;   /* share of the bytes whose tokens are kept by at least one KV head; < 0 = unknown */
	uint32_t top;  /* offset of the first byte on the screen */
};
void doc_text_free(struct doc_text *);
/* Compute the filtered text and its tables, once. */
void doc_text_ready(struct doc_text *, int ascii);
void doc_text_lens(struct doc_text *, const struct ui_span *, size_t n);

/* Return the index of the chunk that contains byte `at` of the filtered text. */
size_t doc_text_chunk(const struct doc_text *, uint32_t at);
/* Return the number, from 1, of the line or page that contains byte `at` of the filtered text. */
uint32_t doc_text_line(const struct doc_text *, uint32_t at);
size_t doc_text_page(const struct doc_text *, uint32_t at);
/* Return the number, from 1, of the last heading at or above byte `at`; 0 = there is none. */
size_t doc_text_head(const struct doc_text *, uint32_t at);
int doc_text_evicted(const struct doc_text *, uint32_t at); /* 1 if the token of byte `at` is evicted in all KV heads */
/* Return the offset in the filtered text for offset `raw` in the original text. */
uint32_t doc_text_clean(const struct doc_text *, size_t raw);
/* Return the offset at which a line begins. The first line has the number 1. */
uint32_t doc_text_line_start(const struct doc_text *, int64_t line);
/* Return the title that the outline shows for a heading or page. *n receives its length. */
const char *doc_text_title(const struct doc_text *, const struct head *, size_t *n);

#endif
