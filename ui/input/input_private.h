/* ui/input/input_private.h (private to ui/) - the parts of the input line that know no readline: its rows on the screen
 * (input_rows.c), completions (input_offers.c), long pastes (input_pastes.c), the history's file (input_history.c). */
#ifndef WEIR_INPUT_PRIVATE_H
#define WEIR_INPUT_PRIVATE_H

#include "ui/screen/grid.h"

/* ---- rows ---- */

/* A text wrapped at cells: columns of its first row, and of all others (both >= 1).  A row is computed from its first byte, so only
 * rows on the screen cost anything. */
struct wrapped { const char *text; size_t n; int first, cols; };
struct wrap_row { size_t from, to, next; };   /* bytes; next: where the row below begins, NO_ROW = there is none */
#define NO_ROW SIZE_MAX

void   wrap_row_at(const struct wrapped *, size_t from, struct wrap_row *out);   /* from: the first byte of a row */
/* The first bytes of the row that byte `at` is in and of the rows above it, at most `want`, the topmost first; how
 * many. */
size_t wrap_rows_to(const struct wrapped *, size_t at, size_t *from, size_t want);
/* Rows below byte `from`, that row too, at most `most`. */
int    wrap_count(const struct wrapped *, size_t from, int most);
/* The column of a byte of the row; the character at a column, or the row's last place. */
int    wrap_col(const struct wrapped *, const struct wrap_row *, size_t at);
size_t wrap_byte(const struct wrapped *, const struct wrap_row *, int col);
void   wrap_draw(const struct wrapped *, const struct wrap_row *, const struct area *, int x, int y, unsigned style);

/* ---- long pastes ---- */

int  paste_keep(const char *text, size_t n, char out[5]);   /* *out: the character that stands for it; 0: there are too many */
int  paste_is_mark(int32_t cp);                             /* one that comes by any other way becomes U+FFFD */
int  paste_label(int32_t cp, char out[32]);                 /* what is shown for it, its columns; 0: it stands for no paste */
void pastes_expand(const char *in, size_t n, struct str *out);
void pastes_forget(void);

/* ---- completion ---- */

enum { OFFER_ROWS = 8, OFFER_MOST = 4096 };
enum offer_kind { OFFER_NOTHING, OFFER_COMMANDS, OFFER_PATHS, OFFER_NAMES, OFFER_WORDS };

/* name: what it stands for, as it is; shown: clean; help: clean, or "".  more: what follows a command, or what is in
 * a directory, will be typed next. */
struct offer { char *name, *shown, *help; int more; };
struct offers {
	enum offer_kind kind;
	struct offer *list; size_t n, cap;
	int cut;                          /* there were more than OFFER_MOST */
	size_t from, to;                  /* bytes of the line that the choice replaces */
	struct str head; char quote;      /* what of them stays before a path's last name; the quote it is in, or 0 */
	size_t typed;                     /* bytes of each name that are there already */
	long chosen;                      /* -1: none */
};
void offers_close(struct offers *);                    /* all zero: closed */
/* What could stand at byte `at` of the text: the kind, with an empty list if nothing fits. */
enum offer_kind offers_find(struct offers *, const char *text, size_t n, size_t at, const struct ui_command *,
                            const struct ui_setting *, char *const *names, size_t n_names);
/* What replaces from..to: the offer, whole; or as much as all of them have in common. */
void offers_text(const struct offers *, size_t which, struct str *out);
int  offers_common(const struct offers *, struct str *out);   /* 0: no more than what is there */
void offers_draw(const struct offers *, const struct area *, int ascii);

/* ---- the history's file ---- */

enum { HISTORY_BYTES = 16 << 20, HISTORY_ENTRY = 1 << 20 };
/* Valid UTF-8 without NUL bytes, which readline cannot hold, and without the characters that stand for long pastes. */
void text_fix(const char *in, size_t n, struct str *out);

#endif
