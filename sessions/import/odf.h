/* sessions/import/odf.h - state of an OpenDocument import, private to odf*.c. */
#ifndef WEIR_ODF_H
#define WEIR_ODF_H

#include "sessions/import/import_private.h"

enum { ODF_DEPTH_MAX = 64, ODF_LISTS_MAX = 16 };

/* An open list. `style` is NULL if the list has no style. `first` is 1 while the current item has no paragraph yet. */
struct odf_list {
	struct odf_list_style *style;
	size_t counter;
	int first;
};
/* An open table. `empty` counts the cells without text since the last cell with text; they are written only if a cell
 * with text follows. The file stores the current cell once for `times` equal cells, and the current row once for `rows`
 * equal rows. */
struct odf_cells {
	int row_begun, cell_begun;
	long empty, times, rows;
	char *value; /* value that the file stores for the current cell, in addition to the cell's text; NULL: none */
	int percent;
};

/* State of the open paragraphs and lists. A frame or note inside a paragraph gets a new state for its text. At the end
 * of the frame or note, the state of the outer paragraph is restored. */
struct odf_flow {
	int paragraphs;    /* number of open paragraphs */
	int begun;         /* 1: the paragraph has text */
	int heading, kept; /* `heading` is the level of a heading, 0 = none; `kept` is 1 if white space is kept */
	int blank;         /* 1: the last character was white space; only used if white space is kept */
	int numbered;      /* if the heading gets a number such as "2.1" before its text: its level; else 0 */
	int last_was_item, last_was_kept;
	int break_after;
	int frames, title; /* `title` is 1 if the paragraphs are the title of a slide */
	struct odf_list list[ODF_LISTS_MAX];
	int lists;
};

struct odf {
	struct writer *w; /* the current writer, of the document or of the notes */
	struct writer *document, *notes;
	struct zip zip;
	struct odf_styles *styles;
	struct odf_lists *counters; /* numbers of list items */
	int skip;                   /* number of open elements inside an element that is skipped */
	int in_body, spreadsheet, is_text;
	long pages; /* number of pages according to the file; 0: unknown */
	int page;
	struct odf_flow flow, outer[ODF_DEPTH_MAX];
	int flows;
	/* hides[k] is 1 if the element that is open at depth k hides its text. Such elements are paragraphs, spans,
	 * sections and tables. */
	unsigned char hides[ODF_DEPTH_MAX];
	int open, hide, raised; /* `hide` is the number of hidden open elements */
	size_t hidden, comments;
	struct odf_cells cells[WRITER_TABLES];
	int tables;
	char *sheet;      /* name of the sheet, until it is written as a heading before the sheet's first text */
	const char *lead; /* text to write before the next text, "Notes: "; NULL: none */
	size_t note;
	int next_is_title;
};

/* ---- odf_text.c: what the elements of the body write ---- */

void odf_page(struct odf *, long number);       /* begin a page or slide; its number is the next one if `number` is 0 */
void odf_page_break(struct odf *, long number); /* begin a page at a page break before a paragraph or table */
void odf_hide_begin(struct odf *, int hidden);  /* begin an element; if it is hidden, it hides everything inside it */
void odf_hide_end(struct odf *);
void odf_paragraph_begin(struct odf *, int is_heading, const struct xml_attr *, size_t n);
void odf_paragraph_end(struct odf *);
/* Write text of the open paragraph. Hidden text is only counted. */
void odf_shown(struct odf *, const char *s, size_t n);
void odf_blanks(struct odf *, long count);
void odf_line_break(struct odf *);
void odf_box_begin(struct odf *); /* begin a text box with its own paragraphs */
void odf_box_end(struct odf *);
/* write "[1]" at a reference to a note; the text of the note follows at the end of the document */
void odf_note_begin(struct odf *);
void odf_note_body_begin(struct odf *);
void odf_note_body_end(struct odf *);
void odf_object(struct odf *, const struct xml_attr *href);

/* ---- odf_lists.c ---- */

struct odf_lists *odf_lists_new(void);
void odf_lists_free(struct odf_lists *);
void odf_list_begin(struct odf *, const struct xml_attr *, size_t n);
void odf_list_end(struct odf *);
/* Set the style of the list to the list style of its first paragraph (NULL = none), unless the list already has a
 * style. */
void odf_list_adopt(struct odf *, const char *style);
void odf_item_begin(struct odf *, int header, const struct xml_attr *start);
/* Count the item, and let the writer put its indent and number or bullet before its text. */
void odf_item_label(struct odf *);
void odf_item_without_text(struct odf *); /* count an item without text */

/* ---- odf_tables.c ---- */

void odf_table_begin(struct odf *, const struct xml_attr *, size_t n);
void odf_table_end(struct odf *);
void odf_row_begin(struct odf *, const struct xml_attr *times);
void odf_row_end(struct odf *);
void odf_cell_begin(struct odf *, const struct xml_attr *, size_t n);
void odf_cell_end(struct odf *);
/* add the cells that a merged cell covers; they have no text */
void odf_cells_covered(struct odf *, const struct xml_attr *times);
void odf_cells_open(struct odf *); /* open the rows and cells around the next text */

#endif
