/* sessions/import/pdf.h - declarations shared by the files that read what pdftotext -bbox-layout prints (pdf*.c).
 *
 * pdf_read.c makes pieces of a page: the words between two gaps of a line, with their place on the page. pdf_rows.c
 * makes lines of them, with the rows of tables, in reading order. When all pages are read, pdf_margins.c finds running
 * heads, feet and page numbers, pdf_headings.c finds headings, and pdf.c writes the text. */
#ifndef WEIR_IMPORT_PDF_H
#define WEIR_IMPORT_PDF_H

#include "sessions/import/import_private.h"

/* in points, from the page's top left corner */
struct pdf_box {
	float x0, y0, x1, y1;
};

/* Words without a wide gap between them, as pdftotext prints them as one line. */
struct pdf_piece {
	struct pdf_box box;
	float size;   /* height of its letters */
	size_t at, n; /* its text, in pdf.text */
	uint32_t block, flow;
	int upright;       /* 0: letters lie on their side, or stand above each other */
	int right_to_left; /* 1: most letters are Hebrew or Arabic */
};

struct pdf_line {
	struct pdf_box box;
	float size;
	size_t at, n;           /* its text, in pdf.text; cells of a table's row have " | " between them */
	unsigned char gap;      /* 1: a blank line stands before it */
	unsigned char row;      /* 1: row of a table */
	unsigned char upright;  /* as in struct pdf_piece */
	unsigned char left_out; /* LEFT_...: a running head or foot, or a page number; 0 = it is written */
	unsigned char running;  /* 1: a running head or foot that stays, because it is the first */
};

enum { LEFT_LINE = 1, LEFT_NUMBER };

struct pdf_page {
	size_t line, n_line; /* in pdf.line */
	float width, height;
};

/* An entry of the document's own outline. */
struct pdf_entry {
	uint32_t page; /* from 0 */
	int level;
	size_t at, n; /* its title, in pdf.titles */
};

struct pdf {
	struct str in;  /* input that has not been parsed */
	size_t scanned; /* bytes of it without the end of a page */
	struct str text, titles;
	struct pdf_line *line;
	size_t n_line, cap_line;
	struct pdf_page *page;
	size_t n_page, cap_page;
	struct pdf_entry *entry;
	size_t n_entry, cap_entry;
	int depth;               /* of the outline, while it is read */
	struct pdf_piece *piece; /* of the page that is being read */
	size_t n_piece, cap_piece;
	size_t replaced; /* byte sequences that were no UTF-8 */
	float body;      /* size of most letters */
};

/* ---- pdf_read.c ---- */

/* Parse the next bytes of the input, page by page. The input is what pdftohtml -xml printed, of which the outline is
 * taken, and then what pdftotext -bbox-layout printed. */
void pdf_feed(struct pdf *, const char *p, size_t n);
/* Parse what is left, an incomplete page. Write the document, and free *f. */
int pdf_end(struct pdf *f, struct doc *, struct err *);
void pdf_read_rest(struct pdf *f);

/* ---- pdf_rows.c ---- */

/* Append the page's pieces as lines. */
void pdf_add_lines(struct pdf *);

/* ---- pdf_margins.c ---- */

/* Mark lines as left out: page numbers, and running heads and feet except for their first occurrence. */
void pdf_leave_out_margins(struct pdf *);
/* Hash the letters and digits of a line, without case and punctuation, and without the number before a title.
 * *letters: how many letters there are. */
uint64_t pdf_letters_hash(const char *p, size_t n, size_t *letters);

/* ---- pdf_headings.c ---- */

struct pdf_headings;
struct pdf_headings *pdf_headings_begin(const struct pdf *);
/* Return the number of lines from line i of page pg that are a heading, and its level; 0 if there is none. */
size_t pdf_heading(struct pdf_headings *, const struct pdf_page *pg, size_t i, int *level);
void pdf_headings_end(struct pdf_headings *);

#endif
