/* ui/transcript/markdown.h (private to ui/) - lays out plain text and Markdown as styled lines of a given width. */
#ifndef WEIR_MARKDOWN_H
#define WEIR_MARKDOWN_H

#include "ui/transcript/code.h"
#include "ui/screen/grid.h"

/* A part of a line in one style. Its text is the n bytes of lines.text from byte `from` on. `source` is the offset of
 * these bytes in the original text, or NO_SOURCE for added text (bullets, bars, rules). */
#define NO_SOURCE UINT32_MAX
struct run {
	uint32_t from, n;
	uint32_t source;
	uint16_t style;
	uint16_t cols;
};
/* A line of the layout, which consists of runs [run, run + n_run) of struct lines. `source` is the offset of its first
 * byte in the original text. */
struct text_line {
	uint32_t run, n_run;
	uint32_t source;
};
struct code_block {
	uint32_t from, n;
}; /* byte range of the original text inside the fence */
/* Laid-out text; all zero when it is empty. */
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
/* Append plain text, wrapped between words at `width` columns (>= 4). It must be free of control characters. */
void lines_plain(struct lines *, const char *text, size_t n, int width, unsigned style);
/* Append Markdown: headings, lists, quotes, tables, rules, emphasis, coloured code. Unfinished text (an open
 * fence, half a table) is shown as far as possible. Nesting and table columns are limited, so that time is linear
 * for any input. */
void lines_markdown(struct lines *, const char *text, size_t n, int width);
/* Draw line `line` at row y. */
void lines_draw(const struct lines *, size_t line, const struct area *, int x, int y);

/* State of the layout of a text that grows. It must be all zero at the start. Lines that later text cannot change are
 * kept; the others are laid out again. The result is the same as for the whole text at once. After a change of the
 * width, begin again with zeros. */
struct growth {
	size_t done; /* number of bytes of the text whose layout is final */
	/* sizes that the arrays in struct lines had when the text before byte `done` was laid out */
	size_t text, run, line, code;
	size_t shown; /* offset of the end of the text that was shown last */
	/* `begun` is 1 after the first call of growth_begin(). `any` is 1 after the first line of the text was laid
	 * out. */
	unsigned char begun, any;
	/* The open code fence. `mark` is its character, 0 = no fence is open; `n` is its length. */
	struct fence {
		char mark;
		unsigned char indent;
		uint32_t n;
	} fence;
	uint32_t body; /* offset at which the code in the open fence begins */
	struct code colours;
};
void lines_grow_plain(struct lines *, struct growth *, const char *text, size_t n, int width, unsigned style);
void lines_grow_markdown(struct lines *, struct growth *, const char *text, size_t n, int width);

/* State of piece_end() for the piece (a part of Markdown that can be parsed separately) that begins at `from`, while
 * the text grows. `at` is the offset of the first incomplete line. `list` is the column in which the text of the
 * outermost open list item begins; -1 = no list is open. after_blank is 1 if the line before `at` is blank. */
struct piece_scan {
	size_t from, at;
	int list, after_blank;
};

/* Append the content of code block `which` (from 1) of a Markdown text, without the last newline. Tabs are kept.
 * Returns the number of code blocks in the text. */
size_t markdown_code(const char *text, size_t n, size_t which, struct str *out);

#endif
