/* sessions/import/odf.h - private to odf*.c: an OpenDocument file that is being read. */
#ifndef WEIR_ODF_H
#define WEIR_ODF_H

#include "sessions/import/import_private.h"

enum { ODF_DEPTH_MAX = 64, ODF_LISTS_MAX = 16 };

struct odf_list { struct odf_list_style *style; size_t counter; int first; };   /* style: NULL = none; first: the item has had no paragraph yet */
struct odf_cells { int row_begun, cell_begun; long empty, times, rows; };   /* of a table; empty: cells before the next one with text */

/* The paragraphs and lists that are open: of the document, and apart from those of each frame and note. */
struct odf_flow {
	int paragraphs;          /* that are open */
	int begun;               /* the paragraph has text */
	int heading, kept;       /* of this paragraph */
	int blank;               /* kept: the last character was white space */
	int numbered;            /* the heading takes part in the numbering of headings */
	int last_was_item, last_was_kept;
	int break_after;
	int frames, title;       /* title: paragraphs are the title of a slide */
	struct odf_list list[ODF_LISTS_MAX];
	int lists;
};

struct odf {
	struct writer *w;        /* where text goes: the document or its notes */
	struct writer *document, *notes;
	struct zip zip;
	struct odf_styles *styles;
	struct odf_lists *counters;   /* of the list items */
	int skip;                /* depth inside an element whose text is not shown */
	int in_body, spreadsheet, is_text;
	long pages;              /* that a text had when it was last shown, by its statistics; 0: they do not say */
	int page;
	struct odf_flow flow, outer[ODF_DEPTH_MAX];
	int flows;
	unsigned char hides[ODF_DEPTH_MAX];   /* of the open paragraphs, spans, sections and tables */
	int open, hide, raised;  /* hide: how many of them are hidden */
	size_t hidden;
	struct odf_cells cells[WRITER_TABLES];
	int tables;
	char *sheet;             /* name of a sheet whose first text is still to come */
	const char *lead;        /* before the next text, "Notes: " */
	size_t note;
	int next_is_title;
};

/* ---- odf_text.c: what the elements of the body do to the document ---- */

void odf_page(struct odf *, long number);                 /* a page or slide begins; number 0: the next one */
void odf_page_break(struct odf *, long number);           /* the same before a paragraph or table, where a page can end */
void odf_hide_begin(struct odf *, int hidden);            /* an element that is hidden hides all that is in it */
void odf_hide_end(struct odf *);
void odf_paragraph_begin(struct odf *, int is_heading, const struct xml_attr *, size_t n);
void odf_paragraph_end(struct odf *);
void odf_shown(struct odf *, const char *s, size_t n);    /* text, shown if it stands in a paragraph that is not hidden */
void odf_blanks(struct odf *, long count);
void odf_line_break(struct odf *);
void odf_box_begin(struct odf *);                         /* of a frame: paragraphs of their own */
void odf_box_end(struct odf *);
void odf_note_begin(struct odf *);                        /* "[1]", then its text, which follows at the end of the document */
void odf_note_body_begin(struct odf *);
void odf_note_body_end(struct odf *);
void odf_object(struct odf *, const struct xml_attr *href);

/* ---- odf_lists.c ---- */

struct odf_lists *odf_lists_new(void);
void odf_lists_free(struct odf_lists *);
void odf_list_begin(struct odf *, const struct xml_attr *, size_t n);
void odf_list_end(struct odf *);
void odf_list_adopt(struct odf *, const char *style);     /* the list style that a paragraph names; NULL = none.  A list that has one keeps it */
void odf_item_begin(struct odf *, int header, const struct xml_attr *start);
void odf_item_label(struct odf *);                        /* counts the item; indent and label, to the writer's prefix */
void odf_item_without_text(struct odf *);                 /* counts the item */

/* ---- odf_tables.c ---- */

void odf_table_begin(struct odf *, const struct xml_attr *, size_t n);
void odf_table_end(struct odf *);
void odf_row_begin(struct odf *, const struct xml_attr *times);
void odf_row_end(struct odf *);
void odf_cell_begin(struct odf *, const struct xml_attr *times);
void odf_cell_end(struct odf *);
void odf_cells_covered(struct odf *, const struct xml_attr *times);   /* under a wider or higher cell: they have no text */
void odf_cells_open(struct odf *);                        /* the rows and cells around the text that follows; those without text are no lines */

#endif
