/* ui/screen/display_private.h (private to ui/screen/display*.c) - a terminal. display.c opens and closes it,
 * display_show.c draws a grid on it, display_flow.c the rows that flow (inline). No other file includes curses. */
#ifndef WEIR_UI_DISPLAY_PRIVATE_H
#define WEIR_UI_DISPLAY_PRIVATE_H

#include "ui/screen/grid.h"
#include "ui/screen/theme.h"

#include <curses.h>
#include <stdio.h>
#include <termios.h>

#define SIDE_MAX    1000 /* most columns and rows accepted */
#define REPLACEMENT 0xfffd

#define PASTE_ON    "\33[?2004h"
#define PASTE_OFF   "\33[?2004l"
#define FRAME_ON    "\33[?2026h" /* begin a synchronized frame */
/* end the synchronized frame; terminals that do not know FRAME_ON and FRAME_OFF ignore them */
#define FRAME_OFF   "\33[?2026l"

struct display {
	int fd;
	SCREEN *screen; /* NULL while ncurses is closed */
	FILE *in, *out;
	char *entry; /* name of the terminfo entry */
	int want_colours;
	const struct theme *theme;
	int colours;        /* number of colours to use: 0, 8 or 256 */
	int own_fg, own_bg; /* numbers of the terminal's default colours, as ncurses has them */
	attr_t attrs;       /* attributes that the terminal supports */
	int utf8, has_alternate, awkward_corner;
	int mouse, lost;
	int all;    /* 1: the next display_show() writes every cell */
	int clear;  /* 1: the next display_show() erases the terminal first */
	int cursor; /* 1 visible, 0 hidden, -1 unknown */
	struct grid shown;
	/* [style][back] 1 + number of the ncurses colour pair; 0: no pair allocated yet */
	int pair[ST_COUNT][ST_COUNT];
	struct termios before;
	int flags; /* file status flags of fd before opening */
	/* PAUSED, PAUSED_SCREEN: display_show() does nothing. After PAUSED_SCREEN, display_resume() opens the alternate
	 * screen at once. */
	enum { NOT_PAUSED, PAUSED, PAUSED_SCREEN } paused;
	/* For grids that flow (inline). The region is the rows at the end of the normal screen that may still change:
	 * the rows of `shown`. The last `fixed` of them are below the text. shown.h = 0: there is no region. */
	struct {
		/* What the terminal can do. can: 1 = show grids that flow; inserts: 1 = insert and delete lines;
		 * colours, attrs: its number of colours, and its attributes. */
		int can, inserts, colours;
		attr_t attrs;
		/* 1: the terminal is set up for grids that flow; 0: it shows another grid, or is paused */
		int on;
		int was_covered; /* 1: another grid was shown since the last grid that flows */
		struct grid shown;
		int fixed, below; /* below: empty rows below the region, left when it became shorter */
		int x, y;         /* cursor; y counts from the region's first row */
		int h, shown_at;  /* h: rows of the terminal; shown_at: rows that it had when the region was written */
		int16_t fg, bg;   /* colours set in the terminal */
		attr_t pen;       /* attributes set in the terminal */
		struct grid kept; /* last rows that scrolled away; used if there is no alternate screen */
		int n_kept;
	} flow;
};

void display_say(struct display *, const char *s); /* write to the terminal at once */
/* ---- display_show.c ---- */
attr_t cell_attrs(const struct display *, unsigned style, const struct look *);
/* 1 if the terminal shows the character with `width` columns. */
int cell_is_showable(const struct display *, int32_t cp, int width);
/* ---- display_flow.c ---- */
void flow_look_up(struct display *); /* learn from terminfo what the terminal can do */
void flow_begin(struct display *);   /* set the terminal up for grids that flow */
void flow_cover(struct display *);   /* prepare for a grid that does not flow; the region stays on the normal screen */
void flow_end(struct display *);     /* erase the region and restore the terminal */
int flow_show(struct display *, const struct grid *);
/* ---- display.c ---- */
/* set what display_reset() leaves: the inlined region (1) or the alternate screen (0) */
void display_reset_shows(int inlined);
/* 1 if the terminal of the current terminfo entry has an alternate screen. */
int terminal_has_alternate(void);
int display_start(struct display *); /* open ncurses on the alternate screen; returns 0, or -1 on failure */
void display_stop(struct display *); /* close ncurses */

#endif
