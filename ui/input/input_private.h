/* ui/input/input_private.h (private to ui/) - parts of the input line that do not use readline: wrapping
 * (input_rows.c), completions (input_offers.c), long pastes (input_pastes.c), the history file
 * (input_history.c). */
#ifndef WEIR_INPUT_PRIVATE_H
#define WEIR_INPUT_PRIVATE_H

#include "ui/screen/grid.h"

/* ---- rows ---- */

/* A text that is wrapped into rows at any character. `first` is the number of columns of the first row, and `cols` the
 * number of columns of all other rows. Both are at least 1. Each row is computed from its first byte, so only visible
 * rows cost time. */
struct wrapped {
	const char *text;
	size_t n;
	int first, cols;
};
struct wrap_row {
	/* A row of a wrapped text. `from` and `to` are the byte offsets of its start and end; `next` is the offset of
	 * the start of the following row, or NO_ROW. */
	size_t from, to, next;
};
#define NO_ROW SIZE_MAX

/* Lay out the row that begins at byte `from`. */
void wrap_row_at(const struct wrapped *, size_t from, struct wrap_row *out);
/* Find the row that contains byte `at` of the text, and the rows above it, but no more than `want` rows. Write the
 * offsets of their first bytes to from[], beginning with the topmost row. Returns the number of rows found. */
size_t wrap_rows_to(const struct wrapped *, size_t at, size_t *from, size_t want);
/* Return how many rows there are from the row that begins at byte `from`, but no more than `most`. */
int wrap_count(const struct wrapped *, size_t from, int most);
/* wrap_col() returns the column of the character at byte `at`. wrap_byte() returns the offset of the character at
 * column `col`. If the row is shorter, wrap_byte() returns the end of the row, or the last character if the text
 * continues in the next row. */
int wrap_col(const struct wrapped *, const struct wrap_row *, size_t at);
size_t wrap_byte(const struct wrapped *, const struct wrap_row *, int col);
void wrap_draw(const struct wrapped *, const struct wrap_row *, const struct area *, int x, int y, unsigned style);

/* ---- long pastes ---- */

/* Store a long paste. out[] receives the character that represents the paste, as a string. Returns 1, or 0 if
 * PASTES_MOST or PASTES_BYTES is reached. */
int paste_keep(const char *text, size_t n, char out[5]);
/* 1 if the character represents a paste. In texts from elsewhere, such characters are replaced by U+FFFD. */
int paste_is_mark(int32_t cp);
/* Write the text that is shown for the paste of character cp. Returns the number of columns of the text; 0 if cp
 * represents no paste. */
int paste_label(int32_t cp, char out[32]);
void pastes_expand(const char *in, size_t n, struct str *out);
void pastes_forget(void);

/* ---- completion ---- */

enum { OFFER_ROWS = 8, OFFER_MOST = 4096 };
enum offer_kind { OFFER_NOTHING, OFFER_COMMANDS, OFFER_PATHS, OFFER_NAMES, OFFER_WORDS };

/* A completion. `name` is the text to insert, and `shown` the name without control characters. `help` is a description,
 * or "". `more` is 1 if something usually follows the name, such as an argument, or a file name after a directory. */
struct offer {
	char *name, *shown, *help;
	int more;
};
struct offers {
	enum offer_kind kind;
	struct offer *list;
	size_t n, cap;
	/* for commands: the first n_begun completions begin with the typed text; of the others, a synonym begins with
	 * it */
	size_t n_begun;
	int cut;         /* 1: the list is incomplete, because there are more than OFFER_MOST completions */
	size_t from, to; /* the chosen completion replaces bytes [from, to) of the line */
	/* For completions of paths. `head` is the directory in the form in which the user typed it, which is kept.
	 * `quote` is the quote character that is still open at the end of `head`; 0 = none. */
	struct str head;
	char quote;
	size_t typed; /* number of bytes at the beginning of each name that the user has already typed */
	long chosen;  /* index of the chosen completion; -1 = none */
};
void offers_close(struct offers *); /* closes the popup; a popup whose struct is zeroed is closed */
/* Find completions at byte `at` of the text. Returns their kind. The list is empty if nothing matches. */
enum offer_kind offers_find(struct offers *, const char *text, size_t n, size_t at, const struct ui_command *,
                            const struct ui_setting *, char *const *names, size_t n_names);
/* Append the text that replaces bytes [from, to) of the line. For offers_text(), it is the completion with index
 * `which`. For offers_common(), it is the common beginning of all completions, or of the first n_begun if n_begun is
 * not 0. */
void offers_text(const struct offers *, size_t which, struct str *out);
int offers_common(const struct offers *, struct str *out); /* returns 0 if the common beginning was typed already */
void offers_draw(const struct offers *, const struct area *, int ascii);

/* ---- the history's file ---- */

enum { HISTORY_BYTES = 16 << 20, HISTORY_ENTRY = 1 << 20 };
/* Append text as valid UTF-8. NUL bytes are removed, because readline's strings cannot contain them. Characters that
 * represent long pastes become U+FFFD. */
void text_fix(const char *in, size_t n, struct str *out);

#endif
