/* app/tui/tui.h - the full screen. The main thread owns the screen, the input line and a read-only connection to the
 * store. The worker thread (worker.h) owns the conversation. Two queues connect the threads.
 *
 * The program calls tui_run(). The other functions are for tests, which run the same screen without a terminal. */
#ifndef WEIR_TUI_H
#define WEIR_TUI_H

#include "app/chat/chat.h"

/* 1 if the full screen is used: standard input and output are a suitable terminal, and no option such as --line or
 * --json asks for line mode. */
int tui_wanted(const struct options *);
/* Return -1 with ERR_USAGE if --inline was given but is not possible on this terminal; else 0. */
int tui_refuses_inline(const struct options *, struct err *);
/* Append the keys and commands of the full screen, for `weir help keys`. */
void tui_help(struct str *out);
/* Run an open chat on the terminal until the user quits. Returns the exit code. `note` is the message about a resumed
 * session, or NULL. */
int tui_run(struct chat *, const char *note);

struct tui;
/* Open the screen on the terminal fd. If fd < 0, there is no terminal, and the screen is a grid of w x h cells (for
 * tests). */
int tui_open(struct tui **, struct chat *, int fd, int w, int h, const char *note, struct err *);
void tui_close(struct tui *);
void tui_feed(struct tui *, const char *bytes, size_t n);
/* Wait at most `seconds` for keys, events of the worker or a timer, and handle what has come. Returns 0 if the user has
 * quit. */
int tui_step(struct tui *, double seconds);
/* 1 if nothing runs and all events have been handled. */
int tui_idle(const struct tui *);
void tui_dump(struct tui *, int with_styles, struct str *out);
void tui_resize(struct tui *, int w, int h);

#endif
