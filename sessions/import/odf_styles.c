/* sessions/import/odf_styles.c - reads the styles of an OpenDocument file (OpenDocument 1.3, part 3, chapters 16, 17,
 * 19 and 20).
 *
 * Only properties that affect the text are read: headings, hidden and raised text, page breaks, numbering of lists
 * and headings. Named styles are in styles.xml, automatic styles in content.xml. A style inherits missing properties
 * from its parent. */
#include "sessions/import/import_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STYLES_MAX  32768
#define LISTS_MAX   4096
#define PARENTS_MAX 8

enum { SAYS_NOTHING = -1 };

struct style {
	char family; /* first letter of the style's family, such as 'p' for "paragraph" */
	char *name, *parent, *list;
	/* values as in struct odf_look, or SAYS_NOTHING if the style does not set them */
	int level, hidden, raised, kept, before, after;
	long page_number;
};
struct list {
	char *name;
	struct odf_list_style style;
};

struct odf_styles {
	struct style *style;
	/* slot[n_slot] is a hash table of the styles; a value is 1 + the index of a style */
	size_t n_style, *slot, n_slot;
	struct list *list;
	size_t n_list;
	struct list_level outline[LIST_LEVELS];
	struct style *open;        /* the style that is being read */
	struct list_level *levels; /* levels of the list style that is being read */
};

static char *attr_copy(const struct xml_attr *a)
{
	return a && a->n ? xstrndup(a->value, a->n) : NULL;
}

size_t odf_name_hash(char family, const char *name, size_t n)
{
	uint64_t h = 1469598103934665603u ^ (unsigned char)family;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)name[i]) * 1099511628211u;
	return (size_t)(h ^ h >> 29);
}

static const struct style *find_style(const struct odf_styles *x, char family, const char *name, size_t n)
{
	for (size_t i = odf_name_hash(family, name, n) % (x->n_slot ? x->n_slot : 1); x->n_slot && x->slot[i];
	     i = (i + 1) % x->n_slot) {
		const struct style *s = &x->style[x->slot[i] - 1];
		if (s->family == family && strlen(s->name) == n && !memcmp(s->name, name, n))
			return s;
	}
	return NULL;
}

static struct style *add_style(struct odf_styles *x, const struct xml_attr *a, size_t n)
{
	const struct xml_attr *family = xml_attr(a, n, "family"), *name = xml_attr(a, n, "name"),
			      *display = xml_attr(a, n, "display-name");
	struct style *s;
	size_t i;

	if (!family || !family->n || !name || !name->n || x->n_style >= STYLES_MAX)
		return NULL;
	if (!x->style) {
		x->style = xcalloc(STYLES_MAX, sizeof *x->style);
		x->n_slot = 2 * STYLES_MAX;
		x->slot = xcalloc(x->n_slot, sizeof *x->slot);
	}
	s = &x->style[x->n_style++];
	*s = (struct style){ .family = family->value[0],
		             .name = attr_copy(name),
		             .parent = attr_copy(xml_attr(a, n, "parent-style-name")),
		             .list = attr_copy(xml_attr(a, n, "list-style-name")),
		             .level = SAYS_NOTHING,
		             .hidden = SAYS_NOTHING,
		             .raised = SAYS_NOTHING,
		             .kept = SAYS_NOTHING,
		             .before = SAYS_NOTHING,
		             .after = SAYS_NOTHING };
	for (i = odf_name_hash(s->family, s->name, name->n) % x->n_slot; x->slot[i]; i = (i + 1) % x->n_slot)
		;
	x->slot[i] = x->n_style;
	if (xml_attr(a, n, "default-outline-level"))
		s->level = (int)xml_number(xml_attr(a, n, "default-outline-level"), 0);
	else if (s->family == 'p' && ((name->n == 5 && !memcmp(name->value, "Title", 5)) ||
	                              xml_attr_is(display, display ? 1 : 0, "display-name", "Title")))
		s->level = 1;
	if (memmem(name->value, name->n, "Preformatted", 12) || memmem(name->value, name->n, "Source_20_Code", 14))
		s->kept = 1;
	/* a paragraph with a master page begins a new page */
	if (xml_attr(a, n, "master-page-name") && xml_attr(a, n, "master-page-name")->n)
		s->before = 1;
	return s;
}

static int attr_equals(const struct xml_attr *a, const char *value)
{
	return a->n == strlen(value) && !memcmp(a->value, value, a->n);
}

/* Read the attributes of a properties element, such as <style:paragraph-properties>. */
static void read_properties(struct style *s, const struct xml_attr *a, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *name = a[i].name;

		if (!strcmp(name, "break-before"))
			s->before = attr_equals(&a[i], "page");
		else if (!strcmp(name, "break-after"))
			s->after = attr_equals(&a[i], "page");
		else if (!strcmp(name, "page-number") && xml_number(&a[i], 0) > 0)
			s->page_number = xml_number(&a[i], 0);
		else if (!strcmp(name, "display")) /* hidden text has "none", a hidden table "false" */
			s->hidden = attr_equals(&a[i], "none") || attr_equals(&a[i], "false");
		else if (!strcmp(name, "text-position"))
			s->raised = (a[i].n >= 5 && !memcmp(a[i].value, "super", 5)) ||
			            (a[i].n && a[i].value[0] != '-' && xml_number(&a[i], 0) > 0);
	}
}

/* ---- lists ---- */

static void add_list(struct odf_styles *x, const struct xml_attr *name)
{
	struct list *l;

	if (!name || !name->n || x->n_list >= LISTS_MAX)
		return;
	x->list = xrealloc(x->list, (x->n_list + 1) * sizeof *x->list);
	l = &x->list[x->n_list++];
	*l = (struct list){ .name = attr_copy(name) };
	list_levels_begin(l->style.level);
	for (int i = 0; i < LIST_LEVELS; i++)
		l->style.level[i].format = LIST_BULLET;
	x->levels = l->style.level;
}

/* Append the fixed text before or after an item's number, such as ")", to a pattern such as "%1.%2". Percent signs
 * in the text are dropped. */
static void add_text(struct list_level *l, const struct xml_attr *a)
{
	size_t k = strlen(l->pattern);

	for (size_t i = 0; a && i < a->n && k < LIST_PATTERN_MAX - 4; i++)
		if (a->value[i] != '%')
			l->pattern[k++] = a->value[i];
	/* drop a character that the limit of the pattern has truncated */
	l->pattern[utf8_complete(l->pattern, k)] = 0;
}

static void read_level(struct list_level *levels, const struct xml_attr *a, size_t n)
{
	const struct xml_attr *format = xml_attr(a, n, "num-format");
	long number = xml_number(xml_attr(a, n, "level"), 0), shown = xml_number(xml_attr(a, n, "display-levels"), 1);
	struct list_level *l;

	if (number < 1 || number > LIST_LEVELS)
		return;
	l = &levels[number - 1];
	l->start = list_start(xml_attr(a, n, "start-value"));
	l->pattern[0] = 0;
	l->format = LIST_BULLET;
	if (!format || !format->n)
		return;
	l->as_columns = !xml_attr_is(a, n, "num-letter-sync", "true");
	l->format = *format->value == 'a'   ? LIST_LETTER
	            : *format->value == 'A' ? LIST_CAPITAL_LETTER
	            : *format->value == 'i' ? LIST_ROMAN
	            : *format->value == 'I' ? LIST_CAPITAL_ROMAN
	                                    : LIST_DECIMAL;
	add_text(l, xml_attr(a, n, "num-prefix"));
	for (long i = shown < 1 ? number : shown > number ? 1 : number - shown + 1; i <= number; i++) {
		size_t k = strlen(l->pattern);
		/* A label such as "2.1" includes the numbers of the parent levels. Leave out a parent level whose items
		 * have no number. */
		if ((i == number || levels[i - 1].format != LIST_BULLET) && k < LIST_PATTERN_MAX - 4)
			snprintf(l->pattern + k, LIST_PATTERN_MAX - k, "%%%ld%s", i, i < number ? "." : "");
	}
	add_text(l, xml_attr(a, n, "num-suffix"));
}

struct odf_list_style *odf_list_style(struct odf_styles *x, const char *name, size_t n)
{
	for (size_t i = 0; i < x->n_list; i++)
		if (strlen(x->list[i].name) == n && !memcmp(x->list[i].name, name, n))
			return &x->list[i].style;
	return NULL;
}

struct list_level *odf_outline(struct odf_styles *x)
{
	return x->outline;
}

/* ---- reading styles.xml and content.xml ---- */

static int ends_in(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && !strcmp(s + n - k, end);
}

static void on_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct odf_styles *x = ud;

	if (!strcmp(name, "style")) {
		x->open = add_style(x, a, n);
		x->levels = NULL;
	} else if (!strcmp(name, "list-style")) {
		x->levels = NULL;
		add_list(x, xml_attr(a, n, "name"));
	} else if (!strcmp(name, "outline-style")) {
		x->levels = x->outline;
	} else if (x->levels && (!strcmp(name, "list-level-style-number") || !strcmp(name, "outline-level-style"))) {
		read_level(x->levels, a, n);
	} else if (x->open && ends_in(name, "-properties") && !x->levels) {
		read_properties(x->open, a, n);
	}
}

static void on_end(void *ud, const char *name)
{
	struct odf_styles *x = ud;

	if (!strcmp(name, "style"))
		x->open = NULL;
	else if (!strcmp(name, "list-style") || !strcmp(name, "outline-style"))
		x->levels = NULL;
}

struct odf_styles *odf_styles_read(const struct zip_entry *styles, const struct zip_entry *content)
{
	static const struct xml_handler handler = { .start = on_start, .end = on_end };
	struct odf_styles *x = xcalloc(1, sizeof *x);

	list_levels_begin(x->outline);
	for (int i = 0; i < LIST_LEVELS; i++)
		x->outline[i].format = LIST_BULLET;
	if (styles)
		xml_parse(styles->name, styles->p, styles->n, &handler, x, NULL);
	x->open = NULL;
	x->levels = NULL;
	if (content)
		xml_parse(content->name, content->p, content->n, &handler, x, NULL);
	list_levels_restart(x->outline, 0);
	return x;
}

/* ---- looking up a style ---- */

static void inherit(int *value, int from)
{
	if (*value == SAYS_NOTHING)
		*value = from;
}

void odf_style(const struct odf_styles *x, const char *family, const struct xml_attr *name, struct odf_look *out)
{
	const struct style *s = name ? find_style(x, *family, name->value, name->n) : NULL;
	struct style all = { .level = SAYS_NOTHING,
		             .hidden = SAYS_NOTHING,
		             .raised = SAYS_NOTHING,
		             .kept = SAYS_NOTHING,
		             .before = SAYS_NOTHING,
		             .after = SAYS_NOTHING,
		             .page_number = s ? s->page_number : 0 };

	for (int i = 0; s && i < PARENTS_MAX; i++) {
		inherit(&all.level, s->level);
		inherit(&all.hidden, s->hidden);
		inherit(&all.raised, s->raised);
		inherit(&all.kept, s->kept);
		inherit(&all.before, s->before);
		inherit(&all.after, s->after);
		all.list = all.list ? all.list : s->list;
		s = s->parent ? find_style(x, *family, s->parent, strlen(s->parent)) : NULL;
	}
	*out = (struct odf_look){ .level = MAX(all.level, 0),
		                  .hidden = all.hidden == 1,
		                  .raised = all.raised == 1,
		                  .kept = all.kept == 1,
		                  .break_before = all.before == 1,
		                  .break_after = all.after == 1,
		                  .page_number = all.page_number,
		                  .list = all.list };
}

void odf_styles_free(struct odf_styles *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->n_style; i++) {
		free(x->style[i].name);
		free(x->style[i].parent);
		free(x->style[i].list);
	}
	for (size_t i = 0; i < x->n_list; i++)
		free(x->list[i].name);
	free(x->style);
	free(x->slot);
	free(x->list);
	free(x);
}
