/* sessions/import/xlsx_values.c - writes values of cells of a workbook: numbers, dates and percentages by their number
 * formats (ECMA-376 part 1, 18.8.30), and strings. */
#include "sessions/import/xlsx.h"
#include "engine/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMATS_MAX    65536
#define DAY_MAX        2958465 /* number of the day 9999-12-31 */
#define DAYS_BEFORE    25569   /* number of days from 1899-12-30 to 1970-01-01 */
#define DAYS_OF_1904   1462    /* number of days from 1899-12-30 to 1904-01-01 */
#define SECONDS_OF_DAY 86400

/* ---- number formats ---- */

/* Skip a part of a number format that has no meaning for weir: text in quotes, an escaped character, a colour or
 * condition in brackets. Returns the offset after it, or i if no such part begins at i. *elapsed is set to 1 for [h],
 * [mm] or [ss]. */
static size_t skip_literal(const char *s, size_t n, size_t i, int *elapsed)
{
	const char *end;

	if (s[i] == '\\' || s[i] == '_' || s[i] == '*')
		return MIN(i + 2, n);
	if (s[i] != '"' && s[i] != '[')
		return i;
	end = memchr(s + i + 1, s[i] == '"' ? '"' : ']', n - i - 1);
	if (end && s[i] == '[') {
		size_t k = i + 1;

		while (s + k < end && (s[k] | 32) == (s[i + 1] | 32))
			k++;
		*elapsed |= s + k == end && k > i + 1 && strchr("hms", s[i + 1] | 32);
	}
	return end ? (size_t)(end - s) + 1 : n;
}

enum xlsx_look xlsx_look_of(const char *s, size_t n)
{
	int day = 0, month = 0, time = 0, elapsed = 0, percent = 0;

	/* A number format has sections that are separated by ';'. Read only the first section, which is for positive
	 * numbers. */
	for (size_t i = 0; i < n && s[i] != ';';) {
		size_t next = skip_literal(s, n, i, &elapsed);

		if (next > i) {
			i = next;
			continue;
		}
		day |= (s[i] | 32) == 'd' || (s[i] | 32) == 'y';
		month |= (s[i] | 32) == 'm';
		time |= (s[i] | 32) == 'h' || (s[i] | 32) == 's';
		percent |= s[i] == '%';
		i++;
	}
	if (elapsed)
		return XLSX_ELAPSED;
	if (day || (month && !time)) /* the letter m means months, but beside hours or seconds it means minutes */
		return time ? XLSX_DATE_TIME : XLSX_DATE;
	return time ? XLSX_TIME : percent ? XLSX_PERCENT : XLSX_NUMBER;
}

/* Return the look of a built-in number format, which files name only by its number. */
static enum xlsx_look builtin_look(long id)
{
	if (id == 9 || id == 10)
		return XLSX_PERCENT;
	if ((id >= 14 && id <= 17) || (id >= 27 && id <= 31) || (id >= 34 && id <= 36) || (id >= 50 && id <= 58))
		return XLSX_DATE;
	if ((id >= 18 && id <= 21) || id == 32 || id == 33 || id == 45 || id == 47)
		return XLSX_TIME;
	return id == 22 ? XLSX_DATE_TIME : id == 46 ? XLSX_ELAPSED : XLSX_NUMBER;
}

static enum xlsx_look look_by_id(const struct xlsx_styles *t, long id)
{
	for (size_t i = 0; i < t->n_format; i++)
		if (t->format[i].id == id)
			return t->format[i].look;
	return builtin_look(id);
}

static void styles_start(void *ud, const char *name, const struct xml_attr *a, size_t n)
{
	struct xlsx_styles *t = ud;
	const struct xml_attr *code = xml_attr(a, n, "formatCode");

	if (!strcmp(name, "numFmt") && code && t->n_format < FORMATS_MAX / 64) {
		GROW(t->format, t->n_format, t->format_cap);
		t->format[t->n_format++] = (struct xlsx_format){ xml_number(xml_attr(a, n, "numFmtId"), -1),
			                                         xlsx_look_of(code->value, code->n) };
	} else if (!strcmp(name, "cellXfs")) {
		t->in_cells = 1;
	} else if (!strcmp(name, "xf") && t->in_cells && t->n < FORMATS_MAX) {
		GROW(t->look, t->n, t->cap);
		t->look[t->n++] = (unsigned char)look_by_id(t, xml_number(xml_attr(a, n, "numFmtId"), 0));
	}
}

static void styles_end(void *ud, const char *name)
{
	struct xlsx_styles *t = ud;

	if (!strcmp(name, "cellXfs"))
		t->in_cells = 0;
}

void xlsx_styles_read(struct xlsx_styles *t, const struct zip_entry *z)
{
	static const struct xml_handler handler = { .start = styles_start, .end = styles_end };

	if (z)
		xml_parse(z->name, z->p, z->n, &handler, t, NULL);
}

void xlsx_styles_free(struct xlsx_styles *t)
{
	free(t->look);
	free(t->format);
}

/* ---- values ---- */

/* Append the date of a day, counted from 1970-01-01. It is computed by eras of 400 years that begin on March 1. */
static void add_date(long day, struct str *out)
{
	long z = day + 719468, era = z / 146097, of_era = z % 146097;
	long year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	long of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	long from_march = (5 * of_year + 2) / 153;
	long month = from_march < 10 ? from_march + 3 : from_march - 9;

	str_addf(out, "%04ld-%02ld-%02ld", year_of_era + era * 400 + (month <= 2), month,
	         of_year - (153 * from_march + 2) / 5 + 1);
}

static void add_time(long hours, long seconds, int with_seconds, struct str *out)
{
	str_addf(out, "%02ld:%02ld", hours, seconds / 60 % 60);
	if (with_seconds || seconds % 60)
		str_addf(out, ":%02ld", seconds % 60);
}

/* Append a number of days, with a fraction, as a date, a time or both. Excel's day 60 is February 29, 1900, which did
 * not exist. So days before it are counted from 1899-12-31, and later days from 1899-12-30. */
static void add_moment(const struct xlsx_styles *t, enum xlsx_look look, double v, struct str *out)
{
	double whole = floor(v);
	long day = (long)whole, seconds = lround((v - whole) * SECONDS_OF_DAY);

	if (seconds == SECONDS_OF_DAY)
		day++, seconds = 0;
	if (look == XLSX_ELAPSED) {
		add_time(day * 24 + seconds / 3600, seconds, 1, out);
		return;
	}
	if (look == XLSX_DATE || look == XLSX_DATE_TIME)
		add_date(day + (t->from_1904 ? DAYS_OF_1904 : day < 60) - DAYS_BEFORE, out);
	if (look == XLSX_DATE_TIME)
		str_adds(out, " ");
	if (look != XLSX_DATE)
		add_time(seconds / 3600, seconds, 0, out);
}

void xlsx_number(const struct xlsx_styles *t, long style, const char *s, struct str *out)
{
	enum xlsx_look look = style >= 0 && (size_t)style < t->n ? t->look[style] : XLSX_NUMBER;
	char *end;
	double v = strtod(s, &end);

	if (end == s || *end || !isfinite(v))
		str_adds(out, s);
	else if (look == XLSX_PERCENT)
		str_addf(out, "%.10g%%", v * 100);
	else if (look == XLSX_NUMBER || v < 0 || v > DAY_MAX)
		str_addf(out, "%.15g", v);
	else
		add_moment(t, look, v, out);
}

/* If "_xHHHH_" is at s, return the character for which it stands; else return -1. */
static int32_t escaped(const char *s, size_t n)
{
	char digits[5] = "", *end;
	long c;

	if (n < 7 || s[1] != 'x' || s[6] != '_')
		return -1;
	memcpy(digits, s + 2, 4);
	c = strtol(digits, &end, 16);
	return end != digits + 4 || *digits == '-' || *digits == '+' || *digits == ' ' ? -1 : (int32_t)c;
}

void xlsx_string(const char *s, size_t n, struct str *out)
{
	for (size_t i = 0; i < n;) {
		const char *mark = memchr(s + i, '_', n - i);
		size_t k = mark ? (size_t)(mark - s) : n;
		int32_t c = mark ? escaped(mark, n - k) : -1;
		char utf8[4];

		str_add(out, s + i, k - i);
		i = k;
		if (c >= 0) {
			if (c < ' ' || (c >= 0xd800 && c <= 0xdfff))
				str_adds(out, " ");
			else
				str_add(out, utf8, (size_t)utf8_encode(c, utf8));
			i += 7;
		} else if (mark) {
			str_add(out, "_", 1);
			i++;
		}
	}
}
