/* ui/transcript/transcript_private.h (private to transcript*.c) - the state of the transcript.
 *
 *     transcript.c:        entries; splits long texts;
 *     transcript_layout.c: number of rows of each entry;
 *     transcript_move.c:   visible rows, scrolling;
 *     transcript_draw.c:   drawing;
 *     transcript_flow.c:   the rows for the terminal's scrollback (inline);
 *     transcript_lens.c:   evicted words;
 *     transcript_underline.c: underlined words;
 *     transcript_find.c:   search;
 *     transcript_sources.c: sources of answers;
 *     transcript_copy.c:   text for the clipboard. */
#ifndef WEIR_TRANSCRIPT_PRIVATE_H
#define WEIR_TRANSCRIPT_PRIVATE_H

#include "ui/transcript/markdown.h"
#include "ui/transcript/transcript.h"
#include "ui/text/text.h"

/* How much of a byte range of the filtered text is in the KV cache. A range begins where the previous one ends, and
 * ends before byte `end`. `heat` tells how surprising the sentence around the range is, from 0 to 3. `part` is the
 * region of the KV cache, as in struct ui_span. */
struct kept {
	uint32_t end;
	enum { KEPT, KEPT_PARTLY, KEPT_NOT } what;
	uint8_t heat, part;
};

/* A text longer than PART_MOST bytes is split into several entries, at line breaks. So only its visible parts need
 * a layout. */
enum { PART_MOST = 32768 };

struct entry {
	enum ui_role role;
	/* A long text is split into several entries. `part` is 1 if this entry continues the one before it. `more` is 1
	 * if the next entry continues this one. */
	unsigned char part, more;
	struct str raw, clean, note; /* `note` is one line without control characters */
	/* for an entry with the role UI_TEXT: offset of the entry in the growing file's text */
	size_t at;
	struct clean state;
	unsigned char ended, folded;
	size_t newlines; /* number of newlines in `clean` */
	/* The fenced code that is open where this entry begins, if it is part of a long text. */
	struct open {
		struct fence fence;
		struct code colours;
	} from;
	unsigned char gap; /* 1: an empty row follows, before the next part of the text */
	/* Where a long text can be split into entries. `whole` is the offset in `clean` at which the last complete
	 * Markdown block ends. `open` is the code block that is still open at this offset. `line` stores the sizes of
	 * the two texts and the state of the filter at the beginning of the last line. */
	size_t whole;
	struct open open;
	struct piece_scan scan; /* state of piece_end() for the Markdown block that begins at offset `whole` */
	struct {
		size_t raw, clean, newlines;
		struct clean state;
		int behind_code; /* 1 = fenced code ends directly before the line */
	} line;

	/* `lines` are the lines of the first laid_n bytes. `laid` is the value of transcript.stamp when the lines were
	 * laid out; 0 = there are no lines. If the stamp has changed since, for example with the width, the lines are
	 * out of date. */
	struct lines lines, note_lines;
	struct growth growth;
	uint64_t laid;
	size_t laid_n;
	/* `rows` and note_rows are the numbers of rows of text and note, which are kept when the lines are freed.
	 * `counted` is the value of transcript.stamp when the rows were counted. If the stamp has changed since, the
	 * numbers are out of date. */
	uint64_t counted;
	size_t rows, note_rows;

	struct ui_span *lens;
	size_t n_lens; /* lens[n_lens] has byte ranges of `raw`, each of which is kept or evicted */
	struct ui_span *heat;
	size_t n_heat; /* heat[n_heat] has byte ranges of `raw` with levels of surprise */
	struct kept *kept;
	size_t n_kept;
	/* kept[n_kept] has byte ranges of `clean`, computed from `lens` and `heat` when the entry is drawn. lens_fits
	 * is 1 if these ranges are up to date. */
	int lens_fits;

	struct str underlined; /* the underlined words, each followed by a newline */
	struct ui_source *source;
	size_t n_source; /* if the entry is a question (UI_USER): number of sources of its answer */
};

struct match {
	/* A match: n bytes of the filtered text, from byte `from` of the entry on. It may end in a later entry if the
	 * text is split. */
	uint32_t entry, from, n;
};

struct find {
	struct str pattern; /* the words of the pattern, with one blank between them; in lower case if `fold` is 1 */
	int fold;
	struct match *match;
	size_t n, cap;      /* match[n] has all matches, in the order of the text */
	size_t entry, from; /* entry, and byte of the entry, at which the search of new text begins */
	int has_shown;
	struct match shown; /* the match that the user went to last */
};

struct transcript {
	struct entry *entry;
	size_t n, cap;
	size_t *message, n_message, cap_message; /* message[n_message] has the index of each message's entry */
	size_t text_first;                       /* index of the first entry of the growing file's text */
	int w, h, ascii, raw;
	int gutter;       /* width of the gutter at the left, in columns; 0 = there is no gutter */
	size_t part_most; /* PART_MOST, or a smaller number in tests */
	uint64_t work;    /* number of bytes that were laid out so far, for tests */
	int dirty;
	uint64_t stamp; /* is incremented when all lines must be laid out again */

	/* The first visible row is line `line` of entry `top`. Line numbers change with the width, so `source` stores
	 * the row independently of the width. If `behind` is 0, `source` is an offset in the text. If `behind` is 1,
	 * `source` is the number of rows between the end of the text and the row. If `follow` is 1, the view follows
	 * new text, so that the last row is visible. */
	int follow;
	size_t top, line;
	uint32_t source;
	int behind;
	uint64_t pos_stamp;
	/* pos_stamp and pos_n are copies of transcript.stamp and of laid_n of entry `top`, made when `line` was
	 * computed. If one of the originals has changed since, `line` must be computed again from `source`. */
	size_t pos_n;

	/* For the inline ui: the first row that was not yet passed to the terminal's scrollback. It is line `line` of
	 * entry `entry`, in the layout with the number `stamp`. If `line` is SIZE_MAX, only the empty row after the
	 * entry was not passed. The other members find the row again in a new layout. If `inside` is 1, the row begins
	 * at byte `source` of the text. If `inside` is 0, the whole text up to byte `source` was passed, and `behind`
	 * rows after it. */
	struct flow {
		size_t entry, line, behind;
		uint64_t stamp;
		uint32_t source;
		int inside;
	} flow;

	size_t jumped; /* index of the entry of the question to which the user has jumped; SIZE_MAX = none */
	struct find find;
};

#define GUTTER_COLS 2
#define MARK_COLS   2 /* width in columns of the "> " before a question */

/* ---- transcript.c ---- */
/* return the index of the first entry of a split text */
size_t entry_first(const struct transcript *, size_t entry);
void entry_fold(struct transcript *, size_t entry, int folded); /* fold or unfold all parts of a split text */
void entry_drop_lens(struct entry *);
void entry_drop_lines(struct entry *);
/* ---- transcript_layout.c ---- */
/* discard the layout of all entries; each is laid out again when it becomes visible */
void transcript_anew(struct transcript *);
void entry_lay_out(struct transcript *, struct entry *);
/* Return the number of rows of text and note, as if the entry were unfolded. It is an estimate if the entry was never
 * laid out. */
size_t entry_open_rows(const struct transcript *, const struct entry *);
/* Return the number of visible rows of an entry, including the empty row after it. entry_rows() returns an estimate if
 * the entry was never laid out. entry_rows_laid() lays the entry out, and returns the exact number. */
size_t entry_rows(const struct transcript *, size_t entry);
size_t entry_rows_laid(struct transcript *, size_t entry);
/* ---- transcript_move.c ---- */
void transcript_at(struct transcript *, size_t entry, size_t line); /* make this line the first visible row */
/* update `top` and `line` after the layout has changed */
void transcript_settle(struct transcript *);
void transcript_move(struct transcript *, size_t *entry, size_t *line, long rows);
int transcript_is_before(size_t entry, size_t line, size_t entry2, size_t line2);
/* Find the topmost position from which the last row is visible. */
void transcript_bottom(struct transcript *, size_t *entry, size_t *line);
/* ---- transcript_draw.c ---- */
/* Return the part of the area that is used for text, at the right of the gutter. */
struct area transcript_column(const struct area *, int gutter);
void transcript_width(struct transcript *, int w); /* set the width of the layout */
/* Draw rows of the transcript, beginning with line `line` of entry `i`. The gutter is drawn in the area `all`, the text
 * in the area `a`, which is a part of it. Returns the entry of the last row that was drawn, or the number of entries if
 * the transcript has too few rows. */
size_t transcript_rows(struct transcript *, size_t i, size_t line, const struct area *all, const struct area *a);
/* ---- transcript_lens.c ---- */
/* compute e->kept, for the filtered text, from the byte ranges of e->raw */
void entry_fit_lens(const struct transcript *, struct entry *);
/* Return the range that contains byte `at` of the filtered text; NULL = nothing is known about the byte. */
const struct kept *entry_kept_at(const struct entry *, size_t at);
void entry_draw_lens(const struct entry *, const struct run *, const struct area *, int x, int y);
/* ---- transcript_underline.c ---- */
void entry_draw_underlines(const struct entry *, const struct run *, const struct area *, int x, int y);
/* ---- transcript_find.c ---- */
void find_free(struct find *);
void find_reset(struct find *);        /* make the next search go through all texts again, because they have changed */
void find_update(struct transcript *); /* search the new text */
/* Return the first match that ends after `from`, or NULL. */
const struct match *find_first(const struct transcript *, size_t entry, size_t from);
/* Set [*from, *end) to the bytes of the entry that a match covers. Returns 1. Returns 0 if the match covers none of
 * them, or if m points after the last match. */
int find_in(const struct transcript *, const struct match *, size_t entry, size_t *from, size_t *end);

#endif
