/* sessions/import/rtf.h - private to rtf*.c: an RTF file that is being read. */
#ifndef WEIR_RTF_H
#define WEIR_RTF_H

#include "sessions/import/import_private.h"

enum { RTF_GROUPS_MAX = 256, RTF_FONTS_MAX = 512, RTF_STYLES_MAX = 512 };

/* Where the text of a group goes. */
enum rtf_to { RTF_TEXT, RTF_NOWHERE, RTF_FONTS, RTF_STYLES, RTF_LABEL /* of a list item */ };

struct rtf_group {
	enum rtf_to to;
	int hidden, raised;      /* of the text */
	int skip;                /* bytes behind \u that say the same in the code page */
	int font;
	int bracket, note, part; /* the group is a bracket of a formula; a note; a part of a formula, which begins at part_at */
	size_t part_at;
	int heading, level, in_table, program;   /* of the paragraph, as they are behind a group in this one */
	int alternatives;        /* the text comes twice, in a code page and in Unicode: 1 = the first is still to come */
};
struct rtf_font { int number, page, fixed, symbol; };   /* page: code page, 0 = the document's; fixed: of one width, as program text has */
struct rtf_style { int number, level, program; };       /* level: of the heading that it makes; program: for program text */

struct rtf {
	struct writer *w;        /* where text goes: the document or its notes */
	struct writer *document, *notes;
	const char *p, *end;
	struct rtf_group group[RTF_GROUPS_MAX], *g;
	int depth, deeper;       /* deeper: groups open below RTF_GROUPS_MAX */
	int starred;             /* the next word may be left out with its group */
	int page;                /* code page of the document */
	struct rtf_font font[RTF_FONTS_MAX];
	int n_font, default_font;
	struct rtf_style style[RTF_STYLES_MAX];
	int n_style;
	struct str bytes;        /* of text, in the code page of the font */
	struct str name;         /* of the font or style that is being read */
	int32_t high;            /* first half of a character of two */
	int drop;                /* bytes to leave out, behind \u */
	size_t hidden;
	/* The paragraph, and what stands around it. */
	int begun, heading, level, in_table, program, kept, last_was_item, last_was_kept;
	struct str label;        /* of the list item that begins */
	int table, row, cell;    /* that are open */
	size_t note;
	int outer_last_was_item, outer_last_was_kept, outer_heading, outer_level, outer_in_table;   /* around a note */
	size_t replaced;         /* byte sequences that are no text in their code page */
};

/* ---- rtf_text.c ---- */

void rtf_shown(struct rtf *, const char *s, size_t n);   /* UTF-8 of the open group */
void rtf_paragraph_end(struct rtf *);
void rtf_paragraph_plain(struct rtf *);                  /* its properties are the default's */
void rtf_cell_end(struct rtf *);
void rtf_row_end(struct rtf *);
void rtf_table_end(struct rtf *);
void rtf_note_begin(struct rtf *);
void rtf_note_end(struct rtf *);
void rtf_part_begin(struct rtf *, const char *sign);     /* of a formula */
const struct rtf_font *rtf_font_now(const struct rtf *);   /* NULL: the file does not list it */

#endif
