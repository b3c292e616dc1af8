/* ui/panes/pane_documents.h (private to pane_documents.c and documents_*.c) - the state of the documents pane. */
#ifndef WEIR_PANE_DOCUMENTS_H
#define WEIR_PANE_DOCUMENTS_H

#include "ui/panes/doc_text.h"
#include "ui/transcript/markdown.h"
#include "ui/panes/panes.h"
#include "ui/screen/widgets.h"

enum { LAID = 8 };

/* A chunk of a document, wrapped to lines. The pane stores the lines of up to LAID chunks and replaces those that were
 * used longest ago. `used` is the value of documents_pane.clock at the last use. */
struct laid {
	size_t doc, chunk;
	int w;
	uint64_t used;
	struct lines lines;
};

/* The position of a wrapped line. */
struct pos {
	size_t chunk, line;
};

enum asking { NOTHING, WORDS_DOWN, WORDS_UP };

struct documents_pane {
	struct pane pane;
	int ascii;
	struct doc_text *doc;
	size_t n_doc, at;
	int w, h; /* size of the text area when it was last drawn */
	struct laid laid[LAID];
	uint64_t clock;

	enum asking asking;
	struct edit edit;
	/* `words` is the pattern of the search. If `fold` is 1, case is ignored, because the pattern has no capital
	 * letter. If `back` is 1, the last search went up. */
	struct str words;
	int fold, back;
	/* the current match: offset of its first byte, and length; the length is 0 if there is no match */
	uint32_t found, found_n;
	/* The last call of documents_pane_show() opened the document with index asked_in - 1, at byte `asked` of its
	 * text. asked_in is 0 if there was no such call. */
	uint32_t asked;
	size_t asked_in;
	struct ui_source source[UI_SOURCES];
	size_t n_source; /* source[n_source] has the sources that were posted last, which are shaded */
	int64_t count;   /* number that was typed before a command key; -1 = none */
	int outline;
	struct list heads;
	int heads_rows;
	struct str say; /* message that is shown until the next key */
};

/* ---- documents_places.c ---- */
struct doc_text *documents_current(const struct documents_pane *); /* returns NULL if no document is open */
void documents_say(struct documents_pane *, const char *what);     /* show a message until the next key */
/* The functions below need an open document that is ready (doc_text_ready()). */
const struct lines *documents_lay_out(struct documents_pane *, size_t chunk);
struct pos documents_pos_of(struct documents_pane *, uint32_t at); /* return the wrapped line that contains byte `at` */
/* return the offset of the first byte of a wrapped line */
uint32_t documents_byte_of(struct documents_pane *, struct pos);
/* return the offset of the byte after a wrapped line */
uint32_t documents_end_of(struct documents_pane *, struct pos);
/* Move *pos by `step` lines, but not beyond the document. Return the part of `step` that is left then. */
int64_t documents_walk(struct documents_pane *, struct pos *, int64_t step);
/* scroll to byte `at`, but not beyond the last page */
void documents_set_top(struct documents_pane *, uint32_t at);
void documents_scroll(struct documents_pane *, int64_t lines);
void documents_go_to_line(struct documents_pane *, int64_t line);
void documents_go_to_percent(struct documents_pane *, double percent);
void documents_go_to_page(struct documents_pane *, int64_t page);

/* ---- documents_find.c ---- */
void documents_set_words(struct documents_pane *, const char *, size_t n);
/* Go to the next match; if `back` is 1, to the previous match. The search begins at the current match if this match is
 * visible. */
void documents_find(struct documents_pane *, int back);

/* ---- documents_draw.c ---- */
void documents_draw(struct documents_pane *, const struct area *);
/* Append the titles for the upper border of a pane of w columns. */
void documents_title(struct documents_pane *, int w, struct str *left, struct str *right);

#endif
