/* sessions/import/marks.h (private to marks*.c) - lines of a text, and functions that find the headings: one function
 * for each kind of text. */
#ifndef WEIR_MARKS_H
#define WEIR_MARKS_H

#include "sessions/import/import_private.h"

/* A line of a text, without the white space around it. */
struct line {
	const char *s;
	size_t n;
};
/* Return the line that begins at byte `at` of the text. *next receives the offset of the line after it. */
struct line line_at(const struct str *, size_t at, size_t *next);
/* 1 if the line has at least two characters, and all of them are c. */
int line_is_all(struct line, char c);
/* 1 if the user has stopped the import. This is checked only once per MiB of text. *asked is the offset of the last
 * check; the caller sets it to 0 at first. */
int marks_stopped(size_t at, size_t *asked);

/* Sort the marks by offset; at equal offsets pages come first, then headings, then paragraphs. */
void marks_sort(struct doc *d);

/* Find the headings of d->text, and store them by doc_mark(). Each mark_...() function is for one text format. */
void mark_plain(struct doc *d);
void mark_vim_help(struct doc *d);
void mark_markdown(struct doc *d);
void mark_rst(struct doc *d);
void mark_org(struct doc *d);
void mark_adoc(struct doc *d);
void mark_tex(struct doc *d);
/* 1 if the first line and the last one say that the text is help of Vim. */
int text_is_vim_help(const char *text, size_t n);
/* 1 if the first command of the text says that it is LaTeX. */
int text_is_tex(const char *text, size_t n);

#endif
