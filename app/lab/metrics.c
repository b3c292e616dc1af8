/* app/lab/metrics.c - the published metrics of LongBench, GSM8K and MMLU (score.h). An answer gets the best of its
 * scores against the references.
 *
 *     F1: F measure of the words, without case, punctuation and articles (SQuAD; LongBench's question answering);
 *     ROUGE-L: F measure of the longest common subsequence (LCS) of words (Lin 2004);
 *     class: 1 / number of classes that the answer names, if the right one is among them, else 0 (LongBench: trec);
 *     numbers: share of the answer's numbers that are right (LongBench: passage_count, passage_retrieval);
 *     edit: 2 * LCS / sum of lengths, in bytes, of the answer's first line of code (LongBench: code);
 *     number: 1 if the answer's last number is right (GSM8K);
 *     choice: 1 if the first letter that stands alone in the answer is right (MMLU). */
#include "app/lab/score.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---- */

/* The words of a text, as pointers into the member `text`. */
struct split {
	struct str text;
	const char **w;
	size_t n;
};

static void split_free(struct split *s)
{
	str_free(&s->text);
	free(s->w);
}

/* Split text into lower-case words. If `joins` is 1, punctuation is deleted ("it's" becomes "its"); if it is 0,
 * punctuation separates words. If `articles` is 0, articles are left out. */
static struct split split_words(const char *p, int joins, int articles)
{
	struct split s = { .n = 0 };
	char *at, *word;

	str_add(&s.text, "", 0);
	for (; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (isalnum(c) || c >= 0x80)
			str_addf(&s.text, "%c", tolower(c));
		else if (!joins || isspace(c))
			str_adds(&s.text, " ");
	}
	s.w = xcalloc(s.text.n / 2 + 1, sizeof *s.w);
	for (word = strtok_r(s.text.p, " ", &at); word; word = strtok_r(NULL, " ", &at))
		if (articles || (strcmp(word, "a") != 0 && strcmp(word, "an") != 0 && strcmp(word, "the") != 0))
			s.w[s.n++] = word;
	return s;
}

/* Return the F measure of two sets. The sets have `a` and `b` elements, and share `common` of them. */
static double f_of(size_t common, size_t a, size_t b)
{
	return a + b ? 2 * (double)common / (double)(a + b) : 0;
}

static double score_f1(const char *ref, const char *answer)
{
	struct split a = split_words(answer, 1, 0), b = split_words(ref, 1, 0);
	size_t common = 0;
	double f;

	for (size_t i = 0; i < a.n; i++)
		for (size_t k = 0; k < b.n; k++)
			if (b.w[k] && !strcmp(a.w[i], b.w[k])) {
				b.w[k] = NULL; /* no further word of the answer may match this word of the reference */
				common++;
				break;
			}
	f = f_of(common, a.n, b.n);
	split_free(&a);
	split_free(&b);
	return f;
}

static double score_rouge_l(const char *ref, const char *answer)
{
	struct split a = split_words(answer, 0, 1), b = split_words(ref, 0, 1);
	size_t *row = xcalloc(b.n + 1, sizeof *row);
	double f;

	for (size_t i = 0; i < a.n; i++)
		/* `before` is the length of the longest common subsequence of a.w[0 .. i) and b.w[0 .. k). */
		for (size_t k = 0, before = 0; k < b.n; k++) {
			size_t above = row[k + 1];

			row[k + 1] = !strcmp(a.w[i], b.w[k]) ? before + 1 : MAX(above, row[k]);
			before = above;
		}
	f = f_of(row[b.n], a.n, b.n);
	free(row);
	split_free(&a);
	split_free(&b);
	return f;
}

/* ---- lines of code ---- */

static double score_edit(const char *ref, const char *answer)
{
	size_t n = 0, m = strlen(ref), *row = xcalloc(m + 1, sizeof *row);
	const char *line = answer;
	double f;

	for (; *line; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		if (strspn(line, " \t\r") < n && !memchr(line, '`', n) && !memchr(line, '#', n) &&
		    !memmem(line, n, "//", 2))
			break;
	}
	n = strcspn(line, "\n");
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0, before = 0; k < m; k++) {
			size_t above = row[k + 1];

			row[k + 1] = line[i] == ref[k] ? before + 1 : MAX(above, row[k]);
			before = above;
		}
	f = f_of(row[m], n, m);
	free(row);
	return f;
}

/* ---- classes, numbers, letters ---- */

static double score_class(const char *ref, const struct words *classes, const char *answer)
{
	size_t named = 0, right = 0;

	for (size_t i = 0; i < classes->n; i++) {
		const char *c = classes->w[i];

		if (!strstr(answer, c) || (strstr(ref, c) && strcmp(ref, c) != 0))
			continue;
		named++;
		right |= !strcmp(ref, c);
	}
	return right ? 1.0 / (double)named : 0;
}

/* Find the next number at or after p, and store its value in *v. Commas between digits are skipped. Returns the end of
 * the number, or NULL if there is no number. */
static const char *next_number(const char *p, double *v)
{
	char text[64];
	size_t n = 0;

	while (*p && !isdigit((unsigned char)*p))
		p++;
	if (!*p)
		return NULL;
	for (; isdigit((unsigned char)*p) || ((*p == ',' || *p == '.') && isdigit((unsigned char)p[1])); p++)
		if (*p != ',' && n + 1 < sizeof text)
			text[n++] = *p;
	text[n] = 0;
	*v = strtod(text, NULL);
	return p;
}

static double score_numbers(const char *ref, const char *answer)
{
	size_t n = 0, right = 0;
	double want = 0, v;

	for (const char *p = ref; (p = next_number(p, &want));)
		;
	for (const char *p = answer; (p = next_number(p, &v)); n++)
		right += fabs(v - want) < 0.5;
	return n ? (double)right / (double)n : 0;
}

/* Set *v to the last number in the text, with its sign. If the text contains "####", take the first number after that.
 * Returns 1; 0 if the text has no number. */
static int last_number(const char *text, double *v)
{
	const char *mark = strstr(text, "####"), *p = mark ? mark : text, *end;
	int found = 0;

	for (; (end = next_number(p, v)); p = end, found = 1) {
		const char *digit = p;

		while (!isdigit((unsigned char)*digit))
			digit++;
		while (digit > text && (digit[-1] == '$' || digit[-1] == ' '))
			digit--;
		/* A minus after a letter or digit, as in "7-5", is not a sign. */
		if (digit > text && digit[-1] == '-' && (digit - 1 == text || !isalnum((unsigned char)digit[-2])))
			*v = -*v;
		if (mark)
			return 1;
	}
	return found;
}

static double score_number(const char *ref, const char *answer)
{
	double want = 0, v = 0;

	return last_number(ref, &want) && last_number(answer, &v) && fabs(v - want) <= 1e-6 * (1 + fabs(want));
}

static double score_choice(const char *ref, const char *answer)
{
	for (const char *p = answer; *p; p++)
		if (*p >= 'A' && *p <= 'J' && (p == answer || !isalnum((unsigned char)p[-1])) &&
		    !isalnum((unsigned char)p[1]) && p[1] != '\'')
			return *p == *ref;
	return 0;
}

double score_published(enum eval_metric metric, const struct words *ref, const struct words *classes,
                       const char *answer)
{
	double best = 0;

	for (size_t i = 0; i < ref->n; i++) {
		const char *r = ref->w[i];
		double x = metric == METRIC_F1        ? score_f1(r, answer)
		           : metric == METRIC_ROUGE_L ? score_rouge_l(r, answer)
		           : metric == METRIC_EDIT    ? score_edit(r, answer)
		           : metric == METRIC_CLASS   ? score_class(r, classes, answer)
		           : metric == METRIC_NUMBERS ? score_numbers(r, answer)
		           : metric == METRIC_NUMBER  ? score_number(r, answer)
		                                      : score_choice(r, answer);

		best = MAX(x, best);
	}
	return best;
}
