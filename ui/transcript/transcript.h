/* ui/transcript/transcript.h (private to ui/) - the transcript: messages, notices and errors, one below the other.
 *
 * Text is kept as the model or the user wrote it, for copying; the shown text went through clean_text().  Answers are Markdown
 * (markdown.h) unless raw is on.  The lines of an entry are laid out once per width and kept; only the last entry changes while it grows. */
#ifndef WEIR_TRANSCRIPT_H
#define WEIR_TRANSCRIPT_H

#include "ui/screen/grid.h"

struct transcript;
struct transcript *transcript_new(void);
void transcript_free(struct transcript *);
void transcript_clear(struct transcript *);
void transcript_ascii(struct transcript *, int on);       /* bullets, bars and rules of ASCII only */

/* Returns the entry's number. */
size_t transcript_add(struct transcript *, enum ui_role, const char *text, size_t n);
void transcript_append(struct transcript *, const char *piece, size_t n);   /* to the last entry; may be cut between any two bytes */
void transcript_end(struct transcript *, const char *note);                 /* the last entry is complete; note: a faint line below, or NULL */
/* A new last entry: a text that is read, from its byte `at` on.  begins: entries before it are of no interest to transcript_text_lens(). */
void transcript_text(struct transcript *, size_t at, int begins);
size_t transcript_count(const struct transcript *);
/* Drop what stands behind message number n - 1, also notices; nothing where there are fewer messages. */
void transcript_cut(struct transcript *, size_t n);
/* Only the first n messages are numbered from now on: the others stay, without a lens. */
void transcript_messages_end(struct transcript *, size_t n);
/* Which words were evicted: spans over the text of message number `message` (UI_USER and UI_ASSISTANT entries counted from 0).
 * n = 0: no word is dimmed. */
void transcript_lens(struct transcript *, size_t message, const struct ui_span *, size_t n);
/* The same for the entries of the text that is read: the spans begin at its byte `from`; what stands before it is evicted. */
void transcript_text_lens(struct transcript *, size_t from, const struct ui_span *, size_t n);
/* Levels of surprise, 0 to 3, of the text that is read from its byte `from` on; they are added to those that it has. */
void transcript_text_heat(struct transcript *, size_t from, const struct ui_span *, size_t n);
/* Whether the part of the cache that holds it stands before each row, as a bar in its colour. */
void transcript_gutter(struct transcript *, int on);
void transcript_lens_clear(struct transcript *);

/* Draw.  While it follows, the newest line is the last row; otherwise new text does not move it. */
void transcript_draw(struct transcript *, const struct area *);
int  transcript_changed(const struct transcript *);       /* since it was drawn */
/* Lines below the last row; 0 = it follows. */
size_t transcript_below(const struct transcript *);
/* Percent of all lines down to the last row; -1 = all lines fit. */
int  transcript_percent(const struct transcript *);

/* Moving; following ends unless the move reaches the end. */
void transcript_scroll(struct transcript *, int lines);   /* up is negative */
void transcript_page(struct transcript *, double pages);  /* of as many rows as were drawn last */
void transcript_top(struct transcript *);
void transcript_end_follow(struct transcript *);
/* The position, for transcript_go(); 0 = at the end.  Valid while lines are added or laid out again, until a clear. */
uint64_t transcript_place(const struct transcript *);
void transcript_go(struct transcript *, uint64_t place);
/* The sources of an answer, copied; message: the number of its question, SIZE_MAX: the last one. */
void transcript_sources(struct transcript *, size_t message, const struct ui_source *, size_t n);
/* A turn is an entry, a question, and what follows until the next one.  The one whose answer is seen, or the last one; 1 + its question's
 * entry, 0: there is none. */
size_t transcript_turn(const struct transcript *);
size_t transcript_last_turn(const struct transcript *);
/* Its sources: how many. */
size_t transcript_turn_sources(const struct transcript *, size_t turn, const struct ui_source **out);
/* The number of the source, from 1 on, that a notice names at column x of row y as they were drawn ("[1] report.pdf, page 3"), or in that
 * row, and its turn; 0: none. */
size_t transcript_source_at(struct transcript *, int x, int y, size_t *turn);
/* How the row at y of what was drawn continues the row above it: 0 not at all, 1 behind a blank, 2 within a word. */
int  transcript_row_continues(struct transcript *, int y);
/* New text does not move what is seen, until transcript_end_follow(): 1; 0: it did not before. */
int  transcript_hold(struct transcript *);
int  transcript_question(struct transcript *, int step);  /* to the previous (-1) or next question: 1; 0: there is none */

/* The entry that copying and folding mean: the question jumped to last, else the last entry that is seen. */
size_t transcript_focus(const struct transcript *);
/* Shows that entry's first line only, or all of it; where none was jumped to and folded ones are seen, all of the last of those. */
void transcript_fold(struct transcript *);
void transcript_fold_last(struct transcript *);           /* the entry added last, to its first line */
int  transcript_unfold_at(struct transcript *, int y);    /* the folded entry at that row: 1; 0: there is none */
void transcript_raw(struct transcript *, int raw);        /* answers unformatted */
int  transcript_is_raw(const struct transcript *);

/* Search for words; case counts where the pattern has capitals.  Matches are marked.  step 1: to the next match, -1: to the match
 * before, wrapping around; 0: stay at the current match, if it still is one, else go to the match before (a search while one types).
 * Returns the number of matches; *at: which one is shown, from 1. */
size_t transcript_search(struct transcript *, const char *pattern, int step, size_t *at);   /* NULL: removes the marks */

/* Text for the clipboard: raw, without control characters other than newline and tab.  1; 0: there is none. */
int  transcript_copy_message(const struct transcript *, size_t message, struct str *out);    /* numbered as for the lens */
int  transcript_copy_focus(const struct transcript *, struct str *out);
int  transcript_copy_code(const struct transcript *, size_t which, struct str *out);   /* block of code, counted back from the end: 1 = the last */
int  transcript_copy_all(const struct transcript *, struct str *out);
size_t transcript_messages(const struct transcript *);

#endif
