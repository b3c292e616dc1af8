/* ui/transcript/lines.h (private to lines.c, markdown*.c and punycode.c) - building blocks of layout.
 *
 * A paragraph is a range of bytes at the end of struct lines' text, with spans that style it; a newline in it breaks
 * the line. wrap_next() cuts it into lines, lines_put() makes the runs of a line. */
#ifndef WEIR_LINES_H
#define WEIR_LINES_H

#include "ui/transcript/markdown.h"

enum { WIDTH_LEAST = 4, WIDTH_MOST = 1000 };

struct span {
	uint32_t from, n, source;
	uint16_t style;
};
struct spans {
	struct span *p;
	size_t n, cap;
};

/* Append styled text to a paragraph.  source: offset in the message (as filtered for the
 * terminal) at which `text` begins, or NO_SOURCE. */
void spans_add(struct lines *l, struct spans *s, const char *text, size_t n, unsigned style, uint32_t source);

/* Find the line of p[at..end), at < end, that fits `width` columns: p[at..*stop), *cols columns wide.  Returns the
 * start of the next line. Breaks between words, inside words longer than a line, and at newlines. */
size_t wrap_next(const char *p, size_t at, size_t end, int width, size_t *stop, int *cols);
/* wrap_next(), but break between any two characters. */
size_t cut_next(const char *p, size_t at, size_t end, int width, size_t *stop, int *cols);

/* Begin an empty line; the next functions append to it. */
void lines_begin(struct lines *, uint32_t source);
void lines_own(struct lines *, const char *text, size_t n, unsigned style); /* text that is not in the source */
/* Append bytes [from, to) of l->text with their spans.  *at: first span that may contain them; moves on. */
void lines_put(struct lines *, const struct spans *, size_t *at, size_t from, size_t to);
/* Lay out one line of plain text, text[from..to) without its newline, wrapped. */
void lines_plain_one(struct lines *, const char *text, size_t from, size_t to, int width, unsigned style);
int lines_width(int width); /* clamp to the supported range */
/* 1 if n more bytes of text fit: offsets have 32 bits. */
int lines_room(const struct lines *, size_t n);

/* Undo the provisional layout of a growing text.  The first call records where the text begins. */
void growth_begin(struct lines *, struct growth *);
/* Make the layout up to text[done] final. */
void growth_settle(const struct lines *, struct growth *, size_t done);

/* ---- markdown_pieces.c ---- */

#define PARSER_FLAGS (MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS | MD_FLAG_NOHTML)
/* Stand-ins in md4c's copy for characters that it must not interpret; clean text never contains these bytes. */
#define PATCH_COLON  '\x01'
#define PATCH_STAR   '\x02'

/* Offset of the newline that ends the line at `at`, or n. */
size_t line_end(const char *text, size_t n, size_t at);
/* Find the end of the piece at `from`.  *whole: later text cannot change it.  *fence: there is no piece, the line
 * at `from` opens a fence. scan: state of the last call for the same piece of a growing text, so that each line is
 * read once; NULL or zero: start at `from`. */
size_t piece_end(const char *text, size_t n, size_t from, struct piece_scan *, int *whole, int *fence);
/* 1 if a piece has more marks, columns or levels than real text, and must not be given to md4c. */
int piece_is_hostile(const char *p, size_t n);
/* The copy that md4c parses.  In it nothing is a link definition (no colon after a bracket), products are not
 * emphasis (2*3*4), and delimiter rows of tables have the dashes that md4c requires.  Zeros follow it, because
 * md4c 0.4.8 reads beyond its end (a bracket there closes "![a](b"); for the same reason every pointer that md4c
 * reports is checked. */
struct piece {
	char *p;
	size_t n;
	struct {
		size_t at, n, sum;
	} * more;
	size_t n_more; /* added dashes: offset, number, running total */
};
enum { PIECE_BEHIND = 16 };
void piece_copy(struct piece *, const char *text, size_t n);
void piece_free(struct piece *);
/* Offset in the text of byte p of the copy; SIZE_MAX: not from the text. */
size_t piece_source(const struct piece *, const char *p);
/* md4c reports n bytes at p: return how many of them are text of the piece. *skip: how many bytes after those are
 * not. */
size_t piece_text(const struct piece *, const char *p, size_t n, size_t *skip);
/* Replace the stand-ins by the original characters. */
void piece_unpatch(char *p, size_t n);
/* Read the opening line text[at..end) of a fence; *info, *n: the text after it. */
void fence_open(struct fence *, const char *text, size_t at, size_t end, size_t *info, size_t *n);
int fence_closes(const struct fence *, const char *line, const char *end);

/* ---- markdown_table.c ---- */

enum { TABLE_COLUMNS = 32 };
struct table_cell {
	size_t from, to;
	size_t span, n_span;
}; /* bytes of l->text; index and number of spans */
struct table {
	struct spans spans;
	struct table_cell *cell;
	size_t n_cell, cap_cell; /* [n_cell] row by row */
	unsigned cols;
	unsigned char align[TABLE_COLUMNS];
	/* 1: most cells are not in the text; do not draw columns */
	int sparse;
};
enum { ALIGN_LEFT, ALIGN_CENTER, ALIGN_RIGHT };
void table_free(struct table *);
typedef void table_line_fn(void *ud, uint32_t source); /* begins a line, with bars and bullets before it */
/* Lay out the rows at `width` columns; the first row is the head. */
void table_lay_out(struct lines *, const struct table *, int width, table_line_fn *, void *ud);

#endif
