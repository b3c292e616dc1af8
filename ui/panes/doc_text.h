/* ui/panes/doc_text.h (private to doc_text.c and the pane of documents) - the text of a document for its pane. */
#ifndef WEIR_DOC_TEXT_H
#define WEIR_DOC_TEXT_H

#include "ui/ui.h"

#define DOC_TEXT_MOST (256u << 20)   /* bytes as they came: clean text is at most eight times as long, and offsets have 32 bits */

struct point { uint32_t raw, clean; };         /* from here on raw and clean bytes correspond one to one */
struct head { uint32_t at, n; int level; };    /* bytes of the heading's line, '#' and all */
struct chunk { uint32_t at, line; };           /* its first byte; lines of the text before it */

struct doc_text {
	struct str name;              /* clean */
	char *raw; size_t n_raw;      /* as posted: to recognise a document that is posted again */
	int ready;
	int32_t tokens, first;        /* see struct ui_document */
	struct str text;              /* clean; never NULL once it is ready */
	struct point *point; size_t n_point, cap_point;
	struct mark *mark; size_t n_mark;          /* as posted: pages and headings of the raw text */
	uint32_t *page; size_t n_page, cap_page;   /* where the marks between pages stand: page[0] is that before page 2 */
	const char **label;                        /* of page i + 1, where pages come from marks: of n_page + 1; else NULL */
	struct head *head; size_t n_head, cap_head;
	struct chunk *chunk; size_t n_chunk, cap_chunk;   /* at least one */
	uint32_t n_line;
	struct ui_span *span; size_t n_span;       /* the lens; ends ascend */
	double kept;                  /* share of the bytes that any head keeps; < 0 = not known */
	uint32_t top;                 /* the first byte on the screen */
};
void doc_text_free(struct doc_text *);
/* Computes the clean text and its tables, once. */
void doc_text_ready(struct doc_text *, int ascii);
void doc_text_lens(struct doc_text *, const struct ui_span *, size_t n);

/* Of a byte of the clean text: */
size_t doc_text_chunk(const struct doc_text *, uint32_t at);
uint32_t doc_text_line(const struct doc_text *, uint32_t at);      /* from 1 */
size_t doc_text_page(const struct doc_text *, uint32_t at);        /* from 1 */
size_t doc_text_head(const struct doc_text *, uint32_t at);        /* the heading it stands under, from 1; 0 = none */
int  doc_text_evicted(const struct doc_text *, uint32_t at);          /* no head keeps its token */
uint32_t doc_text_clean(const struct doc_text *, size_t raw);      /* the byte that a raw one became */
/* And where a line begins. */
uint32_t doc_text_line_start(const struct doc_text *, int64_t line);
/* What the heading or page number i of the outline says: text[0 .. *n). */
const char *doc_text_title(const struct doc_text *, const struct head *, size_t *n);

#endif
