/* sessions/import/rtf.h - state of an RTF import, private to rtf*.c. */
#ifndef WEIR_RTF_H
#define WEIR_RTF_H

#include "sessions/import/import_private.h"

enum { RTF_GROUPS_MAX = 256, RTF_FONTS_MAX = 512, RTF_STYLES_MAX = 512 };

/* The destination of a group's text. */
enum rtf_to {
	RTF_TEXT,
	RTF_NOWHERE,
	RTF_FONTS,
	RTF_STYLES,
	RTF_LABEL /* label of a list item */,
	RTF_ENTRY /* entry of a form field's list */
};

struct rtf_group {
	enum rtf_to to;
	int hidden, raised; /* properties of the text: it is hidden, it is a superscript */
	int skip;           /* number of bytes after \u that repeat the character of \u in the code page */
	int font;
	/* 1: the group is a formula's bracket, a note, or a part of a formula. The part's text begins at offset
	 * part_at. */
	int bracket, note, part;
	int instruction; /* 1: the group is in a field's instruction, which may describe a form field */
	size_t part_at;
	/* properties of the paragraph, which are restored after a nested group */
	int heading, level, in_table, program;
	/* 1: \upr was read. A text follows twice, first in a code page and then in Unicode. The next group is the first
	 * of these two, and is skipped. */
	int alternatives;
};
/* A font. `page` is its code page, or 0 if the font uses the code page of the document. `fixed` is 1 if all characters
 * have the same width, so that text in this font is program text. */
struct rtf_font {
	int number, page, fixed;
	int symbol; /* result of symbol_font() for the font's name */
};
struct rtf_style {
	int number, level, program;
};

struct rtf {
	struct writer *w; /* the current writer, of the document or of the notes */
	struct writer *document, *notes;
	const char *p, *end;
	struct rtf_group group[RTF_GROUPS_MAX], *g;
	/* `depth` is the number of open groups up to RTF_GROUPS_MAX; `deeper` is the number of open groups beyond it */
	int depth, deeper;
	int starred; /* 1: \* was read, so the group that the next word begins is optional */
	int page;    /* the document's code page */
	struct rtf_font font[RTF_FONTS_MAX];
	int n_font, default_font;
	struct rtf_style style[RTF_STYLES_MAX];
	int n_style;
	struct str bytes; /* bytes of text that are not decoded yet, in the code page of the font */
	struct str name;  /* name of the current font or style, or entry of a form's list */
	int32_t high;     /* a high surrogate that waits for its low surrogate */
	int drop;         /* number of bytes that must still be skipped after \u */
	size_t hidden;
	/* State of the paragraph that is being read. */
	int begun, heading, level, in_table, program, kept, last_was_item, last_was_kept;
	struct str label;     /* label of the list item that is about to begin */
	int table, row, cell; /* each is 1 if a table, a row or a cell is open */
	size_t note, comments;
	struct form_field form; /* the form field whose instruction is being read */
	/* state of the paragraph, stored while a note is read */
	int outer_last_was_item, outer_last_was_kept, outer_heading, outer_level, outer_in_table;
	size_t replaced; /* number of byte sequences that could not be decoded */
};

/* ---- rtf_text.c ---- */

void rtf_shown(struct rtf *, const char *s, size_t n); /* write UTF-8 text of the current group */
void rtf_paragraph_end(struct rtf *);
void rtf_paragraph_plain(struct rtf *); /* reset paragraph properties */
void rtf_cell_end(struct rtf *);
void rtf_row_end(struct rtf *);
void rtf_table_end(struct rtf *);
void rtf_note_begin(struct rtf *);
void rtf_note_end(struct rtf *);
void rtf_part_begin(struct rtf *, const char *sign); /* begin a part of a formula */
/* return the current font; NULL: the font table does not have it */
const struct rtf_font *rtf_font_now(const struct rtf *);

#endif
