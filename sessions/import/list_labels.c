/* sessions/import/list_labels.c - computes labels such as "2.a) " of list items and numbered headings. DOCX and
 * OpenDocument files store how items are numbered, but not the labels. */
#include "sessions/import/import_private.h"

#include <stdio.h>
#include <string.h>

#define COUNT_MAX 1000000

/* Clamp a start value so that counters cannot overflow. */
long list_start(const struct xml_attr *a)
{
	long v = xml_number(a, 1);

	return v < 0 ? 0 : MIN(COUNT_MAX, v);
}

void list_levels_begin(struct list_level levels[LIST_LEVELS])
{
	for (int i = 0; i < LIST_LEVELS; i++) {
		levels[i] = (struct list_level){ .start = 1 };
		snprintf(levels[i].pattern, sizeof levels[i].pattern, "%%%d.", i + 1);
	}
}

void list_levels_restart(struct list_level levels[LIST_LEVELS], int from)
{
	for (int i = from; i < LIST_LEVELS; i++)
		levels[i].count = levels[i].start - 1;
}

void list_levels_count(struct list_level levels[LIST_LEVELS], int level)
{
	if (levels[level].count < COUNT_MAX)
		levels[level].count++;
	list_levels_restart(levels, level + 1);
}

static void add_letters(struct str *out, long v, char a, int as_columns)
{
	char s[8];
	size_t n = 0;

	if (as_columns) {
		for (; v > 0; v = (v - 1) / 26)
			s[n++] = (char)(a + (v - 1) % 26);
		while (n)
			str_add(out, &s[--n], 1);
		return;
	}
	for (long i = 0; i <= (v - 1) / 26 && i < 8; i++)
		str_addf(out, "%c", (char)(a + (v - 1) % 26));
}

static void add_roman(struct str *out, long v, int capital)
{
	static const struct {
		int value;
		const char *small, *capital;
	} digit[] = {
		{ 1000, "m", "M" }, { 900, "cm", "CM" }, { 500, "d", "D" },  { 400, "cd", "CD" }, { 100, "c", "C" },
		{ 90, "xc", "XC" }, { 50, "l", "L" },    { 40, "xl", "XL" }, { 10, "x", "X" },    { 9, "ix", "IX" },
		{ 5, "v", "V" },    { 4, "iv", "IV" },   { 1, "i", "I" },
	};

	for (size_t i = 0; i < LEN(digit); i++)
		for (; v >= digit[i].value; v -= digit[i].value)
			str_adds(out, capital ? digit[i].capital : digit[i].small);
}

static void add_count(struct str *out, const struct list_level *l)
{
	long v = MAX(l->start, l->count); /* if the level has no item yet, l->count is l->start - 1 */

	if (v <= 0 || v >= 5000 || l->format == LIST_DECIMAL)
		str_addf(out, "%ld", v);
	else if (l->format == LIST_LETTER || l->format == LIST_CAPITAL_LETTER)
		add_letters(out, v, l->format == LIST_LETTER ? 'a' : 'A', l->as_columns);
	else if (l->format == LIST_ROMAN || l->format == LIST_CAPITAL_ROMAN)
		add_roman(out, v, l->format == LIST_CAPITAL_ROMAN);
}

int list_label(const struct list_level levels[LIST_LEVELS], int level, struct str *out)
{
	size_t before = out->n;

	if (levels[level].format == LIST_BULLET)
		return 0;
	for (const char *p = levels[level].pattern; *p; p++) {
		if (*p == '%' && p[1] >= '1' && p[1] <= '9')
			add_count(out, &levels[*++p - '1']);
		else
			str_add(out, p, 1);
	}
	if (out->n == before)
		return 0;
	str_adds(out, " ");
	return 1;
}
