/* tests/app/play.h - plays scripts of keys to the whole program, which draws on a grid of cells instead of a terminal.
 *
 * A script:
 *     args WORDS                options of the program
 *     size 80x24                size of the screen (default: the test's, or 80x24); later in a script: resize the terminal
 *     type TEXT                 as typed; \n \t \e \\ as in C
 *     key NAME ...              Enter Tab Esc Up Down Left Right Home End PageUp PageDown Backspace Delete F1 .. F12 C-x M-x Space
 *     paste TEXT                bracketed
 *     wait                      until nothing runs
 *     pass SECONDS              handle events for so many seconds
 *     screen NAME               the test looks at the screen now */
#ifndef WEIR_TEST_PLAY_H
#define WEIR_TEST_PLAY_H

#include "app/tui/tui.h"
#include "engine/base/base.h"

enum { WORDS_MOST = 40 };

struct play {
	struct options o;
	struct chat c;
	struct tui *t; /* NULL before the first key */
	int w, h;
	char *args[WORDS_MOST];
	int n_arg;
	void (*screen)(struct play *, const char *name); /* called for the command `screen` */
	struct str got;                                  /* for the test's own use; the caller frees it */
	const char *path;
	int line; /* current line of the script */
};

/* Play a script from its first line to its last. args: options before those of the script, NULL-terminated. cpu: level
 * of the CPU kernels, so that answers are the same on every machine. The program sees empty directories of its own. A
 * failure of the script is a failure of the running test. */
void play_script(struct play *, const char *path, const char *const *args, const char *cpu);
void play_problem(const struct play *, const char *text);

#endif
