/* tests/lib/vt.h - a small terminal emulator: turns a program's output into a screen and checks every control sequence.
 *
 * Allowed are the sequences that a test passes to vt_allow(), such as those of the terminal's terminfo entry, and SGR
 * with numbers. Digits in an allowed sequence stand for any number. The first forbidden sequence is kept in `bad`. */
#ifndef WEIR_VT_H
#define WEIR_VT_H

#include "engine/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VT_BOLD = 1, VT_FAINT = 2, VT_UNDER = 4, VT_REVERSE = 8, VT_ITALIC = 16 };
struct vt_pen {
	int16_t fg, bg;
	uint8_t attrs;
};
struct vt_cell {
	int32_t cp, mark[8];
	int width;
	struct vt_pen pen;
};

struct vt {
	int w, h, x, y;
	struct vt_cell *cell;
	struct vt_pen pen;
	int wraps;       /* the next character begins a new line */
	int top, bottom; /* top: first row of the scrolling region; bottom: the row below its last row */
	int saved_x, saved_y;
	/* bce: 1 = erasing fills with the background colour; insert: 1 = insert mode is on; no_margin: 1 = automatic
	 * margins are off */
	int bce, insert, no_margin;
	int alternate, paste, mouse, frame, hidden; /* 1 = the mode is on */
	int frames;                                 /* number of marked frames */
	int32_t last;
	struct str held; /* bytes of an incomplete sequence */
	char *allowed[256];
	int n_allowed;
	struct str clipboard; /* strings of OSC 52, with their escape sequences, if OSC 52 is allowed */
	int allow_strings;
	char bad[200];
	uint64_t sequences, characters;
	/* keeps: 1 = rows that scroll off the top are added to `scrolled`, with a newline after each, and the alternate
	 * screen is separate from the normal screen */
	int keeps;
	struct str scrolled;
	struct vt_cell *normal; /* the normal screen, while the alternate one is shown */
	int normal_x, normal_y;
};

/* Make the screen empty, with w x h cells. *v must be zero before the first call. */
void vt_size(struct vt *v, int w, int h);
void vt_free(struct vt *v);
/* Resize as a terminal does; the text is kept. VT_CUTS: rows keep their places, as in xterm. VT_WRAPS: rows that are
 * too wide are wrapped again, and rows without room scroll off the top. VT_WRAPS_CUTS: like VT_WRAPS, but rows below
 * the cursor are removed first, as in tmux. */
enum vt_resize { VT_CUTS, VT_WRAPS, VT_WRAPS_CUTS };
void vt_resize(struct vt *v, int w, int h, enum vt_resize);
void vt_rows(const struct vt *v, struct str *out); /* append the rows on the screen as text, a newline behind each */

/* Allow all sequences in s. A "$<5>" in it means padding. */
void vt_allow(struct vt *v, const char *s);

/* Process output of a program, in pieces of any size. */
void vt_feed(struct vt *v, const char *s, size_t n);

#endif
