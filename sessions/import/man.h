/* sessions/import/man.h (private to man*.c) - the state of a manual page that is being read. */
#ifndef WEIR_MAN_H
#define WEIR_MAN_H

#include "sessions/import/import_private.h"

#define WORDS_MAX      64  /* maximum number of words of a macro */
#define LISTS_MAX      16  /* maximum nesting of lists; the kind of a list that is nested deeper is not stored */
#define CONDITIONS_MAX 8   /* maximum number of conditions in a line */
#define DEFINED_MAX    32  /* maximum number of strings, and of registers, that are stored for a page */
#define DEFINED_BYTES  256 /* maximum length of a definition in bytes */

/* A part of a line. `quoted` is 1 if it was a word in quotation marks, which is never the name of a macro. */
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
/* SPACING_ON: write blanks between words. SPACING_ENDS: write the next blank, and then no more. SPACING_OFF: write no
 * blanks. */
enum man_spacing { SPACING_ON, SPACING_ENDS, SPACING_OFF };
enum man_list { LIST_OF_TAGS, LIST_OF_SIGNS, LIST_OF_NUMBERS, LIST_OF_ROWS };

struct page {
	struct writer w;
	int mdoc; /* 1: the page has macros of mdoc(7); 0: macros of man(7) */
	/* 1: the line is inside the definition of a macro, which ends with ".." or at the next heading */
	int defining;
	int skipping;   /* number of open braces of a condition that is false, whose lines are skipped */
	int conditions; /* number of conditions at the beginning of the current line */
	int last_if;    /* 1: the condition of the last ".ie" was true */
	int glue;       /* 1: no blank is written before the next word */
	int heading;    /* if the next text line is a heading, its level; else 0 */
	/* 1: the next line is the tag of a list item, or the tag has begun; the text of the item begins on a new
	 * line */
	int tag;
	/* text offset at which the last tag ends; if the text still ends there, the item has no text, and no blank line
	 * follows it */
	size_t tag_end;
	struct part link; /* address of ".UR", which is written at ".UE" */
	struct definition defined[DEFINED_MAX];
	size_t n_defined;
	struct str line; /* the line that is being written, with its escapes replaced */

	/* in a table of tbl(1): 1 = the formats of the columns, 2 = the rows, 3 = inside a cell of several lines */
	int table;
	char tab; /* character that separates the cells of a row */

	/* mdoc(7) */
	struct part named; /* the name for which ".Nm" stands */
	struct {
		enum man_list kind;
		int count;
	} list[LISTS_MAX];
	int lists; /* nesting depth of lists; may exceed LISTS_MAX */
	/* one bit for each open ".Bd"; the innermost is the lowest bit; 1 = white space is kept */
	uint64_t displays;
	int synopsis;             /* 1: in the section SYNOPSIS, where names and functions begin lines */
	int spread;               /* 1: inside ".Xo", where the tag of an item continues on the next line */
	enum man_spacing spacing; /* whether blanks are written between words; ".Sm off" switches them off */
	/* inside ".Fo" or ".Rs": 1 = no argument was written yet, 2 = at least one was written; 0 = outside of both */
	int arguments;
};

/* ---- man_escapes.c ---- */

int part_is(struct part, const char *word);
/* 1 if the part is one of the words, which are separated by blanks */
int part_is_one_of(struct part, const char *words);

/* Read the name of a font, string, character or register: one character, two characters after '(', or any number of
 * characters in brackets. Returns the number of bytes that were read, including '(' or the brackets. */
size_t man_name(const char *s, size_t n, struct part *name);
/* Return the string (kind '*') or number register ('n') that the page defines under a name; NULL: there is none. `page`
 * may be NULL. */
struct definition *page_definition(struct page *, char kind, struct part name);
void page_define(struct page *, char kind, struct part name, struct part value);
/* Append a text with its escapes replaced. If `page` is NULL, the strings that the page defines are not known. */
void page_escapes(struct page *, struct part, struct str *out);

/* ---- man.c ---- */

/* Write a blank before the next text. But if page->glue is 1, set it to 0 and write no blank. */
void page_blank(struct page *);
/* Write the text of a part, in which escapes are replaced by the characters that they print. */
void page_text(struct page *, struct part);
/* Begin a list item, whose tag follows. */
void page_item(struct page *);

/* ---- man_mdoc.c ---- */

/* Write what a macro of mdoc(7) prints. */
void mdoc_macro(struct page *, const struct words *);
/* 1 if a tab separates two cells of a row, because the page is inside a list of columns. */
int mdoc_in_columns(const struct page *);
/* Write the words with index `from` and higher, which may be macros. */
void mdoc_words(struct page *, const struct words *, size_t from);

#endif
