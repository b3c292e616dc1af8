/* ui/screen/widgets.h (private to ui/) - building blocks of panes: numbers as text, fields of fixed width, an
 * edited line, a list, search. */
#ifndef WEIR_WIDGETS_H
#define WEIR_WIDGETS_H

#include "ui/screen/grid.h"
#include "ui/screen/keys.h"

/* ---- numbers as text ---- */

struct num {
	char s[32];
};
struct num num_count(int64_t n); /* "18,204" */
/* at most five columns, and a minus sign if n is negative: "9,999" "16.1k" "1.61M" */
struct num num_short(int64_t n);
/* the result of num_count() if it fits `cols` columns, else that of num_short() */
struct num num_fit(int64_t n, int cols);
struct num num_bytes(uint64_t n);              /* "676 MiB" */
struct num num_percent(double share);          /* "31%"; "<1%" for small shares above 0; "-" for invalid shares */
struct num num_age(int64_t then, int64_t now); /* "5 min ago"; a date after 30 days */
struct num num_wait(double seconds);           /* "instant", "~40 s", "~12 min"; "?" = unknown */

/* ---- fields: clean text in exactly w columns, cut with an ellipsis if too long; return the x after the field ---- */

int put_left(const struct area *, int x, int y, int w, unsigned style, const char *text, size_t n, int ascii);
int put_right(const struct area *, int x, int y, int w, unsigned style, const char *text);

/* ---- an edited line ---- */

enum { EDIT_MOST = 512 }; /* bytes */
struct edit {
	struct str text;
	size_t at;
}; /* `text` is valid UTF-8; `at` is the byte offset of the cursor; the struct is zero if the field is empty */
void edit_free(struct edit *);
/* set the text, which may be untrusted, and move the cursor to the end */
void edit_set(struct edit *, const char *text, size_t n);
/* Handle a key. Returns 1 if text or cursor changed; 2 if the key was used but changed nothing; 0 if the key was
 * not used. */
int edit_key(struct edit *, const struct key *);
/* draw the line, and place the cursor in it */
void edit_draw(const struct edit *, const struct area *, int x, int y, int w, unsigned style);

/* ---- a list: n rows, `chosen` is the selected one, `top` the first one shown ---- */

struct list {
	size_t n, chosen, top;
};
void list_move(struct list *, long step); /* move the choice by `step` rows, but not beyond the list */
/* scroll as little as needed to show the chosen row among `rows` rows */
void list_show(struct list *, int rows);
/* Handle Up, Down, page keys, Home and End. Returns 1; 0 for any other key. */
int list_key(struct list *, const struct key *, int rows);

/* ---- search ---- */

int32_t fold_case(int32_t cp);
int has_capitals(const char *s, size_t n);
/* Find the words in s[n] from byte `from` on. Returns their offset and sets *len, or returns SIZE_MAX. White space
 * between words matches any white space. If `fold` is 1, ignore case; `words` must then be in lower case. */
size_t words_find(const char *s, size_t n, size_t from, const char *words, size_t n_words, int fold, size_t *len);

#endif
