/* app/prompt.h (private to app/) - the input line of the interactive mode: readline, its history and completion. */
#ifndef WEIR_PROMPT_H
#define WEIR_PROMPT_H

#include "app/options.h"

/* names: the slash commands, NULL-terminated, for completion; file_names: those (same form) after which a
 * file name follows.  Needs a terminal on standard input. */
void prompt_open(const struct options *, const char *const *names, const char *const *file_names);
void prompt_close(void);

enum prompt_got { PROMPT_TEXT, PROMPT_QUIT };
/* One message, maybe of several lines (a trailing backslash, a """ block, a paste), without its final newline.
 * PROMPT_QUIT: Ctrl-D, Ctrl-C twice, the terminal went away or a signal asks to end. */
enum prompt_got prompt_read(struct str *out);

/* The next line begins with this text, to be changed before it is sent. */
void prompt_draft(const char *text, size_t n);
/* A question of ours (clean): 1 when the answer begins with y. */
int  prompt_ask(const char *question);

/* While a command or an answer runs: keys are not echoed into it (they stay for the next prompt). */
void prompt_quiet_keys(int on);

#endif
