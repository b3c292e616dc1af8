/* ui/input/input.h (private to ui/) - the input line: GNU readline fed by keys and drawn into cells.
 *
 * readline is global: there is one input line a process.  It reads from a queue of bytes that input_key() fills, never blocks, and
 * draws nothing itself. */
#ifndef WEIR_INPUT_H
#define WEIR_INPUT_H

#include "ui/screen/grid.h"
#include "ui/screen/keys.h"

/* history: a file, 0600, or NULL.  commands, settings: for completion, end with name = NULL, outlive the input; settings may be NULL.  Sessions' names for
 * commands that take one come from input_names(). */
void input_open(const char *history, const struct ui_command *commands, const struct ui_setting *settings);
void input_close(void);
void input_names(const char *const *names, size_t n);      /* copied */

/* One key.  1: it was used.  0: it means nothing to the line (page keys, F keys, Esc outside vi insert mode and searches ...).
 * Enter that ends the message: see input_take(). */
int  input_key(const struct key *);
/* The message that Enter ended, exactly; 1, or 0 when there is none.  A backslash at the end of a line and an open """ block
 * continue in the next line instead of ending it (as in line mode).  The message is in the history. */
int  input_take(struct str *out);

int  input_empty(void);
const char *input_text(size_t *n);                         /* one character stands for each long paste */
void input_whole(struct str *out);                         /* with long pastes in full */
/* Replaces the text, as one step of undo; the cursor is at its end. */
void input_set(const char *text, size_t n);
/* The same with what input_text() gave, or more of it: long pastes stay collapsed. */
void input_restore(const char *text);
/* Clears the line; the draft is kept in the history. */
void input_abandon(void);
/* A popup, a search of the history, a half-typed command or vi's insert mode is open: Esc and Ctrl-G are for the line. */
int  input_wants_escape(void);
/* The same for Ctrl-G, which in vi's insert mode is free. */
int  input_wants_abort(void);
/* vi's command mode: letters are commands there. */
int  input_commands(void);

/* Rows that the line needs at this width, at most `most`.  Drawing scrolls to the cursor, and sets it.  mark: before the first row
 * ("> "). */
int  input_rows(int width, int most);
void input_draw(const struct area *, const char *mark);
/* The completions on offer: how many, and a popup above the line, its last row at the area's bottom; the chosen one
 * reversed.  Tab and the arrows walk, Enter or going on typing takes it, Esc closes (input_key does that). */
int  input_offers(void);
void input_draw_offers(const struct area *, int ascii);

/* Is a text of so many lines or bytes collapsed when it is pasted? */
int  paste_is_long(const char *text, size_t n);

#endif
