/* ui/screen/display_private.h (private to ui/screen/display*.c) - a terminal as its files share it.
 *
 *     display.c        opening and leaving it, its size and modes, the clipboard
 *     display_show.c   a grid becomes cells of curses
 *
 * No other file knows curses. */
#ifndef WEIR_UI_DISPLAY_PRIVATE_H
#define WEIR_UI_DISPLAY_PRIVATE_H

#include "ui/screen/grid.h"
#include "ui/screen/theme.h"

#include <curses.h>
#include <stdio.h>
#include <termios.h>

#define SIDE_MAX 1000       /* most columns and rows that are accepted */

#define FRAME_ON   "\33[?2026h"    /* show nothing until ... */
#define FRAME_OFF  "\33[?2026l"    /* ... the picture is whole; terminals that do not know it ignore it */

struct display {
	int fd;
	SCREEN *screen;             /* NULL while paused */
	FILE *in, *out;
	char *entry;                /* of terminfo */
	int want_colours;
	const struct theme *theme;
	int colours;                /* 0, 8 or 256 */
	int own_fg, own_bg;         /* what stands for the terminal's own colours */
	attr_t attrs;               /* that it has */
	int utf8, has_alternate, awkward_corner;
	int mouse, lost;
	int all;                    /* the next show writes every cell ... */
	int clear;                  /* ... and erases the terminal first */
	int cursor;                 /* shown: 1, 0, -1 = not known */
	struct grid shown;
	int pair[ST_COUNT][ST_COUNT];   /* of a style and what is behind it, + 1; 0 = not made yet */
	struct termios before;
	int flags;                  /* of the descriptor, before */
};

void display_say(struct display *, const char *s);   /* to the terminal, at once */

#endif
