/* sessions/import/docx_lists.c - computes labels of list items and numbered headings from a DOCX file's
 * numbering.xml.
 *
 * A list (w:num) refers to a numbering (w:abstractNum), which has a format and a counter for each of nine levels.
 * Lists with the same numbering share its counters. If a list has a start value of its own, its first item restarts
 * the counter. */
#include "sessions/import/import_private.h"

#include <stdlib.h>
#include <string.h>

#define LISTS_MAX 4096

struct numbering {
	long id;
	struct list_level level[LIST_LEVELS];
};
struct list {
	long id;
	int of; /* index into numbering[] of the list's numbering; -1 = none */
	int used;
	long override[LIST_LEVELS]; /* for each level, the start value that overrides the numbering's; -1 = none */
};

struct docx_lists {
	struct numbering *numbering;
	size_t n_numbering;
	struct list *list;
	size_t n_list;
	long ilvl; /* list level that the current XML element describes */
};

static enum list_format format_of(const struct xml_attr *v)
{
	static const struct {
		const char *name;
		enum list_format format;
	} formats[] = {
		{ "lowerLetter", LIST_LETTER }, { "upperLetter", LIST_CAPITAL_LETTER },
		{ "lowerRoman", LIST_ROMAN },   { "upperRoman", LIST_CAPITAL_ROMAN },
		{ "bullet", LIST_BULLET },      { "none", LIST_BULLET },
	};

	for (size_t i = 0; v && i < LEN(formats); i++)
		if (v->n == strlen(formats[i].name) && !memcmp(v->value, formats[i].name, v->n))
			return formats[i].format;
	return LIST_DECIMAL;
}

/* ---- numbering.xml ---- */

static void begin_numbering(struct docx_lists *x, long id)
{
	struct numbering *m;

	x->numbering = xrealloc(x->numbering, (x->n_numbering + 1) * sizeof *x->numbering);
	m = &x->numbering[x->n_numbering++];
	*m = (struct numbering){ .id = id };
	list_levels_begin(m->level);
}

static void begin_list(struct docx_lists *x, long id)
{
	struct list *l;

	x->list = xrealloc(x->list, (x->n_list + 1) * sizeof *x->list);
	l = &x->list[x->n_list++];
	*l = (struct list){ .id = id, .of = -1 };
	for (int i = 0; i < LIST_LEVELS; i++)
		l->override[i] = -1;
}

static void numbering_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct docx_lists *x = ud;
	const struct xml_attr *v = xml_attr(a, n, "val");
	/* Elements inside a w:num override a level of its numbering. Of these elements only startOverride, the start
	 * value, is read. */
	struct list_level *level = x->n_numbering && !x->n_list && x->ilvl >= 0 && x->ilvl < LIST_LEVELS
	                                   ? &x->numbering[x->n_numbering - 1].level[x->ilvl]
	                                   : NULL;

	if (!strcmp(name, "abstractNum") && x->n_numbering < LISTS_MAX) {
		begin_numbering(x, xml_number(xml_attr(a, n, "abstractNumId"), -1));
		x->ilvl = 0;
	} else if (!strcmp(name, "lvl") || !strcmp(name, "lvlOverride")) {
		x->ilvl = xml_number(xml_attr(a, n, "ilvl"), 0);
	} else if (!strcmp(name, "numFmt") && level) {
		level->format = format_of(v);
	} else if (!strcmp(name, "start") && level) {
		level->start = list_start(v);
	} else if (!strcmp(name, "lvlText") && level && v && v->n < LIST_PATTERN_MAX) {
		memcpy(level->pattern, v->value, v->n);
		level->pattern[v->n] = 0;
	} else if (!strcmp(name, "num") && x->n_list < LISTS_MAX) {
		begin_list(x, xml_number(xml_attr(a, n, "numId"), -1));
	} else if (!strcmp(name, "abstractNumId") && x->n_list) {
		for (size_t i = 0; i < x->n_numbering; i++)
			if (x->numbering[i].id == xml_number(v, -2))
				x->list[x->n_list - 1].of = (int)i;
	} else if (!strcmp(name, "startOverride") && x->n_list && x->ilvl >= 0 && x->ilvl < LIST_LEVELS) {
		x->list[x->n_list - 1].override[x->ilvl] = list_start(v);
	}
}

struct docx_lists *docx_lists_read(const struct zip_entry *z)
{
	static const struct xml_handler handler = { .start = numbering_start };
	struct docx_lists *x = xcalloc(1, sizeof *x);

	if (z)
		xml_parse(z->name, z->p, z->n, &handler, x, NULL);
	for (size_t i = 0; i < x->n_numbering; i++)
		list_levels_restart(x->numbering[i].level, 0);
	return x;
}

void docx_lists_free(struct docx_lists *x)
{
	if (!x)
		return;
	free(x->numbering);
	free(x->list);
	free(x);
}

/* ---- labels ---- */

static void count_item(struct numbering *m, struct list *l, int level)
{
	if (!l->used++)
		for (int i = 0; i < LIST_LEVELS; i++)
			if (l->override[i] >= 0)
				m->level[i].count = l->override[i] - 1;
	list_levels_count(m->level, level);
	for (int i = level + 1; i < LIST_LEVELS; i++)
		if (l->override[i] >= 0)
			m->level[i].count = l->override[i] - 1;
}

int docx_lists_label(struct docx_lists *x, long num, long ilvl, struct str *out)
{
	int level = ilvl < 0 ? 0 : ilvl >= LIST_LEVELS ? LIST_LEVELS - 1 : (int)ilvl;
	struct list *l = NULL;
	struct numbering *m;

	for (size_t i = 0; i < x->n_list && !l; i++)
		if (x->list[i].id == num)
			l = &x->list[i];
	if (!l || l->of < 0)
		return 0;
	m = &x->numbering[l->of];
	count_item(m, l, level);
	return list_label(m->level, level, out);
}
