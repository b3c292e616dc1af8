/* ui/transcript/transcript.h (private to ui/) - the transcript: messages, notices and errors, one below the other.
 *
 * Text is stored raw, for copying; the shown text went through clean_text(). Answers are Markdown (markdown.h) unless
 * raw mode is on. An entry is laid out once per width; only the last entry changes while it grows. */
#ifndef WEIR_TRANSCRIPT_H
#define WEIR_TRANSCRIPT_H

#include "ui/screen/grid.h"

struct transcript;
struct transcript *transcript_new(void);
void transcript_free(struct transcript *);
void transcript_clear(struct transcript *);
void transcript_ascii(struct transcript *, int on); /* draw bullets, bars and rules in ASCII */

/* Add an entry; returns its index. */
size_t transcript_add(struct transcript *, enum ui_role, const char *text, size_t n);
/* to the last entry; any bytes, may be cut anywhere */
void transcript_append(struct transcript *, const char *piece, size_t n);
/* end the last entry; note: faint line below it, or NULL */
void transcript_end(struct transcript *, const char *note);
/* Add an entry of the text that is read, from its byte `at` on.  begins: transcript_text_lens() ignores entries
 * before this one. */
void transcript_text(struct transcript *, size_t at, int begins);
size_t transcript_count(const struct transcript *);
/* Drop all entries after message n - 1, also notices; nothing if there are fewer messages. */
void transcript_cut(struct transcript *, size_t n);
/* Keep numbers for the first n messages only; the others stay visible, without a lens. */
void transcript_messages_end(struct transcript *, size_t n);
/* Set which words of a message were evicted.  message: index among UI_USER and UI_ASSISTANT entries.  Spans are
 * over its raw text; n = 0: none. */
void transcript_lens(struct transcript *, size_t message, const struct ui_span *, size_t n);
/* Set which words of the text that is read were evicted. Spans begin at its byte `from`; earlier text counts as
 * evicted. */
void transcript_text_lens(struct transcript *, size_t from, const struct ui_span *, size_t n);
/* Add levels of surprise, 0 to 3, for the text that is read, from its byte `from` on. */
void transcript_text_heat(struct transcript *, size_t from, const struct ui_span *, size_t n);
/* Show or hide the gutter: before each row a bar in the colour of the cache part that holds it. */
void transcript_gutter(struct transcript *, int on);

/* Draw.  While following, the newest line is the last row; otherwise new text does not move the view. */
void transcript_draw(struct transcript *, const struct area *);
int transcript_changed(const struct transcript *); /* 1: changed since it was drawn */
/* Number of lines below the last row; 0 while following. */
size_t transcript_below(const struct transcript *);

/* Moving.  Following ends unless the move reaches the end. */
void transcript_scroll(struct transcript *, int lines);  /* negative = up */
void transcript_page(struct transcript *, double pages); /* pages of the height drawn last */
void transcript_top(struct transcript *);
void transcript_end_follow(struct transcript *);
/* Current position, for transcript_go(); 0 = at the end.  Valid until transcript_clear(). */
uint64_t transcript_place(const struct transcript *);
void transcript_go(struct transcript *, uint64_t place);
/* Copy the sources of an answer.  message: index of its question; SIZE_MAX: the last one. */
void transcript_sources(struct transcript *, size_t message, const struct ui_source *, size_t n);
/* A turn is a question and the entries up to the next one, named by 1 + index of the question's entry; 0 = none.
 * transcript_turn(): the turn whose answer is visible, else the last one. */
size_t transcript_turn(const struct transcript *);
size_t transcript_last_turn(const struct transcript *);
/* Sources of a turn; returns their number. */
size_t transcript_turn_sources(const struct transcript *, size_t turn, const struct ui_source **out);
/* Number (from 1) of the source that a notice names at column x of row y as drawn ("[1] report.pdf, page 3"), else
 * the first one in that row; 0: none.  *turn = its turn. */
size_t transcript_source_at(struct transcript *, int x, int y, size_t *turn);
/* How drawn row y continues the row above it: 0 not at all, 1 after a blank, 2 inside a word. */
int transcript_row_continues(struct transcript *, int y);
/* Stop following until transcript_end_follow(): 1; 0: it was not following. */
int transcript_hold(struct transcript *);
int transcript_question(struct transcript *, int step); /* go to the previous (-1) or next (1) question: 1; 0: none */

/* Entry for copying and folding: the question jumped to, else the last visible entry. */
size_t transcript_focus(const struct transcript *);
/* Fold or unfold that entry.  If no question was jumped to and folded entries are visible, unfold the last of
 * those. */
void transcript_fold(struct transcript *);
void transcript_fold_last(struct transcript *);       /* fold the last entry */
int transcript_unfold_at(struct transcript *, int y); /* unfold the entry at that row: 1; 0: none */
void transcript_raw(struct transcript *, int raw);    /* show answers unformatted */
int transcript_is_raw(const struct transcript *);

/* Search for words and mark the matches; case matters if the pattern has capitals.  step 1: next match, -1:
 * previous, wrapping around; 0: stay at the current match if it still matches, else go to the one before (for
 * search while typing).  Returns the number of matches; *at = the one shown, from 1. */
size_t transcript_search(struct transcript *, const char *pattern, int step, size_t *at); /* NULL: remove the marks */

/* Append text for the clipboard: raw, without control characters other than newline and tab.  1; 0: none. */
/* index as for transcript_lens() */
int transcript_copy_message(const struct transcript *, size_t message, struct str *out);
int transcript_copy_focus(const struct transcript *, struct str *out);
/* code block, counted from the end: 1 = last */
int transcript_copy_code(const struct transcript *, size_t which, struct str *out);
int transcript_copy_all(const struct transcript *, struct str *out);
size_t transcript_messages(const struct transcript *);

#endif
