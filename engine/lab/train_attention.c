/* engine/lab/train_attention.c - attention of a training window under a mask, and its gradient.
 *
 * The mask imitates generated tokens under the cache policy `recycled` (select_refresh.c). This was published as
 * continued pretraining: Recycled Attention (arXiv 2411.05787v1, section 5), later RefreshKV (section 6).
 * - The first `prefill` tokens attend to all tokens before them.
 * - The last of these tokens selects a set: per KV head the k entries with the largest probabilities (maximum over the
 *   query heads, max-pooled over `pool` neighbours).
 * - Later tokens attend to the set and to all tokens since the selection. From the second later token on, each token
 *   drops the entry with the lowest score from the set, so that the number of entries read stays the same.
 * - Every `stride` tokens, a token attends to all tokens before it and selects a new set.
 *
 * No gradient flows through the selection. Probabilities outside the mask are stored as 0, so the backward pass does
 * not need the mask. */
#include <stdlib.h>
#include <string.h>

#include "engine/lab/train.h"

/* Arguments of the tasks below. A row is a token of the window. The backward pass skips the rows before `from`. */
struct pass {
	struct trainer *t;
	struct train_acts *a;
	const struct train_mask *mask;
	int32_t from, n;
};
enum { TASK_ROWS = 16 };

/* 1 if the token in this row selects a set of KV entries. Such a token attends to all tokens before it. */
static int selects(const struct train_mask *m, int32_t row)
{
	return m->k && (row == m->prefill - 1 || (row >= m->prefill && (row + 1 - m->prefill) % m->stride == 0));
}

int32_t train_mask_sets(const struct train_mask *m, int32_t n)
{
	return m->k && n >= m->prefill ? 1 + (n - m->prefill) / m->stride : 0;
}

/* Return the row of the token that selects the set with index i. */
static int32_t selector_of(const struct train_mask *m, int32_t i)
{
	return m->prefill - 1 + i * m->stride;
}

/* Return the attention probabilities [n] of the token in this row, in one query head. */
static float *prob_row(const struct pass *p, int32_t head, int32_t row)
{
	return p->a->prob + ((size_t)head * (size_t)p->n + (size_t)row) * (size_t)p->n;
}

/* A KV entry with index `at`, its probability (`raw`), and the largest probability among its neighbours (`pooled`). */
struct ranked {
	float pooled, raw;
	int32_t at;
};

static int best_first(const void *x, const void *y)
{
	const struct ranked *a = x, *b = y;

	if (a->pooled != b->pooled)
		return a->pooled < b->pooled ? 1 : -1;
	return a->raw != b->raw ? (a->raw < b->raw ? 1 : -1) : b->at - a->at;
}

/* Convert the scores of a token that selects a set of KV entries to probabilities. Select the token's set for one KV
 * head: k entries, best first. The set always includes the entry of the token itself, as it does in the cache. */
static void set_make(void *arg, int task)
{
	struct pass *p = arg;
	const struct trainer *t = p->t;
	const struct train_mask *m = p->mask;
	int32_t kv = task % t->n_kv_head, group = t->n_head / t->n_kv_head, row = selector_of(m, task / t->n_kv_head),
		n = row + 1, side = m->pool / 2;
	int32_t *set = t->sets + (size_t)task * (size_t)m->k;
	struct ranked *r = xmalloc((size_t)n * sizeof *r);
	int has = 0;

	for (int32_t h = kv * group; h < (kv + 1) * group; h++)
		train_softmax(prob_row(p, h, row), n);
	for (int32_t i = 0; i < n; i++) {
		r[i] = (struct ranked){ .at = i };
		for (int32_t h = kv * group; h < (kv + 1) * group; h++)
			r[i].raw = prob_row(p, h, row)[i] > r[i].raw ? prob_row(p, h, row)[i] : r[i].raw;
	}
	for (int32_t i = 0; i < n; i++)
		for (int32_t k = i > side ? i - side : 0; k <= i + side && k < n; k++)
			r[i].pooled = r[k].raw > r[i].pooled ? r[k].raw : r[i].pooled;
	qsort(r, (size_t)n, sizeof *r, best_first);
	for (int32_t i = 0; i < m->k; i++) {
		set[i] = r[i].at;
		has |= set[i] == row;
	}
	if (!has)
		set[m->k - 1] = row;
	free(r);
}

/* Convert a token's scores x to probabilities. The token reads all tokens since the last selection, and the selected
 * entries that were not dropped since then. All other entries get the probability 0. */
static void partial_row(const struct pass *p, int32_t head, int32_t row, float *x)
{
	const struct trainer *t = p->t;
	const struct train_mask *m = p->mask;
	int32_t nth = (row + 1 - m->prefill) / m->stride, own = selector_of(m, nth), since = row - own, n = 0;
	int32_t left = m->k - (since - 1), group = t->n_head / t->n_kv_head;
	const int32_t *set = t->sets + ((size_t)nth * (size_t)t->n_kv_head + (size_t)(head / group)) * (size_t)m->k;
	float *read = xmalloc((size_t)(m->k + since) * sizeof *read);

	left = MAX(left, 0);
	for (int32_t i = 0; i < left; i++)
		read[n++] = x[set[i]];
	for (int32_t i = own + 1; i <= row; i++)
		read[n++] = x[i];
	train_softmax(read, n);
	memset(x, 0, (size_t)p->n * sizeof *x);
	for (int32_t i = 0; i < left; i++)
		x[set[i]] = read[i];
	memcpy(x + own + 1, read + left, (size_t)since * sizeof *x);
	free(read);
}

/* Convert the scores of TASK_ROWS tokens in one query head to probabilities. */
static void prob_rows(void *arg, int task)
{
	struct pass *p = arg;
	int32_t tasks = (p->n + TASK_ROWS - 1) / TASK_ROWS, head = task / tasks, from = task % tasks * TASK_ROWS;

	for (int32_t row = from; row < from + TASK_ROWS && row < p->n; row++) {
		float *x = prob_row(p, head, row);

		memset(x + row + 1, 0, (size_t)(p->n - row - 1) * sizeof *x);
		if (selects(p->mask, row))
			continue; /* set_make() has computed these probabilities */
		if (p->mask->k && row >= p->mask->prefill)
			partial_row(p, head, row, x);
		else
			train_softmax(x, row + 1);
	}
}

/* Compute the matrix product g for each of `heads` heads. a_step, b_step and c_step are the distances in floats from
 * the operand of one head to that of the next. b_shared is the number of consecutive heads that use the same operand
 * b. */
static void heads_gemm(struct trainer *t, struct gemm g, int32_t heads, size_t a_step, size_t b_step, int32_t b_shared,
                       size_t c_step)
{
	struct gemm *all = xmalloc((size_t)heads * sizeof *all);

	for (int32_t h = 0; h < heads; h++) {
		all[h] = g;
		all[h].a += (size_t)h * a_step;
		all[h].b += (size_t)(h / b_shared) * b_step;
		all[h].c += (size_t)h * c_step;
	}
	backend_gemm(t->be, all, heads);
	free(all);
}

void train_attention(struct trainer *t, struct train_acts *a, const struct train_mask *m, int32_t n)
{
	struct pass p = { .t = t, .a = a, .mask = m, .n = n };
	int32_t group = t->n_head / t->n_kv_head;
	size_t dim = (size_t)t->head_dim, q = (size_t)t->n_head * dim, kv = (size_t)t->n_kv_head * dim,
	       rows = (size_t)n;

	heads_gemm(t,
	           (struct gemm){ .c = a->prob,
	                          .a = a->q,
	                          .b = a->k,
	                          .m = n,
	                          .n = n,
	                          .k = t->head_dim,
	                          .a_row = q,
	                          .a_col = 1,
	                          .b_row = 1,
	                          .b_col = kv,
	                          .c_row = rows,
	                          .alpha = t->attn_scale },
	           t->n_head, dim, dim, group, rows * rows);
	backend_each(t->be, set_make, &p, train_mask_sets(m, n) * t->n_kv_head);
	backend_each(t->be, prob_rows, &p, t->n_head * ((n + TASK_ROWS - 1) / TASK_ROWS));
	heads_gemm(t,
	           (struct gemm){ .c = a->attn,
	                          .a = a->prob,
	                          .b = a->v,
	                          .m = n,
	                          .n = t->head_dim,
	                          .k = n,
	                          .a_row = rows,
	                          .a_col = 1,
	                          .b_row = kv,
	                          .b_col = 1,
	                          .c_row = q,
	                          .alpha = 1 },
	           t->n_head, rows * rows, dim, group, dim);
}

/* Convert dprob of TASK_ROWS tokens in one query head to the gradient with respect to the products q . k. */
static void back_rows(void *arg, int task)
{
	struct pass *p = arg;
	int32_t m = p->n - p->from, tasks = (m + TASK_ROWS - 1) / TASK_ROWS, head = task / tasks,
		from = task % tasks * TASK_ROWS;

	for (int32_t row = from; row < from + TASK_ROWS && row < m; row++)
		train_softmax_back(p->t->dprob + ((size_t)head * (size_t)m + (size_t)row) * (size_t)p->n,
		                   prob_row(p, head, p->from + row), p->n, p->t->attn_scale);
}

void train_attention_back(struct trainer *t, const struct train_acts *a, int32_t from, int32_t n)
{
	struct train_acts acts = *a;
	struct pass p = { .t = t, .a = &acts, .from = from, .n = n };
	int32_t group = t->n_head / t->n_kv_head, m = n - from;
	size_t dim = (size_t)t->head_dim, q = (size_t)t->n_head * dim, kv = (size_t)t->n_kv_head * dim, all = (size_t)n,
	       rows = (size_t)m, first = (size_t)from;

	heads_gemm(t,
	           (struct gemm){ .c = t->dprob,
	                          .a = t->dattn,
	                          .b = a->v,
	                          .m = m,
	                          .n = n,
	                          .k = t->head_dim,
	                          .a_row = q,
	                          .a_col = 1,
	                          .b_row = 1,
	                          .b_col = kv,
	                          .c_row = all,
	                          .alpha = 1 },
	           t->n_head, dim, dim, group, rows * all);
	/* All query heads of a KV head add to the same dv, so compute these heads one after the other. */
	for (int32_t g = 0; g < group; g++)
		heads_gemm(t,
		           (struct gemm){ .c = t->dv,
		                          .a = a->prob + ((size_t)g * all + first) * all + first,
		                          .b = t->dattn + (size_t)g * dim,
		                          .m = m,
		                          .n = t->head_dim,
		                          .k = m,
		                          .a_row = 1,
		                          .a_col = all,
		                          .b_row = q,
		                          .b_col = 1,
		                          .c_row = kv,
		                          .alpha = 1,
		                          .accumulate = g > 0 },
		           t->n_kv_head, (size_t)group * all * all, (size_t)group * dim, 1, dim);
	backend_each(t->be, back_rows, &p, t->n_head * ((m + TASK_ROWS - 1) / TASK_ROWS));
	heads_gemm(t,
	           (struct gemm){ .c = t->dq,
	                          .a = t->dprob,
	                          .b = a->k,
	                          .m = m,
	                          .n = t->head_dim,
	                          .k = n,
	                          .a_row = all,
	                          .a_col = 1,
	                          .b_row = kv,
	                          .b_col = 1,
	                          .c_row = q,
	                          .alpha = 1 },
	           t->n_head, rows * all, dim, group, dim);
	for (int32_t g = 0; g < group; g++)
		heads_gemm(t,
		           (struct gemm){ .c = t->dk,
		                          .a = t->dprob + (size_t)g * rows * all + first,
		                          .b = a->q + first * q + (size_t)g * dim,
		                          .m = m,
		                          .n = t->head_dim,
		                          .k = m,
		                          .a_row = 1,
		                          .a_col = all,
		                          .b_row = q,
		                          .b_col = 1,
		                          .c_row = kv,
		                          .alpha = 1,
		                          .accumulate = g > 0 },
		           t->n_kv_head, (size_t)group * rows * all, (size_t)group * dim, 1, dim);
}
