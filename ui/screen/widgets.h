/* ui/screen/widgets.h (private to ui/) - parts of panes: numbers as text, cut fields, a line to edit, a list with a chosen
 * row, words found in text. */
#ifndef WEIR_WIDGETS_H
#define WEIR_WIDGETS_H

#include "ui/screen/grid.h"
#include "ui/screen/keys.h"

/* ---- numbers: num_count(n).s lives until the end of the statement ---- */

struct num { char s[32]; };
struct num num_count(int64_t n);                      /* "18,204" */
struct num num_short(int64_t n);                      /* five columns at most: "9,999" "16.1k" "1.61M"; one more for a minus */
struct num num_fit(int64_t n, int cols);              /* in full where it fits so many columns, else short */
struct num num_bytes(uint64_t n);                     /* "676 MiB" */
struct num num_percent(double share);                 /* "31%", "<1%" for what is not nothing, "-" for what is no share */
struct num num_age(int64_t then, int64_t now);        /* "5 min ago", a date from 30 days on */
struct num num_wait(double seconds);                  /* "instant", "~40 s", "~12 min"; "?" when unknown */

/* ---- fields: clean text in exactly w columns, cut with an ellipsis; they return the x behind them ---- */

int put_left(const struct area *, int x, int y, int w, unsigned style, const char *text, size_t n, int ascii);
int put_right(const struct area *, int x, int y, int w, unsigned style, const char *text);

/* ---- a line that is edited in place ---- */

enum { EDIT_MOST = 512 };                             /* bytes */
struct edit { struct str text; size_t at; };          /* all zero: empty; valid UTF-8; at: byte of the cursor */
void edit_free(struct edit *);
void edit_set(struct edit *, const char *text, size_t n);   /* hostile text is welcome; cursor at the end */
/* 1: the text or the cursor has changed.  2: the key belongs to the line and changed nothing.  0: not a key of the line. */
int  edit_key(struct edit *, const struct key *);
void edit_draw(const struct edit *, const struct area *, int x, int y, int w, unsigned style);   /* with the cursor */

/* ---- a list: n rows, one chosen, `top` the first one shown ---- */

struct list { size_t n, chosen, top; };
void list_move(struct list *, long step);             /* stays inside */
void list_show(struct list *, int rows);              /* scroll as little as brings the chosen row into `rows` rows */
/* Up, Down, page keys, Home and End: 1, or 0 = no such key. */
int  list_key(struct list *, const struct key *, int rows);

/* ---- words in text ---- */

int32_t fold_case(int32_t cp);
int  has_capitals(const char *s, size_t n);
/* Where s[0..n) has the words first, from byte `from` on: its offset and *len, or SIZE_MAX.  Any white space between words
 * will do.  fold: case does not matter (`words` must be small letters then). */
size_t words_find(const char *s, size_t n, size_t from, const char *words, size_t n_words, int fold, size_t *len);

#endif
