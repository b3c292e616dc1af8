/* app/lab/score.c - scores of answers (score.h). */
#include "app/lab/score.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

int text_has(const char *text, const char *needle)
{
	size_t n = strlen(needle);

	for (; *text; text++)
		if (!strncasecmp(text, needle, n))
			return 1;
	return !n;
}

double score_all(const struct words *ref, const char *answer)
{
	size_t found = 0;

	for (size_t i = 0; i < ref->n; i++)
		found += (size_t)text_has(answer, ref->w[i]);
	return ref->n ? (double)found / (double)ref->n : 0;
}

double score_any(const struct words *ref, const char *answer)
{
	for (size_t i = 0; i < ref->n; i++)
		if (text_has(answer, ref->w[i]))
			return 1;
	return 0;
}

double score_digits(const char *ref, const char *answer)
{
	size_t n = strlen(ref), same = 0;

	while (*answer && !isdigit((unsigned char)*answer))
		answer++;
	for (size_t i = 0; i < n && isdigit((unsigned char)answer[i]); i++)
		same += answer[i] == ref[i];
	return n ? (double)same / (double)n : 0;
}

/* ---- chains ---- */

static int in_word(char c)
{
	return isalpha((unsigned char)c) || c == '\'';
}

/* Find the next key "a-b" at or after p. half[] and len[] receive the two words of the key and their lengths. Returns
 * the end of the key, or NULL if there are no more keys. */
static const char *next_key(const char *p, const char *half[2], size_t len[2])
{
	for (; *p; p++) {
		const char *q = p;

		if (!in_word(*p))
			continue;
		while (in_word(*q))
			q++;
		half[0] = p;
		len[0] = (size_t)(q - p);
		if (*q == '-' && in_word(q[1])) {
			half[1] = ++q;
			while (in_word(*q))
				q++;
			len[1] = (size_t)(q - half[1]);
			return q;
		}
		p = q - 1;
	}
	return NULL;
}

static int key_listed(const struct words *keys, const char *key, size_t n)
{
	for (size_t i = 0; i < keys->n; i++)
		if (strlen(keys->w[i]) == n && !strncasecmp(keys->w[i], key, n))
			return 1;
	return 0;
}

double score_chain(const struct words *keys, const char *answer, int n)
{
	const char *half[2], *before = NULL;
	size_t len[2], before_len = 0;
	int good = 0;

	for (const char *p = answer; good < n && (p = next_key(p, half, len)); good++) {
		if (!key_listed(keys, half[0], len[0] + 1 + len[1]))
			break;
		if (before && (len[0] != before_len || strncasecmp(half[0], before, before_len) != 0))
			break;
		before = half[1];
		before_len = len[1];
	}
	return n > 0 ? (double)good / n : 0;
}

double score_answer(enum eval_metric metric, const struct words *ref, const struct words *classes, const char *answer)
{
	switch (metric) {
	case METRIC_ALL: return score_all(ref, answer);
	case METRIC_ANY: return score_any(ref, answer);
	case METRIC_DIGITS: return ref->n ? score_digits(ref->w[0], answer) : 0;
	case METRIC_CHAIN: return score_chain(ref, answer, 10);
	case METRIC_ROWS: return score_rows(ref, answer);
	default: return score_published(metric, ref, classes ? classes : &(struct words){ .n = 0 }, answer);
	}
}

/* ---- means ---- */

void mean_add(struct mean *m, double x)
{
	m->sum += x;
	m->squares += x * x;
	m->n++;
}

double mean_get(const struct mean *m)
{
	return m->n ? m->sum / m->n : 0;
}

double mean_error(const struct mean *m)
{
	double mean = mean_get(m), var;

	if (m->n < 2)
		return 0;
	var = (m->squares - m->n * mean * mean) / (m->n - 1);
	return var > 0 ? sqrt(var / m->n) : 0;
}
