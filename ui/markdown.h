/* ui/markdown.h (private to ui/) - text to lines of cells' worth: Markdown by md4c, code colours, wrapping at a width. */
#ifndef WEIR_MARKDOWN_H
#define WEIR_MARKDOWN_H

#include "ui/grid.h"

/* A piece of a line with one style; from, n: bytes of struct lines' text. */
struct run { uint32_t from, n; uint16_t style; uint16_t cols; };
struct text_line { uint32_t run, n_run; uint32_t source; };   /* source: byte of the clean text that it begins with */
struct code_block { uint32_t from, n; };                       /* bytes of the clean text: what stands inside the fence */
/* Grows; all zero at the start. */
struct lines {
	struct str text;
	struct run *run; size_t n_run, cap_run;
	struct text_line *line; size_t n_line, cap_line;
	struct code_block *code; size_t n_code, cap_code;
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

#endif
