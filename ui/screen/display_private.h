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
	SCREEN *screen; /* NULL while paused */
	FILE *in, *out;
	char *entry; /* terminfo entry */
	int want_colours;
	const struct theme *theme;
	int colours;        /* 0, 8 or 256 */
	int own_fg, own_bg; /* numbers of the terminal's default colours */
	attr_t attrs;       /* attributes that the terminal has */
	int utf8, has_alternate, awkward_corner;
	int mouse, lost;
	int all;    /* 1: the next display_show() writes every cell */
	int clear;  /* 1: the next display_show() erases the terminal first */
	int cursor; /* 1 visible, 0 hidden, -1 unknown */
	struct grid shown;
	int pair[ST_COUNT][ST_COUNT]; /* [style][back] number of the ncurses colour pair + 1; 0: not allocated yet */
	struct termios before;
	int flags; /* file status flags of fd before opening */
	/* Nothing is shown until display_resume(). PAUSED_SCREEN: which then opens the alternate screen at once. */
	enum { NOT_PAUSED, PAUSED, PAUSED_SCREEN } paused;
	/* Inline. The region is the rows at the end of the normal screen that may still change: shown.h rows, of which the
	 * last `fixed` are below the text; it has none while shown.h is 0. */
	struct {
		/* of the terminal: it can show grids that flow; insert and delete lines; its colours and attributes */
		int can, inserts, colours;
		attr_t attrs;
		int on;          /* 1: the terminal is set up for it, 0: it shows the alternate screen or is paused */
		int was_covered; /* 1: the screen has shown something else since */
		struct grid shown;
		int fixed, below; /* below: empty rows below the region that it has left */
		int x, y;         /* the cursor, from the region's first row */
		int h, shown_at;  /* rows of the terminal; when the region was written */
		int16_t fg, bg;   /* colours that are set */
		attr_t pen;       /* attributes that are set */
		struct grid kept; /* rows that scrolled away last, if there is no alternate screen */
		int n_kept;
	} flow;
};

void display_say(struct display *, const char *s); /* write to the terminal at once */
/* display_show.c */
attr_t cell_attrs(const struct display *, unsigned style, const struct look *);
/* 1 if the terminal shows the character with that width. */
int cell_is_showable(const struct display *, int32_t cp, int width);
/* display_flow.c */
void flow_look_up(struct display *); /* learn from terminfo what the terminal can do */
void flow_begin(struct display *);   /* set the terminal up */
void flow_cover(struct display *);   /* the alternate screen is opened; the region stays where it is */
void flow_end(struct display *);     /* erase the region and restore the terminal */
int flow_show(struct display *, const struct grid *);
/* display.c */
void display_reset_shows(int inlined); /* what display_reset() has to undo: 1 = the region, 0 = the alternate screen */
/* 1 if the terminal of the current terminfo entry has an alternate screen. */
int terminal_has_alternate(void);
int display_start(struct display *); /* open ncurses on the alternate screen: 0 or -1 */
void display_stop(struct display *); /* close it */

#endif
