/* sessions/import/docx_lists.c - numbering.xml of a DOCX: the labels that stand before its list items and numbered headings.
 *
 * A list (w:num) refers to a numbering (w:abstractNum), which has a format for each of nine levels and whose counters all of its lists
 * share; a list that overrides a start begins anew with its first item. */
#include "sessions/import/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTS_MAX 4096
#define LEVELS 9
#define LABEL_MAX 32     /* of a level's pattern */

enum format { DECIMAL, LETTER, CAPITAL_LETTER, ROMAN, CAPITAL_ROMAN, BULLET, EMPTY };

struct level {
	enum format format;
	long start, count;               /* count: of the last item, start - 1 before the first one */
	char pattern[LABEL_MAX];         /* "%1.%2." */
};
struct numbering { long id; struct level level[LEVELS]; };
struct list {
	long id;
	int of;                          /* index of its numbering, -1 = none */
	int used;
	long override[LEVELS];           /* where it begins anew, -1 = goes on */
};

struct docx_lists {
	struct numbering *numbering;
	size_t n_numbering;
	struct list *list;
	size_t n_list;
	long ilvl;                       /* of the element that is being read */
};

static long number(const struct xml_attr *a, long otherwise)
{
	char s[24];

	if (!a || !a->n || a->n >= sizeof s)
		return otherwise;
	memcpy(s, a->value, a->n);
	s[a->n] = 0;
	return strtol(s, NULL, 10);
}

/* A start that no counter carries out of range. */
static long start_of(const struct xml_attr *a)
{
	long v = number(a, 1);

	return v < 0 ? 0 : v > 1000000 ? 1000000 : v;
}

static enum format format_of(const struct xml_attr *v)
{
	static const struct { const char *name; enum format format; } formats[] = {
		{"lowerLetter", LETTER}, {"upperLetter", CAPITAL_LETTER}, {"lowerRoman", ROMAN}, {"upperRoman", CAPITAL_ROMAN},
		{"bullet", BULLET}, {"none", EMPTY},
	};

	for (size_t i = 0; v && i < sizeof formats / sizeof *formats; i++)
		if (v->n == strlen(formats[i].name) && !memcmp(v->value, formats[i].name, v->n))
			return formats[i].format;
	return DECIMAL;
}

/* ---- numbering.xml ---- */

static void begin_numbering(struct docx_lists *x, long id)
{
	struct numbering *m;

	x->numbering = xrealloc(x->numbering, (x->n_numbering + 1) * sizeof *x->numbering);
	m = &x->numbering[x->n_numbering++];
	*m = (struct numbering){.id = id};
	for (int i = 0; i < LEVELS; i++) {
		m->level[i].start = 1;
		snprintf(m->level[i].pattern, sizeof m->level[i].pattern, "%%%d.", i + 1);
	}
}

static void begin_list(struct docx_lists *x, long id)
{
	struct list *l;

	x->list = xrealloc(x->list, (x->n_list + 1) * sizeof *x->list);
	l = &x->list[x->n_list++];
	*l = (struct list){.id = id, .of = -1};
	for (int i = 0; i < LEVELS; i++)
		l->override[i] = -1;
}

static void numbering_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct docx_lists *x = ud;
	const struct xml_attr *v = xml_attr(a, n, "val");
	/* Levels within a list override those of its numbering: only their start is taken. */
	struct level *level = x->n_numbering && !x->n_list && x->ilvl >= 0 && x->ilvl < LEVELS ?
	                      &x->numbering[x->n_numbering - 1].level[x->ilvl] : NULL;

	if (!strcmp(name, "abstractNum") && x->n_numbering < LISTS_MAX) {
		begin_numbering(x, number(xml_attr(a, n, "abstractNumId"), -1));
		x->ilvl = 0;
	} else if (!strcmp(name, "lvl") || !strcmp(name, "lvlOverride")) {
		x->ilvl = number(xml_attr(a, n, "ilvl"), 0);
	} else if (!strcmp(name, "numFmt") && level) {
		level->format = format_of(v);
	} else if (!strcmp(name, "start") && level) {
		level->start = start_of(v);
	} else if (!strcmp(name, "lvlText") && level && v && v->n < LABEL_MAX) {
		memcpy(level->pattern, v->value, v->n);
		level->pattern[v->n] = 0;
	} else if (!strcmp(name, "num") && x->n_list < LISTS_MAX) {
		begin_list(x, number(xml_attr(a, n, "numId"), -1));
	} else if (!strcmp(name, "abstractNumId") && x->n_list) {
		for (size_t i = 0; i < x->n_numbering; i++)
			if (x->numbering[i].id == number(v, -2))
				x->list[x->n_list - 1].of = (int)i;
	} else if (!strcmp(name, "startOverride") && x->n_list && x->ilvl >= 0 && x->ilvl < LEVELS) {
		x->list[x->n_list - 1].override[x->ilvl] = start_of(v);
	}
}

struct docx_lists *docx_lists_read(const struct zip_entry *z)
{
	static const struct xml_handler handler = {.start = numbering_start};
	struct docx_lists *x = xcalloc(1, sizeof *x);

	if (z)
		xml_parse(z->name, z->p, z->n, &handler, x, NULL);
	for (size_t i = 0; i < x->n_numbering; i++)
		for (int k = 0; k < LEVELS; k++)
			x->numbering[i].level[k].count = x->numbering[i].level[k].start - 1;
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

static void add_letters(struct str *out, long v, char a)
{
	/* a ... z, aa, bb ... */
	for (long i = 0; i <= (v - 1) / 26 && i < 8; i++)
		str_addf(out, "%c", (char)(a + (v - 1) % 26));
}

static void add_roman(struct str *out, long v, int capital)
{
	static const struct { int value; const char *small, *capital; } digit[] = {
		{1000, "m", "M"}, {900, "cm", "CM"}, {500, "d", "D"}, {400, "cd", "CD"}, {100, "c", "C"}, {90, "xc", "XC"}, {50, "l", "L"},
		{40, "xl", "XL"}, {10, "x", "X"}, {9, "ix", "IX"}, {5, "v", "V"}, {4, "iv", "IV"}, {1, "i", "I"},
	};

	for (size_t i = 0; i < sizeof digit / sizeof *digit; i++)
		for (; v >= digit[i].value; v -= digit[i].value)
			str_adds(out, capital ? digit[i].capital : digit[i].small);
}

static void add_count(struct str *out, const struct level *l)
{
	long v = l->count < l->start ? l->start : l->count;   /* a level without an item of its own */

	if (v <= 0 || v >= 5000 || l->format == DECIMAL)
		str_addf(out, "%ld", v);
	else if (l->format == LETTER || l->format == CAPITAL_LETTER)
		add_letters(out, v, l->format == LETTER ? 'a' : 'A');
	else if (l->format == ROMAN || l->format == CAPITAL_ROMAN)
		add_roman(out, v, l->format == CAPITAL_ROMAN);
}

static void count(struct numbering *m, struct list *l, int level)
{
	if (!l->used++)
		for (int i = 0; i < LEVELS; i++)
			if (l->override[i] >= 0)
				m->level[i].count = l->override[i] - 1;
	if (m->level[level].count < 1000000)
		m->level[level].count++;
	for (int i = level + 1; i < LEVELS; i++)
		m->level[i].count = l->override[i] >= 0 ? l->override[i] - 1 : m->level[i].start - 1;
}

int docx_lists_label(struct docx_lists *x, long num, long ilvl, struct str *out)
{
	int level = ilvl < 0 ? 0 : ilvl >= LEVELS ? LEVELS - 1 : (int)ilvl;
	size_t before = out->n;
	struct list *l = NULL;
	struct numbering *m;
	const struct level *at;

	for (size_t i = 0; i < x->n_list && !l; i++)
		if (x->list[i].id == num)
			l = &x->list[i];
	if (!l || l->of < 0)
		return 0;
	m = &x->numbering[l->of];
	at = &m->level[level];
	count(m, l, level);
	if (at->format == BULLET || at->format == EMPTY)
		return 0;
	for (const char *p = at->pattern; *p; p++) {
		if (*p == '%' && p[1] >= '1' && p[1] <= '9')
			add_count(out, &m->level[*++p - '1']);
		else
			str_add(out, p, 1);
	}
	if (out->n == before)
		return 0;
	str_adds(out, " ");
	return 1;
}
