/* ui/transcript/code.h (private to ui/) - colours for program text: comments, strings, numbers and keywords of some languages.
 *
 * No grammar, only tables: what it gets wrong is a colour.  Every token is found in time linear in its length. */
#ifndef WEIR_CODE_H
#define WEIR_CODE_H

#include <stddef.h>
#include <stdint.h>

/* State of one text, carried from line to line. */
struct code {
	uint8_t lang;      /* index into the table of languages; 0 = unknown: everything is ST_CODE */
	uint8_t in;        /* inside of a comment, string or tag that continues on the next line (code.c) */
	char quote;        /* that began it */
};
/* name: as behind a fence, "c++ {.numberLines}"; its first word counts. */
void code_start(struct code *, const char *name, size_t n);
/* The token that begins at line[at], at < n: returns its end (> at) and its style, one of ST_CODE... */
size_t code_token(struct code *, const char *line, size_t n, size_t at, unsigned *style);
/* The line ends. */
void code_newline(struct code *);

#endif
