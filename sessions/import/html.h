/* sessions/import/html.h - a page as a tree, and what its style sheets hide; private to html*.c. */
#ifndef WEIR_HTML_H
#define WEIR_HTML_H

#include "sessions/import/import_private.h"

#include <gumbo.h>

/* ---- html_tree.c ---- */

struct html_tree {
	struct str bytes; /* the page as it was parsed; the tree points into it */
	GumboNode *root;
	struct html_block *blocks; /* memory blocks of the tree */
};
/* Parse a page in UTF-8. If `xml` is 1, the page is XHTML or MathML: <a/> has no contents, and CDATA sections are
 * text. */
void html_tree_parse(struct html_tree *, const char *p, size_t n, int xml);
void html_tree_free(struct html_tree *);
/* Copy the element's name to out[n] in lower case, truncated to n - 1 bytes. */
void html_name(const GumboNode *element, char *out, size_t n);
/* return the node's children; NULL: a node of this kind has none */
const GumboVector *html_children(const GumboNode *);
/* return the value of an attribute; NULL: the element does not have the attribute */
const char *html_attr(const GumboNode *element, const char *name);
/* return the element before a node with the same parent; NULL: there is none */
const GumboNode *html_before(const GumboNode *);
/* 1 if the attribute value s, a list of words, contains the word of n bytes, in upper or lower case. */
int html_has_word(const char *s, const char *word, size_t n);
int html_has_class(const GumboNode *element, const char *class);

/* ---- html_rules.c ---- */

/* How an element's text is shown; each field is 0 or 1. `gone` is 1 for "display: none", which hides the element and
 * all its descendants. `invisible` is 1 for "visibility: hidden". `no_size` is 1 for "font-size: 0". Descendants of an
 * invisible or sizeless element may be shown again.
 *
 * `block` is 1 if the element is on lines of its own. `floats` is 1 if it is beside the line. `no_marker` is 1 if items
 * of a list have no numbers. */
struct html_look {
	unsigned char gone, invisible, no_size, block, floats, no_marker;
};
struct html_rules;
struct html_rules *html_rules_new(const struct html_sheets *);
/* Add the rules of a style sheet. `media` is the value of the style element's attribute, or NULL. */
void html_rules_add(struct html_rules *, const char *css, size_t n, const char *media);
/* Add the rules of the style sheet that a <link> element names, if there is such a sheet. */
void html_rules_link(struct html_rules *, const GumboNode *link);
/* Change *look from how the element's parent is shown to how the element is shown. */
void html_rules_look(struct html_rules *, const GumboNode *element, struct html_look *look);
void html_rules_free(struct html_rules *);

#endif
