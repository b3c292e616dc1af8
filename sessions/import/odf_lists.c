/* sessions/import/odf_lists.c - counts list items of an OpenDocument file.
 *
 * A list style says how items are numbered. Each list counts its own items, even if another list has the same style. A
 * list may continue the count of an earlier list. `continue-list` names that list; `continue-numbering` means the last
 * list with the same style (OpenDocument 1.3, part 3, text:list). */
#include "sessions/import/odf.h"

#include <stdlib.h>
#include <string.h>

enum { COUNTERS_MAX = 65536, NAMES_MAX = 4096 };

struct counter {
	long count[LIST_LEVELS];
};
struct odf_lists {
	struct counter *counter;
	size_t n_counter;
	struct {
		size_t name, counter;
	} named[NAMES_MAX]; /* ring buffer: hash of a list's xml:id, and the index of its counter */
	size_t n_named;
};

/* Add a counter of list items and return its index. If there are COUNTERS_MAX counters, restart the last one
 * instead. */
static size_t new_counter(struct odf *x, const struct odf_list_style *style)
{
	struct odf_lists *s = x->counters;
	size_t i;

	if (s->n_counter < COUNTERS_MAX) {
		if (!(s->n_counter & (s->n_counter - 1)))
			s->counter = xrealloc(s->counter, (s->n_counter ? 2 * s->n_counter : 1) * sizeof *s->counter);
		s->n_counter++;
	}
	i = s->n_counter - 1;
	for (int k = 0; k < LIST_LEVELS; k++)
		s->counter[i].count[k] = style->level[k].start - 1;
	return i;
}

/* Find the counter of the list with this xml:id. Returns 0 if there is none. */
static int find_counter(const struct odf_lists *s, const struct xml_attr *name, size_t *counter)
{
	size_t h = odf_name_hash('l', name->value, name->n);

	for (size_t i = s->n_named; i-- && s->n_named - i <= NAMES_MAX;) {
		if (s->named[i % NAMES_MAX].name == h) {
			*counter = s->named[i % NAMES_MAX].counter;
			return 1;
		}
	}
	return 0;
}

/* Set the style of list l, and choose the counter of its items. If `other` is the xml:id of an earlier list, list l
 * continues the counter of that list. If no list has this id, or if `goes_on` is 1, list l continues the counter of the
 * last list with the same style. In all other cases, or if there is no such counter, list l gets a new counter. `other`
 * may be NULL. */
static void list_join(struct odf *x, struct odf_list *l, struct odf_list_style *style, int goes_on,
                      const struct xml_attr *other)
{
	l->style = style;
	if (!style)
		return;
	if (!other || !find_counter(x->counters, other, &l->counter))
		l->counter = (goes_on || other) && style->used ? style->counter : new_counter(x, style);
	style->counter = l->counter;
	style->used = 1;
}

void odf_list_begin(struct odf *x, const struct xml_attr *a, size_t n)
{
	struct odf_flow *f = &x->flow;
	const struct xml_attr *name = xml_attr(a, n, "style-name"), *id = xml_attr(a, n, "id");
	struct odf_list *outer = f->lists ? &f->list[f->lists - 1] : NULL, *l;
	struct odf_list_style *style = name    ? odf_list_style(x->styles, name->value, name->n)
	                               : outer ? outer->style
	                                       : NULL;

	if (f->lists == ODF_LISTS_MAX) {
		x->skip++;
		return;
	}
	l = &f->list[f->lists++];
	*l = (struct odf_list){ .style = style };
	if (outer && style == outer->style)
		l->counter = outer->counter;
	else
		list_join(x, l, style, xml_attr_is(a, n, "continue-numbering", "true"),
		          xml_attr(a, n, "continue-list"));
	if (id && style) {
		x->counters->named[x->counters->n_named % NAMES_MAX].name = odf_name_hash('l', id->value, id->n);
		x->counters->named[x->counters->n_named++ % NAMES_MAX].counter = l->counter;
	}
}

void odf_list_end(struct odf *x)
{
	x->flow.lists -= x->flow.lists > 0;
}

void odf_list_adopt(struct odf *x, const char *style)
{
	struct odf_flow *f = &x->flow;

	if (f->lists && !f->list[f->lists - 1].style && style)
		list_join(x, &f->list[f->lists - 1], odf_list_style(x->styles, style, strlen(style)), 1, NULL);
}

void odf_item_begin(struct odf *x, int header, const struct xml_attr *start)
{
	struct odf_flow *f = &x->flow;
	struct odf_list *l = f->lists ? &f->list[f->lists - 1] : NULL;

	if (!l)
		return;
	l->first = !header;
	if (start && l->style && f->lists <= LIST_LEVELS)
		x->counters->counter[l->counter].count[f->lists - 1] = list_start(start) - 1;
}

/* Count an item of the innermost list and append its number, such as "2.a) ". Returns 0 if the item has no number. */
static int count_item(struct odf *x, struct str *label)
{
	struct odf_flow *f = &x->flow;
	struct odf_list *l = &f->list[f->lists - 1];
	struct list_level *levels = l->style->level;
	long *count = x->counters->counter[l->counter].count;
	int level = f->lists - 1 < LIST_LEVELS ? f->lists - 1 : LIST_LEVELS - 1;

	for (int i = 0; i < LIST_LEVELS; i++)
		levels[i].count = count[i];
	list_levels_count(levels, level);
	for (int i = 0; i < LIST_LEVELS; i++)
		count[i] = levels[i].count;
	return list_label(levels, level, label);
}

void odf_item_label(struct odf *x)
{
	struct odf_flow *f = &x->flow;
	struct odf_list *l = &f->list[f->lists - 1];
	struct str *prefix = &x->w->prefix;
	int has_label = 0;

	for (int i = 1; i < f->lists && i < 8 && !f->heading; i++)
		str_adds(prefix, "  ");
	if (l->first && l->style)
		has_label = count_item(x, prefix);
	if (!has_label && !f->heading)
		str_adds(prefix, l->first ? "- " : "  ");
	l->first = 0;
}

void odf_item_without_text(struct odf *x)
{
	struct odf_flow *f = &x->flow;
	struct str label = { 0 };

	if (!f->lists || !f->list[f->lists - 1].first || !f->list[f->lists - 1].style)
		return;
	count_item(x, &label);
	f->list[f->lists - 1].first = 0;
	str_free(&label);
}

struct odf_lists *odf_lists_new(void)
{
	return xcalloc(1, sizeof(struct odf_lists));
}

void odf_lists_free(struct odf_lists *s)
{
	if (s)
		free(s->counter);
	free(s);
}
