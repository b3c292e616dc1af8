/* sessions/import/html_selectors.c - parses the selectors of style sheets and matches them with elements. */
#include "sessions/import/html_css.h"
#include "engine/base/utf8.h"

#include <string.h>

enum {
	COMPOUNDS_MAX = 16, /* maximum number of compound selectors of one selector */
	SIBLINGS_MAX = 100, /* maximum number of elements that are tried for one '~' */
	/* maximum number of comparisons of elements with compound selectors in one css_selector_matches() call */
	TRIES_MAX = 1000
};

/* A simple selector, one condition of a compound selector: "div", ".a", "[b]" or ":not(p)". */
struct simple {
	char kind;               /* first byte of the selector: '*', '.', '#', '[' or ':'; 'a' = an element's name */
	int element;             /* 1: a pseudo-element, such as "::before" */
	const char *p, *end;     /* [p, end): the name in the selector; NULL if the selector begins with '*' or '[' */
	const char *in, *in_end; /* [in, in_end): the text between the selector's brackets; NULL = it has no brackets */
};

/* Read one simple selector at *p and move *p to its end. Returns 0 if there is no simple selector at *p. */
static int simple_next(struct simple *s, const char **p, const char *end)
{
	const char *at = *p;

	*s = (struct simple){ .kind = *at };
	if (*at == '*') {
		*p = at + 1;
		return 1;
	}
	if (*at == '[') {
		s->in = at + 1;
		s->in_end = css_scan(at + 1, end, "]");
		*p = s->in_end + (s->in_end < end);
		return s->in_end < end;
	}
	if (*at == '.' || *at == '#' || *at == ':')
		at++;
	else
		s->kind = 'a';
	if (s->kind == ':' && at < end && *at == ':') {
		s->element = 1;
		at++;
	}
	s->p = at;
	s->end = css_name_end(at, end);
	at = s->end;
	if (s->kind == ':' && at < end && *at == '(') {
		s->in = at + 1;
		s->in_end = css_scan(at + 1, end, ")");
		if (s->in_end == end)
			return 0;
		at = s->in_end + 1;
	}
	*p = at;
	return s->p < s->end;
}

/* 1 if the name [p, end) in a selector is the word of n bytes. The name may contain escapes ("md\:block", "\31 0"). */
static int name_is(const char *p, const char *end, const char *word, size_t n)
{
	const char *stop = word + n;

	while (p < end) {
		char c[4] = { *p++ };
		int k = 1;

		if (*c == '\\' && p < end) {
			int32_t cp = 0;
			int digits = 0;

			for (; digits < 6 && p < end && strchr("0123456789abcdefABCDEF", *p); digits++, p++)
				cp = cp * 16 + (byte_is_digit(*p) ? *p - '0' : (*p | 32) - 'a' + 10);
			if (digits) {
				k = cp > 0 && cp < 0x110000 ? utf8_encode(cp, c) : 0;
				p += p < end && *p == ' ';
			} else {
				*c = *p++;
			}
		}
		if (stop - word < k || memcmp(word, c, (size_t)k))
			return 0;
		word += k;
	}
	return word == stop;
}

/* Match the text of an attribute selector without its brackets: "href", "lang|=en" or "type=a i". */
static enum css_match attribute_matches(const GumboNode *node, const char *p, const char *end)
{
	const char *name, *value, *at;
	char key[64], op = 0;
	size_t n, k;
	int fold = 0;

	name = css_skip_blanks(p, end);
	at = css_name_end(name, end);
	css_lower(key, sizeof key, name, at);
	value = html_attr(node, key);
	at = css_skip_blanks(at, end);
	if (at < end && *at != '=')
		op = *at++;
	if (at == end)
		return op ? CSS_UNSURE : value ? CSS_YES : CSS_NO;
	if (*at != '=' || (op && !strchr("~|^$*", op)))
		return CSS_UNSURE;
	p = css_skip_blanks(at + 1, end);
	end = css_trim_end(p, end);
	if (end - p > 2 && (end[-1] | 32) == 'i' && byte_is_blank(end[-2])) {
		fold = 1;
		end = css_trim_end(p, end - 1);
	}
	if (p < end && (*p == '"' || *p == '\'') && end[-1] == *p && end - p > 1)
		p++, end--;
	n = (size_t)(end - p);
	if (!value)
		return CSS_NO;
	k = strlen(value);
	if (!op || op == '|')
		return (k == n || (op && k > n && value[n] == '-')) &&
		                       !(fold ? strncasecmp(value, p, n) : memcmp(value, p, n))
		               ? CSS_YES
		               : CSS_NO;
	if (fold)
		return CSS_UNSURE;
	if (!n)
		return CSS_NO;
	if (op == '^')
		return k >= n && !memcmp(value, p, n) ? CSS_YES : CSS_NO;
	if (op == '$')
		return k >= n && !memcmp(value + k - n, p, n) ? CSS_YES : CSS_NO;
	if (op == '*')
		return memmem(value, k, p, n) ? CSS_YES : CSS_NO;
	return html_has_word(value, p, n) ? CSS_YES : CSS_NO;
}

static enum css_match any_matches(const GumboNode *, const char *p, const char *end);

static enum css_match pseudo_matches(const GumboNode *node, const struct simple *s)
{
	/* These never match: states that a user causes, such as :hover, and pseudo-elements written with one colon. */
	static const char *const no[] = { "hover",  "focus", "focus-within", "focus-visible", "active",
		                          "target", "after", "before",       "first-line",    "first-letter" };

	if (s->element)
		return CSS_NO;
	for (size_t i = 0; i < LEN(no); i++)
		if (css_is_word(s->p, s->end, no[i]))
			return CSS_NO;
	if (css_is_word(s->p, s->end, "not") && s->in)
		return CSS_YES - any_matches(node, s->in, s->in_end);
	if ((css_is_word(s->p, s->end, "is") || css_is_word(s->p, s->end, "where")) && s->in)
		return any_matches(node, s->in, s->in_end);
	if (css_is_word(s->p, s->end, "checked"))
		return html_attr(node, "checked") || html_attr(node, "selected") ? CSS_YES : CSS_NO;
	if (css_is_word(s->p, s->end, "first-child"))
		return html_before(node) ? CSS_NO : CSS_YES;
	if (css_is_word(s->p, s->end, "root"))
		return node->v.element.tag == GUMBO_TAG_HTML ? CSS_YES : CSS_NO;
	return CSS_UNSURE;
}

static enum css_match simple_matches(const GumboNode *node, const struct simple *s)
{
	const char *value;
	char name[32];

	switch (s->kind) {
	case '*': return CSS_YES;
	case '[': return attribute_matches(node, s->in, s->in_end);
	case ':': return pseudo_matches(node, s);
	case '#':
		value = html_attr(node, "id");
		return value && name_is(s->p, s->end, value, strlen(value)) ? CSS_YES : CSS_NO;
	case '.':
		for (value = html_attr(node, "class"); value && *value;) {
			size_t n = strcspn(value, " \t\n\r\f");

			if (n && name_is(s->p, s->end, value, n))
				return CSS_YES;
			value += n;
			value += strspn(value, " \t\n\r\f");
		}
		return CSS_NO;
	default: html_name(node, name, sizeof name); return css_is_word(s->p, s->end, name) ? CSS_YES : CSS_NO;
	}
}

/* Match a compound selector. */
static enum css_match compound_matches(const GumboNode *node, const char *p, const char *end)
{
	enum css_match is = CSS_YES;
	struct simple s;

	while (p < end && is) {
		if (!simple_next(&s, &p, end))
			return CSS_UNSURE;
		is = MIN(is, simple_matches(node, &s));
	}
	return is;
}

/* Match the list of selectors in :is(), :where() or :not(). Selectors with combinators are not tried: the result is
 * then CSS_UNSURE. */
static enum css_match any_matches(const GumboNode *node, const char *p, const char *end)
{
	enum css_match is = CSS_NO;

	while (p < end) {
		const char *to = css_scan(p, end, ","), *from = css_skip_blanks(p, to), *stop = css_trim_end(from, to);
		enum css_match one =
			css_scan(from, stop, " >+~") < stop ? CSS_UNSURE : compound_matches(node, from, stop);

		is = MAX(is, one);
		p = to + (to < end);
	}
	return is;
}

static const GumboNode *parent(const GumboNode *n)
{
	return n->parent && n->parent->type == GUMBO_NODE_ELEMENT ? n->parent : NULL;
}

/* Match part[i] with the node, and the parts before it with elements above or before the node, as the combinators
 * require. */
static enum css_match parts_match(const struct css_compound *part, size_t i, const GumboNode *node, int *tries)
{
	enum css_match is, best = CSS_NO;
	char before = part[i].before;
	int steps = SIBLINGS_MAX;

	if (++*tries > TRIES_MAX)
		return CSS_UNSURE;
	is = compound_matches(node, part[i].p, part[i].end);
	if (!is || !i)
		return is;
	do {
		enum css_match one;

		node = before == ' ' || before == '>' ? parent(node) : html_before(node);
		if (!node)
			break;
		if (before == '~' && !steps--)
			return CSS_UNSURE;
		one = parts_match(part, i - 1, node, tries);
		best = MAX(best, one);
	} while (best != CSS_YES && (before == ' ' || before == '~'));
	return MIN(is, best);
}

enum css_match css_selector_matches(const struct css_compounds *all, const struct css_selector *s,
                                    const GumboNode *node, int *tries)
{
	return parts_match(all->p + s->first, s->n - 1, node, tries);
}

/* ---- reading selectors ---- */

uint32_t css_bucket(char kind, const char *p, size_t n)
{
	uint32_t h = 2166136261u ^ (unsigned char)kind;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)p[i]) * 16777619u;
	return 1 + h % (CSS_BUCKETS - 1);
}

/* Add the specificity of a compound selector to *specificity. Set *bucket to the hash bucket of the selector's id. If
 * the selector has no id, use its first class; if it has no class either, use its element name. If it has none of them,
 * set *bucket to 0. Returns -1 if the text is not a valid selector. */
static int compound_weigh(const struct css_compound *part, uint32_t *specificity, uint32_t *bucket)
{
	const char *p = part->p;
	struct simple s;
	char kind = 0;

	*bucket = 0;
	if (p == part->end)
		return -1;
	while (p < part->end) {
		if (!simple_next(&s, &p, part->end))
			return -1;
		if (s.kind == '*' || (s.kind == ':' && css_is_word(s.p, s.end, "where")))
			continue;
		*specificity += s.kind == '#' ? 1 << 20 : s.kind == 'a' || s.element ? 1 : 1 << 10;
		if (s.kind == '[' || s.kind == ':' || memchr(s.p, '\\', (size_t)(s.end - s.p)))
			continue;
		if (!kind || s.kind == '#' || (s.kind == '.' && kind == 'a')) {
			char name[80];

			kind = s.kind;
			css_lower(name, sizeof name, s.p, s.end);
			*bucket = kind == 'a' ? css_bucket(kind, name, strlen(name))
			                      : css_bucket(kind, s.p, (size_t)(s.end - s.p));
		}
	}
	return 0;
}

/* Split a selector at its combinators, and append the compound selectors between them to *all. Returns -1 if the text
 * is not a valid selector. */
static int selector_cut(struct css_compounds *all, struct css_selector *s, const char *p, const char *end)
{
	char before = 0;

	for (p = css_skip_blanks(p, end); p < end; s->n++) {
		const char *to = css_scan(p, end, " \t\r\n\f>+~");
		struct css_compound part = { p, to, before };

		if (s->n == COMPOUNDS_MAX || compound_weigh(&part, &s->specificity, &s->bucket))
			return -1;
		GROW(all->p, all->n, all->cap);
		all->p[all->n++] = part;
		p = css_skip_blanks(to, end);
		before = ' ';
		if (p < end && strchr(">+~", *p)) {
			before = *p++;
			p = css_skip_blanks(p, end);
			if (p == end)
				return -1;
		}
	}
	return s->n ? 0 : -1;
}

int css_selector_read(struct css_compounds *all, struct css_selector *s, const char *p, const char *end)
{
	s->first = all->n;
	if (!selector_cut(all, s, p, end))
		return 0;
	all->n = s->first;
	return -1;
}
