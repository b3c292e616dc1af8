/* ui/screen/grid.h (private to ui/) - the screen as cells.
 *
 * Views draw into areas of a grid and know no terminal; ui/screen/display.c puts a grid on a terminal, and
 * grid_dump() writes it as text, so that tests need none.  Everything that is put here must be clean
 * (clean_text(), clean_line()): what is not becomes U+FFFD, what does not fit is cut at the area's edge. */
#ifndef WEIR_GRID_H
#define WEIR_GRID_H

#include "ui/ui.h"

/* The meaning of a cell; theme.c maps it to colours. */
enum style {
	ST_TEXT, ST_FAINT, ST_STRONG, ST_EMPH,
	ST_QUESTION,                  /* questions of the user */
	ST_NOTICE, ST_ERROR, ST_WARNING,
	ST_HEADING, ST_QUOTE, ST_LINK, ST_RULE, ST_BULLET,
	ST_CODE, ST_CODE_KEYWORD, ST_CODE_STRING, ST_CODE_COMMENT, ST_CODE_NUMBER,
	ST_STATUS, ST_STATUS_STRONG, ST_STATUS_WARNING,     /* the status row: reversed */
	ST_HINT, ST_HINT_KEY,         /* the row of keys */
	ST_TITLE,                     /* of a pane or popup */
	ST_SELECTED,                  /* the chosen row of a list */
	ST_MATCH,                     /* found text */
	ST_PROMPT,                    /* the mark before the input line */
	ST_EVICTED,                      /* evicted words */
	ST_METER,                     /* filled part of a meter */
	ST_PART,                      /* the first of PARTS_OF_CACHE colours: the parts of the cache, the pinned one first */
	ST_HEAT = ST_PART + 4,        /* the first of HEATS steps from little to much */
	ST_COUNT = ST_HEAT + 8
};
enum { HEATS = 8, PARTS_OF_CACHE = ST_HEAT - ST_PART };
/* Added to a style. */
enum { STYLE_MASK = 0xff, STYLE_REVERSE = 0x100, STYLE_BOLD = 0x200, STYLE_FAINT = 0x400, STYLE_UNDER = 0x800 };

struct cell {
	int32_t cp;                       /* 0: the right half of a wide character */
	int32_t mark[CLEAN_MARKS_MAX];    /* combining marks, 0 = none */
	uint16_t style;                   /* enum style | STYLE_ flags */
	uint8_t back;                     /* style whose colour lies behind (heat maps); 0 = the terminal's */
	uint8_t width;                    /* 1 or 2; 0 for a right half */
};

struct grid {
	int w, h;
	struct cell *cell;                /* [h][w] */
	int cursor_x, cursor_y;           /* cursor_y < 0: hidden */
};
void grid_resize(struct grid *, int w, int h);   /* w, h >= 1; blank */
void grid_free(struct grid *);
void grid_clear(struct grid *);
/* The screen as text: h lines without trailing blanks.  with_styles: behind each line that has any, a line of letters and a
 * legend, for tests of colours. */
void grid_dump(const struct grid *, int with_styles, struct str *out);

/* A rectangle of a grid.  Coordinates are its own; what lies outside is cut off. */
struct area { struct grid *grid; int x, y, w, h; };
struct area area_of(struct grid *);
struct area area_part(const struct area *, int x, int y, int w, int h);   /* cut to the area */
void area_clear(const struct area *, unsigned style);
/* Clean text at (x, y), up to a newline; returns the x behind it (also where it was cut).  A zero width joiner between emoji and
 * variation selectors are left out, a skin colour behind an emoji is blank: terminals disagree about them. */
int  area_text(const struct area *, int x, int y, unsigned style, const char *text, size_t n);
int  area_putf(const struct area *, int x, int y, unsigned style, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void area_fill(const struct area *, int x, int y, int n, unsigned style, int32_t cp);
/* A thin border; what is within: area_inner(). */
void area_frame(const struct area *, unsigned style, int ascii);
struct area area_inner(const struct area *);
/* Another style for what is there. */
void area_restyle(const struct area *, int x, int y, int n, unsigned style);
void area_cell(const struct area *, int x, int y, int32_t cp, unsigned style, uint8_t back);
void area_cursor(const struct area *, int x, int y);

#endif
