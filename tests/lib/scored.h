/* tests/lib/scored.h - sorts slots by their pooled scores, for tests that define which slots a selection policy
 * takes. */
#ifndef WEIR_TEST_SCORED_H
#define WEIR_TEST_SCORED_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct scored {
	double pooled, raw;
	int32_t slot;
};

/* For qsort(): largest pooled score first; ties by the larger raw score, then by the newer slot. */
static inline int scored_order(const void *pa, const void *pb)
{
	const struct scored *a = pa, *b = pb;

	if (a->pooled != b->pooled)
		return a->pooled < b->pooled ? 1 : -1;
	return a->raw != b->raw ? a->raw < b->raw ? 1 : -1 : b->slot - a->slot;
}

/* Set all[n] to the slots with their scores, in scored_order(). pooled: the largest of the `pool` scores around a
 * slot. */
static inline void scored_pool(const double *x, int32_t n, int32_t pool, struct scored *all)
{
	for (int32_t i = 0; i < n; i++) {
		all[i] = (struct scored){ 0, x[i], i };
		for (int32_t j = i - pool / 2; j <= i + pool / 2; j++)
			if (j >= 0 && j < n)
				all[i].pooled = fmax(all[i].pooled, x[j]);
	}
	qsort(all, (size_t)n, sizeof *all, scored_order);
}

/* Set out[n] to the attention of a token to the slots list[0 .. n); list NULL: to the first n slots. Of the heads that
 * share a KV head, the largest attention counts; mean = 1: their mean. q: [group][dim]. key: slot 0 of the KV head;
 * slots are `stride` floats apart. */
static inline void scored_row(const float *q, int32_t group, int32_t dim, const float *key, size_t stride, double scale,
                              const int32_t *list, int32_t n, int mean, double *out)
{
	double *s = calloc((size_t)n, sizeof *s);

	memset(out, 0, (size_t)n * sizeof *out);
	for (int32_t g = 0; g < group; g++, q += dim) {
		double most = -INFINITY, sum = 0;

		for (int32_t i = 0; i < n; i++) {
			const float *k = key + (size_t)(list ? list[i] : i) * stride;

			s[i] = 0;
			for (int32_t d = 0; d < dim; d++)
				s[i] += (double)q[d] * (double)k[d];
			most = fmax(most, s[i] *= scale);
		}
		for (int32_t i = 0; i < n; i++)
			sum += s[i] = exp(s[i] - most);
		for (int32_t i = 0; i < n; i++)
			out[i] = mean ? out[i] + s[i] / sum / group : fmax(out[i], s[i] / sum);
	}
	free(s);
}

/* For qsort() of int32_t, ascending. */
static inline int by_number(const void *a, const void *b)
{
	return *(const int32_t *)a - *(const int32_t *)b;
}

#endif
