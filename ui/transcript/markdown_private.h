/* ui/transcript/markdown_private.h (private to markdown*.c) - one piece of Markdown on its way to lines: markdown.c (pieces, fences, what md4c
 * says), markdown_inline.c (words, emphasis, links), markdown_blocks.c (paragraphs, lists, quotes, code, tables, rules). */
#ifndef WEIR_MARKDOWN_PRIVATE_H
#define WEIR_MARKDOWN_PRIVATE_H

#include "ui/transcript/lines.h"

#include <md4c.h>

enum {
	LEVELS = 128,            /* quotes and items inside of each other, beyond which they are not shown as such */
	LISTS = 64,
	BEFORE_MOST = 32,        /* columns of bars and bullets before the text */
	SHORT_LINE = 56,         /* columns; the break after such a line is meant */
	CODE_INDENT = 2,
};

/* A quote or list item that we are in. */
struct level {
	unsigned char quote, used, flat;   /* used: its bullet is drawn; flat: there is no room to indent it */
	unsigned char cols, n;
	char bullet[24];
};

struct build {
	struct lines *l;
	struct growth *g;
	const char *text;                  /* all of it */
	struct piece piece; size_t shift, end;      /* what md4c sees, and which part of the text that is */
	int width;

	struct level level[LEVELS]; int n_level;    /* n_level may be more: those are not shown */
	struct { unsigned ordered, next; char mark; } list[LISTS]; int n_list;

	struct spans para; size_t para_from;        /* inline text that waits for its block to end */
	struct spans coded;
	struct table table;
	int in_head, in_table;
	int heading, quotes, strong, em, del, code, link;
	size_t link_from;
	int line_cols;                              /* of the source line so far, for soft breaks */

	int in_code;
	struct str lang; uint32_t lang_source;
};

/* ---- markdown_inline.c ---- */

/* Where p, which md4c told of, stands in the text, or NO_SOURCE. */
uint32_t build_source(const struct build *, const char *p);
unsigned build_style(const struct build *);                          /* of inline text now */
size_t build_attribute(const struct build *, const MD_ATTRIBUTE *);  /* its bytes, as far as they are to be believed */
void build_paragraph(struct build *);                                /* begin to collect one */
void build_add(struct build *, const char *p, size_t n, unsigned style);
void build_add_as(struct build *, const char *p, size_t n, unsigned style, uint32_t source);
void build_add_entity(struct build *, const char *p, size_t n, unsigned style);
/* from: where the text of the link begins in the lines' text; SIZE_MAX: no matter. */
void build_add_address(struct build *, const MD_ATTRIBUTE *href, const MD_ATTRIBUTE *title, size_t from);
void build_soft_break(struct build *);

/* ---- markdown_blocks.c ---- */

int  build_room(const struct build *);                               /* columns for text */
void build_line(struct build *, uint32_t source);                    /* a new line, with what stands before it */
void build_block(struct build *, uint32_t source);                   /* a block begins that was written there */
void build_shown(struct build *, size_t end);                        /* all of the text before `end` is */
void build_flush(struct build *);                                    /* the inline text so far as lines */
void build_push(struct build *, const struct level *);
void build_item(struct build *, const MD_BLOCK_LI_DETAIL *);
void build_pop(struct build *);                                      /* of an item */
void build_bullets(struct build *);                                  /* those that would have no place */
void build_rule(struct build *);
/* One line of code, bytes [from, to) of the lines' text. */
void build_code_line(struct build *, size_t from, size_t to, uint32_t source);
void build_code_head(struct build *, const char *info, size_t n, uint32_t source);   /* what stands behind a fence */
void build_note_code(struct lines *, size_t from, size_t n);
void build_code(struct build *);                                     /* what was collected is code inside of a list or quote */
void build_cell(struct build *, const MD_BLOCK_TD_DETAIL *);
void build_cell_end(struct build *);
void build_table(struct build *);

#endif
