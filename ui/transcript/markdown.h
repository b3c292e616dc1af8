/* ui/transcript/markdown.h (private to ui/) - text to lines of cells' worth: Markdown by md4c, code colours, wrapping at a width. */
#ifndef WEIR_MARKDOWN_H
#define WEIR_MARKDOWN_H

#include "ui/transcript/code.h"
#include "ui/screen/grid.h"

/* A piece of a line with one style; from, n: bytes of struct lines' text.  source: where these bytes stand in the clean text, one
 * for one; NO_SOURCE: they are ours (bullets, bars, rules). */
#define NO_SOURCE UINT32_MAX
struct run { uint32_t from, n; uint32_t source; uint16_t style; uint16_t cols; };
struct text_line { uint32_t run, n_run; uint32_t source; };   /* source: byte of the clean text that it begins with */
struct code_block { uint32_t from, n; };                       /* bytes of the clean text: what stands inside the fence */
/* Grows; all zero at the start. */
struct lines {
	struct str text;
	struct run *run; size_t n_run, cap_run;
	struct text_line *line; size_t n_line, cap_line;
	struct code_block *code; size_t n_code, cap_code;
	int ascii;                                                 /* bullets, bars and rules of ASCII only */
};
void lines_free(struct lines *);
void lines_clear(struct lines *);
/* Clean text laid out at `width` columns (>= 4), appended.  Plain: wrapped between words, nothing else. */
void lines_plain(struct lines *, const char *text, size_t n, int width, unsigned style);
/* Markdown: headings, lists, quotes, tables, rules, emphasis, code (coloured by its language).  Unfinished text (an open fence, half a
 * table) is shown as far as it is.  Hard limits keep hostile input linear: nesting, table columns. */
void lines_markdown(struct lines *, const char *text, size_t n, int width);
/* Draw line `line` of it at row y. */
void lines_draw(const struct lines *, size_t line, const struct area *, int x, int y);

/* The same for a text that grows: lines that further text cannot change are kept, only the rest is laid out again.  The result is that
 * of a single call with all of the text.  All zero at the start and whenever the width or the lines before have changed. */
struct growth {
	size_t done;                      /* bytes of the text that are laid out for good */
	size_t text, run, line, code;     /* and how much of the lines that is; `text` and so on count from the first call */
	size_t shown;                     /* byte behind the last thing shown */
	unsigned char begun, any;         /* the first call was made; something was shown */
	struct fence { char mark; unsigned char indent; uint32_t n; } fence;   /* that is open: its character (0 = none), its length */
	uint32_t body;                    /* where its code begins */
	struct code colours;
};
void lines_grow_plain(struct lines *, struct growth *, const char *text, size_t n, int width, unsigned style);
void lines_grow_markdown(struct lines *, struct growth *, const char *text, size_t n, int width);

/* How far a piece of a growing text that begins at `from` was looked at (markdown_pieces.c): up to `at`, the first line that was not complete. */
struct piece_scan { size_t from, at; int list, after_blank; };

/* The code of a Markdown text, as it was written (it may hold tabs): returns how many blocks there are and appends block `which`, from
 * 1, to *out, without the newline at its end. */
size_t markdown_code(const char *text, size_t n, size_t which, struct str *out);

#endif
