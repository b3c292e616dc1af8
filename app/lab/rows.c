/* app/lab/rows.c - scores an answer that is a table: F1 of its rows against the reference rows. */
#include "app/lab/score.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Set *out to the form in which rows are compared: lower case, single blanks, without punctuation and without a list
 * mark ("3.", "-"). */
static void row_words(const char *p, size_t n, struct str *out)
{
	size_t i = 0;

	str_clear(out);
	str_add(out, "", 0);
	while (i < n && isspace((unsigned char)p[i]))
		i++;
	for (size_t k = i; k < n && (isdigit((unsigned char)p[k]) || p[k] == '.' || p[k] == ')'); k++)
		if (k > i && k + 1 < n && !isdigit((unsigned char)p[k]) && isspace((unsigned char)p[k + 1])) {
			i = k + 1;
			break;
		}
	for (; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (isalnum(c) || c >= 0x80)
			str_addf(out, "%c", tolower(c));
		else if (out->n && out->p[out->n - 1] != ' ')
			str_adds(out, " ");
	}
	while (out->n && out->p[out->n - 1] == ' ')
		out->p[--out->n] = 0;
}

size_t answer_rows(const char *answer)
{
	struct str row = { 0 };
	size_t n = 0;

	for (const char *p = answer, *end; (end = strchr(p, '\n')); p = end + 1) {
		row_words(p, (size_t)(end - p), &row);
		n += row.n > 0;
	}
	str_free(&row);
	return n;
}

double score_rows(const struct words *ref, const char *answer)
{
	struct str row = { 0 }, want = { 0 };
	char *used = xcalloc(ref->n + 1, 1);
	size_t rows = 0, right = 0;

	for (const char *p = answer, *end; (end = strchr(p, '\n')); p = end + 1) {
		row_words(p, (size_t)(end - p), &row);
		if (!row.n)
			continue;
		rows++;
		for (size_t i = 0; i < ref->n; i++) {
			row_words(ref->w[i], strlen(ref->w[i]), &want);
			if (used[i] || strcmp(want.p, row.p) != 0)
				continue;
			used[i] = 1;
			right++;
			break;
		}
	}
	free(used);
	str_free(&row);
	str_free(&want);
	return rows + ref->n ? 2 * (double)right / (double)(rows + ref->n) : 0;
}
