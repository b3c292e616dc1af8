/* ui/transcript.h (private to ui/) - what was said, as it is shown: messages, notices and errors, one below the other.
 *
 * Text comes in as the model or the user gave it and is kept so, for copying; what is shown went through clean_text().  Answers are
 * Markdown (markdown.h) unless raw is on; the lines of an entry are laid out once per width and kept, only the last entry changes
 * while it grows. */
#ifndef WEIR_TRANSCRIPT_H
#define WEIR_TRANSCRIPT_H

#include "ui/grid.h"

struct transcript;
struct transcript *transcript_new(void);
void transcript_free(struct transcript *);
void transcript_clear(struct transcript *);
void transcript_ascii(struct transcript *, int on);       /* marks of our own (bullets, bars, rules) of ASCII only */

/* Returns the entry's number. */
size_t transcript_add(struct transcript *, enum ui_role, const char *text, size_t n);
void transcript_append(struct transcript *, const char *piece, size_t n);   /* to the last entry; cut anywhere */
void transcript_end(struct transcript *, const char *note);                 /* it is complete; a faint line below, or NULL */
size_t transcript_count(const struct transcript *);
/* Which words have left the cache: spans over the text of message number `message` (UI_USER and UI_ASSISTANT entries counted
 * from 0).  n = 0: none are marked. */
void transcript_lens(struct transcript *, size_t message, const struct ui_span *, size_t n);
void transcript_lens_clear(struct transcript *);

/* Draw.  Following: the newest line is the last row.  Otherwise it stays where it is, whatever comes. */
void transcript_draw(struct transcript *, const struct area *);
int  transcript_changed(const struct transcript *);       /* since it was drawn */
/* Lines below what is shown; 0 = at the end (following). */
size_t transcript_below(const struct transcript *);
/* Percent of all lines that lie above the last row shown; -1 = everything fits. */
int  transcript_percent(const struct transcript *);

/* Moving; all of them end following unless they reach the end. */
void transcript_scroll(struct transcript *, int lines);   /* up is negative */
void transcript_page(struct transcript *, double pages);  /* of the height drawn last */
void transcript_top(struct transcript *);
void transcript_end_follow(struct transcript *);
/* Where it stands, to come back to (0 = at the end): holds when lines are added or laid out anew, ends with a clear. */
uint64_t transcript_place(const struct transcript *);
void transcript_go(struct transcript *, uint64_t place);
int  transcript_question(struct transcript *, int step);  /* to the previous (-1) or next question: 1, 0 = there is none */

/* The entry under the focus: the one whose beginning was jumped to last, else the last one that is seen. */
size_t transcript_focus(const struct transcript *);
void transcript_fold(struct transcript *);                /* the entry under the focus: its first line only, or all */
void transcript_raw(struct transcript *, int raw);        /* all entries as they came, not as Markdown */
int  transcript_is_raw(const struct transcript *);

/* Search for words as they are, case ignored where the pattern has no capitals.  Matches are marked; step 1: the next, -1: the
 * one before, from where it is, wrapping around; 0: the one that is shown, if it still is one, else the one before (for
 * searching while one types).  Returns how many there are; *at: which one is shown, from 1. */
size_t transcript_search(struct transcript *, const char *pattern, int step, size_t *at);   /* NULL: no marks any more */

/* Text for the clipboard, from what came in, without control characters other than newline and tab.  1, 0 = there is none. */
int  transcript_copy_message(const struct transcript *, size_t message, struct str *out);    /* numbered as for the lens */
int  transcript_copy_focus(const struct transcript *, struct str *out);
int  transcript_copy_code(const struct transcript *, size_t which, struct str *out);   /* block of code, counted back from the end: 1 = the last */
int  transcript_copy_all(const struct transcript *, struct str *out);
size_t transcript_messages(const struct transcript *);

#endif
