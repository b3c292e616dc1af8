/* sessions/import/html_rules.c - finds what an HTML page's own style sheets and style attributes hide.
 *
 * A small cascade: of all declarations of display, visibility and font-size that match an element the one with the
 * greatest weight counts: !important, then the style attribute, then the selector's specificity, then the later one.
 * Where it is unsure whether a selector or a media query matches, its declarations may show text but not hide it. The
 * window is WIDTH wide, on a screen; the mouse is elsewhere. */
#include "sessions/import/html.h"
#include "engine/base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH 1280
enum {
	RULES_MAX = 1 << 16,
	SELECTOR_MAX = 1000,
	BUCKETS = 1024,
	PARTS_MAX = 16,
	NESTED_MAX = 8,
	SIBLINGS_MAX = 100,
	/* for one selector and element, and for the page */
	TRIES_MAX = 1000,
	TRIES_ALL = 20000000
};

/* Whether something matches; the smaller of two is both together. */
enum match { NO, UNSURE, YES };

enum { DISPLAY, VISIBILITY, SIZE, PROPERTIES };
enum value { UNSET, SHOWS, HIDES, INHERITS };
struct values {
	unsigned char is[PROPERTIES], important[PROPERTIES];
};

/* A part of a selector between two combinators: "div.a[b]". before: the combinator before it, 0 = it is the first. */
struct part {
	const char *p, *end;
	char before;
};

struct rule {
	size_t part, n_part;
	uint32_t specificity;
	int unsure;
	struct values values;
	int32_t next; /* in its bucket; -1 = last */
};

struct html_rules {
	char **sheet; /* the texts that parts point into */
	size_t n_sheet, cap_sheet;
	struct rule *rule;
	size_t n, cap;
	struct part *part;
	size_t n_part, cap_part;
	/* Rules by what an element needs at least: an id, a class, a name; bucket 0: nothing. -1 = empty. */
	int32_t bucket[BUCKETS];
	int hides; /* 1: some rule hides */
	int tries; /* of a part and an element, so far */
};

/* ---- text ---- */

static const char *skip_blanks(const char *p, const char *end)
{
	while (p < end && byte_is_blank(*p))
		p++;
	return p;
}

static const char *trim_end(const char *p, const char *end)
{
	while (end > p && byte_is_blank(end[-1]))
		end--;
	return end;
}

/* First of the bytes `stop` outside of strings and brackets, or `end`. */
static const char *scan(const char *p, const char *end, const char *stop)
{
	int depth = 0;
	char quote = 0;

	for (; p < end; p++) {
		if (*p == '\\') {
			p += p + 1 < end;
		} else if (quote) {
			quote = *p == quote || *p == '\n' ? 0 : quote;
		} else if (!depth && *p && strchr(stop, *p)) {
			return p;
		} else if (*p == '"' || *p == '\'') {
			quote = *p;
		} else if (*p == '(' || *p == '[') {
			depth++;
		} else if (*p == ')' || *p == ']') {
			depth -= depth > 0;
		}
	}
	return end;
}

/* The '}' of a block whose contents begin at p, or `end`. */
static const char *block_end(const char *p, const char *end)
{
	for (int level = 1; p < end; p++) {
		p = scan(p, end, "{}");
		if (p == end)
			break;
		level += *p == '{' ? 1 : -1;
		if (!level)
			return p;
	}
	return end;
}

/* Copy [p, end) in lower case, cut to cap - 1 bytes. */
static size_t lower(char *out, size_t cap, const char *p, const char *end)
{
	size_t n = 0;

	for (; p < end && n < cap - 1; p++)
		out[n++] = byte_is_upper(*p) ? (char)(*p + 32) : *p;
	out[n] = 0;
	return n;
}

static int is_word(const char *p, const char *end, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(end - p) == n && !strncasecmp(p, word, n);
}

/* Copy a style sheet without comments and without the marks that hide it from old browsers and in XHTML. */
static void strip_comments(struct str *out, const char *p, size_t n)
{
	static const char *const marks[] = { "<!--", "-->", "<![CDATA[", "]]>" };
	const char *end = p + n;
	char quote = 0;

	while (p < end) {
		if (!quote && end - p > 1 && p[0] == '/' && p[1] == '*') {
			const char *to = memmem(p + 2, (size_t)(end - p) - 2, "*/", 2);
			str_adds(out, " ");
			p = to ? to + 2 : end;
			continue;
		}
		for (size_t i = 0; i < LEN(marks) && !quote; i++) {
			size_t k = strlen(marks[i]);
			if (*p == *marks[i] && (size_t)(end - p) > k && !memcmp(p, marks[i], k))
				p += k, i = SIZE_MAX;
		}
		if (quote)
			quote = *p == quote || *p == '\n' ? 0 : quote;
		else if (*p == '"' || *p == '\'')
			quote = *p;
		str_add(out, p++, 1);
	}
}

/* ---- declarations ---- */

/* A length or percentage, in lower case: whether text of this size is seen. */
static enum value size_value(const char *s)
{
	char *unit;
	double v;

	if (!strcmp(s, "inherit") || !strcmp(s, "unset") || !strcmp(s, "smaller") || !strcmp(s, "larger"))
		return INHERITS;
	if (!byte_is_digit(*s) && *s != '.' && *s != '+' && *s != '-')
		return SHOWS;
	v = strtod(s, &unit);
	if (v < 0 || unit == s)
		return UNSET;
	if (v == 0)
		return HIDES;
	return *unit == '%' || !strncmp(unit, "em", 2) || !strncmp(unit, "ex", 2) || !strncmp(unit, "ch", 2) ? INHERITS
	                                                                                                     : SHOWS;
}

/* The size in the value of `font`: "italic 700 0/0 a". A number without a unit before it is a weight. */
static enum value font_value(char *s)
{
	for (char *word, *rest = s; (word = strtok_r(NULL, " \t\r\n\f/", &rest));) {
		size_t n = strspn(word, "0123456789");

		if ((byte_is_digit(*word) || *word == '.') && (word[n] || *word == '0'))
			return size_value(word);
	}
	return !strcmp(s, "inherit") || !strcmp(s, "unset") ? INHERITS : SHOWS;
}

static void set_value(struct values *v, int property, enum value is, int important)
{
	if (is == UNSET || (v->important[property] && !important))
		return;
	v->is[property] = (unsigned char)is;
	v->important[property] = important != 0;
}

static void declaration(struct values *v, const char *p, const char *end)
{
	const char *colon = memchr(p, ':', (size_t)(end - p)), *name_end, *mark;
	char s[80];
	int important = 0;

	if (!colon)
		return;
	name_end = trim_end(p, colon);
	p = skip_blanks(p, name_end);
	colon = skip_blanks(colon + 1, end);
	end = trim_end(colon, end);
	if (end - colon > 10 && !strncasecmp(end - 9, "important", 9)) {
		mark = trim_end(colon, end - 9);
		if (mark > colon && mark[-1] == '!') {
			important = 1;
			end = trim_end(colon, mark - 1);
		}
	}
	lower(s, sizeof s, colon, end);
	if (!*s)
		return;
	if (is_word(p, name_end, "display"))
		set_value(v, DISPLAY, !strcmp(s, "none") ? HIDES : SHOWS, important);
	else if (is_word(p, name_end, "visibility"))
		set_value(v, VISIBILITY,
		          !strcmp(s, "hidden") || !strcmp(s, "collapse")   ? HIDES
		          : !strcmp(s, "visible") || !strcmp(s, "initial") ? SHOWS
		          : !strcmp(s, "inherit") || !strcmp(s, "unset")   ? INHERITS
		                                                           : UNSET,
		          important);
	else if (is_word(p, name_end, "font-size"))
		set_value(v, SIZE, size_value(s), important);
	else if (is_word(p, name_end, "font"))
		set_value(v, SIZE, font_value(s), important);
}

static void declarations(struct values *v, const char *p, const char *end)
{
	while (p < end) {
		const char *to = scan(p, end, ";{");

		if (to < end && *to == '{') { /* a nested rule */
			to = block_end(to + 1, end);
		} else {
			declaration(v, p, to);
		}
		p = to + (to < end);
	}
}

/* ---- media queries ---- */

static enum match feature(const char *s)
{
	static const struct {
		const char *name;
		enum match is;
	} known[] = {
		{ "orientation: landscape", YES },
		{ "orientation:landscape", YES },
		{ "orientation: portrait", NO },
		{ "orientation:portrait", NO },
		{ "hover: hover", YES },
		{ "hover:hover", YES },
		{ "color", YES },
	};
	int min = !strncmp(s, "min-", 4), max = !strncmp(s, "max-", 4), less, or_equal;
	char *unit;
	double v;

	for (size_t i = 0; i < LEN(known); i++)
		if (!strcmp(s, known[i].name))
			return known[i].is;
	s += min || max ? 4 : 0;
	if (strncmp(s, "width", 5))
		return UNSURE;
	s += 5 + strspn(s + 5, " ");
	less = *s == '<';
	or_equal = s[1] == '=';
	if (min || max ? *s != ':' : !less && *s != '>')
		return UNSURE;
	s += 1 + (!min && !max && or_equal);
	v = strtod(s, &unit);
	if (unit == s)
		return UNSURE;
	if (!strncmp(unit, "em", 2) || !strncmp(unit, "rem", 3))
		v *= 16;
	else if (strncmp(unit, "px", 2) && v != 0)
		return UNSURE;
	if (min || max)
		or_equal = 1, less = max;
	return (less ? WIDTH < v : WIDTH > v) || (or_equal && v == WIDTH) ? YES : NO;
}

/* One query of a list: "only screen and (min-width: 600px)". */
static enum match query(char *s)
{
	enum match is = YES;
	int not = 0;

	while (*(s += strspn(s, " \t\r\n\f"))) {
		size_t n = strcspn(s, *s == '(' ? ")" : " \t\r\n\f(");
		char end = s[n];

		if (*s == '(') {
			char *f = s + 1 + strspn(s + 1, " \t");

			s[n] = 0;
			is = MIN(is, memchr(f, '(', strlen(f)) ? UNSURE : feature(f));
			s += n + (end != 0);
			continue;
		}
		s[n] = 0;
		if (!strcmp(s, "not"))
			not = 1;
		else if (!strcmp(s, "or"))
			return UNSURE;
		else if (strcmp(s, "and") && strcmp(s, "only") && strcmp(s, "all") && strcmp(s, "screen"))
			is = NO; /* print */
		s[n] = end;
		s += n;
	}
	return not ? YES - is : is;
}

static enum match media_matches(const char *p, const char *end)
{
	enum match is = NO;

	p = skip_blanks(p, end);
	if (p == end)
		return YES;
	while (p < end) {
		const char *to = scan(p, end, ",");
		char s[200];
		enum match one;

		one = lower(s, sizeof s, p, to) < sizeof s - 1 ? query(s) : UNSURE;
		is = MAX(is, one);
		p = to + (to < end);
	}
	return is;
}

/* ---- selectors ---- */

/* A simple selector: kind '*', 'a' (a name), '.', '#', '[' or ':'; its name; what stands in its brackets. */
struct simple {
	char kind;
	int element; /* ::before */
	const char *p, *end, *in, *in_end;
};

static int is_name(char c)
{
	return byte_is_word(c) || c == '-' || c == '_';
}

static const char *name_end(const char *p, const char *end)
{
	while (p < end && (is_name(*p) || (*p == '\\' && p + 1 < end)))
		p += 1 + (*p == '\\');
	return p;
}

/* Read one simple selector at *p and move *p behind it; 0: there is none. */
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
		s->in_end = scan(at + 1, end, "]");
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
	s->end = name_end(at, end);
	at = s->end;
	if (s->kind == ':' && at < end && *at == '(') {
		s->in = at + 1;
		s->in_end = scan(at + 1, end, ")");
		if (s->in_end == end)
			return 0;
		at = s->in_end + 1;
	}
	*p = at;
	return s->p < s->end;
}

/* Compare a name in a selector, which may have escapes ("md\:block", "\31 0"), with a word. */
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

static enum match attribute_matches(const GumboNode *node, const char *p, const char *end)
{
	const char *name, *value, *at;
	char key[64], op = 0;
	size_t n, k;
	int fold = 0;

	name = skip_blanks(p, end);
	at = name_end(name, end);
	lower(key, sizeof key, name, at);
	value = html_attr(node, key);
	at = skip_blanks(at, end);
	if (at < end && *at != '=')
		op = *at++;
	if (at == end)
		return op ? UNSURE : value ? YES : NO;
	if (*at != '=' || (op && !strchr("~|^$*", op)))
		return UNSURE;
	p = skip_blanks(at + 1, end);
	end = trim_end(p, end);
	if (end - p > 2 && (end[-1] | 32) == 'i' && byte_is_blank(end[-2])) {
		fold = 1;
		end = trim_end(p, end - 1);
	}
	if (p < end && (*p == '"' || *p == '\'') && end[-1] == *p && end - p > 1)
		p++, end--;
	n = (size_t)(end - p);
	if (!value)
		return NO;
	k = strlen(value);
	if (!op || op == '|')
		return (k == n || (op && k > n && value[n] == '-')) &&
		                       !(fold ? strncasecmp(value, p, n) : memcmp(value, p, n))
		               ? YES
		               : NO;
	if (fold)
		return UNSURE;
	if (!n)
		return NO;
	if (op == '^')
		return k >= n && !memcmp(value, p, n) ? YES : NO;
	if (op == '$')
		return k >= n && !memcmp(value + k - n, p, n) ? YES : NO;
	if (op == '*')
		return memmem(value, k, p, n) ? YES : NO;
	return html_has_word(value, p, n) ? YES : NO;
}

static enum match any_matches(const GumboNode *, const char *p, const char *end);

static enum match pseudo_matches(const GumboNode *node, const struct simple *s)
{
	/* States that a page is not in when it has been loaded, and elements of the old form (":after"). */
	static const char *const no[] = { "hover",  "focus", "focus-within", "focus-visible", "active",
		                          "target", "after", "before",       "first-line",    "first-letter" };

	if (s->element)
		return NO;
	for (size_t i = 0; i < LEN(no); i++)
		if (is_word(s->p, s->end, no[i]))
			return NO;
	if (is_word(s->p, s->end, "not") && s->in)
		return YES - any_matches(node, s->in, s->in_end);
	if ((is_word(s->p, s->end, "is") || is_word(s->p, s->end, "where")) && s->in)
		return any_matches(node, s->in, s->in_end);
	if (is_word(s->p, s->end, "checked"))
		return html_attr(node, "checked") || html_attr(node, "selected") ? YES : NO;
	if (is_word(s->p, s->end, "first-child"))
		return html_before(node) ? NO : YES;
	if (is_word(s->p, s->end, "root"))
		return node->v.element.tag == GUMBO_TAG_HTML ? YES : NO;
	return UNSURE;
}

static enum match simple_matches(const GumboNode *node, const struct simple *s)
{
	const char *value;
	char name[32];

	switch (s->kind) {
	case '*': return YES;
	case '[': return attribute_matches(node, s->in, s->in_end);
	case ':': return pseudo_matches(node, s);
	case '#': value = html_attr(node, "id"); return value && name_is(s->p, s->end, value, strlen(value)) ? YES : NO;
	case '.':
		for (value = html_attr(node, "class"); value && *value;) {
			size_t n = strcspn(value, " \t\n\r\f");

			if (n && name_is(s->p, s->end, value, n))
				return YES;
			value += n;
			value += strspn(value, " \t\n\r\f");
		}
		return NO;
	default: html_name(node, name, sizeof name); return is_word(s->p, s->end, name) ? YES : NO;
	}
}

static enum match part_matches(const GumboNode *node, const char *p, const char *end)
{
	enum match is = YES;
	struct simple s;

	while (p < end && is) {
		if (!simple_next(&s, &p, end))
			return UNSURE;
		is = MIN(is, simple_matches(node, &s));
	}
	return is;
}

/* The list of selectors in :is() and :not(). */
static enum match any_matches(const GumboNode *node, const char *p, const char *end)
{
	enum match is = NO;

	while (p < end) {
		const char *to = scan(p, end, ","), *from = skip_blanks(p, to), *stop = trim_end(from, to);
		enum match one = scan(from, stop, " >+~") < stop ? UNSURE : part_matches(node, from, stop);

		is = MAX(is, one);
		p = to + (to < end);
	}
	return is;
}

static const GumboNode *parent(const GumboNode *n)
{
	return n->parent && n->parent->type == GUMBO_NODE_ELEMENT ? n->parent : NULL;
}

/* Whether the parts up to i match, the last of them the node. */
static enum match parts_match(const struct part *part, size_t i, const GumboNode *node, int *tries)
{
	enum match is, best = NO;
	char before = part[i].before;
	int steps = SIBLINGS_MAX;

	if (++*tries > TRIES_MAX)
		return UNSURE;
	is = part_matches(node, part[i].p, part[i].end);
	if (!is || !i)
		return is;
	do {
		enum match one;

		node = before == ' ' || before == '>' ? parent(node) : html_before(node);
		if (!node)
			break;
		if (before == '~' && !steps--)
			return UNSURE;
		one = parts_match(part, i - 1, node, tries);
		best = MAX(best, one);
	} while (best != YES && (before == ' ' || before == '~'));
	return MIN(is, best);
}

/* ---- rules ---- */

static uint32_t bucket_of(char kind, const char *p, size_t n)
{
	uint32_t h = 2166136261u ^ (unsigned char)kind;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)p[i]) * 16777619u;
	return 1 + h % (BUCKETS - 1);
}

/* The specificity of a part, and in *bucket where its rule lies. -1: it is no selector. */
static int part_weigh(const struct part *part, uint32_t *specificity, uint32_t *bucket)
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
		if (s.kind == '*' || (s.kind == ':' && is_word(s.p, s.end, "where")))
			continue;
		*specificity += s.kind == '#' ? 1 << 20 : s.kind == 'a' || s.element ? 1 : 1 << 10;
		if (s.kind == '[' || s.kind == ':' || memchr(s.p, '\\', (size_t)(s.end - s.p)))
			continue;
		if (!kind || s.kind == '#' || (s.kind == '.' && kind == 'a')) {
			char name[80];

			kind = s.kind;
			lower(name, sizeof name, s.p, s.end);
			*bucket = kind == 'a' ? bucket_of(kind, name, strlen(name))
			                      : bucket_of(kind, s.p, (size_t)(s.end - s.p));
		}
	}
	return 0;
}

/* Cut a selector into parts. -1: it is none. */
static int selector_cut(struct html_rules *r, struct rule *rule, const char *p, const char *end, uint32_t *bucket)
{
	char before = 0;

	rule->part = r->n_part;
	for (p = skip_blanks(p, end); p < end; rule->n_part++) {
		const char *to = scan(p, end, " \t\r\n\f>+~");
		struct part part = { p, to, before };

		if (rule->n_part == PARTS_MAX || part_weigh(&part, &rule->specificity, bucket))
			return -1;
		GROW(r->part, r->n_part, r->cap_part);
		r->part[r->n_part++] = part;
		p = skip_blanks(to, end);
		before = ' ';
		if (p < end && strchr(">+~", *p)) {
			before = *p++;
			p = skip_blanks(p, end);
			if (p == end)
				return -1;
		}
	}
	return rule->n_part ? 0 : -1;
}

static void add_rule(struct html_rules *r, const struct values *v, const char *p, const char *end, enum match media)
{
	struct rule rule = { .values = *v, .unsure = media != YES };
	uint32_t bucket = 0;

	if (r->n == RULES_MAX || end - p > SELECTOR_MAX)
		return;
	if (selector_cut(r, &rule, p, end, &bucket)) {
		r->n_part = rule.part;
		return;
	}
	rule.next = r->bucket[bucket];
	r->bucket[bucket] = (int32_t)r->n;
	GROW(r->rule, r->n, r->cap);
	r->rule[r->n++] = rule;
	for (int i = 0; i < PROPERTIES; i++)
		r->hides |= v->is[i] == HIDES && media == YES;
}

/* What the contents of "@name prelude {" are good for. NO: they are skipped. */
static enum match at_rule(const char *p, const char *end)
{
	const char *name = name_end(p, end);

	if (is_word(p, name, "media"))
		return media_matches(name, end);
	if (is_word(p, name, "layer"))
		return YES;
	return is_word(p, name, "supports") || is_word(p, name, "container") || is_word(p, name, "scope") ? UNSURE : NO;
}

static void read_rules(struct html_rules *r, const char *p, const char *end, enum match media, int nested)
{
	while ((p = skip_blanks(p, end)) < end) {
		int at = *p == '@';
		const char *open = scan(p, end, at ? "{;}" : "{}"), *close;

		if (open == end)
			return;
		if (*open != '{') {
			p = open + 1;
			continue;
		}
		close = block_end(open + 1, end);
		if (at) {
			enum match inner = at_rule(p + 1, open);

			inner = MIN(inner, media);
			if (inner && nested < NESTED_MAX)
				read_rules(r, open + 1, close, inner, nested + 1);
		} else {
			struct values v = { 0 };

			declarations(&v, open + 1, close);
			while ((v.is[DISPLAY] || v.is[VISIBILITY] || v.is[SIZE]) && p < open) {
				const char *to = scan(p, open, ",");

				add_rule(r, &v, p, trim_end(p, to), media);
				p = to + (to < open);
			}
		}
		p = close + (close < end);
	}
}

struct html_rules *html_rules_new(void)
{
	struct html_rules *r = xcalloc(1, sizeof *r);

	for (size_t i = 0; i < BUCKETS; i++)
		r->bucket[i] = -1;
	return r;
}

void html_rules_add(struct html_rules *r, const char *css, size_t n, const char *media)
{
	enum match is = media ? media_matches(media, media + strlen(media)) : YES;
	struct str text = { 0 };

	if (!is)
		return;
	strip_comments(&text, css, n);
	if (!text.n)
		return;
	GROW(r->sheet, r->n_sheet, r->cap_sheet);
	r->sheet[r->n_sheet++] = text.p;
	read_rules(r, text.p, text.p + text.n, is, 0);
}

void html_rules_free(struct html_rules *r)
{
	for (size_t i = 0; i < r->n_sheet; i++)
		free(r->sheet[i]);
	free(r->sheet);
	free(r->rule);
	free(r->part);
	free(r);
}

/* ---- elements ---- */

struct winner {
	uint64_t weight[PROPERTIES];
	enum value is[PROPERTIES];
};

static void compete(struct winner *w, const struct values *v, uint64_t weight, int unsure)
{
	for (int i = 0; i < PROPERTIES; i++) {
		uint64_t of = weight | (uint64_t)v->important[i] << 62;

		if (v->is[i] && !(unsure && v->is[i] != SHOWS) && of >= w->weight[i]) {
			w->weight[i] = of;
			w->is[i] = v->is[i];
		}
	}
}

static void try_bucket(struct html_rules *r, uint32_t bucket, const GumboNode *node, struct winner *w)
{
	for (int32_t i = r->bucket[bucket]; i >= 0; i = r->rule[i].next) {
		const struct rule *rule = &r->rule[i];
		int tries = 0;
		enum match is = r->tries < TRIES_ALL ? parts_match(r->part + rule->part, rule->n_part - 1, node, &tries)
		                                     : UNSURE;

		r->tries += tries;
		if (is)
			compete(w, &rule->values, (uint64_t)rule->specificity << 24 | (uint64_t)(i + 1),
			        is != YES || rule->unsure);
	}
}

static void try_rules(struct html_rules *r, const GumboNode *node, struct winner *w)
{
	const char *s = html_attr(node, "id");
	char name[80];

	try_bucket(r, 0, node, w);
	html_name(node, name, sizeof name);
	try_bucket(r, bucket_of('a', name, strlen(name)), node, w);
	if (s)
		try_bucket(r, bucket_of('#', s, strlen(s)), node, w);
	for (s = html_attr(node, "class"); s && *s;) {
		size_t n = strcspn(s, " \t\n\r\f");

		if (n)
			try_bucket(r, bucket_of('.', s, n), node, w);
		s += n;
		s += strspn(s, " \t\n\r\f");
	}
}

static void change(unsigned char *hidden, enum value v)
{
	if (v == HIDES || v == SHOWS)
		*hidden = v == HIDES;
}

void html_rules_look(struct html_rules *r, const GumboNode *node, struct html_look *look)
{
	const char *style = html_attr(node, "style"), *hidden = html_attr(node, "hidden");
	struct values own = { 0 };
	struct winner w = { 0 };

	if (hidden && !strcasecmp(hidden, "until-found"))
		hidden = NULL;
	if (style)
		declarations(&own, style, style + strlen(style));
	if (r->hides || (r->n && (style || hidden)))
		try_rules(r, node, &w);
	compete(&w, &own, (uint64_t)1 << 61, 0);
	if (hidden && w.is[DISPLAY] == UNSET)
		w.is[DISPLAY] = HIDES;
	look->gone |= w.is[DISPLAY] == HIDES;
	change(&look->invisible, w.is[VISIBILITY]);
	change(&look->no_size, w.is[SIZE]);
}
