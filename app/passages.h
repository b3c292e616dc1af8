/* app/passages.h (private to app/) - a document cut into passages that can be quoted. */
#ifndef WEIR_PASSAGES_H
#define WEIR_PASSAGES_H

#include <stddef.h>
#include <stdint.h>

struct passage {
	size_t from, to;             /* bytes of the text; no white space at its ends */
	size_t heading, n_heading;   /* the nearest one at its start or above, as bytes of the text; n_heading 0: none */
	int32_t page;                /* counted by form feeds; 0: the text has none */
};

/* Tokens of a passage.  It ends with a paragraph once it has PASSAGE_LEAST, with a sentence once it has PASSAGE_GOOD, and where else it
 * can at PASSAGE_MOST; before a heading and behind a page in any case. */
enum { PASSAGE_LEAST = 40, PASSAGE_GOOD = 80, PASSAGE_MOST = 120 };

/* The passages of a text in UTF-8, in order; free *out.  end[n_token]: the byte behind each of its tokens, ascending.  headings: '#' at
 * the start of a line begins one. */
size_t passages_cut(const char *text, size_t n, const size_t *end, size_t n_token, int headings, struct passage **out);

#endif
