/* engine/attended.c - see attended.h. */
#include "engine/attended.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_ROWS = 1 << 13 };   /* rows that are attended once more for each look, or those of one layer */

void attended_release(struct attended *a)
{
	if (a->mass.data)
		a->kv->be->ops->drop(a->kv->be, &a->mass);
	free(a->weight);
	free(a->row);
	free(a->layer);
	*a = (struct attended){ 0 };
}

static int attended_open(struct attended *a, struct kv *kv, int32_t chunk)
{
	struct err err;

	a->mass = (struct tensor){ .type = DT_F32, .rows = kv->hp->n_kv_head, .cols = kv->cap };
	if (kv->be->ops->alloc(kv->be, &a->mass)) {
		a->mass.data = NULL;
		return -1;
	}
	a->kv = kv;
	a->weight = try_alloc((size_t)chunk, sizeof *a->weight, "weights", &err);
	a->row = try_alloc((size_t)kv->cap, sizeof *a->row, "probabilities", &err);
	a->layer = xcalloc((size_t)kv->n_layer, sizeof *a->layer);
	if (a->weight && a->row)
		return 0;
	attended_release(a);
	return -1;
}

void attended_look(struct attended *a, struct kv *kv, int32_t rows, int32_t chunk)
{
	int32_t n = LOOK_ROWS / (rows > 0 ? rows : 1);

	if (!a->kv) {
		if (attended_open(a, kv, chunk))
			return;
		attended_forget(a);
	}
	n = n < 1 ? 1 : n < kv->n_layer ? n : kv->n_layer;
	for (int32_t i = 0; i < kv->n_layer; i++)
		a->layer[i].wanted = (i - a->next + kv->n_layer) % kv->n_layer < n;
	a->next = (a->next + n) % kv->n_layer;
}

static double sum_of(const float *x, int32_t n)
{
	float s[8] = { 0 };
	double sum = 0;

	for (int32_t i = 0; i < n; i++)
		s[i % 8] += x[i];
	for (int i = 0; i < 8; i++)
		sum += (double)s[i];
	return sum;
}

void attended_measure(struct attended *a, int32_t layer, struct tensor *out, struct attn_part *part, int32_t n_part, int32_t n,
                      const int32_t rows[1 + RINGS_MOST])
{
	static const float zero[1024];
	struct backend *be = a->kv->be;
	int32_t heads = a->kv->hp->n_kv_head, cols = 0;
	double *now = a->layer[layer].now, all = 0;

	a->layer[layer].wanted = 0;
	for (int32_t i = 0; i < n_part; i++)
		cols += part[i].n_rows;
	for (int32_t h = 0; h < heads; h++)
		for (int32_t c = 0, m; c < cols; c += m) {
			m = cols - c < 1024 ? cols - c : 1024;
			be->ops->write(be, &a->mass, 4 * ((size_t)h * (size_t)a->mass.cols + (size_t)c), zero, 4 * (size_t)m);
		}
	for (int32_t i = 0; i < n; i++)
		a->weight[i] = i == n - 1;
	kv_attend(a->kv, layer, out, part, n_part, n,
	          &(struct attn_probe){ .mass = &a->mass, .weight = a->weight, .reduce = REDUCE_MEAN });
	memset(now, 0, sizeof a->layer[layer].now);
	for (int32_t h = 0; h < heads; h++) {
		memset(a->row, 0, (size_t)cols * sizeof *a->row);
		be->ops->read(be, &a->mass, 4 * (size_t)h * (size_t)a->mass.cols, a->row, 4 * (size_t)cols);
		now[0] += sum_of(a->row, rows[0]);
		for (int32_t i = RINGS_MOST, at = rows[0]; i > 0; at += rows[i--])
			now[i] += sum_of(a->row + at, rows[i]);
	}
	for (int32_t i = 0; i <= RINGS_MOST; i++)
		all += now[i];
	for (int32_t i = 0; i <= RINGS_MOST; i++)
		now[i] /= all;
	if (!(all > 0) || !isfinite(all))
		now[0] = -1;
	for (int32_t i = 0; i < n_part; i++)
		part[i].choice = NULL;   /* made */
}

void attended_commit(struct attended *a)
{
	for (int32_t i = 0; a->kv && i < a->kv->n_layer; i++) {
		if (a->layer[i].now[0] >= 0)
			memcpy(a->layer[i].share, a->layer[i].now, sizeof a->layer[i].share);
		a->layer[i].now[0] = -1;
	}
}

void attended_forget(struct attended *a)
{
	for (int32_t i = 0; a->kv && i < a->kv->n_layer; i++)
		a->layer[i].now[0] = a->layer[i].share[0] = -1;
}

int32_t attended_shares(const struct attended *a, float share[1 + RINGS_MOST])
{
	double sum[1 + RINGS_MOST] = { 0 };
	int32_t n = 0;

	for (int32_t i = 0; a->kv && i < a->kv->n_layer; i++) {
		if (a->layer[i].share[0] < 0)
			continue;
		n++;
		for (int32_t k = 0; k <= RINGS_MOST; k++)
			sum[k] += a->layer[i].share[k];
	}
	for (int32_t k = 0; k <= RINGS_MOST; k++)
		share[k] = n ? (float)(sum[k] / n) : 0;
	return n;
}
