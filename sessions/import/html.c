/* sessions/import/html.c - converts HTML and XHTML to text with marks (offsets of pages, headings and paragraphs).
 *
 * libxml2's HTML parser reports elements one by one (SAX), so no tree is built and deep nesting needs no memory.
 * Hidden text is left out and counted; navigation, scripts, forms and pictures are left out. If a page marks its main
 * text (<main>, or a single <article>), only that part is kept. */
#include "sessions/import/import_private.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libxml/HTMLparser.h>
#include <libxml/xmlerror.h>

#define DEPTH_MAX  512
#define RANGES_MAX 64

enum { BLOCK = 1, LINE = 2, SKIP = 4, PRE = 8, VOID = 16, NAV = 32, RAW = 64 };

/* clang-format off */
static const struct element { const char *name; unsigned char is; } elements[] = {
	{"address", BLOCK}, {"annotation", SKIP}, {"annotation-xml", SKIP}, {"area", VOID}, {"article", BLOCK}, {"aside", BLOCK},
	{"audio", SKIP}, {"base", VOID}, {"blockquote", BLOCK}, {"br", VOID}, {"button", SKIP}, {"canvas", SKIP}, {"caption", LINE},
	{"center", BLOCK}, {"col", VOID}, {"datalist", SKIP}, {"dd", LINE}, {"details", BLOCK}, {"div", LINE}, {"dl", BLOCK},
	{"dt", LINE}, {"embed", VOID}, {"fieldset", BLOCK}, {"figcaption", BLOCK}, {"figure", BLOCK}, {"footer", BLOCK},
	{"form", LINE}, {"frame", VOID}, {"frameset", SKIP}, {"header", BLOCK}, {"hgroup", BLOCK}, {"hr", VOID}, {"iframe", SKIP},
	{"img", VOID}, {"input", VOID}, {"legend", LINE}, {"li", LINE}, {"link", VOID}, {"listing", BLOCK | PRE}, {"main", BLOCK},
	{"map", SKIP}, {"menu", BLOCK}, {"meta", VOID}, {"nav", NAV}, {"noembed", SKIP}, {"noframes", SKIP}, {"noscript", SKIP},
	{"object", SKIP}, {"ol", BLOCK}, {"optgroup", SKIP}, {"option", SKIP}, {"p", BLOCK}, {"param", VOID},
	{"plaintext", BLOCK | PRE}, {"pre", BLOCK | PRE}, {"rp", SKIP}, {"rt", SKIP}, {"script", SKIP}, {"section", BLOCK},
	{"select", SKIP}, {"source", VOID}, {"style", SKIP | RAW}, {"summary", BLOCK}, {"svg", SKIP}, {"template", SKIP},
	{"textarea", SKIP}, {"title", SKIP}, {"track", VOID}, {"ul", BLOCK}, {"video", SKIP}, {"wbr", VOID}, {"xmp", BLOCK | PRE},
};
/* clang-format on */

struct frame {
	char name[16]; /* cut to 15 bytes; only compared */
	unsigned is;
	unsigned skips : 1; /* its contents are not text */
	unsigned hides : 1; /* its text is counted as hidden */
	unsigned main : 1;  /* it begins a range of the main text */
	unsigned list : 1, ordered : 1, heading : 1, link_note : 1, link : 1, raised : 1, part : 1;
	const char *signs[2]; /* formula: signs before its second and third part */
	unsigned parts;       /* parts begun so far */
	size_t part_begin, ranges;
	long number; /* number of the next item of an ordered list */
};

struct html {
	struct writer *w;
	int whole; /* 1: keep navigation */
	struct frame frame[DEPTH_MAX];
	int depth, deeper; /* deeper: open elements beyond DEPTH_MAX */
	int skip, hide, style;
	size_t hidden;   /* characters */
	size_t left_out; /* characters of navigation left out */
	int nav;
	int lists;
	/* the text that follows is: 1 = superscript; 2 = superscript in a link, and so a note's number */
	int raise;
	struct range main[RANGES_MAX], article[RANGES_MAX];
	size_t n_main, n_article;
	int in_main, in_article;
	struct str css;
	struct html_rules rules;
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

/* ---- attributes ---- */

static const char *attribute(const xmlChar **a, const char *name)
{
	for (; a && *a; a += 2)
		if (!strcmp((const char *)*a, name))
			return a[1] ? (const char *)a[1] : "";
	return NULL;
}

/* 1 if the attribute value s, a list of words, contains `word`. */
static int has_word(const char *s, const char *word)
{
	size_t n = strlen(word);

	while (s && *s) {
		size_t k = strcspn(s, " \t\n\r\f");
		if (k == n && !strncasecmp(s, word, n))
			return 1;
		s += k + strspn(s + k, " \t\n\r\f");
		if (!k && !*s)
			break;
	}
	return 0;
}

static int is_hidden(const struct html *h, const xmlChar **a)
{
	const char *style = attribute(a, "style");

	return attribute(a, "hidden") || (style && css_hides(style, strlen(style))) ||
	       html_rules_hide(&h->rules, attribute(a, "id"), attribute(a, "class"));
}

/* ---- elements ---- */

static void begin_item(struct html *h, const xmlChar **a)
{
	struct str *prefix = &h->w->prefix;
	struct frame *list = NULL;
	const char *value = attribute(a, "value");

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
static void begin_page(struct html *h, const xmlChar **a)
{
	const char *label = attribute(a, "title");

	if (!label || !*label)
		label = attribute(a, "aria-label");
	if (!label || !*label) {
		label = attribute(a, "id");
		if (label)
			label += strcspn(label, "0123456789");
	}
	if (label && *label)
		writer_page(h->w, label, strlen(label));
}

static void begin_list(struct html *h, struct frame *f, int ordered, const xmlChar **a)
{
	const char *start = attribute(a, "start");

	f->list = 1;
	f->ordered = ordered != 0;
	f->number = start && *start ? strtol(start, NULL, 10) : 1;
	/* A list inside an item gets no blank line before it. */
	if (h->lists++)
		h->w->gap = GAP_LINE;
}

static void begin_main(struct html *h, struct frame *f, const char *name, const xmlChar **a)
{
	if (!strcmp(name, "main") || has_word(attribute(a, "role"), "main")) {
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

static int is_nav(const struct html *h, unsigned is, const xmlChar **a)
{
	static const char *const classes[] = { "navheader", "navfooter", "nav-panel" };
	const char *role = attribute(a, "role");

	if (h->whole)
		return 0;
	/* DocBook and Texinfo give these classes to links to neighbouring pages, which are left out. */
	for (size_t i = 0; i < LEN(classes); i++)
		if (has_word(attribute(a, "class"), classes[i]))
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

static int is_note_link(const xmlChar **a)
{
	const char *class = attribute(a, "class");

	return has_word(attribute(a, "epub:type"), "noteref") || has_word(attribute(a, "role"), "doc-noteref") ||
	       has_word(class, "footnote-ref") || has_word(class, "footnote-reference") || has_word(class, "noteref");
}

static void begin_block(struct html *h, struct frame *f, const char *name, const xmlChar **a)
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
		begin_item(h, a);
	} else if (!strcmp(name, "ul") || !strcmp(name, "ol") || !strcmp(name, "menu")) {
		begin_list(h, f, name[0] == 'o', a);
	} else if (!strcmp(name, "table")) {
		writer_table_begin(w);
	} else if (!strcmp(name, "tr")) {
		writer_row_begin(w);
	} else if (!strcmp(name, "td") || !strcmp(name, "th")) {
		writer_cell_begin(w);
	} else if (!strcmp(name, "a") && is_note_link(a)) {
		f->link_note = 1;
		writer_text(w, "[", 1);
	}
}

/* Write a formula that is shown as a picture: Wikipedia and LaTeX2HTML store its source, such as "$x^2$", as
 * alternative text. */
static void begin_picture(struct html *h, const xmlChar **a)
{
	static const char display[] = "{\\displaystyle ";
	const char *alt = attribute(a, "alt"), *class = attribute(a, "class");
	size_t n = alt ? strlen(alt) : 0, k = sizeof display - 1;

	if (!n || is_hidden(h, a) ||
	    !((*alt == '$' && n > 1 && alt[n - 1] == '$') || !strncmp(alt, "\\(", 2) || !strncmp(alt, "\\[", 2) ||
	      !strncmp(alt, "{\\", 2) || has_word(class, "math") || has_word(class, "tex") || has_word(class, "latex")))
		return;
	if (n > k && !strncmp(alt, display, k) && alt[n - 1] == '}')
		alt += k, n -= k + 1;
	writer_text(h->w, alt, n);
}

static void void_element(struct html *h, const char *name, const xmlChar **a)
{
	if (h->skip)
		return;
	if (!strcmp(name, "img"))
		begin_picture(h, a);
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

static void on_start(void *ud, const xmlChar *element, const xmlChar **a)
{
	struct html *h = ud;
	const char *name = (const char *)element;
	unsigned is = element_is(name);
	struct frame *f;

	if (is & VOID) {
		void_element(h, name, a);
		return;
	}
	if (h->depth == DEPTH_MAX) {
		h->deeper++;
		return;
	}
	if (!strcmp(name, "body"))
		html_rules_read(&h->rules, &h->css);
	f = &h->frame[h->depth++];
	*f = (struct frame){ .is = is };
	snprintf(f->name, sizeof f->name, "%.15s", name);
	if (is & RAW)
		h->style++;
	if (!h->skip &&
	    (has_word(attribute(a, "epub:type"), "pagebreak") || has_word(attribute(a, "role"), "doc-pagebreak"))) {
		begin_page(h, a);
		f->skips = 1;
		h->skip++;
		return;
	}
	if (is_hidden(h, a) && strcmp(name, "body") && strcmp(name, "html")) {
		/* Wikipedia hides a formula's MathML because it shows the formula as a picture. This does not
		 * count as hidden text. */
		f->hides = !has_word(attribute(a, "class"), "mwe-math-mathml-a11y");
		f->skips = 1;
		h->hide += f->hides;
		h->skip++;
		return;
	}
	if (is_nav(h, is, a)) {
		h->nav++;
		f->skips = 1;
		h->skip++;
		f->is |= NAV;
		return;
	}
	f->is &= ~(unsigned)NAV;
	if (is & SKIP) {
		f->skips = 1;
		h->skip++;
		return;
	}
	if (h->skip)
		return;
	begin_main(h, f, name, a);
	begin_block(h, f, name, a);
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

	if (f->is & RAW)
		h->style--;
	if (f->hides)
		h->hide--;
	if (f->is & NAV)
		h->nav--;
	if (f->skips) {
		h->skip--;
		return;
	}
	if (h->skip)
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
		writer_row_end(w);
	else if (!strcmp(f->name, "td") || !strcmp(f->name, "th"))
		writer_gap(w, GAP_LINE);
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

static void on_end(void *ud, const xmlChar *element)
{
	struct html *h = ud;
	char name[16];
	int i;

	if (element_is((const char *)element) & VOID)
		return;
	if (h->deeper) {
		h->deeper--;
		return;
	}
	snprintf(name, sizeof name, "%.15s", (const char *)element);
	for (i = h->depth - 1; i >= 0 && strcmp(h->frame[i].name, name); i--)
		;
	while (i >= 0 && h->depth > i)
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

static void on_text(void *ud, const xmlChar *s, int n)
{
	struct html *h = ud;

	if (n <= 0)
		return;
	if (h->style) {
		if (h->css.n + (size_t)n < 1u << 20)
			str_add(&h->css, s, (size_t)n);
		return;
	}
	if (!h->skip) {
		write_text(h, (const char *)s, (size_t)n);
		return;
	}
	if (h->nav)
		h->left_out += count_characters((const char *)s, (size_t)n);
	else if (h->hide && h->hide == h->skip)
		h->hidden += count_characters((const char *)s, (size_t)n);
}

/* ---- a page ---- */

static void parse_page(struct html *h, const char *p, size_t n)
{
	htmlParserCtxtPtr ctxt;

	if (n > INT32_MAX || !(ctxt = htmlNewParserCtxt()))
		return;
	*ctxt->sax = (htmlSAXHandler){ .startElement = on_start,
		                       .endElement = on_end,
		                       .characters = on_text,
		                       .ignorableWhitespace = on_text,
		                       .cdataBlock = on_text };
	ctxt->userData = h;
	htmlCtxtReadMemory(ctxt, p, (int)n, NULL, "UTF-8",
	                   HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING | HTML_PARSE_NONET |
	                           HTML_PARSE_IGNORE_ENC);
	htmlFreeParserCtxt(ctxt);
	while (h->depth)
		end_frame(h, &h->frame[--h->depth]);
}

static struct html *html_new(struct writer *w)
{
	struct html *h = xcalloc(1, sizeof *h);

	h->w = w;
	return h;
}

static void html_free(struct html *h)
{
	str_free(&h->css);
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
	struct html *h = html_new(w);
	size_t hidden;

	parse_page(h, utf8, n);
	hidden = h->hidden;
	html_free(h);
	return hidden;
}

int html_import(const char *p, size_t n, struct doc *d, struct err *e)
{
	struct writer w = { .doc = d };
	struct html *h = html_new(&w);

	parse_page(h, p, n);
	writer_heading_end(&w);
	/* A page of links: convert it again with navigation kept. */
	if (h->left_out > 4 * count_characters(str_text(&d->text), d->text.n)) {
		html_free(h);
		writer_end(&w);
		doc_free(d);
		w = (struct writer){ .doc = d };
		h = html_new(&w);
		h->whole = 1;
		parse_page(h, p, n);
	}
	writer_end(&w);
	if (h->hidden)
		doc_note(d, HIDDEN_TEXT, h->hidden, h->hidden == 1 ? " was" : "s were");
	keep_main(h);
	html_free(h);
	return d->text.n ? 0 : err_set(e, ERR_DOCUMENT, "holds no text");
}
