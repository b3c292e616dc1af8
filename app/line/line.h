/* app/line/line.h - the input line of the interactive mode: readline, its history and completion. */
#ifndef WEIR_LINE_H
#define WEIR_LINE_H

#include "app/chat/chat.h"

/* names: the slash commands, NULL-terminated, for completion; file_names: those (same form) after which a file name
 * follows. private_talk: nothing that is typed goes into a file, and the history begins empty. Needs a terminal on
 * standard input. */
void prompt_open(const char *color, const char *const *names, const char *const *file_names, int private_talk);
void prompt_close(void);

enum prompt_got { PROMPT_TEXT, PROMPT_QUIT };
/* One message, maybe of several lines (a trailing backslash, a """ block, a paste), without its final newline.
 * PROMPT_QUIT: Ctrl-D, Ctrl-C twice, the terminal went away or a signal asks to end. */
enum prompt_got prompt_read(struct str *out);

/* The next line begins with this text, to be changed before it is sent. */
void prompt_draft(const char *text, size_t n);
/* Ask the user a question (clean text): 1 when the answer begins with y. */
int prompt_ask(const char *question);

/* While a command or an answer runs, do not echo keys; they stay for the next prompt. */
void prompt_quiet_keys(int on);

/* ---- front ends ---- */

/* Run an open chat on standard input and output (line.c): interactive, one question a line from a pipe, or the question
 * of -p. note: what resuming has to say. Returns the exit code. */
int line_run(struct chat *, const char *note);

#endif
