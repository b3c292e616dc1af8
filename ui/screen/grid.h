/* ui/screen/grid.h (private to ui/) - the screen as a grid of cells.
 *
 * Views draw into areas of a grid, without a terminal. display.c shows a grid on a terminal; grid_dump() writes it
 * as text for tests. Text put into a grid must be clean (clean_text(), clean_line()); other characters become
 * U+FFFD. Text beyond the edge of the area is not drawn. */
#ifndef WEIR_GRID_H
#define WEIR_GRID_H

#include "ui/ui.h"

/* The meaning of the text in a cell; theme.c maps it to colours and attributes. */
enum style {
	ST_TEXT,
	ST_FAINT,
	ST_STRONG,
	ST_EMPH,
	ST_QUESTION, /* the user's questions */
	ST_NOTICE,
	ST_ERROR,
	ST_WARNING,
	ST_HEADING,
	ST_QUOTE,
	ST_LINK,
	ST_RULE,
	ST_BULLET,
	ST_CODE,
	ST_CODE_KEYWORD,
	ST_CODE_STRING,
	ST_CODE_COMMENT,
	ST_CODE_NUMBER,
	ST_STATUS,
	ST_STATUS_STRONG,
	ST_STATUS_WARNING, /* warnings in the status row, which is reversed */
	ST_HINT,
	ST_HINT_KEY, /* name of a key in the hints for keys */
	ST_TITLE,    /* title of a pane or popup */
	ST_SELECTED, /* chosen row of a list */
	ST_MATCH,    /* found text */
	ST_PROMPT,   /* prompt of the input line */
	ST_EVICTED,  /* evicted words */
	ST_METER,    /* filled part of a meter */
	/* first of PARTS_OF_CACHE styles for regions of the KV cache; this one is the style of the pinned tokens */
	ST_PART,
	ST_HEAT = ST_PART + 4, /* first of HEATS styles of a heat map, from the lowest value to the highest */
	ST_COUNT = ST_HEAT + 8
};
enum { HEATS = 8, PARTS_OF_CACHE = ST_HEAT - ST_PART };
/* The style of a cell is a value of enum style (the bits of STYLE_MASK), with flags. */
enum { STYLE_MASK = 0xff, STYLE_REVERSE = 0x100, STYLE_BOLD = 0x200, STYLE_FAINT = 0x400, STYLE_UNDER = 0x800 };

struct cell {
	int32_t cp;                    /* code point; 0 = right half of a wide character */
	int32_t mark[CLEAN_MARKS_MAX]; /* combining marks; if there are fewer, a 0 ends them */
	uint16_t style;                /* a value of enum style with STYLE_ flags */
	/* style whose foreground colour becomes the background of this cell (for heat maps); 0: the terminal's
	 * background */
	uint8_t back;
	uint8_t width; /* width in columns, 1 or 2; 0 = right half of a wide character */
};

struct grid {
	int w, h;
	struct cell *cell;      /* [h][w] */
	int cursor_x, cursor_y; /* if cursor_y < 0, the cursor is hidden */
	/* If `flows` is 1, the grid is inline: it is shown on the terminal's normal screen, below the rows that were
	 * written before. If it is 0, the grid fills the screen. In an inline grid, the first `final` rows will not
	 * change and may scroll away. Its last `fixed` rows stay at the bottom. If `over` is not 0, there are no final
	 * rows, and the first `over` rows cover that many rows of the terminal for as long as grids say so. */
	int flows, final, fixed, over;
};
void grid_resize(struct grid *, int w, int h); /* make all cells blank; w and h must be at least 1 */
void grid_free(struct grid *);
void grid_clear(struct grid *);
/* Write the grid as h lines of text, without trailing blanks. If with_styles is 1, each line with styles is followed by
 * a line of style letters; the letters are explained at the end. */
void grid_dump(const struct grid *, int with_styles, struct str *out);

/* A rectangle of a grid. Coordinates are relative to the rectangle, and drawing is clipped to it. */
struct area {
	struct grid *grid;
	int x, y, w, h;
};
struct area area_of(struct grid *);
/* return a part of the area; the part is clipped to the area */
struct area area_part(const struct area *, int x, int y, int w, int h);
void area_clear(const struct area *, unsigned style);
/* Write clean text at (x, y), up to a newline. Returns the x after the text, at most the area's width. Of an emoji
 * sequence only the single emoji are drawn, because terminals disagree about the width of sequences. */
int area_text(const struct area *, int x, int y, unsigned style, const char *text, size_t n);
int area_putf(const struct area *, int x, int y, unsigned style, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
void area_fill(const struct area *, int x, int y, int n, unsigned style, int32_t cp);
/* Draw a thin border. area_inner() is the area inside it. */
void area_frame(const struct area *, unsigned style, int ascii);
struct area area_inner(const struct area *);
/* Set the style of n columns. */
void area_restyle(const struct area *, int x, int y, int n, unsigned style);
/* Add STYLE_ flags to the style of n columns. */
void area_add_style(const struct area *, int x, int y, int n, unsigned flags);
void area_cell(const struct area *, int x, int y, int32_t cp, unsigned style, uint8_t back);
void area_cursor(const struct area *, int x, int y);

#endif
