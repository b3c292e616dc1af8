/* ui/input/input.h (private to ui/) - the input line: GNU readline, fed with keys and drawn into an area of the
 * screen.
 *
 * readline's state is global, so a process has one input line. readline reads from a queue of bytes that input_key()
 * fills; it never blocks and draws nothing itself. */
#ifndef WEIR_INPUT_H
#define WEIR_INPUT_H

#include "ui/screen/grid.h"
#include "ui/screen/keys.h"

/* Open the input line. `history` is the path of the history file, which is created with mode 0600; NULL: there is no
 * file. Completion offers `commands` and `settings`. Both end with name = NULL, and must outlive the input line;
 * `settings` may be NULL. */
void input_open(const char *history, const struct ui_command *commands, const struct ui_setting *settings);
void input_close(void);
void input_names(const char *const *names, size_t n); /* set the names that completion offers; the names are copied */

/* Handle a key. Returns 1 if the input line has used the key, and 0 if it has no use for it (such as Page Up or F1). If
 * Enter ended a message, get it with input_take(). */
int input_key(const struct key *);
/* Take the oldest message that Enter ended. Returns 1, or 0 if no message is left. The message is in the history
 * already. It has several lines if a line ended with a backslash or a """ block was open. */
int input_take(struct str *out);

int input_empty(void);
const char *input_text(size_t *n); /* returns the text of the line, in which each long paste is one character */
void input_whole(struct str *out); /* append the text of the line, with long pastes in full */
/* Replace the text. A single undo restores the old text. The cursor moves to the end. */
void input_set(const char *text, size_t n);
/* Replace the text by an edited copy of the text that input_text() has returned. Each long paste is still represented
 * by one character. */
void input_restore(const char *text);
/* Clear the line, and save its text, the draft, in the history. */
void input_abandon(void);
/* 1 if the input line uses Esc: to close a popup, end a history search or half-typed command, or leave vi's insert
 * mode. */
int input_wants_escape(void);
/* 1 if the input line uses Ctrl-G: to close a popup, or end a history search or half-typed command. */
int input_wants_abort(void);
/* 1 if vi's command mode is on, in which letter keys are commands. */
int input_commands(void);

/* Return how many rows the input line needs at this width, but no more than `most`. If it needs more, input_draw()
 * scrolls to the cursor. `mark` is the text that input_draw() puts before the first row, such as "> ". */
int input_rows(int width, int most);
void input_draw(const struct area *, const char *mark);
/* Return the number of completions in the popup; 0: the popup is closed. While it is open, input_key() handles its
 * keys: Tab and arrows move the choice, Enter or further typing accepts it, Esc closes the popup. input_draw_offers()
 * draws the popup at the bottom of the area. */
int input_offers(void);
void input_draw_offers(const struct area *, int ascii);

/* 1 if a pasted text is so long that one character represents it in the line. */
int paste_is_long(const char *text, size_t n);

#endif
