/* ui/panes/pane_documents.h (private to pane_documents.c and documents_*.c) - the pane of documents, as its files share it. */
#ifndef WEIR_PANE_DOCUMENTS_H
#define WEIR_PANE_DOCUMENTS_H

#include "ui/panes/doc_text.h"
#include "ui/transcript/markdown.h"
#include "ui/panes/panes.h"
#include "ui/screen/widgets.h"

enum { LAID = 8 };

struct laid { size_t doc, chunk; int w; uint64_t used; struct lines lines; };

/* A wrapped line. */
struct pos { size_t chunk, line; };

enum asking { NOTHING, WORDS_DOWN, WORDS_UP };

struct documents_pane {
	struct pane pane;
	int ascii;
	struct doc_text *doc;
	size_t n_doc, at;
	int w, h;                     /* of the text, when it was drawn last */
	struct laid laid[LAID];
	uint64_t clock;

	enum asking asking;
	struct edit edit;
	struct str words;             /* the pattern; folded to small letters when fold */
	int fold, back;
	uint32_t found, found_n;      /* the current match; n = 0: none */
	uint32_t asked; size_t asked_in;   /* the place that documents_pane_show() was asked for: in document asked_in - 1 */
	struct ui_source source[UI_SOURCES]; size_t n_source;   /* of the last answer */
	int64_t count;                /* digits typed before a key; -1: none */
	int outline; struct list heads; int heads_rows;
	struct str say;               /* until the next key */
};

/* documents_places.c */
struct doc_text *documents_current(const struct documents_pane *);       /* NULL: no document is open */
void documents_say(struct documents_pane *, const char *what);           /* in the status row, until the next key */
/* With a document that is open and ready: */
const struct lines *documents_lay_out(struct documents_pane *, size_t chunk);
struct pos documents_pos_of(struct documents_pane *, uint32_t at);       /* the wrapped line that a byte stands in */
uint32_t documents_byte_of(struct documents_pane *, struct pos);         /* its first byte */
uint32_t documents_end_of(struct documents_pane *, struct pos);          /* the byte behind it */
int64_t documents_walk(struct documents_pane *, struct pos *, int64_t step);   /* by so many lines; returns how many lines were missing */
void documents_set_top(struct documents_pane *, uint32_t at);            /* the first row; the last line is never above the last row */
void documents_scroll(struct documents_pane *, int64_t lines);
void documents_go_to_line(struct documents_pane *, int64_t line);
void documents_go_to_percent(struct documents_pane *, double percent);
void documents_go_to_page(struct documents_pane *, int64_t page);

/* documents_find.c */
void documents_set_words(struct documents_pane *, const char *, size_t n);
void documents_find(struct documents_pane *, int back);                  /* to the next match, from the current one if it is on the screen */

/* documents_draw.c */
void documents_draw(struct documents_pane *, const struct area *);
void documents_title(struct documents_pane *, int w, struct str *left, struct str *right);   /* w: columns of the pane */

#endif
