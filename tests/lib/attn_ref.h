/* tests/lib/attn_ref.h - attention computed in double, and calls of attn() on a backend with guards after the output.
 * For tests of all backends. */
#ifndef WEIR_TEST_ATTN_REF_H
#define WEIR_TEST_ATTN_REF_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/common/quant.h"
#include "kernels/cpu/select.h"
#include "tests/lib/levels.h"

static const enum dtype attn_types[] = { DT_F16, DT_F32, DT_BF16, DT_Q8_0, DT_Q4_0 };
enum { N_TYPES = LEN(attn_types), MOST_SEGMENTS = 16 };

/* ---- helpers ---- */

static inline int32_t below(int32_t n)
{
	return (int32_t)(test_rand() % (uint64_t)n);
}

/* ---- one situation: tokens, segments, planes ---- */

struct shape {
	int32_t n_head, n_kv, dim, cap, n;
	enum dtype type;
	int32_t n_seg, n_rows[MOST_SEGMENTS];
	int list[MOST_SEGMENTS];
	float spread;   /* scale of the queries: 0.1 = even attention, 3 = peaked */
	int32_t window; /* sliding window of segments without lists; 0 = none */
	float softcap;
	int sinks;  /* 1 = each head has an attention sink, sink_of() */
	int biased; /* 1 = the first list adds bias_of() to the scores of its slots */
	int ragged; /* 1 = lists of different lengths, list_length(); the rest of a list has invalid slots */
	int prompt; /* 1 = compute the tokens as part of a prompt */
	int apart;  /* 1 = keys have the type `type`, values `v_type`; 0 = both have `type` */
	enum dtype v_type;
};

struct world {
	struct shape s;
	int32_t cols, row0[MOST_SEGMENTS];
	float *q[MOST_SEGMENTS]; /* [n][n_head * dim] */
	/* [n_kv][n_rows + 3]: the first n_rows are the slots of the segment, if it is a list */
	int32_t *rows[MOST_SEGMENTS];
	void *kb, *vb; /* planes as stored */
	float *k, *v;  /* the same planes as floats */
	/* [n][n_head * block_bytes]: one bit for each block of slots: 1 = the query reads it. NULL = all blocks are
	 * read. Only for a single segment from slot 0 on. */
	uint8_t *blocks;
	int32_t block_bytes;
	int bidirectional; /* 1: no causal mask */
};

static inline int world_reads(const struct world *w, int32_t token, int32_t head, int32_t slot)
{
	int32_t b = slot / READ_BLOCK;

	return !w->blocks ||
	       w->blocks[(size_t)(token * w->s.n_head + head) * (size_t)w->block_bytes + (size_t)(b / 8)] >> b % 8 & 1;
}

static inline float sink_of(int32_t head)
{
	return 3 * sinf((float)(7 * head + 1));
}
/* Return a bias as the bias of a sample is: 0 for selected slots, up to 4 for sampled slots, SAMPLE_NONE for missing
 * slots. */
static inline float bias_of(int32_t head, int seg, int32_t k)
{
	int32_t x = (37 * k + 11 * head + 5 * seg) % 23;

	return x < 8 || !k ? 0 : x == 22 ? SAMPLE_NONE : (float)x / 6;
}

static inline int biased_list(const struct shape *s, int seg)
{
	for (int i = 0; i < seg; i++)
		if (s->list[i])
			return 0;
	return s->biased && s->list[seg];
}

/* Return the number of slots that a KV head has in a segment; the last segment has all. */
static inline int32_t list_length(const struct shape *s, int seg, int32_t head)
{
	int32_t n = s->n_rows[seg];

	return !s->ragged || !s->list[seg] || seg == s->n_seg - 1 ? n
	       : (head + seg) % 3                                 ? (37 * head + 11) % (n + 1)
	                                                          : n;
}

static inline enum dtype value_type(const struct shape *s)
{
	return s->apart ? s->v_type : s->type;
}

static inline void plane_random(const struct shape *s, enum dtype type, void **stored, float **x)
{
	size_t n = (size_t)s->n_kv * (size_t)s->cap * (size_t)s->dim;

	*x = must_alloc(n * sizeof **x);
	*stored = must_alloc((size_t)dtype_bytes(type, n));
	for (size_t i = 0; i < n; i++)
		(*x)[i] = test_randf(-1, 1);
	CHECK(dtype_from_f32(type, *stored, *x, (int64_t)n) == 0);
	dtype_to_f32(type, *x, *stored, (int64_t)n);
	for (size_t i = 0; kv_transformed(type) && i < n; i += (size_t)s->dim)
		hadamard(*x + i, s->dim);
}

static inline struct world world_new(const struct shape *s)
{
	struct world w = { .s = *s };
	size_t width = (size_t)(s->n_head * s->dim);

	plane_random(s, s->type, &w.kb, &w.k);
	plane_random(s, value_type(s), &w.vb, &w.v);
	for (int p = 0; p < s->n_seg; p++) {
		int32_t rows = s->n_rows[p];

		w.cols += rows;
		w.q[p] = must_alloc((size_t)s->n * width * 4);
		for (size_t i = 0; i < (size_t)s->n * width; i++)
			w.q[p][i] = test_randf(-s->spread, s->spread);
		w.row0[p] = below(s->cap - rows + 1);
		w.rows[p] = must_alloc((size_t)(s->n_kv * (rows + 3)) * 4);
		for (int32_t i = 0; i < s->n_kv * (rows + 3); i++)
			w.rows[p][i] = i % (rows + 3) < list_length(s, p, i / (rows + 3)) || !s->ragged ? below(s->cap)
			                                                                                : s->cap + i;
	}
	return w;
}

static inline void world_free(struct world *w)
{
	for (int p = 0; p < w->s.n_seg; p++) {
		free(w->q[p]);
		free(w->rows[p]);
	}
	free(w->blocks);
	free(w->kb);
	free(w->vb);
	free(w->k);
	free(w->v);
}

static inline size_t world_row(const struct world *w, int32_t head, int seg, int32_t k)
{
	int32_t row = w->s.list[seg] ? w->rows[seg][head * (w->s.n_rows[seg] + 3) + k] : w->row0[seg] + k;

	return ((size_t)head * (size_t)w->s.cap + (size_t)row) * (size_t)w->s.dim;
}

/* Compute in double the output out [n][width] and the probabilities p [n][n_head][cols]. A slot that a token does not
 * read has probability 0. */
static inline void world_double(const struct world *w, double *out, double *p)
{
	const struct shape *s = &w->s;
	int32_t dim = s->dim, group = s->n_head / s->n_kv;

	memset(out, 0, (size_t)s->n * (size_t)(s->n_head * dim) * sizeof *out);
	for (int32_t i = 0; i < s->n; i++)
		for (int32_t h = 0; h < s->n_head; h++) {
			size_t at = (size_t)i * (size_t)s->n_head + (size_t)h;
			double *pr = p + at * (size_t)w->cols, *o = out + at * (size_t)dim, m = -INFINITY, l = 0;
			int32_t seen = w->bidirectional ? w->cols : w->cols - (s->n - 1 - i), c = 0,
				from = s->window && seen > s->window ? seen - s->window : 0;

			for (int seg = 0; seg < s->n_seg; seg++)
				for (int32_t k = 0; k < s->n_rows[seg] && c < seen; k++, c++) {
					const float *key, *q = w->q[seg] + at * (size_t)dim;

					pr[c] = -INFINITY;
					if (k >= list_length(s, seg, h / group))
						continue;
					key = w->k + world_row(w, h / group, seg, k);
					pr[c] = 0;
					for (int32_t j = 0; j < dim; j++)
						pr[c] += (double)q[j] * key[j];
					pr[c] /= sqrt(dim);
					if (s->softcap > 0)
						pr[c] = s->softcap * tanh(pr[c] / s->softcap);
					if (biased_list(s, seg))
						pr[c] += (double)bias_of(h / group, seg, k);
					if (c < from || !world_reads(w, i, h, k))
						pr[c] = -INFINITY;
					m = fmax(m, pr[c]);
				}
			if (s->sinks)
				l = exp((double)sink_of(h) - m);
			for (c = 0; c < seen; c++)
				l += pr[c] = exp(pr[c] - m);
			for (c = 0; c < w->cols; c++)
				pr[c] = c < seen ? pr[c] / l : 0;
			c = 0;
			for (int seg = 0; seg < s->n_seg; seg++)
				for (int32_t k = 0; k < s->n_rows[seg] && c < seen; k++, c++) {
					const float *v = w->v;

					if (k >= list_length(s, seg, h / group))
						continue;
					v += world_row(w, h / group, seg, k);
					for (int32_t j = 0; j < dim; j++)
						o[j] += pr[c] * v[j];
				}
		}
}

/* The tensors of a world on one backend. */
struct stage {
	struct backend *be;
	const struct world *w;
	struct tensor k, v, rows[MOST_SEGMENTS], bias[MOST_SEGMENTS], lengths[MOST_SEGMENTS], sinks;
	struct attn_args args;
};

static inline struct stage stage_new(struct backend *be, const struct world *w)
{
	const struct shape *s = &w->s;
	struct stage g = { .be = be, .w = w };

	g.k = tensor_new(be, s->type, s->n_kv * s->cap, s->dim, w->kb);
	g.v = tensor_new(be, value_type(s), s->n_kv * s->cap, s->dim, w->vb);
	for (int p = 0; p < s->n_seg; p++)
		if (s->list[p]) {
			int32_t cols = s->n_rows[p] + 3;
			float *bias = must_alloc((size_t)(s->n_kv * cols) * sizeof *bias);
			int32_t *length = must_alloc((size_t)s->n_kv * sizeof *length);

			for (int32_t h = 0; h < s->n_kv; h++)
				length[h] = list_length(s, p, h);
			g.lengths[p] = tensor_new(be, DT_I32, 1, s->n_kv, length);
			free(length);
			for (int32_t i = 0; i < s->n_kv * cols; i++)
				bias[i] = bias_of(i / cols, p, i % cols);
			g.rows[p] = tensor_new(be, DT_I32, s->n_kv, cols, w->rows[p]);
			g.bias[p] = tensor_new(be, DT_F32, s->n_kv, cols, bias);
			free(bias);
		}
	g.args = (struct attn_args){ .n_head = s->n_head,
		                     .n_kv_head = s->n_kv,
		                     .head_dim = s->dim,
		                     .cap = s->cap,
		                     .scale = 1 / sqrtf((float)s->dim),
		                     .window = s->window,
		                     .softcap = s->softcap,
		                     .prompt = s->prompt,
		                     .bidirectional = w->bidirectional };
	if (s->sinks) {
		float *sink = must_alloc((size_t)s->n_head * sizeof *sink);

		for (int32_t h = 0; h < s->n_head; h++)
			sink[h] = sink_of(h);
		g.sinks = tensor_new(be, DT_F32, 1, s->n_head, sink);
		free(sink);
	}
	return g;
}

static inline void stage_free(struct stage *g)
{
	g->be->ops->drop(g->be, &g->k);
	g->be->ops->drop(g->be, &g->v);
	if (g->w->s.sinks)
		g->be->ops->drop(g->be, &g->sinks);
	for (int p = 0; p < g->w->s.n_seg; p++)
		if (g->w->s.list[p]) {
			g->be->ops->drop(g->be, &g->rows[p]);
			g->be->ops->drop(g->be, &g->bias[p]);
			g->be->ops->drop(g->be, &g->lengths[p]);
		}
}

#define GUARD 12345.5f /* value of the guards after outputs */

/* Compute tokens [t0, t1) in one call; their outputs go to out [t1 - t0][width]. */
static inline void stage_run(struct stage *g, int32_t t0, int32_t t1, const struct attn_probe *probe, float *out)
{
	const struct shape *s = &g->w->s;
	struct backend *be = g->be;
	int32_t width = s->n_head * s->dim, n = t1 - t0;
	size_t bytes = (size_t)n * (size_t)width * 4;
	struct tensor q[MOST_SEGMENTS], o = tensor_new(be, DT_F32, n + 1, width, NULL), blocks;
	struct attn_segment seg[MOST_SEGMENTS];
	float *guard = must_alloc((size_t)width * 4);

	for (int p = 0; p < s->n_seg; p++) {
		q[p] = tensor_new(be, DT_F32, n, width, g->w->q[p] + (size_t)t0 * (size_t)width);
		seg[p] = (struct attn_segment){ .q = &q[p],
			                        .slots = s->list[p] ? &g->rows[p] : NULL,
			                        .lengths = s->ragged && s->list[p] && p < s->n_seg - 1 ? &g->lengths[p]
			                                                                               : NULL,
			                        .slot0 = s->list[p] ? 0 : g->w->row0[p],
			                        .n_slots = s->n_rows[p],
			                        .bias = biased_list(s, p) ? &g->bias[p] : NULL };
	}
	seg[s->n_seg - 1].n_slots -= s->n - t1;
	for (int32_t j = 0; j < width; j++)
		guard[j] = GUARD;
	be->ops->write(be, &o, bytes, guard, (size_t)width * 4);
	g->args.out = &o;
	g->args.k = &g->k;
	g->args.v = &g->v;
	g->args.seg = seg;
	g->args.n_seg = s->n_seg;
	g->args.probe = probe;
	if (g->w->blocks) {
		int32_t cols = s->n_head * g->w->block_bytes;

		blocks = tensor_new(be, DT_U8, n, cols, g->w->blocks + (size_t)t0 * (size_t)cols);
		g->args.blocks = &blocks;
	}
	g->args.sinks = s->sinks ? &g->sinks : NULL;
	be->ops->attn(be, &g->args, n);
	be->ops->read(be, &o, 0, out, bytes);
	be->ops->read(be, &o, bytes, guard, (size_t)width * 4);
	for (int32_t j = 0; j < width; j++)
		if (guard[j] != GUARD) {
			test_fail(__FILE__, __LINE__, "attention wrote past its last row");
			break;
		}
	for (int p = 0; p < s->n_seg; p++)
		be->ops->drop(be, &q[p]);
	if (g->w->blocks)
		be->ops->drop(be, &blocks);
	g->args.blocks = NULL;
	be->ops->drop(be, &o);
	free(guard);
}

static inline double nmse(const float *a, const double *b, size_t n)
{
	double d = 0, s = 0;

	for (size_t i = 0; i < n; i++) {
		d += (a[i] - b[i]) * (a[i] - b[i]);
		s += b[i] * b[i];
	}
	return d / s;
}

static const char *describe(const struct shape *s)
{
	static char text[400];
	int at = snprintf(text, sizeof text, "%d/%d heads of %d, %s, values %s, %d tokens%s, parts", (int)s->n_head,
	                  (int)s->n_kv, (int)s->dim, dtype_info(s->type)->name, dtype_info(value_type(s))->name,
	                  (int)s->n, s->prompt ? " of a prompt" : "");

	for (int p = 0; p < s->n_seg; p++)
		at += snprintf(text + at, sizeof text - (size_t)at, " %d%s", (int)s->n_rows[p],
		               s->list[p] ? " listed" : "");
	return text;
}

static inline struct shape shape_random(int round)
{
	static const int32_t dims[] = { 64, 32, 40, 80, 96, 128, 256, 64 }, groups[] = { 3, 1, 2, 4, 7, 8, 5, 16 };
	static const int32_t lengths[] = { 1, 63, 64, 65, 511, 512, 513, 1027 };
	struct shape s = { .type = attn_types[round % N_TYPES], .dim = dims[below(8)] };

	s.apart = round % 3 == 1;
	s.v_type = attn_types[below(N_TYPES)];
	if ((dtype_info(s.type)->block | dtype_info(value_type(&s))->block) > 1 && s.dim % 32)
		s.dim = 64;
	s.n_kv = 1 + below(3);
	s.n_head = s.n_kv * groups[round % 8];
	s.n = below(3) ? 1 + below(20) : 1;
	s.n_seg = 1 + below(4);
	s.spread = below(2) ? 2 : 0.3f;
	for (int p = 0; p < s.n_seg; p++) {
		s.n_rows[p] = below(2) ? lengths[below(8)] : below(200);
		s.list[p] = below(2);
	}
	if (s.n_rows[s.n_seg - 1] < s.n)
		s.n_rows[s.n_seg - 1] = s.n + below(30);
	s.cap = 1100;
	return s;
}

/* Return a random shape with features that few models have: a soft cap, a sliding window, sinks. */
static inline struct shape shape_of_few(int round)
{
	struct shape s = shape_random(round);

	if (round % 3 == 1) {
		if (round % 4) {
			s.n_seg = 1;
			s.n_rows[0] = s.n + below(1000);
		}
		for (int p = 0; p < s.n_seg; p++)
			s.list[p] = 0;
		s.window = 1 + below(round % 2 ? 1100 : 70);
	}
	if (round % 3 == 2 || round % 6 == 1)
		s.softcap = test_randf(0.5f, 50);
	s.sinks = round % 5 == 3;
	s.biased = round % 4 == 2;
	return s;
}

/* Return a random shape with lists of different lengths before its last segment. */
static inline struct shape shape_ragged(int round)
{
	struct shape s = shape_of_few(round);

	s.window = 0;
	s.ragged = 1;
	if (s.n_seg == 1) {
		s.n_seg = 2;
		s.n_rows[1] = s.n + below(30);
		s.list[1] = 0;
	}
	s.list[0] = 1;
	return s;
}

/* Return the largest permitted error (NMSE). It is larger for tokens of a prompt, which may be computed in narrower
 * arithmetic, and for keys of q4_0, with which queries may be rounded to bytes. */
static inline double error_most(const struct shape *s)
{
	if (s->prompt && s->type != DT_F32 && value_type(s) != DT_F32)
		return 3e-7;
	return s->type == DT_Q4_0 ? 1e-4 : 1e-11;
}

/* For `rounds` shapes, compare attention with the computation in double, at every level that this machine has. with:
 * changes a world before it is used; may be NULL. */
static inline void attn_matches_double(struct shape (*shape)(int round), void (*with)(struct world *), int rounds,
                                       const char *what)
{
	double worst[N_LEVELS] = { 0 };

	for (int round = 0; round < rounds; round++) {
		struct shape s = shape(round);
		struct world w = world_new(&s);
		size_t all = (size_t)s.n * (size_t)(s.n_head * s.dim);
		double *ref = must_alloc(all * sizeof *ref),
		       *p = must_alloc((size_t)(s.n * s.n_head) * (size_t)w.cols * sizeof *p);
		float *got = must_alloc(all * 4);

		if (with)
			with(&w);
		w.bidirectional = !s.window && !w.blocks && round % 8 > 4;
		world_double(&w, ref, p);
		for (int l = 0; l < N_LEVELS; l++)
			for (int threads = 1; threads <= 3; threads += 2) {
				struct backend *be = open_level(levels[l], threads);
				struct stage g;
				double e;

				if (!be)
					continue;
				g = stage_new(be, &w);
				stage_run(&g, 0, s.n, NULL, got);
				e = nmse(got, ref, all);
				CHECK_MSG(e < error_most(&s), "%s, %d threads, %s: nmse %g", levels[l], threads,
				          describe(&s), e);
				worst[l] = fmax(worst[l], e);
				stage_free(&g);
				finish(be);
			}
		world_free(&w);
		free(ref);
		free(p);
		free(got);
	}
	test_note("%s, worst nmse: %s %.1e %s %.1e %s %.1e", what, levels[0], worst[0], levels[1], worst[1], levels[2],
	          worst[2]);
}

static inline int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Reduce the probabilities of several heads to one number. stride: distance of two heads in p. */
static inline double reduced(const double *p, size_t stride, int32_t heads, enum reduce reduce)
{
	double x[64], sum = 0;

	for (int32_t h = 0; h < heads; h++)
		sum += x[h] = p[(size_t)h * stride];
	qsort(x, (size_t)heads, sizeof *x, ascending);
	return reduce == REDUCE_MAX    ? x[heads - 1]
	       : reduce == REDUCE_MEAN ? sum / heads
	                               : (x[(heads - 1) / 2] + x[heads / 2]) / 2;
}

/* Return how many of the n probabilities are needed to reach the sum `share`, if the largest are taken first. */
static inline double columns_holding(const double *p, int32_t n, double share)
{
	double *x = must_alloc((size_t)n * sizeof *x), sum = 0;
	int32_t i = n;

	memcpy(x, p, (size_t)n * sizeof *x);
	qsort(x, (size_t)n, sizeof *x, ascending);
	while (i > 0 && sum < share - 1e-6)
		sum += x[--i];
	free(x);
	return n - i;
}

#endif
