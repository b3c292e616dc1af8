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
 * ends before byte `end`. heat: how surprising its sentence is, 0 to 3. part: as in struct ui_span. */
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
	/* For a long text, which is split into entries. part: 1 = this entry continues the entry before it; more: 1 =
	 * the next entry continues this one. */
	unsigned char part, more;
	struct str raw, clean, note; /* note: one line without control characters */
	size_t at;                   /* role UI_TEXT: offset of the entry in the growing file's text */
	struct clean state;
	unsigned char ended, folded;
	size_t newlines; /* number of newlines in `clean` */
	/* The fenced code that is open where this entry begins, if it is part of a long text. */
	struct open {
		struct fence fence;
		struct code colours;
	} from;
	unsigned char gap; /* 1: an empty row follows, before the next part of the text */
	/* Where a long text can be cut into entries. whole: end of the last complete Markdown block; open: the code
	 * block that is open there; line: sizes and state at the beginning of the last line. */
	size_t whole;
	struct open open;
	struct piece_scan scan; /* state of piece_end() for the block at `whole` */
	struct {
		size_t raw, clean, newlines;
		struct clean state;
		int behind_code; /* 1 = fenced code ends right before the line */
	} line;

	/* Lines of the first laid_n bytes. laid: transcript.stamp when they were laid out; 0 = there are no lines. If
	 * the stamp has changed since, for example with the width, the lines are out of date. */
	struct lines lines, note_lines;
	struct growth growth;
	uint64_t laid;
	size_t laid_n;
	/* Number of rows, kept when the lines are freed. counted: transcript.stamp when they were counted. If the stamp
	 * has changed since, the number is out of date. */
	uint64_t counted;
	size_t rows, note_rows;

	struct ui_span *lens;
	size_t n_lens; /* lens[n_lens]: byte ranges of raw, each kept or evicted */
	struct ui_span *heat;
	size_t n_heat; /* heat[n_heat]: byte ranges of raw with levels of surprise */
	struct kept *kept;
	size_t n_kept;
	/* kept: byte ranges of clean, computed from lens and heat when the entry is drawn; lens_fits: 1 = kept is up to
	 * date */
	int lens_fits;

	struct str underlined; /* underlined words, with a newline after each */
	struct ui_source *source;
	size_t n_source; /* UI_USER: sources of its answer */
};

struct match {
	uint32_t entry, from, n;
}; /* from, n: bytes of the entry's clean text; the match may end in a later part */

struct find {
	struct str pattern; /* the words, with one blank between; in lower case if fold is 1 */
	int fold;
	struct match *match;
	size_t n, cap;      /* match[n]: in text order */
	size_t entry, from; /* where the search of new text begins */
	int has_shown;
	struct match shown; /* the match that the user went to last */
};

struct transcript {
	struct entry *entry;
	size_t n, cap;
	size_t *message, n_message, cap_message; /* [n_message] entry index of each message */
	size_t text_first;                       /* first entry of the growing file's text */
	int w, h, ascii, raw;
	int gutter;       /* columns of the gutter at the left; 0 = no gutter */
	size_t part_most; /* PART_MOST; smaller in tests */
	uint64_t work;    /* bytes laid out so far, for tests */
	int dirty;
	uint64_t stamp; /* incremented when all lines must be laid out again */

	/* The first visible row is line `line` of entry `top`. Line numbers change with the width. So `source`
	 * stores the same row independently of the width. behind = 0: source is an offset in the text; behind = 1: it is
	 * the number of rows between the end of the text and this row. follow: 1 = the view follows new text, so that
	 * the last row is visible. */
	int follow;
	size_t top, line;
	uint32_t source;
	int behind;
	uint64_t pos_stamp;
	/* `line` is valid only if `stamp` equals `pos_stamp`, and exactly `pos_n` bytes of entry `top` are laid out */
	size_t pos_n;

	/* Inline: the first row that was not passed to the scrollback yet is line `line` of entry `entry`, as laid out
	 * at `stamp`. inside = 1: this line begins at byte `source`. inside = 0: all text up to byte `source` was
	 * passed, and `behind` rows after the text. line = SIZE_MAX: the whole entry was passed, but not the empty row
	 * after it. */
	struct flow {
		size_t entry, line, behind;
		uint64_t stamp;
		uint32_t source;
		int inside;
	} flow;

	size_t jumped; /* entry of the question that the user jumped to; SIZE_MAX = none */
	struct find find;
};

#define GUTTER_COLS 2
#define MARK_COLS   2 /* width of "> " before a question */

/* ---- transcript.c ---- */
/* returns the index of the first entry of a split text */
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
/* Return the number of visible rows of an entry, including the empty row after it. entry_rows(): returns an estimate if
 * the entry was never laid out. entry_rows_laid(): lays the entry out and returns the exact number. */
size_t entry_rows(const struct transcript *, size_t entry);
size_t entry_rows_laid(struct transcript *, size_t entry);
/* ---- transcript_move.c ---- */
void transcript_at(struct transcript *, size_t entry, size_t line); /* make that line the first row */
/* update top and line after the layout has changed */
void transcript_settle(struct transcript *);
void transcript_move(struct transcript *, size_t *entry, size_t *line, long rows);
int transcript_is_before(size_t entry, size_t line, size_t entry2, size_t line2);
/* Find the topmost position from which the last row is visible. */
void transcript_bottom(struct transcript *, size_t *entry, size_t *line);
/* ---- transcript_draw.c ---- */
/* Return the part of the area for text, at the right of the gutter. */
struct area transcript_column(const struct area *, int gutter);
void transcript_width(struct transcript *, int w); /* set the width of the layout */
/* Draw the rows from line `line` of entry `i` on. all: the whole area; a: its part for text. Returns the entry after
 * the last row. */
size_t transcript_rows(struct transcript *, size_t i, size_t line, const struct area *all, const struct area *a);
/* ---- transcript_lens.c ---- */
void entry_fit_lens(const struct transcript *, struct entry *); /* map byte ranges of raw to words of clean */
/* Return the range that contains byte `at` of clean; NULL: unknown. */
const struct kept *entry_kept_at(const struct entry *, size_t at);
void entry_draw_lens(const struct entry *, const struct run *, const struct area *, int x, int y);
/* ---- transcript_underline.c ---- */
void entry_draw_underlines(const struct entry *, const struct run *, const struct area *, int x, int y);
/* ---- transcript_find.c ---- */
void find_free(struct find *);
void find_reset(struct find *);        /* search all texts again, because they have changed */
void find_update(struct transcript *); /* search new text */
/* Return the first match that ends after `from`, or NULL. */
const struct match *find_first(const struct transcript *, size_t entry, size_t from);
/* Set [*from, *end) to the bytes of the entry that a match covers. Returns 1; 0 = the match covers none of them, or m
 * points after the last match. */
int find_in(const struct transcript *, const struct match *, size_t entry, size_t *from, size_t *end);

#endif
