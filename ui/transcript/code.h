/* ui/transcript/code.h (private to ui/) - colours program code: comments, strings, numbers and keywords. The colours
 * come from tables of keywords, not from grammars, so some are wrong. The time for a token is linear in its length. */
#ifndef WEIR_CODE_H
#define WEIR_CODE_H

#include <stddef.h>
#include <stdint.h>

/* State of colouring a text, from line to line. */
struct code {
	/* index into the table of languages; 0 = the language is unknown, and all text is drawn in ST_CODE */
	uint8_t lang;
	uint8_t in; /* what was open at the end of the previous line: a comment, string or tag; see IN_... in code.c */
	char quote; /* the quote character that began the open string */
};
/* Begin a code block. `name` is the text after the opening fence, such as "c++ {.numberLines}"; the first word of this
 * text names the language. */
void code_start(struct code *, const char *name, size_t n);
/* Find the token that begins at line[at], where at < n. Returns the end of the token, which is above `at`. *style
 * receives its style, ST_CODE or another. */
size_t code_token(struct code *, const char *line, size_t n, size_t at, unsigned *style);
/* End a line. */
void code_newline(struct code *);

#endif
