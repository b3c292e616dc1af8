/* sessions/import/html_elements.h - a page while it becomes text; private to html.c, html_elements.c, html_table.c and
 * html_formula.c. */
#ifndef WEIR_IMPORT_HTML_ELEMENTS_H
#define WEIR_IMPORT_HTML_ELEMENTS_H

#include "sessions/import/html.h"

#include <string.h>

enum {
	HTML_DEPTH = 512, /* maximum number of open elements in html.frame; deeper elements do not affect the text */
	HTML_RANGES = 64, /* maximum number of <main> elements, and of <article> elements; further ones are ignored */
	/* maximum number of elements that name the author before the main text; further ones are ignored */
	HTML_BYLINES = 4,
	HTML_COLUMNS = 64 /* maximum number of columns of a table for which rowspan is handled */
};

/* An open element. */
struct html_frame {
	char name[16];      /* name of the element, truncated to 15 bytes; it is only compared */
	unsigned is;        /* flags BLOCK, LINE ... (html_elements.c) */
	unsigned skips : 1; /* the element's contents are left out */
	unsigned hides : 1; /* the element's text is counted as hidden */
	unsigned nav : 1;   /* the element's text is counted as navigation */
	unsigned label : 1; /* a <button> inside the element is not left out: its text is written */
	unsigned main : 1;  /* the element is <main>, or its attribute `role` says so */
	unsigned by : 1;    /* the element names the author: its text range is stored in html.by */
	unsigned list : 1, ordered : 1, heading : 1;
	unsigned link_note : 1; /* "[" was written before a note's number in the element; "]" must follow at its end */
	unsigned link : 1;      /* the element is <a> */
	unsigned raised : 1;    /* the element is <sup> */
	unsigned quote : 1;     /* the element is a quotation in a mail */
	unsigned part : 1;      /* the element is a part of a formula, begun by writer_part_begin() */
	unsigned drawing : 1;   /* the element is SVG, but not <text> or <foreignObject>: its text is not shown */
	/* if the element is a formula such as <mfrac>: the signs before its second part and before its third part */
	const char *signs[2];
	const char *separators, *close; /* attributes of <mfenced>; the page's tree owns them */
	unsigned parts;                 /* number of child elements that have begun so far */
	/* If the element is a part of a formula, `part_begin` is the result of writer_part_begin(), and `ranges` was
	 * the value of n_main + n_article + n_by (struct html) when the part began. */
	size_t part_begin, ranges;
	long number;           /* if the element is a list: number of the next item */
	struct html_look look; /* how the element's text is shown */
	long span;             /* if the element is a table cell: number of columns that it covers */
};

/* An open table. */
struct html_grid {
	size_t column; /* column of the next cell */
	/* below[column] is the number of rows below the current row into which a cell of this column reaches
	 * (rowspan) */
	long below[HTML_COLUMNS];
};

struct html {
	struct writer *w;
	int whole; /* 1: keep navigation */
	int shown; /* 1: keep hidden text */
	struct html_frame frame[HTML_DEPTH];
	/* number of open elements in frame[], and number of open elements that did not fit */
	int depth, deeper;
	int skip, hide, nav; /* number of open elements in which the flag `skips`, `hides` or `nav` is set */
	size_t hidden;       /* number of characters of hidden text that were left out */
	size_t left_out;     /* number of characters of navigation that were left out */
	int lists;           /* number of open lists */
	/* Kind of the text that follows. 0 = ordinary text; 1 = a superscript. 2 = a superscript inside a link, or a
	 * link inside a superscript: if such a text begins with a digit, it is the number of a note. */
	int raise;
	int apart; /* 1: a floating element begins or ends directly before the next text */
	/* `main` has the text ranges of the <main> elements that have ended, and `article` the text ranges of the
	 * <article> elements. If such an element is open, the next entry already has the beginning of its range. */
	struct range main[HTML_RANGES], article[HTML_RANGES];
	size_t n_main, n_article;
	/* in_main is the number of open <main> elements; in_article is the number of open <article> elements */
	int in_main, in_article;
	/* `by` has the text ranges of the elements that name the author and stand before <main> and <article>. If such
	 * an element is open, the next entry already has the beginning of its range. */
	struct range by[HTML_BYLINES];
	size_t n_by;
	int in_by;
	struct html_rules *rules;
	struct html_grid grid[WRITER_TABLES]; /* grids of the open tables, by nesting depth */
};

/* 1 if text with this look is hidden. */
static inline int html_look_hides(const struct html_look *look)
{
	return look->gone || look->invisible || look->no_size;
}

/* 1 if the attribute value s, a list of words, contains the word, in upper or lower case. */
static inline int has_word(const char *s, const char *word)
{
	return html_has_word(s, word, strlen(word));
}

/* ---- html_elements.c ---- */

/* Begin an element: write what comes before its contents, and find out whether the contents are text. */
void html_element_begin(struct html *, const GumboNode *, const char *name);
void html_element_end(struct html *, const GumboNode *);

/* ---- html_table.c ---- */

/* Begin a table or a group of its rows (<tbody>). Cells of earlier groups do not reach into this group. */
void html_rows_begin(struct html *);
void html_row_begin(struct html *);
void html_row_end(struct html *);
/* Begin a cell. First write empty cells for the columns into which cells of rows above reach. */
void html_cell_begin(struct html *, struct html_frame *, const GumboNode *);
/* End a cell: write an empty cell for each further column that it covers (colspan). */
void html_cell_end(struct html *, const struct html_frame *);

/* ---- html_formula.c ---- */

/* Begin an element that may belong to a MathML formula. The text of MathML lacks signs such as the "/" of a fraction:
 * write them between the parts. */
void html_formula_begin(struct html *, struct html_frame *, const char *name, const GumboNode *);
void html_formula_end(struct html *, const struct html_frame *);
/* Write a formula that is shown as a picture: Wikipedia and LaTeX2HTML store its source, such as "$x^2$", as
 * alternative text. Other pictures write nothing. */
void html_formula_picture(struct html *, const GumboNode *img);
/* 1 if the element repeats a formula that another element beside it holds. */
int html_formula_repeats(const GumboNode *, const char *name);
/* 1 if the element is a script that holds the source of a formula for MathJax, and nothing else shows the formula. */
int html_formula_script(const GumboNode *, const char *name);

#endif
