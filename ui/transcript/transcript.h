/* ui/transcript/transcript.h (private to ui/) - the transcript: messages, notices and errors, one below the other.
 *
 * Text is stored twice: unchanged, for copying, and without control characters (clean_text()), for display. Answers are
 * shown as Markdown, except in raw mode. Entries are laid out once per width; only the last entry can grow. */
#ifndef WEIR_TRANSCRIPT_H
#define WEIR_TRANSCRIPT_H

#include "ui/screen/grid.h"

struct transcript;
struct transcript *transcript_new(void);
void transcript_free(struct transcript *);
void transcript_clear(struct transcript *);
void transcript_ascii(struct transcript *, int on); /* set whether bullets, bars and rules are drawn in ASCII */

/* Add an entry; returns its index. */
size_t transcript_add(struct transcript *, enum ui_role, const char *text, size_t n);
/* append bytes to the last entry; a character may be split between two calls */
void transcript_append(struct transcript *, const char *piece, size_t n);
/* End the last entry. `note` is a line that is drawn faintly below the entry, or NULL. */
void transcript_end(struct transcript *, const char *note);
/* Add an entry with the text of a growing file, from byte `at` of that text on. If `begins` is 1, the text does not
 * continue the text of earlier entries; transcript_text_lens() and transcript_text_heat() then no longer change the
 * earlier entries. */
void transcript_text(struct transcript *, size_t at, int begins);
size_t transcript_count(const struct transcript *);
/* Remove all entries after the first n messages, including notices. Does nothing if there are fewer messages. */
void transcript_cut(struct transcript *, size_t n);
/* Tell that only the first n messages still belong to the conversation. Later messages stay visible, but their evicted
 * words are not dimmed. */
void transcript_messages_end(struct transcript *, size_t n);
/* Dim the evicted words of a message. The argument `message` is the index of the message, counting messages only. The
 * array of n struct ui_span has byte ranges of the message's original text; if n is 0, nothing is evicted. */
void transcript_lens(struct transcript *, size_t message, const struct ui_span *, size_t n);
/* Dim the evicted words of a growing file's text. The struct ui_span are byte ranges from byte `from` of the text on;
 * all text before it is evicted. */
void transcript_text_lens(struct transcript *, size_t from, const struct ui_span *, size_t n);
/* Tint the sentences of a growing file's text by how surprising they are to the model, from level 0 to level 3. The
 * ranges begin at byte `from` of the text. */
void transcript_text_heat(struct transcript *, size_t from, const struct ui_span *, size_t n);
/* Underline words of the last answer. In the string `words`, a newline follows each word; "" means no words. Does
 * nothing if the last message is a question. */
void transcript_underline(struct transcript *, const char *words);
/* Show or hide the gutter, which has a bar before each row. The bar's colour stands for the region of the KV cache
 * (sinks, prefix, ring) that contains the first word of the row. */
void transcript_gutter(struct transcript *, int on);

/* Draw the visible rows. The view follows new text; but after the user has scrolled up, it stays where it is. */
void transcript_draw(struct transcript *, const struct area *);
int transcript_changed(const struct transcript *); /* 1 if the transcript has changed since it was drawn */
/* Return the number of lines below the last visible row; 0 while the view follows new text. */
size_t transcript_below(const struct transcript *);

/* ---- rows for the terminal's own scrollback (inline ui) ----
 *
 * A row is passed to the scrollback when it is drawn and then scrolls away for good. w: number of columns. page: rows
 * of a page of the transcript. most: most rows to pass at once. live: most rows to hold back, because later text may
 * change them. If there are more such rows, the topmost ones are passed nevertheless. */
struct flow_size {
	int w, page;
	size_t most, live;
};
/* Return the number of rows that transcript_flow_draw() will draw: the rows that were not passed to the scrollback yet,
 * in order. *final receives how many of them may scroll away; the others may still change. *skipped is set to 1 if too
 * many rows waited, so that only the last ones are drawn. */
size_t transcript_flow(struct transcript *, const struct flow_size *, size_t *final, int *skipped);
/* draw the rows that transcript_flow() has counted */
void transcript_flow_draw(struct transcript *, const struct area *);
/* Record that the next `rows` rows were passed to the scrollback. */
void transcript_flow_take(struct transcript *, size_t rows);

/* Move the view. The view then stops following new text, unless the move reaches the end. */
void transcript_scroll(struct transcript *, int lines); /* scroll by a number of lines; negative = up */
/* scroll by `pages` times the height of the view when it was drawn last; negative = up */
void transcript_page(struct transcript *, double pages);
void transcript_top(struct transcript *);
void transcript_end_follow(struct transcript *);
/* Return the current position, as argument for transcript_go(); 0 = the end. It is valid until transcript_clear(). */
uint64_t transcript_position(const struct transcript *);
void transcript_go(struct transcript *, uint64_t position);
/* Store a copy of an answer's sources. `message` is the index of the answer's question; SIZE_MAX = the last
 * question. */
void transcript_sources(struct transcript *, size_t message, const struct ui_source *, size_t n);
/* A turn is a question with all entries up to the next question. Its number is 1 + the index of the question's entry.
 * transcript_turn() returns the turn whose answer is visible, or else the last turn; 0 = there is no turn. */
size_t transcript_turn(const struct transcript *);
size_t transcript_last_turn(const struct transcript *);
/* Set *out to the sources of a turn; returns their number. */
size_t transcript_turn_sources(const struct transcript *, size_t turn, const struct ui_source **out);
/* Return the number, from 1, of the source named at column x of screen row y ("[1] report.pdf, page 3"). If no source
 * is named there, return the first source in that row; 0 = there is none. *turn receives the turn of the source. */
size_t transcript_source_at(struct transcript *, int x, int y, size_t *turn);
/* Tell how screen row y continues the row above it, so that wrapped lines can be joined: 0 = it does not continue that
 * row; 1 = after a blank; 2 = inside a word. */
int transcript_row_continues(struct transcript *, int y);
/* Stop following new text until transcript_end_follow() is called. Returns 1 if the view was following. */
int transcript_hold(struct transcript *);
/* Go to the previous question (step = -1) or to the next one (step = 1). Returns 1, or 0 if there is no such
 * question. */
int transcript_question(struct transcript *, int step);

/* Return the index of the entry to copy or fold: the question that the user jumped to, else the last visible entry. */
size_t transcript_focus(const struct transcript *);
/* Fold or unfold an entry. If the user has jumped to a question, or if no folded entry is visible, this is the entry of
 * transcript_focus(). Otherwise, unfold the last of the visible folded entries. */
void transcript_fold(struct transcript *);
void transcript_fold_last(struct transcript *);       /* fold the last entry */
int transcript_unfold_at(struct transcript *, int y); /* unfold the entry at row y; returns 0 if there is no entry */
void transcript_raw(struct transcript *, int raw);    /* show answers unformatted */
int transcript_is_raw(const struct transcript *);

/* Search for words and mark the matches. Case matters if the pattern has capitals. If `pattern` is NULL, remove the
 * marks. If `step` is 1 or -1, go to the next or previous match, and continue at the other end of the transcript. If
 * `step` is 0, the user is still typing: stay at the current match if it still matches. Returns the number of matches.
 * *at receives the number of the current match, from 1. */
size_t transcript_search(struct transcript *, const char *pattern, int step, size_t *at);

/* The next four functions append text for the clipboard, as it was received but without control characters other than
 * newline and tab. They return 1, or 0 if there is no such text. */
/* Append the message with the index `message`. */
int transcript_copy_message(const struct transcript *, size_t message, struct str *out);
int transcript_copy_focus(const struct transcript *, struct str *out);
/* Append a code block. `which` is the number of the block, counted from the end: 1 = the last one. */
int transcript_copy_code(const struct transcript *, size_t which, struct str *out);
int transcript_copy_all(const struct transcript *, struct str *out);
size_t transcript_messages(const struct transcript *);

#endif
