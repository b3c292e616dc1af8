/* sessions/import/html_rules.c - finds what an HTML page's style sheets and style attributes hide.
 *
 * A small cascade: of all declarations of a property that match an element, the one with the greatest weight is used.
 * The weight depends first on !important, then on the style attribute, then on the selector's specificity, then on the
 * order in the page. A declaration whose selector or media query may or may not match (CSS_UNSURE) can show text but
 * not hide it. */
#include "sessions/import/html_css.h"

#include <stdlib.h>
#include <string.h>

enum {
	RULES_MAX = 1 << 16, /* maximum number of rules of a page; further rules are ignored */
	SELECTOR_MAX = 1000, /* maximum number of bytes of a selector; longer selectors are ignored */
	NESTED_MAX = 8,      /* a rule inside more nested at-rules than this is ignored */
	/* Maximum number of comparisons by css_selector_matches() for one page. When it is reached, selectors are no
	 * longer compared. For the next TRIES_ALL rules, the result is then CSS_UNSURE; all further rules are
	 * ignored. */
	TRIES_ALL = 20000000
};

/* A selector with the declarations of its block. If a block has a list of selectors, each of them becomes a rule. */
struct rule {
	struct css_selector selector;
	/* 1: the rule is inside an at-rule, such as @media, and weir cannot tell whether the at-rule matches */
	int unsure;
	struct css_values values;
	int32_t next; /* next rule of the same bucket, an index into html_rules.rule; -1 = none */
};

struct html_rules {
	const struct html_sheets *sheets; /* finds linked style sheets; NULL = linked style sheets are not read */
	char **sheet;                     /* [n_sheet] texts of the style sheets, into which `compounds` points */
	size_t n_sheet, cap_sheet;
	struct rule *rule;
	size_t n, cap;
	struct css_compounds compounds;
	/* bucket[css_selector.bucket] is the index of the first rule in the bucket's list; -1 = the list is empty */
	int32_t bucket[CSS_BUCKETS];
	int matters; /* 1: at least one rule hides text, or shows it on lines of its own */
	/* number of comparisons so far, plus the number of rules that were not compared because of TRIES_ALL */
	int tries;
};

/* Add a rule for one selector. `media` says whether the media query that encloses the rule matches. */
static void add_rule(struct html_rules *r, const struct css_values *v, const char *p, const char *end,
                     enum css_match media)
{
	struct rule rule = { .values = *v, .unsure = media != CSS_YES };
	int32_t *first;

	if (r->n == RULES_MAX || end - p > SELECTOR_MAX)
		return;
	if (css_selector_read(&r->compounds, &rule.selector, p, end))
		return;
	first = &r->bucket[rule.selector.bucket];
	rule.next = *first;
	*first = (int32_t)r->n;
	GROW(r->rule, r->n, r->cap);
	r->rule[r->n++] = rule;
	for (int i = 0; i < CSS_PROPERTIES; i++)
		r->matters |= (v->is[i] == CSS_HIDES || v->is[i] == CSS_BLOCK) && media == CSS_YES;
}

/* Return whether the rules inside an at-rule apply. p points to the at-rule's name, as in "media print {", and `end` to
 * the '{'. */
static enum css_match at_rule(const char *p, const char *end)
{
	const char *name = css_name_end(p, end);

	if (css_is_word(p, name, "media"))
		return css_media_matches(name, end);
	if (css_is_word(p, name, "layer"))
		return CSS_YES;
	return css_is_word(p, name, "supports") || css_is_word(p, name, "container") || css_is_word(p, name, "scope")
	               ? CSS_UNSURE
	               : CSS_NO;
}

/* Add the rules of a style sheet or at-rule. `media` says whether the media query around these rules matches. `nested`
 * is the number of at-rules around them. */
static void read_rules(struct html_rules *r, const char *p, const char *end, enum css_match media, int nested)
{
	while ((p = css_skip_blanks(p, end)) < end) {
		int at = *p == '@';
		const char *open = css_scan(p, end, at ? "{;}" : "{}"), *close;

		if (open == end)
			return;
		if (*open != '{') {
			p = open + 1;
			continue;
		}
		close = css_block_end(open + 1, end);
		if (at) {
			enum css_match inner = at_rule(p + 1, open);

			inner = MIN(inner, media);
			if (inner && nested < NESTED_MAX)
				read_rules(r, open + 1, close, inner, nested + 1);
		} else {
			struct css_values v = { 0 };

			css_declarations(&v, open + 1, close);
			while (memcmp(&v, &(struct css_values){ 0 }, sizeof v) != 0 && p < open) {
				const char *to = css_scan(p, open, ",");

				add_rule(r, &v, p, css_trim_end(p, to), media);
				p = to + (to < open);
			}
		}
		p = close + (close < end);
	}
}

struct html_rules *html_rules_new(const struct html_sheets *sheets)
{
	struct html_rules *r = xcalloc(1, sizeof *r);

	r->sheets = sheets;
	for (size_t i = 0; i < CSS_BUCKETS; i++)
		r->bucket[i] = -1;
	return r;
}

void html_rules_add(struct html_rules *r, const char *css, size_t n, const char *media)
{
	enum css_match is = media ? css_media_matches(media, media + strlen(media)) : CSS_YES;
	struct str text = { 0 };

	if (!is)
		return;
	css_strip_comments(&text, css, n);
	if (!text.n)
		return;
	GROW(r->sheet, r->n_sheet, r->cap_sheet);
	r->sheet[r->n_sheet++] = text.p;
	read_rules(r, text.p, text.p + text.n, is, 0);
}

void html_rules_link(struct html_rules *r, const GumboNode *link)
{
	const char *rel = html_attr(link, "rel"), *href = html_attr(link, "href"), *css;
	size_t n;

	/* An alternate style sheet is used only if the reader chooses it. */
	if (r->sheets && href && html_has_word(rel, "stylesheet", 10) && !html_has_word(rel, "alternate", 9) &&
	    (css = r->sheets->find(r->sheets->ud, href, &n)))
		html_rules_add(r, css, n, html_attr(link, "media"));
}

void html_rules_free(struct html_rules *r)
{
	for (size_t i = 0; i < r->n_sheet; i++)
		free(r->sheet[i]);
	free(r->sheet);
	free(r->rule);
	free(r->compounds.p);
	free(r);
}

/* ---- elements ---- */

/* For each property, the declaration with the greatest weight so far. Bit 62 of a weight says that the declaration has
 * !important. Bit 61 says that it is in the style attribute. The specificity begins at bit 24. The bits below it are
 * the rule's number + 1. */
struct winner {
	uint64_t weight[CSS_PROPERTIES];
	enum css_value is[CSS_PROPERTIES];
};

/* For each property, replace the winner by the declaration in v, unless the winner has more weight. If `unsure` is 1,
 * it is unknown whether v applies to the element, so v must not hide the element. */
static void compete(struct winner *w, const struct css_values *v, uint64_t weight, int unsure)
{
	for (int i = 0; i < CSS_PROPERTIES; i++) {
		uint64_t of = weight | (uint64_t)v->important[i] << 62;

		if (v->is[i] && !(unsure && v->is[i] > CSS_BLOCK) && of >= w->weight[i]) {
			w->weight[i] = of;
			w->is[i] = v->is[i];
		}
	}
}

/* Match the element with the rules of a bucket. Call compete() for each rule that matches. */
static void try_bucket(struct html_rules *r, uint32_t bucket, const GumboNode *node, struct winner *w)
{
	for (int32_t i = r->bucket[bucket]; i >= 0; i = r->rule[i].next) {
		const struct rule *rule = &r->rule[i];
		int tries = 0;
		enum css_match is = CSS_UNSURE;

		if (r->tries >= 2 * TRIES_ALL)
			return;
		if (r->tries < TRIES_ALL)
			is = css_selector_matches(&r->compounds, &rule->selector, node, &tries);
		r->tries += MAX(tries, 1);
		if (is)
			compete(w, &rule->values, (uint64_t)rule->selector.specificity << 24 | (uint64_t)(i + 1),
			        is != CSS_YES || rule->unsure);
	}
}

/* Try all rules that can match the element: the rules in the buckets of its name, id and classes, and in bucket 0. */
static void try_rules(struct html_rules *r, const GumboNode *node, struct winner *w)
{
	const char *s = html_attr(node, "id");
	char name[80];

	try_bucket(r, 0, node, w);
	html_name(node, name, sizeof name);
	try_bucket(r, css_bucket('a', name, strlen(name)), node, w);
	if (s)
		try_bucket(r, css_bucket('#', s, strlen(s)), node, w);
	for (s = html_attr(node, "class"); s && *s;) {
		size_t n = strcspn(s, " \t\n\r\f");

		if (n)
			try_bucket(r, css_bucket('.', s, n), node, w);
		s += n;
		s += strspn(s, " \t\n\r\f");
	}
}

/* If the value v shows or hides text, set *hidden accordingly. Otherwise leave *hidden as it was inherited from the
 * parent element. */
static void change(unsigned char *hidden, enum css_value v)
{
	if (v == CSS_HIDES || v == CSS_SHOWS)
		*hidden = v == CSS_HIDES;
}

void html_rules_look(struct html_rules *r, const GumboNode *node, struct html_look *look)
{
	const char *style = html_attr(node, "style"), *hidden = html_attr(node, "hidden");
	struct css_values own = { 0 };
	struct winner w = { 0 };

	if (hidden && !strcasecmp(hidden, "until-found"))
		hidden = NULL;
	if (style)
		css_declarations(&own, style, style + strlen(style));
	if (r->matters || (r->n && (style || hidden)))
		try_rules(r, node, &w);
	compete(&w, &own, (uint64_t)1 << 61, 0);
	if (hidden && w.is[CSS_DISPLAY] == CSS_UNSET)
		w.is[CSS_DISPLAY] = CSS_HIDES;
	look->gone |= w.is[CSS_DISPLAY] == CSS_HIDES;
	look->block = w.is[CSS_DISPLAY] == CSS_BLOCK;
	look->floats = w.is[CSS_FLOAT] == CSS_BLOCK;
	change(&look->no_marker, w.is[CSS_MARKER]);
	change(&look->invisible, w.is[CSS_VISIBILITY]);
	change(&look->no_size, w.is[CSS_SIZE]);
}
