/* sessions/import/html_elements.c - what each element of a page does to its text: blocks, lists, headings, pages,
 * notes, and which contents are left out. */
#include "sessions/import/html_elements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	BLOCK = 1, /* blank lines before and after the element */
	LINE = 2,  /* line breaks before and after the element */
	SKIP = 4,  /* the element's contents are left out */
	PRE = 8,   /* white space in the element is kept */
	VOID = 16, /* the element has no contents and no end tag */
	NAV = 32,  /* the element is navigation */
	LABEL = 64 /* a <button> inside the element is not left out: its text is written */
};

/* clang-format off */
/* sorted by name */
static const struct element { const char *name; unsigned char is; } elements[] = {
	{"address", BLOCK}, {"annotation", SKIP}, {"annotation-xml", SKIP}, {"area", VOID}, {"article", BLOCK}, {"aside", BLOCK},
	{"audio", SKIP}, {"base", VOID}, {"blockquote", BLOCK}, {"br", VOID}, {"button", SKIP}, {"canvas", SKIP}, {"caption", LINE | LABEL},
	{"center", BLOCK}, {"col", VOID}, {"datalist", SKIP}, {"dd", LINE}, {"details", BLOCK}, {"div", LINE}, {"dl", BLOCK},
	{"dt", LINE | LABEL}, {"embed", VOID}, {"fieldset", BLOCK}, {"figcaption", BLOCK | LABEL}, {"figure", BLOCK}, {"footer", BLOCK},
	{"form", LINE}, {"frame", VOID}, {"frameset", SKIP}, {"header", BLOCK}, {"hgroup", BLOCK}, {"hr", VOID}, {"iframe", SKIP},
	{"img", VOID}, {"input", VOID}, {"legend", LINE | LABEL}, {"li", LINE}, {"link", VOID}, {"listing", BLOCK | PRE}, {"main", BLOCK},
	{"map", SKIP}, {"menu", BLOCK}, {"meta", VOID}, {"nav", NAV}, {"noembed", SKIP}, {"noframes", SKIP}, {"noscript", SKIP},
	{"object", SKIP}, {"ol", BLOCK}, {"optgroup", SKIP}, {"option", SKIP}, {"p", BLOCK}, {"param", VOID},
	{"plaintext", BLOCK | PRE}, {"pre", BLOCK | PRE}, {"rp", SKIP}, {"rt", SKIP}, {"script", SKIP}, {"section", BLOCK},
	{"select", SKIP}, {"source", VOID}, {"style", SKIP}, {"summary", BLOCK | LABEL}, {"template", SKIP},
	{"textarea", SKIP}, {"th", LABEL}, {"title", SKIP}, {"track", VOID}, {"ul", BLOCK}, {"video", SKIP}, {"wbr", VOID}, {"xmp", BLOCK | PRE},
};
/* clang-format on */

static int compare_element(const void *key, const void *e)
{
	return strcmp(key, ((const struct element *)e)->name);
}

static unsigned element_is(const char *name)
{
	const struct element *e = bsearch(name, elements, LEN(elements), sizeof *elements, compare_element);

	return e ? e->is : 0;
}

/* Return how the text of an element is shown; the element begins now. */
static struct html_look look_of(const struct html *h, const GumboNode *node)
{
	struct html_look look = h->depth ? h->frame[h->depth - 1].look : (struct html_look){ 0 };
	GumboTag tag = node->v.element.tag;

	look.block = look.floats = 0;
	if (tag == GUMBO_TAG_OL)
		look.no_marker = 0;
	/* ignore rules that hide the whole page, because a script will show it */
	if (!h->shown && tag != GUMBO_TAG_HTML && tag != GUMBO_TAG_BODY)
		html_rules_look(h->rules, node, &look);
	return look;
}

/* Begin a list item. Its label is written before its first text: "- ", or the next number of an ordered list. */
static void begin_item(struct html *h, const GumboNode *node)
{
	struct str *prefix = &h->w->prefix;
	struct html_frame *list = NULL;
	const char *value = html_attr(node, "value");

	for (int i = h->depth - 1; i >= 0 && !list; i--)
		if (h->frame[i].list)
			list = &h->frame[i];
	/* If the list begins an item of an outer list, keep that item's number before the label: "1. - text". */
	if (prefix->n < 2 || prefix->p[prefix->n - 2] == '-') {
		str_clear(prefix);
		for (int i = 1; i < h->lists && i < 8; i++)
			str_adds(prefix, "  ");
	}
	if (list && list->ordered && !h->frame[h->depth - 1].look.no_marker) {
		if (value && *value)
			list->number = strtol(value, NULL, 10);
		str_addf(prefix, "%ld. ", list->number);
		if (list->number < 1000000)
			list->number++;
	} else {
		str_adds(prefix, "- ");
	}
}

/* Begin a page of a printed book. Its label is the title in <span epub:type="pagebreak" title="12"/>. Without a title,
 * the label is the digits in the element's id. */
static void begin_page(struct html *h, const GumboNode *node)
{
	const char *label = html_attr(node, "title");

	if (!label || !*label)
		label = html_attr(node, "aria-label");
	if (!label || !*label) {
		label = html_attr(node, "id");
		if (label)
			label += strcspn(label, "0123456789");
	}
	if (label && *label)
		writer_page(h->w, label, strlen(label));
}

static void begin_list(struct html *h, struct html_frame *f, int ordered, const GumboNode *node)
{
	const char *start = html_attr(node, "start");

	f->list = 1;
	f->ordered = ordered != 0;
	f->number = start && *start ? strtol(start, NULL, 10) : 1;
	/* write no blank line before a list inside an item, unless the item begins with that list */
	if (h->lists++ && !h->w->prefix.n)
		h->w->gap = GAP_LINE;
}

/* 1 if the element names the author, as news sites mark it. */
static int is_byline(const GumboNode *node)
{
	const char *class = html_attr(node, "class");

	return has_word(class, "byline") || has_word(class, "by-line") || has_word(html_attr(node, "rel"), "author") ||
	       has_word(html_attr(node, "itemprop"), "author");
}

/* If the element is a by-line, <main> or <article>, store the text offset at which it begins. By-lines after the
 * beginning of <main> or <article> are ignored. */
static void begin_main(struct html *h, struct html_frame *f, const char *name, const GumboNode *node)
{
	if (!h->in_by && !h->in_main && !h->n_main && !h->in_article && !h->n_article && h->n_by < HTML_BYLINES &&
	    is_byline(node)) {
		writer_row_keep(h->w);
		h->by[h->n_by].from = h->w->doc->text.n;
		h->in_by = f->by = 1;
	}
	if (!strcmp(name, "main") || has_word(html_attr(node, "role"), "main")) {
		writer_row_keep(h->w);
		if (!h->in_main++ && h->n_main < HTML_RANGES)
			h->main[h->n_main].from = h->w->doc->text.n;
		f->main = 1;
	} else if (!strcmp(name, "article")) {
		writer_row_keep(h->w);
		if (!h->in_article++ && h->n_article < HTML_RANGES)
			h->article[h->n_article].from = h->w->doc->text.n;
	}
}

static int is_nav(const struct html *h, unsigned is, const GumboNode *node)
{
	static const char *const classes[] = { "navheader", "navfooter", "nav-panel" };
	const char *role = html_attr(node, "role");

	if (h->whole)
		return 0;
	/* DocBook and Texinfo give these classes to links to neighbouring pages. */
	for (size_t i = 0; i < LEN(classes); i++)
		if (has_word(html_attr(node, "class"), classes[i]))
			return 1;
	return (is & NAV) || has_word(role, "navigation") || has_word(role, "search") || has_word(role, "menu") ||
	       has_word(role, "menubar");
}

/* Begin a superscript or a link. If one of them is inside the other, their text is the number of a note (h->raise is
 * 2). But if the link already has a "[" before its text, a superscript in it is written as plain text. */
static void begin_raised(struct html *h, struct html_frame *f, const char *name)
{
	if (!strcmp(name, "a")) {
		f->link = 1;
		h->raise = h->raise ? 2 : 0;
	} else if (!strcmp(name, "sup")) {
		f->raised = 1;
		h->raise = 1;
		for (int i = 0; i < h->depth; i++)
			if (h->frame[i].link)
				h->raise = h->frame[i].link_note ? 0 : 2;
	}
}

/* 1 if the element is a link to a note, in the markup of EPUB or of the usual converters. */
static int is_note_link(const GumboNode *node)
{
	const char *class = html_attr(node, "class");

	return has_word(html_attr(node, "epub:type"), "noteref") || has_word(html_attr(node, "role"), "doc-noteref") ||
	       has_word(class, "footnote-ref") || has_word(class, "footnote-reference") || has_word(class, "noteref");
}

/* Begin a block, heading, list, table or note, if the element is one of these. */
static void begin_block(struct html *h, struct html_frame *f, const char *name, const GumboNode *node)
{
	struct writer *w = h->w;

	/* the first block of a list item stays on the line of the item's bullet */
	if (f->is & BLOCK)
		writer_gap(w, w->prefix.n ? GAP_LINE : GAP_BLOCK);
	else if (f->is & LINE)
		writer_gap(w, GAP_LINE);
	if (w->quoting && !strcmp(name, "blockquote")) {
		f->quote = 1;
		w->quotes++;
	}
	if (f->is & PRE)
		w->pre++;
	if (name[0] == 'h' && name[1] >= '1' && name[1] <= '6' && !name[2]) {
		f->heading = 1;
		writer_heading_begin(w, name[1] - '0');
	} else if (!strcmp(name, "li")) {
		begin_item(h, node);
	} else if (!strcmp(name, "ul") || !strcmp(name, "ol") || !strcmp(name, "menu")) {
		begin_list(h, f, name[0] == 'o', node);
	} else if (!strcmp(name, "table")) {
		writer_table_begin(w);
		html_rows_begin(h);
	} else if (!strcmp(name, "tbody") || !strcmp(name, "thead") || !strcmp(name, "tfoot")) {
		html_rows_begin(h);
	} else if (!strcmp(name, "tr")) {
		html_row_begin(h);
	} else if (!strcmp(name, "td") || !strcmp(name, "th")) {
		html_cell_begin(h, f, node);
	} else if (!strcmp(name, "a") && !html_look_hides(&f->look) && is_note_link(node)) {
		f->link_note = 1;
		writer_text(w, "[", 1);
	}
}

/* Write the text that replaces an element without contents, such as a line break. */
static void void_element(struct html *h, const char *name, const GumboNode *node)
{
	if (h->skip)
		return;
	if (!strcmp(name, "img")) {
		struct html_look look = look_of(h, node);

		if (!html_look_hides(&look))
			html_formula_picture(h, node);
	} else if (!strcmp(name, "br")) {
		if (h->w->heading)
			writer_gap(h->w, GAP_SPACE);
		else if (h->w->pre)
			writer_text(h->w, "\n", 1);
		else
			writer_gap(h->w, h->w->gap >= GAP_LINE ? GAP_BLOCK : GAP_LINE);
	} else if (!strcmp(name, "hr")) {
		writer_gap(h->w, GAP_BLOCK);
	}
}

/* 1 if the open elements include a heading or an element such as <summary>. A button inside them is written as text. */
static int in_label(const struct html *h)
{
	for (int i = h->depth - 1; i >= 0; i--)
		if (h->frame[i].heading || h->frame[i].label)
			return 1;
	return 0;
}

/* 1 if an element of a drawing is not shown: a definition, or a part of <switch> other than the first. */
static int is_not_drawn(const struct html_frame *parent, const GumboNode *node, const char *name)
{
	return has_word("defs symbol metadata", name) || (!strcmp(parent->name, "switch") && html_before(node));
}

/* Begin an element of a drawing, or <svg> itself. Each <text> is a line. */
static void begin_drawing(struct html *h, struct html_frame *f, const char *name, const GumboNode *node)
{
	int inside = f > h->frame && f[-1].drawing;

	if (!strcmp(name, "tspan") && (html_attr(node, "x") || html_attr(node, "y")))
		writer_gap(h->w, GAP_SPACE);
	if (inside && (!strcmp(name, "text") || !strcmp(name, "foreignobject")))
		f->is |= LINE;
	else
		f->drawing = inside || !strcmp(name, "svg");
}

/* 1 if the contents of an element are left out. For a script that contains a formula, return 0 and set f->is. */
static int is_left_out(const struct html *h, struct html_frame *f, const GumboNode *node, const char *name)
{
	if (!strcmp(name, "button"))
		return !in_label(h);
	if (f > h->frame && f[-1].drawing && is_not_drawn(&f[-1], node, name))
		return 1;
	if (html_formula_script(node, name)) {
		f->is = strstr(html_attr(node, "type"), "display") ? LINE : 0;
		return 0;
	}
	return (f->is & SKIP) != 0 || html_formula_repeats(node, name);
}

static void skip_from_here(struct html *h, struct html_frame *f)
{
	f->skips = 1;
	h->skip++;
}

void html_element_begin(struct html *h, const GumboNode *node, const char *name)
{
	unsigned is = element_is(name);
	struct html_frame *f;
	struct html_look look = { 0 };

	if (is & VOID) {
		void_element(h, name, node);
		return;
	}
	if (h->depth == HTML_DEPTH) {
		h->deeper++;
		return;
	}
	if (!h->skip)
		look = look_of(h, node);
	f = &h->frame[h->depth++];
	*f = (struct html_frame){ .is = is, .look = look };
	snprintf(f->name, sizeof f->name, "%.15s", name);
	if (h->skip) {
		if (is & SKIP)
			skip_from_here(h, f);
		return;
	}
	if (has_word(html_attr(node, "epub:type"), "pagebreak") || has_word(html_attr(node, "role"), "doc-pagebreak")) {
		begin_page(h, node);
		skip_from_here(h, f);
		return;
	}
	if (look.gone) {
		/* Wikipedia hides a formula's MathML because it shows the formula as a picture. This does not
		 * count as hidden text. */
		f->hides = !html_has_class(node, "mwe-math-mathml-a11y");
		h->hide += f->hides;
		skip_from_here(h, f);
		return;
	}
	if (is_nav(h, is, node)) {
		h->nav++;
		f->nav = 1;
		skip_from_here(h, f);
		return;
	}
	begin_drawing(h, f, name, node);
	if (is_left_out(h, f, node, name)) {
		skip_from_here(h, f);
		return;
	}
	if (look.block && has_word("a span b strong em i small label time cite code", name))
		f->is |= LINE;
	f->label = (is & LABEL) != 0 || has_word(html_attr(node, "role"), "heading");
	begin_main(h, f, name, node);
	begin_block(h, f, name, node);
	if (html_look_hides(&look))
		return;
	h->apart |= look.floats;
	begin_raised(h, f, name);
	html_formula_begin(h, f, name, node);
}

/* If the element is <main>, <article> or a by-line, store the text offset at which it ends. */
static void end_main(struct html *h, const struct html_frame *f)
{
	size_t at = h->w->doc->text.n;

	if (f->by) {
		writer_row_keep(h->w);
		h->by[h->n_by++].to = at;
		h->in_by = 0;
	}
	if (f->main) {
		writer_row_keep(h->w);
		if (!--h->in_main && h->n_main < HTML_RANGES)
			h->main[h->n_main++].to = at;
	} else if (!strcmp(f->name, "article") && h->in_article) {
		writer_row_keep(h->w);
		if (!--h->in_article && h->n_article < HTML_RANGES)
			h->article[h->n_article++].to = at;
	}
}

static void end_frame(struct html *h, struct html_frame *f)
{
	struct writer *w = h->w;

	h->hide -= f->hides;
	h->nav -= f->nav;
	h->skip -= f->skips;
	if (f->skips || h->skip)
		return;
	h->apart |= f->look.floats;
	if (f->heading)
		writer_heading_end(w);
	if (f->link_note)
		writer_text(w, "]", 1);
	if (f->raised)
		h->raise = 0;
	html_formula_end(h, f);
	if (f->list)
		h->lists--;
	if (f->is & PRE)
		w->pre--;
	w->quotes -= f->quote;
	if (!strcmp(f->name, "table"))
		writer_table_end(w);
	else if (!strcmp(f->name, "tr"))
		html_row_end(h);
	else if (!strcmp(f->name, "td") || !strcmp(f->name, "th"))
		html_cell_end(h, f);
	if (!strcmp(f->name, "li"))
		str_clear(&w->prefix); /* an empty item has not used its label: drop the label */
	if (f->list && h->lists)
		writer_gap(w, GAP_LINE);
	else if (f->is & BLOCK)
		writer_gap(w, h->lists && !strcmp(f->name, "p") ? GAP_LINE : GAP_BLOCK);
	else if (f->is & LINE)
		writer_gap(w, GAP_LINE);
	end_main(h, f);
}

void html_element_end(struct html *h, const GumboNode *node)
{
	char name[24];

	html_name(node, name, sizeof name);
	if (element_is(name) & VOID)
		return;
	if (h->deeper)
		h->deeper--;
	else
		end_frame(h, &h->frame[--h->depth]);
}
