/* engine/policies/predictor.c - runs the predictor network of the policy `predict` (predictor.h). */
#include "engine/policies/predictor.h"

#include <string.h>

void attn_image_init(struct attn_image *m, float *a, float *r, int32_t rows, int32_t cap)
{
	*m = (struct attn_image){ .rows = rows, .cap = cap, .a = a, .r = r, .fresh = rows };
}

void attn_image_clear(struct attn_image *m, int32_t n)
{
	for (int32_t i = 0; i < m->rows; i++)
		memset(m->a + (size_t)i * (size_t)m->cap, 0, (size_t)n * sizeof *m->a);
	m->first = 0;
	attn_image_changed(m);
}

float *attn_image_push(struct attn_image *m)
{
	float *row = attn_image_row(m, 0);

	m->first = (m->first + 1) % m->rows;
	if (m->fresh < m->rows)
		m->fresh++;
	return row;
}

/* ---- one row ---- */

enum { STRIP = 32 }; /* number of columns computed at a time; few, so that buffers and weights fit the CPU's cache */

static void relu(float *x, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		x[i] = MAX(x[i], 0);
}

/* Return row `at` of the image, or NULL if the image has no such row. */
static const float *row_or_null(const struct attn_image *m, int32_t at)
{
	return at >= 0 && at < m->rows ? attn_image_row(m, at) : NULL;
}

/* Copy columns x - 2 to x + n + 1 of the row to out[n + 4]. Columns before column `from`, and from column `to` on, are
 * copied as 0. */
static void row_cut(float *out, const float *row, int32_t x, int32_t n, int32_t from, int32_t to)
{
	for (int32_t i = 0; i < n + 4; i++) {
		int32_t at = x - 2 + i;

		out[i] = at >= from && at < to ? row[at] : 0;
	}
}

/* Compute the network's values of row t for n columns from column x on, and write them to r[x] and later elements; n is
 * at most STRIP. The image that the network sees begins with column `from` and ends before column `to`. */
static void strip_run(const struct predictor *p, struct backend *be, const struct attn_image *m, int32_t t, int32_t x,
                      int32_t n, int32_t from, int32_t to, float *r)
{
	float a[5][STRIP + 4], inner[3][(STRIP + 2) * PREDICTOR_INNER], outer[STRIP * PREDICTOR_OUTER];
	const float *in[5], *mid[3];

	for (int32_t i = 0; i < 5; i++) {
		const float *row = row_or_null(m, t - 2 + i);

		in[i] = row ? a[i] : NULL;
		if (row)
			row_cut(a[i], row, x, n, from, to);
	}
	for (int i = 0; i < 3; i++) {
		mid[i] = in[i + 1] ? inner[i] : NULL;
		if (!mid[i])
			continue;
		conv_row(be, &(struct conv3_args){ .out = inner[i],
		                                   .in = { in[i], in[i + 1], in[i + 2] },
		                                   .w = p->w1,
		                                   .bias = p->b1,
		                                   .n_in = 1,
		                                   .n_out = PREDICTOR_INNER,
		                                   .n = n + 2 });
		relu(inner[i], (n + 2) * PREDICTOR_INNER);
		/* For the second layer, the outputs of the first layer outside of the image are 0. (For the first
		 * layer, pixels outside of the image are 0.) */
		if (x == from)
			memset(inner[i], 0, PREDICTOR_INNER * sizeof *inner[i]);
		if (x + n == to)
			memset(inner[i] + (n + 1) * PREDICTOR_INNER, 0, PREDICTOR_INNER * sizeof *inner[i]);
	}
	conv_row(be, &(struct conv3_args){ .out = outer,
	                                   .in = { mid[0], mid[1], mid[2] },
	                                   .w = p->w2,
	                                   .bias = p->b2,
	                                   .n_in = PREDICTOR_INNER,
	                                   .n_out = PREDICTOR_OUTER,
	                                   .n = n });
	for (int32_t i = 0; i < n; i++) {
		const float *o = outer + i * PREDICTOR_OUTER;
		float sum[4] = { 0 };

		for (int c = 0; c < PREDICTOR_OUTER; c++)
			sum[c % 4] += p->w3[c] * MAX(o[c], 0);
		r[x + i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
	}
}

/* ---- the image ---- */

/* Compute the network's values of row t and write them to m->r, for the columns from index x0 up to, but not including,
 * index `to`. The image that the network sees begins with column `from`. */
static void row_run(const struct predictor *p, struct backend *be, const struct attn_image *m, int32_t t, int32_t x0,
                    int32_t from, int32_t to)
{
	float *r = m->r + (size_t)((m->first + t) % m->rows) * (size_t)m->cap;

	for (int32_t x = x0; x < to; x += STRIP)
		strip_run(p, be, m, t, x, to - x < STRIP ? to - x : STRIP, from, to, r);
}

/* 1 if the network's values of row t must be computed again after m->fresh rows were added. This holds for the added
 * rows, for the two rows before them, and for the two oldest rows. */
static int row_changed(const struct attn_image *m, int32_t t)
{
	return m->fresh && (t < 2 || t >= m->rows - m->fresh - 2);
}

void predictor_run(const struct predictor *p, struct backend *be, struct attn_image *m, int32_t from, int32_t to,
                   float *out)
{
	/* The last run's values in m->r are still valid for the columns from `from` to kept - 1, unless row_changed()
	 * is 1 for the row. If columns were added at the end, the two columns before them are computed again, because
	 * they have new neighbours. */
	int32_t kept = from == m->from && m->fresh < m->rows && to >= m->to ? to == m->to ? to : m->to - 2 : from,
		n = to - from;

	kept = MAX(kept, from);
	for (int32_t t = 0; t < m->rows; t++)
		row_run(p, be, m, t, row_changed(m, t) ? from : kept, from, to);
	m->from = from;
	m->to = to;
	m->fresh = 0;
	memset(out, 0, (size_t)n * sizeof *out);
	for (int32_t t = 0; t < m->rows; t++) {
		const float *r = m->r + (size_t)((m->first + t) % m->rows) * (size_t)m->cap + from;

		for (int32_t x = 0; x < n; x++)
			out[x] += r[x];
	}
	for (int32_t x = 0; x < n; x++)
		out[x] = p->b3[0] + out[x] / (float)m->rows;
}
