/* tests/lib/scored.h - slots in the order of their pooled scores, as definitions of policies that select want them. */
#ifndef WEIR_TEST_SCORED_H
#define WEIR_TEST_SCORED_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

struct scored { double pooled, raw; int32_t slot; };

/* For qsort(): the largest pooled score first, of equal ones the largest raw one, of equal ones the newest slot. */
static inline int scored_order(const void *pa, const void *pb)
{
	const struct scored *a = pa, *b = pb;

	if (a->pooled != b->pooled)
		return a->pooled < b->pooled ? 1 : -1;
	return a->raw != b->raw ? a->raw < b->raw ? 1 : -1 : b->slot - a->slot;
}

/* All n scores, sorted, into all[n]: pooled is the largest of the `pool` scores around each, or their sum over pool (average). */
static inline void scored_pool(const double *x, int32_t n, int32_t pool, int average, struct scored *all)
{
	for (int32_t i = 0; i < n; i++) {
		all[i] = (struct scored){ 0, x[i], i };
		for (int32_t j = i - pool / 2; j <= i + pool / 2; j++)
			if (j >= 0 && j < n)
				all[i].pooled = average ? all[i].pooled + x[j] / pool : fmax(all[i].pooled, x[j]);
	}
	qsort(all, (size_t)n, sizeof *all, scored_order);
}

/* For qsort() of int32_t, ascending. */
static inline int by_number(const void *a, const void *b)
{
	return *(const int32_t *)a - *(const int32_t *)b;
}

#endif
