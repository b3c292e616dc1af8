/* sessions/import/html_css.h - the syntax of style sheets; private to html_css.c, html_selectors.c and html_rules.c.
 *
 * All texts are ranges [p, end) of a style sheet or of an attribute's value. The comments of a style sheet must have
 * been removed (css_strip_comments()). Selectors point into the text of the style sheet, so the text must outlive
 * them. */
#ifndef WEIR_IMPORT_HTML_CSS_H
#define WEIR_IMPORT_HTML_CSS_H

#include "sessions/import/html.h"

/* The result of matching a selector or a media query. CSS_UNSURE means that this program cannot tell. Of two results
 * combined by "and", the smaller one is taken; of two combined by "or", the larger one. */
enum css_match { CSS_NO, CSS_UNSURE, CSS_YES };

/* The properties that are read. CSS_SIZE is the property font-size. CSS_MARKER is list-style, which can hide the
 * numbers of a list. CSS_FLOAT is the property float, or a position that takes an element out of its line. */
enum { CSS_DISPLAY, CSS_VISIBILITY, CSS_SIZE, CSS_MARKER, CSS_FLOAT, CSS_PROPERTIES };

/* CSS_UNSET means that there is no declaration. CSS_INHERITS means that text is hidden if the parent element's text is
 * hidden. CSS_BLOCK is a value of CSS_DISPLAY and of CSS_FLOAT: text is shown on lines of its own. */
enum css_value { CSS_UNSET, CSS_SHOWS, CSS_BLOCK, CSS_HIDES, CSS_INHERITS };

/* What a block of declarations says about each property. is[] has values of enum css_value. important[] is 1 for a
 * property that is declared with !important. */
struct css_values {
	unsigned char is[CSS_PROPERTIES], important[CSS_PROPERTIES];
};

/* ---- html_css.c ---- */

/* Return the address of the first byte that is not a blank, or `end`. */
const char *css_skip_blanks(const char *p, const char *end);
/* Return the address at which the text ends without its trailing blanks. */
const char *css_trim_end(const char *p, const char *end);
/* Return the address of the first byte that is one of the bytes in `stop`, and not inside a string or brackets. Return
 * `end` if there is none. */
const char *css_scan(const char *p, const char *end, const char *stop);
/* Return the address of the '}' that closes a block, or `end`. p is the address after the block's '{'. */
const char *css_block_end(const char *p, const char *end);
/* Return the end of the name that begins at p; p if there is none. */
const char *css_name_end(const char *p, const char *end);
/* Copy the text to out[cap] in lower case, truncated to cap - 1 bytes. Returns the number of bytes. */
size_t css_lower(char *out, size_t cap, const char *p, const char *end);
/* 1 if the text is the word, in upper or lower case. */
int css_is_word(const char *p, const char *end, const char *word);
/* Append a style sheet to *out, without its comments and without the marks ("<!--") that hide it from old browsers and
 * from parsers of XHTML. */
void css_strip_comments(struct str *out, const char *p, size_t n);
/* Add the declarations of a block, or of a style attribute, to *v. A later declaration of a property replaces an
 * earlier one, unless only the earlier one has !important. */
void css_declarations(struct css_values *v, const char *p, const char *end);
/* Evaluate a list of media queries for a screen of 1280 pixels and a mouse; an empty list matches. */
enum css_match css_media_matches(const char *p, const char *end);

/* ---- html_selectors.c ---- */

enum { CSS_BUCKETS = 1024 };

/* A compound selector such as "div.a[b]": the conditions for one element. */
struct css_compound {
	const char *p, *end;
	/* combinator between this compound selector and the one before it: ' ', '>', '+' or '~'; 0 if it is the first
	 * one */
	char before;
};

/* The compound selectors of all selectors of a page. The owner of this struct frees `p`. */
struct css_compounds {
	struct css_compound *p;
	size_t n, cap;
};

/* Compound selectors with combinators between them, as in "table > tr.odd a". */
struct css_selector {
	/* The selector's compound selectors are css_compounds.p[first .. first + n - 1]. The last of them is for the
	 * matched element itself. */
	size_t first, n;
	/* the specificity: number of ids << 20 | number of classes, attributes and pseudo-classes << 10 | number of
	 * element names */
	uint32_t specificity;
	/* css_bucket() of an id, class or name that every matching element must have; 0 = there is none */
	uint32_t bucket;
};

/* Read the selector [p, end) into *s, which must be zero, and append its compound selectors to *all. Returns -1, and
 * appends nothing, if the text is not a valid selector. */
int css_selector_read(struct css_compounds *all, struct css_selector *s, const char *p, const char *end);
/* Match an element with a selector. Adds to *tries the number of comparisons of an element with a compound selector.
 * Returns CSS_UNSURE if there were too many comparisons. */
enum css_match css_selector_matches(const struct css_compounds *, const struct css_selector *, const GumboNode *,
                                    int *tries);
/* Hash a name to a number from 1 to CSS_BUCKETS - 1. `kind` is '#' for an id, '.' for a class, and 'a' for the name of
 * an element, which must be in lower case. */
uint32_t css_bucket(char kind, const char *p, size_t n);

#endif
