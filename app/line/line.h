/* app/line/line.h - the input line of the interactive mode: readline, its history and completion. */
#ifndef WEIR_LINE_H
#define WEIR_LINE_H

#include "app/chat/chat.h"

/* Prepare the input line. names: the slash commands, NULL-terminated, for completion; file_names: those that take
 * a file name, in the same form. private_talk: no typed text is stored, and the history begins empty. Standard
 * input must be a terminal. */
void prompt_open(const char *color, const char *const *names, const char *const *file_names, int private_talk);
void prompt_close(void);

enum prompt_got { PROMPT_TEXT, PROMPT_QUIT };
/* Read one message without its final newline; it may have several lines (a trailing backslash, a """ block, a
 * paste). PROMPT_QUIT: Ctrl-D, Ctrl-C twice, the terminal was closed, or a signal asks to end. */
enum prompt_got prompt_read(struct str *out);

/* Put this text into the next input line, to be edited before it is sent. */
void prompt_draft(const char *text, size_t n);
/* Ask the user a question (clean text). 1 if the answer begins with y. */
int prompt_ask(const char *question);

/* on: do not echo keys while a command or an answer runs; the keys stay for the next prompt. */
void prompt_quiet_keys(int on);

/* ---- front ends ---- */

/* Run an open chat on standard input and output (line.c): interactive, one question a line from a pipe, or the
 * question of -p. note: the message about a resumed session, or NULL. Returns the exit code. */
int line_run(struct chat *, const char *note);

#endif
