/* ui/transcript/markdown.h (private to ui/) - lays out text in lines: Markdown by md4c, code colours, wrapping at
 * a width. */
#ifndef WEIR_MARKDOWN_H
#define WEIR_MARKDOWN_H

#include "ui/transcript/code.h"
#include "ui/screen/grid.h"

/* A part of a line with one style.  from, n: bytes of struct lines' text; source: offset of the same bytes in the
 * clean text, or NO_SOURCE for text that is not in it (bullets, bars, rules). */
#define NO_SOURCE UINT32_MAX
struct run {
	uint32_t from, n;
	uint32_t source;
	uint16_t style;
	uint16_t cols;
};
/* run, n_run: its runs; source: first byte in the clean text */
struct text_line {
	uint32_t run, n_run;
	uint32_t source;
};
struct code_block {
	uint32_t from, n;
}; /* bytes of the clean text inside the fence */
/* Laid-out text; all zero at the start. */
struct lines {
	struct str text;
	struct run *run;
	size_t n_run, cap_run;
	struct text_line *line;
	size_t n_line, cap_line;
	struct code_block *code;
	size_t n_code, cap_code;
	int ascii; /* 1: draw bullets, bars and rules in ASCII */
};
void lines_free(struct lines *);
void lines_clear(struct lines *);
/* Append clean text laid out at `width` columns (>= 4): plain text, wrapped between words. */
void lines_plain(struct lines *, const char *text, size_t n, int width, unsigned style);
/* Append Markdown: headings, lists, quotes, tables, rules, emphasis, coloured code.  Unfinished text (an open
 * fence, half a table) is shown as far as it goes.  Limits on nesting and table columns keep hostile input linear. */
void lines_markdown(struct lines *, const char *text, size_t n, int width);
/* Draw line `line` at row y. */
void lines_draw(const struct lines *, size_t line, const struct area *, int x, int y);

/* State of laying out a growing text: lines that later text cannot change are kept, and only the rest is laid out again.
 * The result equals that of one call with all of the text.  Zero it at the start, and when the width or earlier
 * lines change. */
struct growth {
	size_t done;                  /* bytes of the text whose layout is final */
	size_t text, run, line, code; /* sizes of struct lines' arrays at that point */
	size_t shown;                 /* end of the last text shown */
	unsigned char begun, any;     /* begun: the first call was made; any: something was shown */
	/* open fence; mark: its character, 0 = none; n: its length */
	struct fence {
		char mark;
		unsigned char indent;
		uint32_t n;
	} fence;
	uint32_t body; /* offset where its code begins */
	struct code colours;
};
void lines_grow_plain(struct lines *, struct growth *, const char *text, size_t n, int width, unsigned style);
void lines_grow_markdown(struct lines *, struct growth *, const char *text, size_t n, int width);

/* Progress of scanning the piece at `from` of a growing text (markdown_pieces.c); at: first line that was
 * incomplete. */
struct piece_scan {
	size_t from, at;
	int list, after_blank;
};

/* Append code block `which` (from 1) of a Markdown text as written (it may contain tabs), without its last
 * newline.  Returns the number of blocks. */
size_t markdown_code(const char *text, size_t n, size_t which, struct str *out);

#endif
