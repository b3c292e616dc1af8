/* ui/transcript/markdown_private.h (private to markdown*.c) - the state of laying out Markdown.
 *
 *     markdown.c:         pieces, fences, events of md4c;
 *     markdown_inline.c:  words, emphasis, links;
 *     markdown_blocks.c:  paragraphs, lists, quotes, code, tables, rules. */
#ifndef WEIR_MARKDOWN_PRIVATE_H
#define WEIR_MARKDOWN_PRIVATE_H

#include "ui/transcript/lines.h"

#include <md4c.h>

enum {
	LEVELS = 128, /* maximum depth of nested quotes and list items that get a bar or a bullet */
	LISTS = 64,
	BEFORE_MOST = 32, /* maximum width of the bars and bullets before the text, in columns */
	/* If a line of a paragraph takes fewer columns than this, the line break after it is kept. */
	SHORT_LINE = 56,
	CODE_INDENT = 2,
};

/* An open quote or list item. */
struct level {
	/* `used` is 1 if the bullet of the list item, or the bar of the quote, was drawn. `flat` is 1 if there is no
	 * room to indent the item's text. */
	unsigned char quote, used, flat;
	unsigned char cols, n;
	char bullet[24];
};

struct build {
	struct lines *l;
	struct growth *g;
	const char *text; /* the whole Markdown text */
	struct piece piece;
	size_t shift, end; /* text[shift, end) is the part of the text that is copied to `piece` for md4c */
	int width;

	struct level level[LEVELS];
	int n_level; /* number of open levels; the levels beyond LEVELS are not drawn */
	struct {
		unsigned ordered, next;
		char mark;
	} list[LISTS];
	int n_list;

	struct spans para;
	size_t para_from; /* `para` has the spans of the open block, whose text begins at l->text.p[para_from] */
	struct spans coded;
	struct table table;
	int in_head, in_table;
	int heading, quotes, strong, em, del, code, link;
	size_t link_from;
	/* number of columns of the source line that were read so far, by which soft line breaks are decided */
	int line_cols;

	int in_code;
	struct str lang;
	uint32_t lang_source;
};

/* ---- markdown_inline.c ---- */

/* Return the offset in the text of a byte that md4c has reported; NO_SOURCE = the byte is not in the text. */
uint32_t build_source(const struct build *, const char *p);
unsigned build_style(const struct build *); /* return the current style of inline text */
/* Return the length of an attribute's text, without the dashes that b->piece has in addition to the original text. */
size_t build_attribute(const struct build *, const MD_ATTRIBUTE *);
void build_paragraph(struct build *); /* begin a paragraph */
void build_add(struct build *, const char *p, size_t n, unsigned style);
void build_add_as(struct build *, const char *p, size_t n, unsigned style, uint32_t source);
void build_add_entity(struct build *, const char *p, size_t n, unsigned style);
/* Append a link's address. `from` is the start of the link's text in l->text; SIZE_MAX = unknown. */
void build_add_address(struct build *, const MD_ATTRIBUTE *href, const MD_ATTRIBUTE *title, size_t from);
void build_soft_break(struct build *);

/* ---- markdown_blocks.c ---- */

/* Add an empty line before a block if the message has an empty line there, after the text shown last. `source` is the
 * offset of the block's text. */
void build_block(struct build *, uint32_t source);
void build_shown(struct build *, size_t end); /* record that the text up to offset `end` was shown */
void build_flush(struct build *);             /* lay out the collected inline text */
void build_push(struct build *, const struct level *);
void build_item(struct build *, const MD_BLOCK_LI_DETAIL *);
void build_pop(struct build *);     /* end the innermost list item */
void build_bullets(struct build *); /* draw the bullets that are not drawn yet */
void build_rule(struct build *);
/* Lay out one line of code, bytes [from, to) of l->text. */
void build_code_line(struct build *, size_t from, size_t to, uint32_t source);
/* Draw the text that follows the opening fence of a code block. */
void build_code_head(struct build *, const char *info, size_t n, uint32_t source);
void build_note_code(struct lines *, size_t from, size_t n);
void build_code(struct build *); /* lay out the code that was collected inside a list or quote */
void build_cell(struct build *, const MD_BLOCK_TD_DETAIL *);
void build_cell_end(struct build *);
void build_table(struct build *);

#endif
