/* ui/screen/display_private.h (private to ui/screen/display*.c) - a terminal. display.c opens and closes it,
 * display_show.c draws a grid on it. No other file includes curses. */
#ifndef WEIR_UI_DISPLAY_PRIVATE_H
#define WEIR_UI_DISPLAY_PRIVATE_H

#include "ui/screen/grid.h"
#include "ui/screen/theme.h"

#include <curses.h>
#include <stdio.h>
#include <termios.h>

#define SIDE_MAX  1000 /* most columns and rows accepted */

#define FRAME_ON  "\33[?2026h" /* begin a synchronized frame */
/* end the synchronized frame; terminals that do not know FRAME_ON and FRAME_OFF ignore them */
#define FRAME_OFF "\33[?2026l"

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
};

void display_say(struct display *, const char *s); /* write to the terminal at once */

#endif
