/* ui/transcript/lines.h (private to ui/) - functions that lay out a paragraph.
 *
 * First its text is appended to struct lines, with a list of spans (byte ranges that have one style). Then
 * wrap_next() splits the text into lines, and lines_put() adds each line with the styles of the spans. */
#ifndef WEIR_LINES_H
#define WEIR_LINES_H

#include "ui/transcript/markdown.h"

enum { WIDTH_LEAST = 4, WIDTH_MOST = 1000 };

/* A part of a line in one style. Its text is the n bytes of lines.text from byte `from` on. `source` is the offset of
 * these bytes in the original text, or NO_SOURCE. */
struct span {
	uint32_t from, n, source;
	uint16_t style;
};
struct spans {
	struct span *p;
	size_t n, cap;
};

/* Append styled text to a paragraph. `source` is the offset of the text in the message; it is NO_SOURCE for text that
 * is not in the message, such as a bullet. */
void spans_add(struct lines *l, struct spans *s, const char *text, size_t n, unsigned style, uint32_t source);

/* Find the longest line in p[at..end), at < end, that fits `width` columns: p[at..*stop), which is *cols columns
 * wide. Returns where the next line begins. Lines break between words, at newlines, and inside words that are too
 * long. */
size_t wrap_next(const char *p, size_t at, size_t end, int width, size_t *stop, int *cols);
/* Find the end of a line in the way of wrap_next(), but break between any two characters. */
size_t cut_next(const char *p, size_t at, size_t end, int width, size_t *stop, int *cols);

/* Begin an empty line; the next functions append to it. */
void lines_begin(struct lines *, uint32_t source);
/* append text that is not part of the message */
void lines_own(struct lines *, const char *text, size_t n, unsigned style);
/* Append bytes [from, to) of l->text to the current line, in the styles of the spans (byte ranges). *at is the index of
 * the first span that is examined; it is advanced for the next call. */
void lines_put(struct lines *, const struct spans *, size_t *at, size_t from, size_t to);
/* Lay out text[from..to), a line of plain text without its newline, wrapped. */
void lines_plain_one(struct lines *, const char *text, size_t from, size_t to, int width, unsigned style);
int lines_width(int width); /* return the width, clamped to the supported range */
/* 1 if there is room for n more bytes of text, because offsets have 32 bits. */
int lines_room(const struct lines *, size_t n);

/* Remove the lines that later text may change, so that the caller lays them out again. The first call for a struct
 * growth records where the text begins in struct lines. */
void growth_begin(struct lines *, struct growth *);
/* Make the layout up to text[done] final. */
void growth_settle(const struct lines *, struct growth *, size_t done);

/* ---- markdown_pieces.c ---- */

#define PARSER_FLAGS (MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS | MD_FLAG_NOHTML)
/* In the copy that md4c parses, these bytes replace characters that md4c must not interpret. The text itself never
 * contains them. */
#define PATCH_COLON  '\x01'
#define PATCH_STAR   '\x02'

/* Return the offset of the newline that ends the line at `at`; n = no newline follows. */
size_t line_end(const char *text, size_t n, size_t at);
/* Find the end of the piece that begins at `from`. A piece is a part of Markdown that can be parsed separately. *whole
 * is set to 1 if later text cannot change the piece. *fence is set to 1 if a code fence begins at `from`, so that there
 * is no piece. The struct piece_scan has the state of the last call for this piece, so that growing text is read only
 * once; it may be NULL. */
size_t piece_end(const char *text, size_t n, size_t from, struct piece_scan *, int *whole, int *fence);
/* 1 if a piece of Markdown has so many marks, columns or levels that it cannot be real text. md4c does not get such a
 * piece, because its time would not be linear. */
int piece_is_hostile(const char *p, size_t n);
/* The copy of a piece of Markdown that md4c parses. It differs from the text: colons after brackets are replaced, so
 * that md4c finds no link definitions. Stars in products (2*3*4) are replaced, so that md4c finds no emphasis there.
 * Missing dashes are added below a table's headings, so that md4c finds the table. Zero bytes follow, because md4c
 * 0.4.8 reads beyond the end. The pointers that md4c reports are checked before use. */
struct piece {
	char *p;
	size_t n;
	/* Sequences of added dashes. `at` is the offset of the sequence in the copy, and `n` its length. `sum` is the
	 * length of this sequence and all earlier ones together. */
	struct {
		size_t at, n, sum;
	} * more;
	size_t n_more;
};
enum { PIECE_BEHIND = 16 };
void piece_copy(struct piece *, const char *text, size_t n);
void piece_free(struct piece *);
/* Return the offset in the text of byte p of the copy; p must not be an added dash. The result is SIZE_MAX if p points
 * into md4c's own text and not into the copy. */
size_t piece_source(const struct piece *, const char *p);
/* md4c has reported n bytes at p, which are in the copy. Return how many of them are bytes of the original text. Bytes
 * after these may be dashes that were added to the copy: set *skip to their number, which the caller must skip. */
size_t piece_text(const struct piece *, const char *p, size_t n, size_t *skip);
/* Replace the bytes PATCH_COLON and PATCH_STAR by the original characters. */
void piece_unpatch(char *p, size_t n);
/* Parse the opening line text[at..end) of a code fence. *info and *n receive the offset and length of the text after
 * the fence. */
void fence_open(struct fence *, const char *text, size_t at, size_t end, size_t *info, size_t *n);
int fence_closes(const struct fence *, const char *line, const char *end);

/* ---- markdown_table.c ---- */

enum { TABLE_COLUMNS = 32 };
/* A cell's text is bytes [from, to) of l->text. Its spans are table.spans[span .. span + n_span). */
struct table_cell {
	size_t from, to;
	size_t span, n_span;
};
struct table {
	struct spans spans;
	struct table_cell *cell;
	size_t n_cell, cap_cell; /* [n_cell] the cells, row by row */
	unsigned cols;
	unsigned char align[TABLE_COLUMNS];
	/* 1: md4c has added the majority of the cells to fill short rows, so the table is not drawn in columns */
	int sparse;
};
enum { ALIGN_LEFT, ALIGN_CENTER, ALIGN_RIGHT };
void table_free(struct table *);
/* Begin a line of the table. Draws the bars of quotes and the bullets of list items in front of the line. */
typedef void table_line_fn(void *ud, uint32_t source);
/* Lay out the table's rows at `width` columns. The first row has the column headings. */
void table_lay_out(struct lines *, const struct table *, int width, table_line_fn *, void *ud);

#endif
