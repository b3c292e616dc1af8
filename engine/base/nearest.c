/* engine/base/nearest.c - finds the known word that is nearest to a mistyped word (base.h). */
#include "engine/base/base.h"

#include <string.h>

enum { WORD_MOST = 48 }; /* maximum length of a word in bytes; a longer word matches no candidate */

/* Return the edit distance of a[na] and b[nb] (optimal string alignment). Swapping two neighbours, a frequent typing
 * mistake, counts as one edit. */
static int edit_distance(const char *a, int na, const char *b, int nb)
{
	int row[3][WORD_MOST + 1]; /* the newest three rows of the table of edit distances */

	for (int j = 0; j <= nb; j++)
		row[0][j] = j;
	for (int i = 1; i <= na; i++) {
		int *now = row[i % 3], *before = row[(i + 2) % 3], *older = row[(i + 1) % 3];

		now[0] = i;
		for (int j = 1; j <= nb; j++) {
			int best = before[j - 1] + (a[i - 1] != b[j - 1]);

			if (before[j] + 1 < best)
				best = before[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && older[j - 2] + 1 < best)
				best = older[j - 2] + 1;
			now[j] = best;
		}
	}
	return row[na % 3][nb];
}

void nearest_init(struct nearest *n, const char *word, size_t len)
{
	/* In a word of n letters, allow 1 wrong letter if n < 5, and n / 3 + 1 otherwise. `dist` is the smallest edit
	 * distance that is too large. */
	*n = (struct nearest){ .word = word, .len = len, .dist = len < 5 ? 2 : (int)(MIN(len, WORD_MOST)) / 3 + 2 };
}

int nearest_try(struct nearest *n, const char *candidate)
{
	size_t len = strlen(candidate);
	int d;

	if (n->len > WORD_MOST || !len || len > WORD_MOST)
		return 0;
	d = edit_distance(n->word, (int)n->len, candidate, (int)len);
	if (d >= n->dist)
		return 0;
	n->dist = d;
	n->best = candidate;
	return 1;
}
