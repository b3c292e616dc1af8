/* app/options/nearest.c - the known word that a mistyped one is nearest to. */
#include "app/options/options.h"

#include <string.h>

#define WORD_MAX 40

/* Edit distance, counting swapped neighbours as one: what fingers do wrong. */
static int edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
	int d[WORD_MAX + 1][WORD_MAX + 1];

	if (na > WORD_MAX || nb > WORD_MAX)
		return WORD_MAX;
	for (size_t i = 0; i <= na; i++) {
		for (size_t j = 0; j <= nb; j++) {
			int best;
			if (!i || !j) {
				d[i][j] = (int)(i + j);
				continue;
			}
			best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[na][nb];
}

void nearest_init(struct nearest *n, const char *word, size_t len)
{
	/* A third of the letters may be wrong: more is another word. */
	*n = (struct nearest){.word = word, .len = len, .dist = len < 3 ? 2 : (int)len / 3 + 2};
}

void nearest_try(struct nearest *n, const char *candidate)
{
	int d = edit_distance(n->word, n->len, candidate, strlen(candidate));

	if (d < n->dist) {
		n->dist = d;
		n->best = candidate;
	}
}
