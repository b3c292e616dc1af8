/* ui/transcript/lines.h (private to lines.c, markdown*.c and punycode.c) - what laying out is made of.
 *
 * A paragraph is a range of bytes at the end of struct lines' text, with the spans that style it; a newline in it breaks the line.
 * wrap_next() cuts it into lines one after the other, lines_put() makes runs of such a line. */
#ifndef WEIR_LINES_H
#define WEIR_LINES_H

#include "ui/transcript/markdown.h"

enum { WIDTH_LEAST = 4, WIDTH_MOST = 1000 };

struct span { uint32_t from, n, source; uint16_t style; };
struct spans { struct span *p; size_t n, cap; };

/* Text for a paragraph: bytes to the end of l->text, styled.  source: where text[0..n) stands, or NO_SOURCE. */
void spans_add(struct lines *l, struct spans *s, const char *text, size_t n, unsigned style, uint32_t source);

/* The line of p[at..end) that begins at `at` < end and fits `width` columns: p[at..*stop), of *cols columns.  Returns where the next one
 * begins.  It is cut between words, inside of words that are longer than a line, and at newlines. */
size_t wrap_next(const char *p, size_t at, size_t end, int width, size_t *stop, int *cols);
/* The same between any two characters. */
size_t cut_next(const char *p, size_t at, size_t end, int width, size_t *stop, int *cols);

/* A new, empty line, and what is put into it. */
void lines_begin(struct lines *, uint32_t source);
void lines_own(struct lines *, const char *text, size_t n, unsigned style);        /* text of ours */
/* Bytes [from, to) of l->text by their spans; *at: the first span that may hold them, moves on. */
void lines_put(struct lines *, const struct spans *, size_t *at, size_t from, size_t to);
int  lines_cols(const struct lines *);                                              /* of the last line */
/* One line of plain text, text[from..to) without its newline, wrapped. */
void lines_plain_one(struct lines *, const char *text, size_t from, size_t to, int width, unsigned style);
int  lines_width(int width);                                                        /* within what can be laid out */
/* Room for n more bytes of text: offsets have 32 bits. */
int  lines_room(const struct lines *, size_t n);

/* Undo what a growing text has provisionally; the first call notes where it begins. */
void growth_begin(struct lines *, struct growth *);
/* All up to text[done] is final. */
void growth_settle(const struct lines *, struct growth *, size_t done);

/* ---- markdown_pieces.c ---- */

#define PARSER_FLAGS (MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS | MD_FLAG_NOHTML)
/* What md4c sees instead of characters that it must not act on; clean text has no such bytes. */
#define PATCH_COLON '\x01'
#define PATCH_STAR  '\x02'

/* Where the newline of the line at `at` is, or n. */
size_t line_end(const char *text, size_t n, size_t at);
/* Where the piece that begins at `from` ends.  *whole: it does so whatever follows.  *fence: none, the line at `from` opens a fence.  scan: of a
 * text that grows, how far the last call for this piece has come, so that no line is looked at twice; NULL or zero: from its beginning. */
size_t piece_end(const char *text, size_t n, size_t from, struct piece_scan *, int *whole, int *fence);
/* Not for md4c: more marks, columns or levels than any real text has. */
int  piece_is_hostile(const char *p, size_t n);
/* What md4c is given: a copy in which nothing is a link definition (no colon stands behind a bracket), products are no emphasis
 * (2*3*4), and delimiter rows of tables have the dashes that it wants.  Zeros follow: md4c 0.4.8 looks at what is behind the text
 * (a bracket there closes "![a](b").  So nothing that it tells of is believed to be inside of the copy. */
struct piece {
	char *p; size_t n;
	struct { size_t at, n, sum; } *more; size_t n_more;   /* dashes that were added: where, how many, with those before */
};
enum { PIECE_BEHIND = 16 };
void piece_copy(struct piece *, const char *text, size_t n);
void piece_free(struct piece *);
/* Where p stands in the text, or SIZE_MAX: it is not of the text. */
size_t piece_source(const struct piece *, const char *p);
/* Of the n bytes at p that md4c told of, so many are text; *skip more are not. */
size_t piece_text(const struct piece *, const char *p, size_t n, size_t *skip);
/* Put back what the copy has other characters for. */
void piece_unpatch(char *p, size_t n);
/* The line text[at..end) opens a fence; *info, *n: what stands behind it. */
void fence_open(struct fence *, const char *text, size_t at, size_t end, size_t *info, size_t *n);
int  fence_closes(const struct fence *, const char *line, const char *end);

/* ---- markdown_table.c ---- */

enum { TABLE_COLUMNS = 32 };
struct table_cell { size_t from, to; size_t span, n_span; };   /* bytes of l->text, spans */
struct table {
	struct spans spans;
	struct table_cell *cell; size_t n_cell, cap_cell;          /* row by row */
	unsigned cols;
	unsigned char align[TABLE_COLUMNS];
	int sparse;                                                /* most cells are not in the text: no columns for those */
};
enum { ALIGN_LEFT, ALIGN_CENTER, ALIGN_RIGHT };
void table_free(struct table *);
typedef void table_line_fn(void *ud, uint32_t source);         /* begin a line, with whatever stands before it */
/* Rows of cells at `width` columns; the first row is the head. */
void table_lay_out(struct lines *, const struct table *, int width, table_line_fn *, void *ud);

#endif
