/* tests/lib/train_ref.h - computes the loss of a plain transformer in double, written independently. It is the
 * reference for the gradients of training.
 *
 * Tokens before `fixed` are constants: their keys and values are frozen, so changed parameters affect only later
 * tokens. */
#ifndef WEIR_TRAIN_REF_H
#define WEIR_TRAIN_REF_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lab/train.h"

struct ref_matrix {
	double *w, *a, *b;
};
struct ref_layer {
	double *attn_norm, *ffn_norm;
	struct ref_matrix m[TRAIN_TARGETS];
	double *k, *v;
	int32_t *sets;
};
struct ref {
	const struct trainer *t;
	double *embd, *out_norm, *out;
	struct ref_layer *layer;
	int32_t n, fixed;
	struct train_mask mask;
	int frozen; /* 1 = keep the selected sets, and the keys and values of the prefix, from an earlier call */
};

static inline double *ref_copy(const struct train_param *p)
{
	double *d = p->w ? malloc(p->n * sizeof *d) : NULL;

	for (size_t i = 0; d && i < p->n; i++)
		d[i] = (double)p->w[i];
	return d;
}

static inline struct ref ref_new(const struct trainer *t, const struct train_mask *m, int32_t n, int32_t fixed)
{
	struct ref r = { .t = t, .n = n, .fixed = fixed, .mask = *m };
	size_t kv = (size_t)n * (size_t)(t->n_kv_head * t->head_dim);

	r.embd = ref_copy(&t->embd);
	r.out_norm = ref_copy(&t->out_norm);
	r.out = ref_copy(&t->out.w);
	r.layer = calloc((size_t)t->n_layer, sizeof *r.layer);
	for (int32_t i = 0; i < t->n_layer; i++) {
		struct ref_layer *l = &r.layer[i];

		l->attn_norm = ref_copy(&t->layer[i].attn_norm);
		l->ffn_norm = ref_copy(&t->layer[i].ffn_norm);
		for (int p = 0; p < TRAIN_TARGETS; p++)
			l->m[p] = (struct ref_matrix){ ref_copy(&t->layer[i].m[p].w), ref_copy(&t->layer[i].m[p].a),
				                       ref_copy(&t->layer[i].m[p].b) };
		l->k = calloc(kv, sizeof *l->k);
		l->v = calloc(kv, sizeof *l->v);
		l->sets = calloc((size_t)(n * t->n_kv_head * (m->k + 1)), sizeof *l->sets);
	}
	return r;
}

static inline void ref_free(struct ref *r)
{
	for (int32_t i = 0; i < r->t->n_layer; i++) {
		struct ref_layer *l = &r->layer[i];

		for (int p = 0; p < TRAIN_TARGETS; p++)
			free(l->m[p].w), free(l->m[p].a), free(l->m[p].b);
		free(l->attn_norm), free(l->ffn_norm), free(l->k), free(l->v), free(l->sets);
	}
	free(r->layer), free(r->embd), free(r->out_norm), free(r->out);
}

static inline void ref_norm(const struct ref *r, double *y, const double *x, const double *w)
{
	int32_t n = r->t->n_embd;
	double sum = 0;

	for (int32_t i = 0; i < n; i++)
		sum += x[i] * x[i];
	for (int32_t i = 0; i < n; i++)
		y[i] = x[i] / sqrt(sum / n + (double)r->t->eps) * w[i];
}

static inline void ref_times(const struct ref *r, int32_t layer, enum train_target p, double *y, const double *x)
{
	const struct train_matrix *s = &r->t->layer[layer].m[p];
	const struct ref_matrix *m = &r->layer[layer].m[p];

	for (int32_t i = 0; i < s->rows; i++) {
		y[i] = 0;
		for (int32_t k = 0; k < s->cols; k++)
			y[i] += m->w[i * s->cols + k] * x[k];
	}
	for (int32_t q = 0; m->a && q < s->rank; q++) {
		double low = 0;

		for (int32_t k = 0; k < s->cols; k++)
			low += m->a[q * s->cols + k] * x[k];
		for (int32_t i = 0; i < s->rows; i++)
			y[i] += (double)s->scale * m->b[i * s->rank + q] * low;
	}
}

static inline void ref_rope(const struct ref *r, double *x, int32_t heads, int32_t pos)
{
	const struct rope_freqs *f = r->t->rope;

	for (int32_t h = 0; h < heads; h++, x += r->t->head_dim)
		for (int32_t j = 0; j < f->dims / 2; j++) {
			int32_t a = f->neox ? j : 2 * j, b = f->neox ? j + f->dims / 2 : 2 * j + 1;
			double c = cos(pos * f->freq[j]) * f->mscale, s = sin(pos * f->freq[j]) * f->mscale, was = x[a];

			x[a] = was * c - x[b] * s;
			x[b] = was * s + x[b] * c;
		}
}

/* Set p[n] to the attention probabilities of one head of token i. Only tokens with reads[] = 1 count. */
static inline void ref_probs(const struct ref *r, const struct ref_layer *l, const double *q, int32_t head, int32_t i,
                             const char *reads, double *p)
{
	const struct trainer *t = r->t;
	int32_t kv = t->n_kv_head * t->head_dim, g = head / (t->n_head / t->n_kv_head) * t->head_dim;
	double sum = 0;

	for (int32_t j = 0; j <= i; j++) {
		p[j] = 0;
		for (int32_t d = 0; reads[j] && d < t->head_dim; d++)
			p[j] += q[head * t->head_dim + d] * l->k[j * kv + g + d];
		sum += p[j] = reads[j] ? exp((double)t->attn_scale * p[j]) : 0;
	}
	for (int32_t j = 0; j <= i; j++)
		p[j] /= sum;
}

/* Set set[] to the k entries of a KV head with the largest probability for token i, best first. */
static inline void ref_select(const struct ref *r, const struct ref_layer *l, const double *q, int32_t kv, int32_t i,
                              int32_t *set)
{
	int32_t group = r->t->n_head / r->t->n_kv_head, k = r->mask.k;
	double *raw = calloc((size_t)r->n, sizeof *raw), *pooled = calloc((size_t)r->n, sizeof *pooled),
	       *p = calloc((size_t)r->n, sizeof *p);
	char *all = malloc((size_t)r->n), *used = calloc((size_t)r->n, 1);

	memset(all, 1, (size_t)r->n);
	for (int32_t h = kv * group; h < (kv + 1) * group; h++) {
		ref_probs(r, l, q, h, i, all, p);
		for (int32_t j = 0; j <= i; j++)
			raw[j] = fmax(raw[j], p[j]);
	}
	for (int32_t j = 0; j <= i; j++)
		for (int32_t o = -(r->mask.pool / 2); o <= r->mask.pool / 2; o++)
			if (j + o >= 0 && j + o <= i)
				pooled[j] = fmax(pooled[j], raw[j + o]);
	for (int32_t n = 0; n < k; n++) {
		int32_t best = -1;

		for (int32_t j = 0; j <= i; j++)
			if (!used[j] && (best < 0 || pooled[j] > pooled[best] ||
			                 (pooled[j] == pooled[best] && raw[j] >= raw[best])))
				best = j;
		set[n] = best;
		used[best] = 1;
	}
	if (!used[i])
		set[k - 1] = i;
	free(raw), free(pooled), free(p), free(all), free(used);
}

static inline void ref_attend(struct ref *r, int32_t layer, const double *q, int32_t i, double *out)
{
	const struct trainer *t = r->t;
	struct ref_layer *l = &r->layer[layer];
	const struct train_mask *m = &r->mask;
	int32_t kv = t->n_kv_head * t->head_dim, group = t->n_head / t->n_kv_head;
	int since = m->k ? i - (m->prefill - 1) : 0, chooses = m->k && since >= 0 && since % m->stride == 0;
	double *p = calloc((size_t)r->n, sizeof *p);
	char *reads = malloc((size_t)r->n);

	for (int32_t h = 0; h < t->n_head; h++) {
		int32_t *set = l->sets + ((since > 0 ? since / m->stride : 0) * t->n_kv_head + h / group) * m->k;

		memset(reads, 1, (size_t)r->n);
		if (chooses && h % group == 0 && !r->frozen)
			ref_select(r, l, q, h / group, i, set);
		if (m->k && since > 0 && !chooses) {
			int32_t ago = since % m->stride;

			memset(reads, 0, (size_t)r->n);
			for (int32_t n = 0; n < m->k - (ago - 1); n++)
				reads[set[n]] = 1;
			for (int32_t j = i - ago + 1; j <= i; j++)
				reads[j] = 1;
		}
		ref_probs(r, l, q, h, i, reads, p);
		for (int32_t d = 0; d < t->head_dim; d++) {
			out[h * t->head_dim + d] = 0;
			for (int32_t j = 0; j <= i; j++)
				out[h * t->head_dim + d] += p[j] * l->v[j * kv + h / group * t->head_dim + d];
		}
	}
	free(p);
	free(reads);
}

/* Return the sum of -ln p(id[i + 1]) over the tokens from `fixed` on. Each token is computed through all layers before
 * the next token, because a token depends only on earlier ones. */
static inline double ref_loss(struct ref *r, const int32_t *id)
{
	const struct trainer *t = r->t;
	int32_t kv = t->n_kv_head * t->head_dim, wide = t->n_embd;
	double *x = calloc((size_t)wide, sizeof *x), *y = calloc((size_t)wide, sizeof *y),
	       *q = calloc((size_t)(t->n_head * t->head_dim), sizeof *q),
	       *o = calloc((size_t)(t->n_head * t->head_dim), sizeof *o), *g = calloc((size_t)t->n_ff, sizeof *g),
	       *u = calloc((size_t)t->n_ff, sizeof *u), loss = 0;

	for (int32_t i = r->frozen ? r->fixed : 0; i < r->n; i++) {
		double sum = 0, own = 0;

		memcpy(x, r->embd + id[i] * wide, (size_t)wide * sizeof *x);
		for (int32_t n = 0; n < t->n_layer; n++) {
			struct ref_layer *l = &r->layer[n];

			ref_norm(r, y, x, l->attn_norm);
			ref_times(r, n, TRAIN_Q, q, y);
			ref_times(r, n, TRAIN_K, l->k + i * kv, y);
			ref_times(r, n, TRAIN_V, l->v + i * kv, y);
			ref_rope(r, q, t->n_head, i);
			ref_rope(r, l->k + i * kv, t->n_kv_head, i);
			ref_attend(r, n, q, i, o);
			ref_times(r, n, TRAIN_OUT, y, o);
			for (int32_t k = 0; k < wide; k++)
				x[k] += y[k];
			ref_norm(r, y, x, l->ffn_norm);
			ref_times(r, n, TRAIN_GATE, g, y);
			ref_times(r, n, TRAIN_UP, u, y);
			for (int32_t k = 0; k < t->n_ff; k++)
				g[k] = g[k] / (1 + exp(-g[k])) * u[k];
			ref_times(r, n, TRAIN_DOWN, y, g);
			for (int32_t k = 0; k < wide; k++)
				x[k] += y[k];
		}
		if (i < r->fixed)
			continue;
		ref_norm(r, y, x, r->out_norm);
		for (int32_t w = 0; w < t->n_vocab; w++) {
			const double *row = (r->out ? r->out : r->embd) + w * wide;
			double z = 0;

			for (int32_t k = 0; k < wide; k++)
				z += row[k] * y[k];
			sum += exp(z);
			own = w == id[i + 1] ? z : own;
		}
		loss += log(sum) - own;
	}
	free(x), free(y), free(q), free(o), free(g), free(u);
	return loss;
}

#endif
