/* app/line/line.h - line mode: the input line (readline, history, completion) and the front ends that use it. */
#ifndef WEIR_LINE_H
#define WEIR_LINE_H

#include "app/chat/chat.h"

/* Prepare the input line. Standard input must be a terminal. For completion, `names` has the slash commands, and
 * `file_names` those slash commands that take a file name. Both lists end with NULL. If `private_talk` is 1, begin with
 * an empty history, and store no typed text. */
void prompt_open(const char *color, const char *const *names, const char *const *file_names, int private_talk);
void prompt_close(void);

enum prompt_got { PROMPT_TEXT, PROMPT_QUIT };
/* Read one message, without its final newline. It may have several lines: after a backslash, between """ marks, or in a
 * paste. Returns PROMPT_QUIT if the user quits (Ctrl-D, Ctrl-C twice), if the terminal was closed, or if a signal ends
 * the program. */
enum prompt_got prompt_read(struct str *out);

/* Insert this text into the next input line, where the user can edit it. */
void prompt_draft(const char *text, size_t n);
/* Ask a question. Its text must be free of control characters. Returns 1 if the answer begins with y, else 0. */
int prompt_ask(const char *question);

/* on = 1: stop echoing keys while a command or an answer runs. on = 0: echo again. Keys that the user types while
 * echoing is off are read at the next prompt. */
void prompt_quiet_keys(int on);

/* ---- front ends ---- */

/* Run an open chat on standard input and output: interactive, questions from a pipe, or the question of -p. `note` is
 * the message about a resumed session, or NULL. Returns the exit code. */
int line_run(struct chat *, const char *note);

#endif
