/* ui/screen/display_private.h (private to ui/screen/display*.c) - a terminal. display.c opens and closes it,
 * display_show.c draws a full-screen grid, display_flow.c an inline grid. No other file includes curses. */
#ifndef WEIR_UI_DISPLAY_PRIVATE_H
#define WEIR_UI_DISPLAY_PRIVATE_H

#include "ui/screen/grid.h"
#include "ui/screen/theme.h"

#include <curses.h>
#include <stdio.h>
#include <termios.h>

#define SIDE_MAX    1000 /* maximum number of columns, and of rows, that is accepted */
#define REPLACEMENT 0xfffd

#define PASTE_ON    "\33[?2004h"
#define PASTE_OFF   "\33[?2004l"
#define FRAME_ON    "\33[?2026h" /* begins a synchronized frame */
/* ends a synchronized frame; terminals that do not know FRAME_ON and FRAME_OFF ignore them */
#define FRAME_OFF   "\33[?2026l"

struct display {
	int fd;
	SCREEN *screen; /* NULL while ncurses is closed */
	FILE *in, *out;
	char *entry; /* name of the terminfo entry */
	int want_colours;
	const struct theme *theme;
	int colours;        /* number of colours that are used: 0, 8 or 256 */
	int own_fg, own_bg; /* numbers that ncurses has for the terminal's default colours */
	attr_t attrs;       /* attributes that the terminal supports */
	int utf8, has_alternate, awkward_corner;
	int mouse, lost;
	int all;    /* 1: the next display_show() writes every cell */
	int clear;  /* 1: the next display_show() erases the terminal first */
	int cursor; /* 1 = the cursor is visible, 0 = hidden, -1 = unknown */
	struct grid shown;
	/* pair[style][back] is 1 + the number of the ncurses colour pair; 0: no pair is allocated yet */
	int pair[ST_COUNT][ST_COUNT];
	struct termios before;
	int flags; /* file status flags that fd had before it was opened as a display */
	/* While PAUSED or PAUSED_SCREEN, display_show() does nothing. After PAUSED_SCREEN, display_resume() opens the
	 * alternate screen at once. */
	enum { NOT_PAUSED, PAUSED, PAUSED_SCREEN } paused;
	/* For inline grids (grid.flows), which are shown at the end of the terminal's normal screen. The region
	 * consists of those rows of the last inline grid that may still change; `shown` is a copy of them. The last
	 * `fixed` rows of the region are below the conversation's text. shown.h = 0: there is no region. */
	struct {
		/* What the terminal can do. `can` is 1 if it can show inline grids, and `inserts` is 1 if it can insert
		 * and delete lines. `colours` is the number of its colours, and `attrs` has the attributes that it
		 * supports. */
		int can, inserts, colours;
		attr_t attrs;
		/* 1: the terminal is set up for inline grids; 0: it shows a full-screen grid, or is paused */
		int on;
		int was_covered; /* 1: a full-screen grid was shown since the last inline grid */
		struct grid shown;
		/* `below` is the number of empty rows that were left below the region when the region became shorter */
		int fixed, below;
		/* The rows above the region that the terminal still shows as `kept` has them: the last `above` rows of
		 * `kept`. The region covers the last `over` of these, with its own first rows. */
		int above, over;
		int x, y; /* position of the cursor; y counts from the first row of the region */
		/* `h` is the number of rows of the terminal. `shown_at` is the number of rows that the terminal had
		 * when the region was written. */
		int h, shown_at;
		int16_t fg, bg; /* colours that are set in the terminal now */
		attr_t pen;     /* attributes that are set in the terminal now */
		/* copies of the last final rows, which are drawn again after they were covered */
		struct grid kept;
		int n_kept;
	} flow;
};

void display_say(struct display *, const char *s); /* write a string to the terminal at once */
/* ---- display_show.c ---- */
attr_t cell_attrs(const struct display *, unsigned style, const struct look *);
/* 1 if the terminal shows the character in `width` columns. */
int cell_is_showable(const struct display *, int32_t cp, int width);
/* ---- display_flow.c ---- */
void flow_look_up(struct display *); /* learn from terminfo what the terminal can do */
void flow_begin(struct display *);   /* set the terminal up for inline grids */
void flow_cover(struct display *);   /* prepare for a full-screen grid; the region stays on the normal screen */
void flow_end(struct display *);     /* erase the region and restore the terminal */
int flow_show(struct display *, const struct grid *);
/* ---- display.c ---- */
/* Set the last of the escape sequences that display_reset() returns. If `inlined` is 1, it erases the region of an
 * inline grid; if it is 0, it leaves the alternate screen. */
void display_reset_shows(int inlined);
/* 1 if the terminal of the current terminfo entry has an alternate screen. */
int terminal_has_alternate(void);
int display_start(struct display *); /* open ncurses on the alternate screen; returns 0, or -1 on failure */
void display_stop(struct display *); /* close ncurses */

#endif
