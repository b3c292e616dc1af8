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
	int hidden, raised; /* properties of the text */
	int skip;           /* number of bytes after \u that repeat its character in the code page */
	int font;
	/* 1: the group is a formula's bracket, a note, or a part of a formula. The part's text begins at offset
	 * part_at. */
	int bracket, note, part;
	int instruction; /* 1: the group is in a field's instruction, which may describe a form field */
	size_t part_at;
	int heading, level, in_table, program; /* paragraph properties to restore after a nested group */
	/* 1: \upr was read. After it a text follows twice: in a code page, and in Unicode. The next group is the first
	 * of these and is skipped. */
	int alternatives;
};
/* A font. page: its code page, or 0 if it uses the document's. fixed: 1 = all characters have the same width, so text
 * in this font is program text. */
struct rtf_font {
	int number, page, fixed;
	int symbol; /* result of symbol_font() for the font's name */
};
struct rtf_style {
	int number, level, program;
};

struct rtf {
	struct writer *w; /* current writer: document or notes */
	struct writer *document, *notes;
	const char *p, *end;
	struct rtf_group group[RTF_GROUPS_MAX], *g;
	int depth, deeper; /* deeper: open groups beyond RTF_GROUPS_MAX */
	int starred;       /* 1: \* was read, so the group that the next word begins is optional */
	int page;          /* the document's code page */
	struct rtf_font font[RTF_FONTS_MAX];
	int n_font, default_font;
	struct rtf_style style[RTF_STYLES_MAX];
	int n_style;
	struct str bytes; /* text bytes not yet decoded, in the font's code page */
	struct str name;  /* name of the current font or style, or entry of a form's list */
	int32_t high;     /* pending high surrogate */
	int drop;         /* bytes still to skip after \u */
	size_t hidden;
	/* State of the paragraph that is being read. */
	int begun, heading, level, in_table, program, kept, last_was_item, last_was_kept;
	struct str label;     /* label of the list item that begins */
	int table, row, cell; /* 1: a table is open, a row is open, a cell is open */
	size_t note, comments;
	struct form_field form; /* the form field whose instruction is being read */
	/* saved while a note is read */
	int outer_last_was_item, outer_last_was_kept, outer_heading, outer_level, outer_in_table;
	size_t replaced; /* undecodable byte sequences */
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
void rtf_part_begin(struct rtf *, const char *sign);     /* begin a part of a formula */
const struct rtf_font *rtf_font_now(const struct rtf *); /* return the current font; NULL: the font table lacks it */

#endif
