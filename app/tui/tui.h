/* app/tui/tui.h - the full screen: the main thread owns the screen, the input line and a read-only connection to
 * the store; the worker (worker.h) owns the conversation. Two queues connect them.
 *
 * The program calls tui_run(); the other functions let tests drive the same screen without a terminal. */
#ifndef WEIR_TUI_H
#define WEIR_TUI_H

#include "app/chat/chat.h"

/* 1 if input and output are a terminal that can show a full screen, and no option asks for line mode (--line,
 * --json). */
int tui_wanted(const struct options *);
/* Append the keys and commands of the full screen, for weir help keys. */
void tui_help(struct str *out);
/* Show an open chat on the terminal until the user quits; returns the exit code. note: the message about resuming,
 * or NULL. */
int tui_run(struct chat *, const char *note);

struct tui;
/* Open the screen. fd < 0: without a terminal, with w x h cells. */
int tui_open(struct tui **, struct chat *, int fd, int w, int h, const char *note, struct err *);
void tui_close(struct tui *);
void tui_feed(struct tui *, const char *bytes, size_t n);
/* Wait at most `seconds` for keys, events or a timer, and handle them. 0: the user has quit. */
int tui_step(struct tui *, double seconds);
/* 1 if nothing runs and all events have been handled. */
int tui_idle(const struct tui *);
void tui_dump(struct tui *, int with_styles, struct str *out);
void tui_resize(struct tui *, int w, int h);

#endif
