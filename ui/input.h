/* ui/input.h (private to ui/) - the input line: GNU readline fed by keys and drawn into cells.
 *
 * The only file of the screen that knows readline (input.c).  readline is global: there is one input line a process.  It reads
 * from a queue of bytes that input_key() fills and never waits; it draws nothing itself. */
#ifndef WEIR_INPUT_H
#define WEIR_INPUT_H

#include "ui/grid.h"
#include "ui/keys.h"

/* history: a file, 0600, or NULL.  commands: for completion, ends with name = NULL, outlives the input.  Sessions' names for
 * commands that take one come from input_names(). */
void input_open(const char *history, const struct ui_command *commands);
void input_close(void);
void input_names(const char *const *names, size_t n);      /* copied */

/* One key.  1: it was used.  0: it means nothing to the line (page keys, F keys, Esc outside vi insert mode and searches ...).
 * Enter that ends the message: see input_take(). */
int  input_key(const struct key *);
/* The message that Enter ended, exactly; 1, or 0 when there is none.  A backslash at the end of a line and an open """ block
 * go on in the next line instead of ending it (as in line mode).  It is in the history. */
int  input_take(struct str *out);

int  input_empty(void);
const char *input_text(size_t *n);
/* Another text in the line: undo brings the old one back.  Cursor at the end. */
void input_set(const char *text, size_t n);
/* Clear the line; what was there goes into the history first (Ctrl-C must not lose a draft). */
void input_abandon(void);
/* The popup, a search of the history or a half-typed command is open, or vi's insert mode: Esc and Ctrl-G belong to the line. */
int  input_wants_escape(void);
/* The same for Ctrl-G, which in vi's insert mode is free. */
int  input_wants_abort(void);
/* vi's command mode: letters are commands there. */
int  input_commands(void);

/* Rows that it needs at this width, at most `most`; draws into an area of so many rows, scrolled so that the cursor shows, which it
 * sets.  mark: before the first row ("> "). */
int  input_rows(int width, int most);
void input_draw(const struct area *, const char *mark);
/* The completions on offer: how many, and a popup above the line, its last row at the area's bottom; the chosen one
 * reversed.  Tab and the arrows walk, Enter or going on typing takes it, Esc closes (input_key does that). */
int  input_offers(void);
void input_draw_offers(const struct area *);

#endif
