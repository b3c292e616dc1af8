/* app/tui.h (private to app/) - the full screen: one thread owns the screen, the input line and a reading connection to the
 * store; the worker (worker.h) owns the conversation.  They meet in the worker's queue.
 *
 * tui_run() is what cmd_chat() calls.  The rest lets tests drive the same program without a terminal. */
#ifndef WEIR_TUI_H
#define WEIR_TUI_H

#include "app/chat.h"

/* A terminal on both sides that can show a full screen, and nothing said against it (--line, --json, TERM=dumb). */
int  tui_wanted(const struct options *);
/* Keys and commands of the full screen, as text: weir --help keys. */
void tui_help(struct str *out);
/* A conversation that is open, on the terminal, until the user leaves: the exit code.  note: what resuming has to say. */
int  tui_run(struct chat *, const char *note);

struct tui;
/* fd < 0: no terminal; w, h: the size then. */
int  tui_open(struct tui **, struct chat *, int fd, int w, int h, const char *note, struct err *);
void tui_close(struct tui *);
void tui_feed(struct tui *, const char *bytes, size_t n);
/* Wait for something to happen, at most so many seconds, and deal with it.  0: the user has left. */
int  tui_step(struct tui *, double seconds);
/* Nothing runs and nothing is on its way. */
int  tui_idle(const struct tui *);
void tui_dump(struct tui *, int with_styles, struct str *out);
void tui_resize(struct tui *, int w, int h);

#endif
