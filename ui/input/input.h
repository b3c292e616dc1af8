/* ui/input/input.h (private to ui/) - the input line: GNU readline, fed by keys and drawn into cells.
 *
 * readline's state is global, so a process has one input line. readline reads from a queue of bytes that input_key()
 * fills; it never blocks and draws nothing itself. */
#ifndef WEIR_INPUT_H
#define WEIR_INPUT_H

#include "ui/screen/grid.h"
#include "ui/screen/keys.h"

/* Open the input line.  history: path of the history file, created with mode 0600; NULL = no file.  commands and
 * settings, for completion, end with name = NULL and must outlive the input line; settings may be NULL.  Set names
 * of sessions, for commands that take one, with input_names(). */
void input_open(const char *history, const struct ui_command *commands, const struct ui_setting *settings);
void input_close(void);
void input_names(const char *const *names, size_t n); /* names for completion; copied */

/* Handle a key.  1: used.  0: the input line has no use for it (page keys, F keys, Esc outside searches and vi
 * insert mode, ...).  If Enter ended a message, get it with input_take(). */
int input_key(const struct key *);
/* Take the oldest message that Enter ended: 1, or 0 if there is none.  A backslash at the end of a line, or an
 * open """ block, continues the message on the next line, as in line mode.  The message is in the history already. */
int input_take(struct str *out);

int input_empty(void);
const char *input_text(size_t *n); /* each long paste is one character */
void input_whole(struct str *out); /* appends the text with long pastes in full */
/* Replace the text, as one undo step; the cursor moves to its end. */
void input_set(const char *text, size_t n);
/* Replace the text by what input_text() returned, possibly with text added.  Long pastes stay collapsed. */
void input_restore(const char *text);
/* Clear the line; save the draft in the history. */
void input_abandon(void);
/* 1 if Esc is for the input line: a popup, a history search, a half-typed command or vi's insert mode
 * is open. */
int input_wants_escape(void);
/* 1 if Ctrl-G is for the input line: a popup, a history search or a half-typed command is open. */
int input_wants_abort(void);
/* 1 in vi's command mode, where letters are commands. */
int input_commands(void);

/* Number of rows that the line needs at this width, at most `most`.  input_draw() scrolls to the cursor and places
 * it; mark is shown before the first row ("> "). */
int input_rows(int width, int most);
void input_draw(const struct area *, const char *mark);
/* Number of offered completions, and their popup: it is drawn above the line, with its last row at the area's
 * bottom and the chosen one reversed.  input_key() handles its keys: Tab and arrows move the choice, Enter or
 * further typing accepts it, Esc closes the popup. */
int input_offers(void);
void input_draw_offers(const struct area *, int ascii);

/* 1 if a pasted text is so long that it is collapsed. */
int paste_is_long(const char *text, size_t n);

#endif
