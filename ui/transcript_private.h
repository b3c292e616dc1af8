/* ui/transcript_private.h (private to transcript*.c) - the transcript as its files share it: transcript.c (entries, layout,
 * drawing, moving), transcript_find.c (search), transcript_copy.c (text for the clipboard). */
#ifndef WEIR_TRANSCRIPT_PRIVATE_H
#define WEIR_TRANSCRIPT_PRIVATE_H

#include "ui/markdown.h"
#include "ui/transcript.h"

/* Part of the clean text up to `end`. */
struct kept { uint32_t end; enum { KEPT, KEPT_PARTLY, KEPT_NOT } what; };

/* A text longer than PART_MOST goes on in further entries, each cut off where a line of the layout ends anyhow, so that only
 * the part that is seen is ever laid out, looked through for words that left, or forgotten. */
enum { PART_MOST = 32768 };

struct entry {
	enum ui_role role;
	unsigned char part, more;         /* it goes on with the entry before; the one behind goes on with it */
	struct str raw, clean, note;      /* note: clean, one line */
	struct clean state;
	unsigned char ended, folded;
	size_t newlines;                  /* in clean */
	struct open { struct fence fence; struct code colours; } from;   /* code of Markdown that the part begins within */
	unsigned char gap;                /* an empty row before the next part */
	/* Where a long text may be cut: Markdown as far as its pieces are whole, with what is open there; and its last line. */
	size_t whole; struct open open;
	struct { size_t raw, clean, newlines; struct clean state; int behind_code; } line;

	/* Laid out for the transcript's stamp `laid`, the first laid_n bytes; 0 = not at all. */
	struct lines lines, note_lines;
	struct growth growth;
	uint64_t laid; size_t laid_n;
	/* Rows of text and note as they were then; stays when the lines go. */
	uint64_t counted; size_t rows, note_rows;

	struct ui_span *lens; size_t n_lens;         /* over raw */
	struct kept *kept; size_t n_kept; int lens_fits;   /* over clean, made when it is drawn */
};

struct match { uint32_t entry, from, n; };       /* bytes of the clean text; it may end in a further part */

struct find {
	struct str pattern;                           /* one blank between words, folded where case does not matter */
	int fold;
	struct match *match; size_t n, cap;           /* in the order of the text */
	size_t entry, from;                           /* where looking goes on when text has come */
	int has_shown; struct match shown;            /* the one that was jumped to */
};

struct transcript {
	struct entry *entry; size_t n, cap;
	size_t *message, n_message, cap_message;      /* the entry of each */
	int w, h, ascii, raw;
	size_t part_most;                             /* PART_MOST; less in tests */
	uint64_t work;                                /* bytes of text that were laid out, for tests */
	int dirty;
	uint64_t stamp;                               /* changes when all lines must be laid out anew */

	/* The first row shown.  Lines move when the width changes, so the position is also kept as a byte of the text, or as so many rows
	 * behind the text. */
	int follow;
	size_t top, line;
	uint32_t source; int behind;
	uint64_t pos_stamp; size_t pos_n;             /* what `line` was made for */

	size_t jumped;                                /* entry under the focus, SIZE_MAX = the last one seen */
	struct find find;
};

/* transcript.c */
void entry_lay_out(struct transcript *, struct entry *);
size_t entry_first(const struct transcript *, size_t entry);             /* the first part of the text that it is of */
void entry_fold(struct transcript *, size_t entry, int folded);          /* with all its parts */
void transcript_at(struct transcript *, size_t entry, size_t line);      /* that line is the first row */
void transcript_settle(struct transcript *);                             /* top and line are up to date */
void transcript_move(struct transcript *, size_t *entry, size_t *line, long rows);
int  transcript_is_before(size_t entry, size_t line, size_t entry2, size_t line2);
/* The first position from which the last row is seen. */
void transcript_bottom(struct transcript *, size_t *entry, size_t *line);
/* transcript_find.c */
void find_free(struct find *);
void find_reset(struct find *);                                          /* the texts are others */
void find_update(struct transcript *);                                   /* look at what has come */
const struct match *find_first(const struct transcript *, size_t entry, size_t from);   /* that ends behind `from`, or NULL */
/* The bytes of an entry that a match has, 1; or there are none, or it is behind the last one: 0. */
int  find_in(const struct transcript *, const struct match *, size_t entry, size_t *from, size_t *end);

#endif
