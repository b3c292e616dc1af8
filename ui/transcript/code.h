/* ui/transcript/code.h (private to ui/) - colours for program text: comments, strings, numbers and keywords of some
 * languages.
 *
 * Tables only, no grammar: an error is a wrong colour. Each token is found in time linear in its length. */
#ifndef WEIR_CODE_H
#define WEIR_CODE_H

#include <stddef.h>
#include <stdint.h>

/* State of one text, from line to line. */
struct code {
	uint8_t lang; /* index into the table of languages; 0 = unknown, all text is ST_CODE */
	uint8_t in;   /* inside a comment, string or tag that continues on the next line (code.c) */
	char quote;   /* the quote that began it */
};
/* Begin a text.  name: first line of a fence, "c++ {.numberLines}"; its first word names the language. */
void code_start(struct code *, const char *name, size_t n);
/* Find the token at line[at], at < n.  Returns its end (> at) and its style, one of ST_CODE... */
size_t code_token(struct code *, const char *line, size_t n, size_t at, unsigned *style);
/* End a line. */
void code_newline(struct code *);

#endif
