/* ui/transcript/transcript_private.h (private to transcript*.c) - the transcript as its files share it.
 *
 *     transcript.c         entries, long texts in parts
 *     transcript_layout.c  the rows that they take
 *     transcript_move.c    which rows are seen
 *     transcript_draw.c    drawing them
 *     transcript_lens.c    which words were evicted
 *     transcript_find.c    search
 *     transcript_sources.c the sources of answers
 *     transcript_copy.c    text for the clipboard */
#ifndef WEIR_TRANSCRIPT_PRIVATE_H
#define WEIR_TRANSCRIPT_PRIVATE_H

#include "ui/transcript/markdown.h"
#include "ui/transcript/transcript.h"
#include "ui/text/text.h"

/* Part of the clean text up to `end`. */
struct kept { uint32_t end; enum { KEPT, KEPT_PARTLY, KEPT_NOT } what; uint8_t heat, part; };   /* part: as in struct ui_span */

/* A text longer than PART_MOST continues in further entries, each cut where a line of the layout ends in any case.  So layout, lens
 * and memory are needed only for the parts that are seen. */
enum { PART_MOST = 32768 };

struct entry {
	enum ui_role role;
	unsigned char part, more;         /* continues the entry before; is continued by the entry behind */
	struct str raw, clean, note;      /* note: clean, one line */
	size_t at;                        /* UI_TEXT: the byte of the text where it begins */
	struct clean state;
	unsigned char ended, folded;
	size_t newlines;                  /* in clean */
	struct open { struct fence fence; struct code colours; } from;   /* code of Markdown that the part begins within */
	unsigned char gap;                /* an empty row before the next part */
	/* Where a long text may be cut: the end of its complete Markdown blocks, with the code that is open there; and its last line. */
	size_t whole; struct open open;
	struct piece_scan scan;           /* of the block behind it */
	struct { size_t raw, clean, newlines; struct clean state; int behind_code; } line;

	/* The first laid_n bytes were laid out when the transcript's stamp was `laid`; 0 = never. */
	struct lines lines, note_lines;
	struct growth growth;
	uint64_t laid; size_t laid_n;
	/* Rows of text and note, counted at stamp `counted`; kept when the lines are freed. */
	uint64_t counted; size_t rows, note_rows;

	struct ui_span *lens; size_t n_lens;         /* over raw */
	struct ui_span *heat; size_t n_heat;         /* over raw: levels of surprise */
	struct kept *kept; size_t n_kept; int lens_fits;   /* over clean; computed when the entry is drawn */

	struct ui_source *source; size_t n_source;   /* UI_USER: of its answer */
};

struct match { uint32_t entry, from, n; };       /* bytes of the clean text; may end in a later part */

struct find {
	struct str pattern;                           /* one blank between words, folded where case does not matter */
	int fold;
	struct match *match; size_t n, cap;           /* in the order of the text */
	size_t entry, from;                           /* where the search continues in new text */
	int has_shown; struct match shown;            /* the match that was jumped to */
};

struct transcript {
	struct entry *entry; size_t n, cap;
	size_t *message, n_message, cap_message;      /* the entry of each message */
	size_t text_first;                            /* the first entry of the text that is read */
	int w, h, ascii, raw;
	int gutter;                                   /* columns at the left, for the parts of the cache */
	size_t part_most;                             /* PART_MOST; less in tests */
	uint64_t work;                                /* bytes of text that were laid out, for tests */
	int dirty;
	uint64_t stamp;                               /* rises when all lines have to be laid out again */

	/* The first row shown.  Lines move when the width changes, so the position is also kept as a byte of the text, or as a number of rows
	 * behind the text. */
	int follow;
	size_t top, line;
	uint32_t source; int behind;
	uint64_t pos_stamp; size_t pos_n;             /* the layout that `line` counts in */

	size_t jumped;                                /* entry under the focus, SIZE_MAX = the last one seen */
	struct find find;
};

#define GUTTER_COLS 2
#define MARK_COLS 2                       /* "> " before a question */

/* transcript.c */
size_t entry_first(const struct transcript *, size_t entry);             /* the first part of the same text */
void entry_fold(struct transcript *, size_t entry, int folded);          /* with all its parts */
void entry_drop_lens(struct entry *);
void entry_drop_lines(struct entry *);
/* transcript_layout.c */
void transcript_anew(struct transcript *);                               /* all lines are laid out again when they are seen */
void entry_lay_out(struct transcript *, struct entry *);
size_t entry_open_rows(const struct transcript *, const struct entry *); /* of text and note; estimated where they were never laid out */
size_t entry_rows(const struct transcript *, size_t entry);              /* with its fold and the empty row behind it */
size_t entry_rows_laid(struct transcript *, size_t entry);               /* the same, exact: lays the entry out */
/* transcript_move.c */
void transcript_at(struct transcript *, size_t entry, size_t line);      /* that line is the first row */
void transcript_settle(struct transcript *);                             /* top and line are up to date */
void transcript_move(struct transcript *, size_t *entry, size_t *line, long rows);
int  transcript_is_before(size_t entry, size_t line, size_t entry2, size_t line2);
/* The first position from which the last row is seen. */
void transcript_bottom(struct transcript *, size_t *entry, size_t *line);
/* transcript_lens.c */
void entry_fit_lens(const struct transcript *, struct entry *);          /* from spans over raw text to words of the clean text */
const struct kept *entry_kept_at(const struct entry *, size_t at);        /* what byte `at` of the clean text belongs to; NULL: not known */
void entry_draw_lens(const struct entry *, const struct run *, const struct area *, int x, int y);
/* transcript_find.c */
void find_free(struct find *);
void find_reset(struct find *);                                          /* the texts have changed */
void find_update(struct transcript *);                                   /* search in new text */
const struct match *find_first(const struct transcript *, size_t entry, size_t from);   /* the first match that ends behind `from`, or NULL */
/* The bytes of that entry which belong to the match: 1; 0: none, or m is behind the last match. */
int  find_in(const struct transcript *, const struct match *, size_t entry, size_t *from, size_t *end);

#endif
