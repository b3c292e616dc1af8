/* sessions/import/html.c - converts HTML and XHTML to text with marks (offsets of pages, headings and paragraphs).
 *
 * Hidden text is left out and counted, unless it is most of the page; navigation, scripts, forms and pictures are left
 * out. If a page marks its main text (<main>, or a single <article>), only that part is kept. */
#include "sessions/import/html.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX   512
#define RANGES_MAX  64
#define COLUMNS     64
/* Hidden text of at least so many characters that is more than the rest of the page is kept: a script shows it. */
#define HIDDEN_KEPT 20

enum { BLOCK = 1, LINE = 2, SKIP = 4, PRE = 8, VOID = 16, NAV = 32, LABEL = 64 };

/* clang-format off */
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
	{"select", SKIP}, {"source", VOID}, {"style", SKIP}, {"summary", BLOCK | LABEL}, {"svg", SKIP}, {"template", SKIP},
	{"textarea", SKIP}, {"th", LABEL}, {"title", SKIP}, {"track", VOID}, {"ul", BLOCK}, {"video", SKIP}, {"wbr", VOID}, {"xmp", BLOCK | PRE},
};
/* clang-format on */

struct frame {
	char name[16]; /* cut to 15 bytes; only compared */
	unsigned is;
	unsigned skips : 1; /* its contents are not text */
	unsigned hides : 1; /* its text is counted as hidden */
	unsigned nav : 1;
	unsigned label : 1; /* a button in it is text */
	unsigned main : 1;  /* it begins a range of the main text */
	unsigned list : 1, ordered : 1, heading : 1, link_note : 1, link : 1, raised : 1, part : 1;
	const char *signs[2]; /* formula: signs before its second and third part */
	unsigned parts;       /* parts begun so far */
	size_t part_begin, ranges;
	long number; /* number of the next item of an ordered list */
	struct html_look look;
	long span; /* cell: columns that it covers */
};

/* An open table: how many rows the cells above reach down into, for each column. */
struct grid {
	size_t column;
	long below[COLUMNS];
};

struct html {
	struct writer *w;
	int whole; /* 1: keep navigation */
	int shown; /* 1: keep hidden text */
	struct frame frame[DEPTH_MAX];
	int depth, deeper; /* deeper: open elements beyond DEPTH_MAX */
	int skip, hide;
	size_t hidden;   /* characters */
	size_t left_out; /* characters of navigation left out */
	int nav;
	int lists;
	/* the text that follows is: 1 = superscript; 2 = superscript in a link, and so a note's number */
	int raise;
	struct range main[RANGES_MAX], article[RANGES_MAX];
	size_t n_main, n_article;
	int in_main, in_article;
	struct html_rules *rules;
	struct grid grid[WRITER_TABLES];
};

static int compare_element(const void *key, const void *e)
{
	return strcmp(key, ((const struct element *)e)->name);
}

static unsigned element_is(const char *name)
{
	const struct element *e = bsearch(name, elements, LEN(elements), sizeof *elements, compare_element);

	return e ? e->is : 0;
}

static int has_word(const char *s, const char *word)
{
	return html_has_word(s, word, strlen(word));
}

static struct html_look look_of(const struct html *h, const GumboNode *node)
{
	struct html_look look = h->depth ? h->frame[h->depth - 1].look : (struct html_look){ 0 };
	GumboTag tag = node->v.element.tag;

	/* What hides a page as a whole waits for a script. */
	if (!h->shown && tag != GUMBO_TAG_HTML && tag != GUMBO_TAG_BODY)
		html_rules_look(h->rules, node, &look);
	return look;
}

static int look_hides(const struct html_look *look)
{
	return look->gone || look->invisible || look->no_size;
}

/* ---- elements ---- */

static void begin_item(struct html *h, const GumboNode *node)
{
	struct str *prefix = &h->w->prefix;
	struct frame *list = NULL;
	const char *value = html_attr(node, "value");

	for (int i = h->depth - 1; i >= 0 && !list; i--)
		if (h->frame[i].list)
			list = &h->frame[i];
	str_clear(prefix);
	for (int i = 1; i < h->lists && i < 8; i++)
		str_adds(prefix, "  ");
	if (list && list->ordered) {
		if (value && *value)
			list->number = strtol(value, NULL, 10);
		str_addf(prefix, "%ld. ", list->number);
		if (list->number < 1000000)
			list->number++;
	} else {
		str_adds(prefix, "- ");
	}
}

/* Begin a page of a printed book. Its label is the title of <span epub:type="pagebreak" title="12"/>, or without a
 * title the digits in its id. */
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

static void begin_list(struct html *h, struct frame *f, int ordered, const GumboNode *node)
{
	const char *start = html_attr(node, "start");

	f->list = 1;
	f->ordered = ordered != 0;
	f->number = start && *start ? strtol(start, NULL, 10) : 1;
	/* A list inside an item gets no blank line before it. */
	if (h->lists++)
		h->w->gap = GAP_LINE;
}

static void begin_main(struct html *h, struct frame *f, const char *name, const GumboNode *node)
{
	if (!strcmp(name, "main") || has_word(html_attr(node, "role"), "main")) {
		writer_row_keep(h->w);
		if (!h->in_main++ && h->n_main < RANGES_MAX)
			h->main[h->n_main].from = h->w->doc->text.n;
		f->main = 1;
	} else if (!strcmp(name, "article")) {
		writer_row_keep(h->w);
		if (!h->in_article++ && h->n_article < RANGES_MAX)
			h->article[h->n_article].from = h->w->doc->text.n;
	}
}

static int is_nav(const struct html *h, unsigned is, const GumboNode *node)
{
	static const char *const classes[] = { "navheader", "navfooter", "nav-panel" };
	const char *role = html_attr(node, "role");

	if (h->whole)
		return 0;
	/* DocBook and Texinfo give these classes to links to neighbouring pages, which are left out. */
	for (size_t i = 0; i < LEN(classes); i++)
		if (has_word(html_attr(node, "class"), classes[i]))
			return 1;
	return (is & NAV) || has_word(role, "navigation") || has_word(role, "search") || has_word(role, "menu") ||
	       has_word(role, "menubar");
}

/* Begin a superscript, or a link inside or around one. */
static void begin_raised(struct html *h, struct frame *f, const char *name)
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

/* Begin an element of a MathML formula. Signs such as the fraction's "/" are not in the text: write them between the
 * parts. */
static void begin_formula(struct html *h, struct frame *f, const char *name)
{
	static const struct {
		const char *name, *second, *third;
	} formulas[] = {
		{ "mfrac", "/", "" },  { "msup", "^", "" },  { "msub", "_", "" },        { "msubsup", "_", "^" },
		{ "munder", "_", "" }, { "mover", "^", "" }, { "munderover", "_", "^" },
	};
	struct frame *outer = h->depth > 1 ? &h->frame[h->depth - 2] : NULL;

	if (outer && outer->signs[0]) {
		unsigned i = outer->parts++;

		f->part = 1;
		f->ranges = h->n_main + h->n_article;
		f->part_begin = writer_part_begin(h->w, i == 1 || i == 2 ? outer->signs[i - 1] : "");
	}
	if (*name != 'm')
		return;
	if (!strcmp(name, "msqrt"))
		writer_text(h->w, "\xe2\x88\x9a", 3);
	for (size_t i = 0; i < LEN(formulas); i++)
		if (!strcmp(name, formulas[i].name)) {
			f->signs[0] = formulas[i].second;
			f->signs[1] = formulas[i].third;
		}
}

static int is_note_link(const GumboNode *node)
{
	const char *class = html_attr(node, "class");

	return has_word(html_attr(node, "epub:type"), "noteref") || has_word(html_attr(node, "role"), "doc-noteref") ||
	       has_word(class, "footnote-ref") || has_word(class, "footnote-reference") || has_word(class, "noteref");
}

/* ---- tables ---- */

static struct grid *grid_now(struct html *h)
{
	int i = h->w->tables - 1;

	return i >= 0 && i < WRITER_TABLES ? &h->grid[i] : NULL;
}

/* Write empty cells where cells of rows above reach down. */
static void skip_columns(struct html *h, struct grid *g)
{
	for (; g->column < COLUMNS && g->below[g->column]; g->column++) {
		g->below[g->column]--;
		writer_cell_begin(h->w);
	}
}

static long span_of(const GumboNode *node, const char *name, long most)
{
	const char *s = html_attr(node, name);
	long span = s ? strtol(s, NULL, 10) : 1;

	/* rowspan=0: to the end of the group of rows */
	return span < 0 || (!span && *name == 'c') || !s || !byte_is_digit(s[strspn(s, " ")]) ? 1
	       : !span || span > most                                                         ? most
	                                                                                      : span;
}

static void begin_cell(struct html *h, struct frame *f, const GumboNode *node)
{
	struct grid *g = grid_now(h);
	long rows = span_of(node, "rowspan", 65534);

	f->span = span_of(node, "colspan", COLUMNS);
	if (g)
		skip_columns(h, g);
	writer_cell_begin(h->w);
	for (long i = 0; g && i < f->span && g->column < COLUMNS; i++)
		g->below[g->column++] = rows - 1;
}

static void end_cell(struct html *h, const struct frame *f)
{
	for (long i = 1; i < f->span; i++)
		writer_cell_begin(h->w);
	writer_gap(h->w, GAP_LINE);
}

static void begin_row(struct html *h)
{
	struct grid *g = grid_now(h);

	writer_row_begin(h->w);
	if (g)
		g->column = 0;
}

static void end_row(struct html *h)
{
	struct grid *g = grid_now(h);

	for (; g && g->column < COLUMNS; g->column++)
		g->below[g->column] -= g->below[g->column] > 0;
	writer_row_end(h->w);
}

/* No cell reaches into another group of rows or table. */
static void begin_rows(struct html *h)
{
	struct grid *g = grid_now(h);

	if (g)
		*g = (struct grid){ 0 };
}

static void begin_block(struct html *h, struct frame *f, const char *name, const GumboNode *node)
{
	struct writer *w = h->w;

	/* The first block of a list item stays on the line of the item's bullet. */
	if (f->is & BLOCK)
		writer_gap(w, w->prefix.n ? GAP_LINE : GAP_BLOCK);
	else if (f->is & LINE)
		writer_gap(w, GAP_LINE);
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
		begin_rows(h);
	} else if (!strcmp(name, "tbody") || !strcmp(name, "thead") || !strcmp(name, "tfoot")) {
		begin_rows(h);
	} else if (!strcmp(name, "tr")) {
		begin_row(h);
	} else if (!strcmp(name, "td") || !strcmp(name, "th")) {
		begin_cell(h, f, node);
	} else if (!strcmp(name, "a") && !look_hides(&f->look) && is_note_link(node)) {
		f->link_note = 1;
		writer_text(w, "[", 1);
	}
}

/* Write a formula that is shown as a picture: Wikipedia and LaTeX2HTML store its source, such as "$x^2$", as
 * alternative text. */
static void begin_picture(struct html *h, const GumboNode *node)
{
	static const char display[] = "{\\displaystyle ";
	const char *alt = html_attr(node, "alt"), *class = html_attr(node, "class");
	size_t n = alt ? strlen(alt) : 0, k = sizeof display - 1;
	struct html_look look = look_of(h, node);

	if (!n || look_hides(&look) ||
	    !((*alt == '$' && n > 1 && alt[n - 1] == '$') || !strncmp(alt, "\\(", 2) || !strncmp(alt, "\\[", 2) ||
	      !strncmp(alt, "{\\", 2) || has_word(class, "math") || has_word(class, "tex") || has_word(class, "latex")))
		return;
	if (n > k && !strncmp(alt, display, k) && alt[n - 1] == '}')
		alt += k, n -= k + 1;
	writer_text(h->w, alt, n);
}

static void void_element(struct html *h, const char *name, const GumboNode *node)
{
	if (h->skip)
		return;
	if (!strcmp(name, "img"))
		begin_picture(h, node);
	else if (!strcmp(name, "br")) {
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

static int in_label(const struct html *h)
{
	for (int i = h->depth - 1; i >= 0; i--)
		if (h->frame[i].heading || h->frame[i].label)
			return 1;
	return 0;
}

/* 1 if the element repeats a formula that stands beside it in another form: KaTeX and MathJax draw each one for the
 * eye (aria-hidden), and write it in MathML for the ear. MathJax leaves a script with its source behind it, too. */
static int repeats_formula(const GumboNode *node, const char *name)
{
	const GumboNode *before;
	const GumboVector *all;

	if (html_has_class(node, "MathJax_Preview"))
		return 1;
	if (!strcmp(name, "script")) {
		before = html_before(node);
		return before && (html_has_class(before, "MathJax") || html_has_class(before, "MathJax_Display") ||
		                  html_has_class(before, "MathJax_SVG") || html_has_class(before, "MathJax_CHTML") ||
		                  html_has_class(before, "mjx-chtml") || html_has_class(before, "MathJax_SVG_Display"));
	}
	if (!has_word(html_attr(node, "aria-hidden"), "true") || !node->parent)
		return 0;
	all = html_children(node->parent);
	for (unsigned i = 0; all && i < all->length && i < 8; i++) {
		const GumboNode *other = all->data[i];
		char of[24];

		if (other == node || other->type != GUMBO_NODE_ELEMENT)
			continue;
		html_name(other, of, sizeof of);
		if (html_has_class(other, "katex-mathml") || html_has_class(other, "MJX_Assistive_MathML") ||
		    !strcmp(of, "mjx-assistive-mml"))
			return 1;
	}
	return 0;
}

/* A script that holds the source of a formula for MathJax. */
static int is_formula_script(const GumboNode *node, const char *name)
{
	const char *type = html_attr(node, "type");

	return type && !strcmp(name, "script") && !strncasecmp(type, "math/tex", 8) && !repeats_formula(node, name);
}

static int is_left_out(const struct html *h, struct frame *f, const GumboNode *node, const char *name)
{
	if (!strcmp(name, "button"))
		return !in_label(h);
	if (is_formula_script(node, name)) {
		f->is = strstr(html_attr(node, "type"), "display") ? LINE : 0;
		return 0;
	}
	return (f->is & SKIP) != 0 || repeats_formula(node, name);
}

static void skip_from_here(struct html *h, struct frame *f)
{
	f->skips = 1;
	h->skip++;
}

static void begin_element(struct html *h, const GumboNode *node, const char *name)
{
	unsigned is = element_is(name);
	struct frame *f;
	struct html_look look = { 0 };

	if (is & VOID) {
		void_element(h, name, node);
		return;
	}
	if (h->depth == DEPTH_MAX) {
		h->deeper++;
		return;
	}
	if (!h->skip)
		look = look_of(h, node);
	f = &h->frame[h->depth++];
	*f = (struct frame){ .is = is, .look = look };
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
	if (is_left_out(h, f, node, name)) {
		skip_from_here(h, f);
		return;
	}
	f->label = (is & LABEL) != 0 || has_word(html_attr(node, "role"), "heading");
	begin_main(h, f, name, node);
	begin_block(h, f, name, node);
	if (look_hides(&look))
		return;
	begin_raised(h, f, name);
	begin_formula(h, f, name);
}

static void end_main(struct html *h, const struct frame *f)
{
	size_t at = h->w->doc->text.n;

	if (f->main) {
		writer_row_keep(h->w);
		if (!--h->in_main && h->n_main < RANGES_MAX)
			h->main[h->n_main++].to = at;
	} else if (!strcmp(f->name, "article") && h->in_article) {
		writer_row_keep(h->w);
		if (!--h->in_article && h->n_article < RANGES_MAX)
			h->article[h->n_article++].to = at;
	}
}

static void end_frame(struct html *h, struct frame *f)
{
	struct writer *w = h->w;

	h->hide -= f->hides;
	h->nav -= f->nav;
	h->skip -= f->skips;
	if (f->skips || h->skip)
		return;
	if (f->heading)
		writer_heading_end(w);
	if (f->link_note)
		writer_text(w, "]", 1);
	if (f->raised)
		h->raise = 0;
	if (f->part && f->ranges == h->n_main + h->n_article)
		writer_part_end(w, f->part_begin);
	if (f->list)
		h->lists--;
	if (f->is & PRE)
		w->pre--;
	if (!strcmp(f->name, "table"))
		writer_table_end(w);
	else if (!strcmp(f->name, "tr"))
		end_row(h);
	else if (!strcmp(f->name, "td") || !strcmp(f->name, "th"))
		end_cell(h, f);
	if (!strcmp(f->name, "li"))
		str_clear(&w->prefix); /* if the item was empty */
	if (f->list && h->lists)
		writer_gap(w, GAP_LINE);
	else if (f->is & BLOCK)
		writer_gap(w, h->lists && !strcmp(f->name, "p") ? GAP_LINE : GAP_BLOCK);
	else if (f->is & LINE)
		writer_gap(w, GAP_LINE);
	end_main(h, f);
}

static void end_element(struct html *h, const GumboNode *node)
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

static size_t count_characters(const char *s, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += (unsigned char)s[i] > ' ' && !utf8_continues(s[i]);
	return count;
}

/* The innermost superscript element. */
static struct frame *raised_frame(struct html *h)
{
	for (int i = h->depth - 1; i >= 0; i--)
		if (h->frame[i].raised)
			return &h->frame[i];
	return NULL;
}

static void write_text(struct html *h, const char *s, size_t n)
{
	static const char pilcrow[] = "\xc2\xb6";

	/* Skip the pilcrow of a heading's link to itself. */
	if (n == 2 && !memcmp(s, pilcrow, 2) && h->depth && h->frame[h->depth - 1].link)
		return;
	if (h->raise && (unsigned char)*s > ' ') {
		struct frame *f = raised_frame(h);

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

static void add_text(struct html *h, const char *s)
{
	size_t n = strlen(s);

	if (h->skip > 1)
		return; /* a script in what is left out */
	if (h->nav)
		h->left_out += count_characters(s, n);
	else if (h->skip ? h->hide > 0 : h->depth && look_hides(&h->frame[h->depth - 1].look))
		h->hidden += count_characters(s, n);
	else if (!h->skip && n)
		write_text(h, s, n);
}

/* ---- a page ---- */

/* Read the style sheets of the page, wherever they stand. */
static void read_styles(struct html_rules *rules, const GumboNode *node)
{
	const GumboVector *text = html_children(node);

	if (node->v.element.tag != GUMBO_TAG_STYLE)
		return;
	for (unsigned i = 0; i < text->length; i++) {
		const GumboNode *t = text->data[i];

		if (t->type == GUMBO_NODE_TEXT)
			html_rules_add(rules, t->v.text.text, strlen(t->v.text.text), html_attr(node, "media"));
	}
}

/* The nodes from the root to the current one, and which child of each is next. */
struct step {
	const GumboNode *node;
	unsigned next;
};

/* Walk through the tree. h: what begins, ends and stands in elements becomes text; NULL: their style sheets are read
 * into rules. */
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
				begin_element(h, node, name);
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
				end_element(h, way[n - 1].node);
			n--;
		}
		if (!n)
			break;
		node = html_children(way[n - 1].node)->data[way[n - 1].next++];
	}
	free(way);
}

static struct html *html_new(struct writer *w, const struct html_tree *t)
{
	struct html *h = xcalloc(1, sizeof *h);

	h->w = w;
	h->rules = html_rules_new();
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

/* Keep only the main text that the page marks, if it is large enough: at least 200 bytes, and a quarter (<main>) or
 * half (<article>) of the page. */
static void keep_main(struct html *h)
{
	struct doc *d = h->w->doc;
	size_t main = total_bytes(h->main, h->n_main), article = total_bytes(h->article, h->n_article);

	if (h->n_main && main >= 200 && main >= d->text.n / 4)
		doc_keep(d, h->main, h->n_main);
	else if (!h->n_main && h->n_article == 1 && article >= 200 && article >= d->text.n / 2)
		doc_keep(d, h->article, 1);
}

size_t html_convert(struct writer *w, const char *utf8, size_t n)
{
	struct html_tree t;
	struct html *h;
	size_t hidden;

	html_tree_parse(&t, utf8, n, 1);
	h = html_new(w, &t);
	walk(h, NULL, t.root);
	hidden = h->hidden;
	html_free(h);
	html_tree_free(&t);
	return hidden;
}

/* Forget what was written, and write again with navigation or hidden text. */
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
	h = html_new(&w, &t);
	walk(h, NULL, t.root);
	writer_heading_end(&w);
	if (h->left_out > 4 * count_characters(str_text(&d->text), d->text.n)) { /* a page of links */
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
	html_free(h);
	html_tree_free(&t);
	return d->text.n ? 0 : err_set(e, ERR_DOCUMENT, "holds no text");
}
