/* ui/input/input_private.h (private to ui/) - the parts of the input line that do not use readline: rows on the
 * screen (input_rows.c), completions (input_offers.c), long pastes (input_pastes.c), the history file
 * (input_history.c). */
#ifndef WEIR_INPUT_PRIVATE_H
#define WEIR_INPUT_PRIVATE_H

#include "ui/screen/grid.h"

/* ---- rows ---- */

/* A text wrapped at cells.  first: columns of the first row; cols: columns of the other rows; both >= 1.  A row is
 * computed from its first byte, so only visible rows cost time. */
struct wrapped {
	const char *text;
	size_t n;
	int first, cols;
};
struct wrap_row {
	size_t from, to, next;
}; /* byte offsets; next: start of the row below, NO_ROW = none */
#define NO_ROW SIZE_MAX

void wrap_row_at(const struct wrapped *, size_t from, struct wrap_row *out); /* from: first byte of the row */
/* Find the row that contains byte `at` and the rows above it, at most `want` in all.  Writes their first bytes to
 * from[], topmost first; returns their number. */
size_t wrap_rows_to(const struct wrapped *, size_t at, size_t *from, size_t want);
/* Count rows from the row that begins at byte `from`, at most `most`. */
int wrap_count(const struct wrapped *, size_t from, int most);
/* wrap_col(): column of a byte of the row.  wrap_byte(): byte of the character at a column, or of the row's last
 * place. */
int wrap_col(const struct wrapped *, const struct wrap_row *, size_t at);
size_t wrap_byte(const struct wrapped *, const struct wrap_row *, int col);
void wrap_draw(const struct wrapped *, const struct wrap_row *, const struct area *, int x, int y, unsigned style);

/* ---- long pastes ---- */

/* out: the character that represents it, as a string; 0: too many pastes */
int paste_keep(const char *text, size_t n, char out[5]);
/* 1 for these characters; in text from elsewhere they become U+FFFD */
int paste_is_mark(int32_t cp);
/* text shown for it; returns its columns, 0 = cp represents no paste */
int paste_label(int32_t cp, char out[32]);
void pastes_expand(const char *in, size_t n, struct str *out);
void pastes_forget(void);

/* ---- completion ---- */

enum { OFFER_ROWS = 8, OFFER_MOST = 4096 };
enum offer_kind { OFFER_NOTHING, OFFER_COMMANDS, OFFER_PATHS, OFFER_NAMES, OFFER_WORDS };

/* name: the raw bytes to insert.  shown: clean text.  help: clean, or "".  more: an argument of the command, or a
 * name in the directory, is typed next. */
struct offer {
	char *name, *shown, *help;
	int more;
};
struct offers {
	enum offer_kind kind;
	struct offer *list;
	size_t n, cap;
	int cut;         /* 1: more than OFFER_MOST were found */
	size_t from, to; /* the choice replaces bytes [from, to) of the line */
	/* head: part of them to keep before a path's last name; quote: the open quote there, or 0 */
	struct str head;
	char quote;
	size_t typed; /* bytes of each name that are typed already */
	long chosen;  /* index; -1 = none */
};
void offers_close(struct offers *); /* a zeroed struct is closed, too */
/* Find completions at byte `at` of the text.  Returns their kind; the list is empty if nothing matches. */
enum offer_kind offers_find(struct offers *, const char *text, size_t n, size_t at, const struct ui_command *,
                            const struct ui_setting *, char *const *names, size_t n_names);
/* Append the text that replaces bytes [from, to): the whole offer, or the common beginning of all offers. */
void offers_text(const struct offers *, size_t which, struct str *out);
int offers_common(const struct offers *, struct str *out); /* 0: nothing longer than what is typed */
void offers_draw(const struct offers *, const struct area *, int ascii);

/* ---- the history's file ---- */

enum { HISTORY_BYTES = 16 << 20, HISTORY_ENTRY = 1 << 20 };
/* Append text as valid UTF-8 without NUL bytes, which readline cannot hold, and without the characters that
 * represent long pastes. */
void text_fix(const char *in, size_t n, struct str *out);

#endif
