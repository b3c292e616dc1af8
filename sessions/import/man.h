/* sessions/import/man.h (private to man*.c) - a manual page while it is read. */
#ifndef WEIR_MAN_H
#define WEIR_MAN_H

#include "sessions/import/import_private.h"

#define WORDS_MAX      64  /* maximum number of words of a macro that are read */
#define LISTS_MAX      16  /* deepest nesting of lists whose kinds are known */
#define CONDITIONS_MAX 8   /* maximum number of conditions in a line */
#define DEFINED_MAX    32  /* maximum number of strings, and of registers, that are stored for a page */
#define DEFINED_BYTES  256 /* longest of them, in bytes */

/* A part of a line. quoted: it was a word in quotation marks, which never is the name of a macro. */
struct part {
	const char *s;
	size_t n;
	int quoted;
};
/* The words of a macro, with its name first. Quotation marks around a word let it contain blanks. */
struct words {
	struct part at[WORDS_MAX];
	size_t n;
};

/* A string (kind '*') or a number register ('n') that the page defines. */
struct definition {
	char kind;
	struct part name, value;
};
/* Blanks between words: on; off, but for the next word; off. */
enum man_spacing { SPACING_ON, SPACING_ENDS, SPACING_OFF };
enum man_list { LIST_OF_TAGS, LIST_OF_SIGNS, LIST_OF_NUMBERS, LIST_OF_ROWS };

struct page {
	struct writer w;
	int mdoc;       /* 1: the page has macros of mdoc(7); 0: of man(7) */
	int defining;   /* 1: inside the definition of a macro; it ends with ".." or at the next heading */
	int skipping;   /* number of open braces of a condition that is false */
	int conditions; /* number of conditions before what is written, in its line */
	int last_if;    /* 1: the condition of the last ".ie" was true */
	int glue;       /* 1: no blank is written before the next word */
	int heading;    /* level, if the next text line is a heading; else 0 */
	/* 1: the next line is the tag of a list item, or the tag is open; the text of the item begins on a new line */
	int tag;
	size_t tag_end;   /* offset after the last tag: an item without text is not followed by a blank line */
	struct part link; /* address of ".UR", which is written at ".UE" */
	struct definition defined[DEFINED_MAX];
	size_t n_defined;
	struct str line; /* the line without escapes, while it is written */

	/* in a table of tbl(1): 1 = the formats of the columns, 2 = the rows, 3 = inside a cell of several lines */
	int table;
	char tab; /* what separates the cells of a row */

	/* mdoc(7) */
	struct part named; /* the name that ".Nm" stands for */
	struct {
		enum man_list kind;
		int count;
	} list[LISTS_MAX];
	int lists;                /* nesting depth of lists; may exceed LISTS_MAX */
	uint64_t displays;        /* a bit for each open ".Bd", the innermost last: 1 = white space is kept */
	int synopsis;             /* 1: in the section SYNOPSIS, where names and functions begin lines */
	int spread;               /* 1: inside ".Xo", where the tag of an item goes on after the line */
	enum man_spacing spacing; /* ".Sm off" ends it */
	int arguments;            /* of ".Fo", or of ".Rs": 1 + number of arguments written; 0 = outside of both */
};

/* ---- man_escapes.c ---- */

int part_is(struct part, const char *word);
int part_is_one_of(struct part, const char *words); /* the words are separated by blanks */

/* Read the name of a font, string, character or register: one character, two characters after '(', or any number of
 * characters in brackets. Returns how many bytes were read, with '(' or brackets. */
size_t man_name(const char *s, size_t n, struct part *name);
/* Return the string (kind '*') or number register ('n') that the page defines under a name; NULL: none. page may be
 * NULL. */
struct definition *page_definition(struct page *, char kind, struct part name);
void page_define(struct page *, char kind, struct part name, struct part value);
/* Append a text with its escapes replaced. The strings of the page are known unless page is NULL. */
void page_escapes(struct page *, struct part, struct str *out);

/* ---- man.c ---- */

/* Write a blank before the next text, unless page->glue is 1, which it sets to 0. */
void page_blank(struct page *);
/* Write the text of a part: its escapes become the characters that they print. */
void page_text(struct page *, struct part);
/* Begin a list item, whose tag follows. */
void page_item(struct page *);
/* Begin a heading. It ends what is open: tables, lists, kept white space. */
void page_heading(struct page *, int level);

/* ---- man_mdoc.c ---- */

/* Write what a macro of mdoc(7) prints. */
void mdoc_macro(struct page *, const struct words *);
/* 1 if tabs separate the cells of a row: the page is in a list of columns. */
int mdoc_in_columns(const struct page *);
/* Write the words with index `from` and higher, which may be macros. */
void mdoc_words(struct page *, const struct words *, size_t from);

#endif
