/* sessions/import/pdf.h - declarations shared by the files that read what pdftotext -bbox-layout prints (pdf*.c).
 *
 * pdf_read.c makes the pieces of a page. A piece is a part of a line without a wide gap between its words, with its
 * place on the page. pdf_rows.c joins pieces to lines and rows of tables, in reading order. When all pages are read,
 * pdf_margins.c finds running heads, feet and page numbers, pdf_headings.c finds headings, and pdf.c writes the
 * text. */
#ifndef WEIR_IMPORT_PDF_H
#define WEIR_IMPORT_PDF_H

#include "sessions/import/import_private.h"

/* A rectangle, in points from the page's top left corner. */
struct pdf_box {
	float x0, y0, x1, y1;
};

/* A part of a line on the page: words without a wide gap between them. */
struct pdf_piece {
	struct pdf_box box;
	float size;   /* height of the piece's letters */
	size_t at, n; /* range of the piece's text in pdf.text */
	/* numbers of the paragraph (block) and of the column (flow) to which pdftotext assigns the piece; they begin
	 * with 1 on each page */
	uint32_t block, flow;
	int upright;       /* 0: the letters lie on their side, or are above each other */
	int right_to_left; /* 1: the majority of the letters is Hebrew or Arabic */
};

struct pdf_line {
	struct pdf_box box;
	float size;
	size_t at, n;          /* range of the line's text in pdf.text; " | " separates the cells of a table's row */
	unsigned char gap;     /* 1: a blank line precedes this line */
	unsigned char row;     /* 1: the line is a row of a table */
	unsigned char upright; /* 0: the letters lie on their side, or are above each other */
	/* 0 = the line is written; otherwise it is a running head, foot or page number (LEFT_...) */
	unsigned char left_out;
	unsigned char running; /* 1: first occurrence of a running head or foot, which stays in the text */
};

enum { LEFT_LINE = 1, LEFT_NUMBER };

struct pdf_page {
	size_t line, n_line; /* the page's lines: index in pdf.line of the first line, and number of lines */
	float width, height;
};

/* An entry of the PDF's outline. */
struct pdf_entry {
	uint32_t page; /* index of the page */
	int level;
	size_t at, n; /* title of the entry: offset in pdf.titles, and length */
};

struct pdf {
	struct str in;  /* input that has not been parsed yet */
	size_t scanned; /* number of bytes of `in` that were searched and contain no end of a page */
	struct str text, titles;
	struct pdf_line *line;
	size_t n_line, cap_line;
	struct pdf_page *page;
	size_t n_page, cap_page;
	struct pdf_entry *entry;
	size_t n_entry, cap_entry;
	int depth;               /* level of the outline entry that is being read; 0 = outside of the outline */
	struct pdf_piece *piece; /* pieces of the page that is being read */
	size_t n_piece, cap_piece;
	struct str author; /* author in the PDF's properties */
	size_t replaced;   /* number of invalid UTF-8 sequences, which were replaced */
	float body;        /* font size of the majority of the letters */
};

/* ---- pdf_read.c ---- */

/* Parse the next bytes of the input, page by page. The input is the output of pdftohtml -xml, of which only the outline
 * is used, followed by the output of pdftotext -bbox-layout. */
void pdf_feed(struct pdf *, const char *p, size_t n);
/* Parse the rest of the input, write the document, and free *f. In pdf.c. */
int pdf_end(struct pdf *f, struct doc *, struct err *);
/* Parse the rest of the input, which may be an incomplete page. */
void pdf_read_rest(struct pdf *f);

/* ---- pdf_rows.c ---- */

/* Append the page's pieces as lines. */
void pdf_add_lines(struct pdf *);

/* ---- pdf_margins.c ---- */

/* Mark page numbers, running heads and running feet, so that they are left out. The first occurrence of a running head
 * or foot stays, unless it repeats a title. */
void pdf_leave_out_margins(struct pdf *);
/* Hash the letters and digits of a line, without case and punctuation, and without the number before a title. *letters
 * receives the number of letters. */
uint64_t pdf_letters_hash(const char *p, size_t n, size_t *letters);

/* ---- pdf_headings.c ---- */

struct pdf_headings;
struct pdf_headings *pdf_headings_begin(const struct pdf *);
/* If the lines of page pg from line i on are a heading, return the number of its lines, and set *level to its level.
 * Return 0 if there is no heading. */
size_t pdf_heading(struct pdf_headings *, const struct pdf_page *pg, size_t i, int *level);
void pdf_headings_end(struct pdf_headings *);

#endif
