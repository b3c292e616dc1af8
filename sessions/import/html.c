/* sessions/import/html.c - converts HTML and XHTML to text with marks (offsets of pages, headings and paragraphs).
 *
 * Hidden text is left out and counted, unless it is most of the page; navigation, scripts, forms and pictures are left
 * out, but not the text of drawings (SVG). If a page marks its main text (<main>, or a single <article>), only the main
 * text is kept, and the title and author before it. */
#include "sessions/import/html_elements.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Keep hidden text if it has at least this many characters and is longer than the rest of the page: then a script will
 * show the text. */
#define HIDDEN_KEPT 20
#define BYLINE_MAX  200 /* maximum number of bytes of a by-line; a longer one contains more than the author's name */

/* Count the UTF-8 characters that are not blank. */
static size_t count_characters(const char *s, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += (unsigned char)s[i] > ' ' && !utf8_continues(s[i]);
	return count;
}

/* Return the innermost superscript element that is open, or NULL. */
static struct html_frame *raised_frame(struct html *h)
{
	for (int i = h->depth - 1; i >= 0; i--)
		if (h->frame[i].raised)
			return &h->frame[i];
	return NULL;
}

/* Write a blank between a floating number, such as the number of a line or verse, and the word beside it. A floating
 * letter gets no blank: it may be the first letter of the word. */
static void part_number(struct html *h, char next)
{
	const struct str *t = &h->w->doc->text;
	char last = t->n ? t->p[t->n - 1] : ' ';

	if (byte_is_word(last) && byte_is_word(next) && byte_is_digit(last) != byte_is_digit(next))
		writer_gap(h->w, GAP_SPACE);
	h->apart = 0;
}

/* Write text that is shown. If it begins a superscript, write "[" before a note's number, and call writer_raise()
 * for other text. */
static void write_text(struct html *h, const char *s, size_t n)
{
	/* skip signs such as a pilcrow, by which a heading links to itself */
	if (h->depth && h->frame[h->depth - 1].link &&
	    (!strcmp(s, "¶") || (h->w->heading && (!strcmp(s, "#") || !strcmp(s, "§")))))
		return;
	if (h->apart)
		part_number(h, *s);
	if (h->raise && (unsigned char)*s > ' ') {
		struct html_frame *f = raised_frame(h);

		if (h->raise == 2 && byte_is_digit(*s) && f) {
			writer_text(h->w, "[", 1);
			f->link_note = 1;
		} else {
			writer_raise(h->w, s, n);
		}
		h->raise = 0;
	}
	writer_text(h->w, s, n);
}

/* Write a text node, or count its characters if it is left out. */
static void add_text(struct html *h, const char *s)
{
	size_t n = strlen(s);

	/* ignore a script inside hidden text and the description of a drawing; do not count their characters */
	if (h->skip > 1 || (h->depth && h->frame[h->depth - 1].drawing))
		return;
	if (h->nav)
		h->left_out += count_characters(s, n);
	else if (h->skip ? h->hide > 0 : h->depth && html_look_hides(&h->frame[h->depth - 1].look))
		h->hidden += count_characters(s, n);
	else if (!h->skip && n)
		write_text(h, s, n);
}

/* ---- a page ---- */

/* Add the rules of the node to *rules, if it is a <style> element or links a style sheet. */
static void read_styles(struct html_rules *rules, const GumboNode *node)
{
	const GumboVector *text = html_children(node);

	if (node->v.element.tag == GUMBO_TAG_LINK)
		html_rules_link(rules, node);
	if (node->v.element.tag != GUMBO_TAG_STYLE)
		return;
	for (unsigned i = 0; i < text->length; i++) {
		const GumboNode *t = text->data[i];

		if (t->type == GUMBO_NODE_TEXT)
			html_rules_add(rules, t->v.text.text, strlen(t->v.text.text), html_attr(node, "media"));
	}
}

/* A node on the path from the root to the current node, and the index of the child to visit next. */
struct step {
	const GumboNode *node;
	unsigned next;
};

/* Walk through the tree without recursion. If h is not NULL, write the page's text; if h is NULL, add the page's style
 * sheets to *rules. */
static void walk(struct html *h, struct html_rules *rules, const GumboNode *root)
{
	struct step *way = NULL;
	size_t n = 0, cap = 0;
	const GumboNode *node = root;
	char name[24];

	for (;;) {
		if (node->type == GUMBO_NODE_ELEMENT) {
			if (h) {
				html_name(node, name, sizeof name);
				html_element_begin(h, node, name);
			} else {
				read_styles(rules, node);
			}
			GROW(way, n, cap);
			way[n++] = (struct step){ .node = node };
		} else if (h && (node->type == GUMBO_NODE_TEXT || node->type == GUMBO_NODE_WHITESPACE ||
		                 node->type == GUMBO_NODE_CDATA)) {
			add_text(h, node->v.text.text);
		}
		while (n && way[n - 1].next == html_children(way[n - 1].node)->length) {
			if (h)
				html_element_end(h, way[n - 1].node);
			n--;
		}
		if (!n)
			break;
		node = html_children(way[n - 1].node)->data[way[n - 1].next++];
	}
	free(way);
}

static struct html *html_new(struct writer *w, const struct html_sheets *sheets, const struct html_tree *t)
{
	struct html *h = xcalloc(1, sizeof *h);

	h->w = w;
	h->rules = html_rules_new(sheets);
	walk(NULL, h->rules, t->root);
	return h;
}

static void html_free(struct html *h)
{
	html_rules_free(h->rules);
	free(h);
}

static size_t total_bytes(const struct range *r, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += r[i].to - r[i].from;
	return sum;
}

/* Return the last heading of level 1 that precedes the main text, which consists of the ranges r[n]. Return NULL if
 * there is none, or if the main text itself has a heading of level 1. */
static const struct mark *title_before(const struct doc *d, const struct range *r, size_t n)
{
	const struct mark *title = NULL;

	for (size_t i = 0, k = 0; i < d->n_mark && k < n; i++) {
		const struct mark *m = &d->mark[i];

		while (k < n && m->at >= r[k].to)
			k++;
		if (m->kind != MARK_HEADING || m->level != 1 || k == n)
			continue;
		if (m->at >= r[k].from)
			return NULL;
		title = k ? title : m;
	}
	return title;
}

/* Keep only the ranges r[n] of the text. If the title and the author's name precede them, keep these, too. */
static void keep_ranges(const struct html *h, const struct range *r, size_t n)
{
	struct doc *d = h->w->doc;
	struct range all[1 + HTML_BYLINES + HTML_RANGES];
	const struct mark *title = title_before(d, r, n);
	const char *line = title ? memchr(d->text.p + title->at, '\n', r->from - title->at) : NULL;
	size_t k = 0, end = title ? line ? (size_t)(line - d->text.p) : r->from : 0;

	if (title)
		all[k++] = (struct range){ title->at, end };
	for (size_t i = 0; i < h->n_by; i++)
		if (h->by[i].from >= end && h->by[i].to <= r->from && h->by[i].to - h->by[i].from <= BYLINE_MAX) {
			all[k++] = h->by[i];
			end = h->by[i].to;
		}
	memcpy(all + k, r, n * sizeof *r);
	doc_keep(d, all, k + n);
}

/* Keep only the main text that the page marks. It must have at least 200 bytes and be a large part of the page: at
 * least a quarter if it is a <main> element, and half if it is a single <article>. */
static void keep_main(struct html *h)
{
	struct doc *d = h->w->doc;
	size_t main = total_bytes(h->main, h->n_main), article = total_bytes(h->article, h->n_article);

	if (h->n_main && main >= 200 && main >= d->text.n / 4)
		keep_ranges(h, h->main, h->n_main);
	else if (!h->n_main && h->n_article == 1 && article >= 200 && article >= d->text.n / 2)
		keep_ranges(h, h->article, 1);
}

/* Write the author before the text, if a <meta> element in the head of the page names one. */
static void write_author(const struct html_tree *t, struct doc *d)
{
	const GumboVector *pages = html_children(t->root), *all = NULL;
	struct properties of = { 0 };

	for (unsigned i = 0; pages && i < pages->length && !all; i++) {
		const GumboNode *head = pages->data[i];

		if (head->type == GUMBO_NODE_ELEMENT && head->v.element.tag == GUMBO_TAG_HEAD)
			all = html_children(head);
	}
	for (unsigned i = 0; all && i < all->length; i++) {
		const GumboNode *meta = all->data[i];
		const char *name, *content;

		if (meta->type != GUMBO_NODE_ELEMENT || meta->v.element.tag != GUMBO_TAG_META)
			continue;
		name = html_attr(meta, "name");
		content = html_attr(meta, "content");
		if (name && content && !strcasecmp(name, "author") && !of.author.n)
			str_adds(&of.author, content);
	}
	properties_write(d, &of, 0);
	properties_free(&of);
}

size_t html_convert(struct writer *w, const char *utf8, size_t n, const struct html_sheets *sheets)
{
	struct html_tree t;
	struct html *h;
	size_t hidden;

	html_tree_parse(&t, utf8, n, 1);
	h = html_new(w, sheets, &t);
	walk(h, NULL, t.root);
	hidden = h->hidden;
	html_free(h);
	html_tree_free(&t);
	return hidden;
}

/* Delete the text, and prepare *h to walk through the tree of the page again. If `whole` is 1, navigation will be kept.
 * If `shown` is 1, hidden text will be kept. */
static void start_again(struct html *h, int whole, int shown)
{
	struct writer *w = h->w;
	struct doc *d = w->doc;

	writer_end(w);
	doc_free(d);
	*w = (struct writer){ .doc = d };
	*h = (struct html){ .w = w, .rules = h->rules, .whole = whole, .shown = shown };
}

int html_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct writer w = { .doc = d };
	struct html_tree t;
	struct html *h;
	size_t shown, kept = 0;

	html_tree_parse(&t, p, n, n > 5 && !memcmp(p, "<?xml", 5));
	h = html_new(&w, NULL, &t);
	walk(h, NULL, t.root);
	writer_heading_end(&w);
	if (h->left_out > 4 * count_characters(str_text(&d->text), d->text.n)) { /* most of the page is links */
		start_again(h, 1, 0);
		walk(h, NULL, t.root);
	}
	shown = count_characters(str_text(&d->text), d->text.n);
	if (h->hidden >= HIDDEN_KEPT && h->hidden > shown) {
		kept = h->hidden;
		start_again(h, h->whole, 1);
		walk(h, NULL, t.root);
	}
	writer_end(&w);
	if (kept)
		doc_note(d, "%zu hidden characters were kept, because they are most of the page", kept);
	else if (h->hidden)
		doc_note(d, HIDDEN_TEXT, h->hidden, h->hidden == 1 ? " was" : "s were");
	keep_main(h);
	write_author(&t, d);
	html_free(h);
	html_tree_free(&t);
	return d->text.n ? 0 : err_set(e, ERR_DOCUMENT, "holds no text");
}
