/* app/tui/tui.h - the full screen: one thread owns the screen, the input line and a reading connection to the
 * store; the worker (worker.h) owns the conversation.  They meet in the worker's queues.
 *
 * The program calls tui_run(); the other functions let tests drive the same screen without a terminal. */
#ifndef WEIR_TUI_H
#define WEIR_TUI_H

#include "app/chat/chat.h"

/* Input and output are a terminal that can show a full screen, and no option asks for line mode (--line, --json). */
int tui_wanted(const struct options *);
/* Keys and commands of the full screen, as text: weir --help keys. */
void tui_help(struct str *out);
/* Shows an open chat on the terminal until the user quits; returns the exit code. note: a line about resuming, or
 * NULL. */
int tui_run(struct chat *, const char *note);

struct tui;
/* fd < 0: no terminal, and a screen of w x h cells. */
int tui_open(struct tui **, struct chat *, int fd, int w, int h, const char *note, struct err *);
void tui_close(struct tui *);
void tui_feed(struct tui *, const char *bytes, size_t n);
/* Waits for keys, events or a timer, at most so many seconds, and handles them.  0: the user has quit. */
int tui_step(struct tui *, double seconds);
/* Nothing runs, and all events have been handled. */
int tui_idle(const struct tui *);
void tui_dump(struct tui *, int with_styles, struct str *out);
void tui_resize(struct tui *, int w, int h);

#endif
