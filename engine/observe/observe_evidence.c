/* engine/observe/observe_evidence.c - on which tokens an answer is based (evidence); the attention of one token in one
 * layer.
 *
 * The evidence of a token is the sum of squares of its attention shares, over some layers, all their KV heads and all
 * answer tokens. Layers and squares were chosen by measurement: the default model answered 34 questions correctly, each
 * from a text of about ten passages. One passage has the answer. These are the shares of questions in which it got more
 * evidence than any other passage, for several definitions of evidence:
 * - 35 %: the mean over all heads and layers;
 * - 59 %: the strongest head of each token;
 * - 79 %: the mean over the third quarter of the layers;
 * - 94 %: squares in the third quarter of the layers;
 * - 91 %: squares in every second layer of the third quarter, the even layers for one token, the odd layers for the
 *   next. This costs half as much as measuring the whole quarter, and is used here. */
#include <stdlib.h>
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/observe/observe.h"

/* ---- evidence: sums over an answer ---- */

struct sums {
	float *p;
	size_t n;
};

struct observe_evidence {
	struct observer base; /* must be the first member */
	struct cache *c;
	struct token_attention one;
	/* The observed layers are the full layers from index `from` up to, but not including, index `to`. If `turns` is
	 * 1, each token is measured in all observed layers. If `turns` is 2, one token is measured in every second
	 * observed layer, and the next token in the other observed layers. */
	int32_t from, to, turns;
	struct sums sum;
	struct sums step[VERIFY_MOST]; /* evidence of the current step, separate for each of its drafted tokens */
	/* Used only with a GPU; otherwise NULL. [2 * (to - from)] copies of the attention of a single decoded token in
	 * the observed layers. The copies are added to step[0] after the whole step, so that the host need not wait
	 * after each layer. If a flag in the backend decides what a layer reads, there is a copy for each value. */
	struct token_kept *kept;
	int32_t n_kept;
};

static void sums_grow(struct sums *s, size_t n)
{
	if (n <= s->n)
		return;
	n += n / 2;
	s->p = xrealloc(s->p, n * sizeof *s->p);
	memset(s->p + s->n, 0, (n - s->n) * sizeof *s->p);
	s->n = n;
}

/* Return the index of a layer among the full layers, or -1 for a sliding-window layer. In a model without full layers,
 * return the argument `layer`. */
static int32_t full_index(const struct observe_evidence *e, int32_t layer)
{
	const struct hparams *hp = e->c->hp;
	int32_t index = 0;

	if (!layers_unwindowed(hp))
		return layer;
	if (layer_window(hp, layer))
		return -1;
	while (layer-- > 0)
		index += !layer_window(hp, layer);
	return index;
}

/* Add the squares of the attention shares in e->one to the sums s. */
static void squares_add(struct observe_evidence *e, const struct attention *a, struct sums *s)
{
	for (int32_t h = 0; h < e->c->hp->n_kv_head; h++) {
		token_attention_head(&e->one, a, h, 1);
		for (int32_t i = 0; i < e->one.n_col; i++)
			if (e->one.token[i] >= 0 && (size_t)e->one.token[i] < s->n)
				s->p[e->one.token[i]] += e->one.share[i] * e->one.share[i];
	}
}

/* Copy the attention of a decoded token. If the token's segments have predicates, all of which refer to one flag, the
 * host does not know which segments the token read: copy the attention to the segments of each outcome. */
static void attention_keep(struct observe_evidence *e, const struct attention *a)
{
	struct predicate when = a->r->seg[0].when;

	for (when.is = 0; when.is <= (when.flag != NULL); when.is++) {
		token_attention_take(&e->one, a, when.flag ? &when.is : NULL);
		token_attention_keep(&e->one, &e->kept[e->n_kept++], when);
	}
}

static void evidence_attended(struct observer *o, const struct attention *a)
{
	struct observe_evidence *e = (struct observe_evidence *)o;
	const struct step *st = a->st;
	int32_t end = st->pos + st->n, at = full_index(e, a->layer);
	struct sums *s = &e->step[st->index];

	if (!(step_generates(st) || st->last) || at < e->from || at >= e->to)
		return;
	if ((at - e->from - end) % e->turns)
		return;
	/* This is the first observed layer of the step. Clear the sums of the previous step, because they have been
	 * added to the evidence or were dropped. */
	if (at - e->from < e->turns) {
		sums_grow(s, (size_t)end);
		memset(s->p, 0, s->n * sizeof *s->p);
		e->n_kept = 0;
	}
	if (e->kept && st->kind == STEP_GENERATE && e->n_kept + 2 <= 2 * (e->to - e->from)) {
		attention_keep(e, a);
		return;
	}
	token_attention_take(&e->one, a, NULL);
	squares_add(e, a, s);
}

static void evidence_computed(struct observer *o, const struct step *st)
{
	struct observe_evidence *e = (struct observe_evidence *)o;

	for (int32_t i = 0; st->kind == STEP_GENERATE && i < e->n_kept; i++) {
		if (token_attention_recall(&e->one, &e->kept[i]))
			squares_add(e, &(struct attention){ .c = e->c, .st = st, .layer = e->kept[i].layer },
			            &e->step[0]);
	}
	e->n_kept = 0;
}

static void evidence_commit(struct observer *o, const struct step *st)
{
	struct observe_evidence *e = (struct observe_evidence *)o;
	int32_t n = st->kind == STEP_VERIFY ? st->n : 1;

	if (!(step_generates(st) || st->last))
		return;
	sums_grow(&e->sum, (size_t)(st->pos + st->n));
	for (int32_t k = 0; k < n; k++)
		for (size_t i = 0; i < e->step[k].n && i < e->sum.n; i++)
			e->sum.p[i] += e->step[k].p[i];
}

static int32_t evidence_rewind(struct observer *o, int32_t n)
{
	return n;
}

static const struct observer_ops evidence_ops = { evidence_attended, evidence_commit, evidence_rewind,
	                                          evidence_computed };

int observe_evidence_open(struct observe_evidence **out, struct cache *c, struct err *err)
{
	struct observe_evidence *e = xcalloc(1, sizeof *e);
	int32_t n_layer = layers_unwindowed(c->hp) ? layers_unwindowed(c->hp) : c->hp->n_layer;

	e->base.ops = &evidence_ops;
	e->c = c;
	e->from = n_layer / 2;
	e->to = e->from + (n_layer > 4 ? n_layer / 4 : 1);
	e->turns = e->to - e->from > 1 ? 2 : 1;
	if (token_attention_open(&e->one, c, err)) {
		free(e);
		return -1;
	}
	if (c->be->device)
		e->kept = xcalloc(2 * (size_t)(e->to - e->from), sizeof *e->kept);
	observer_add(&c->observers, &e->base);
	*out = e;
	return 0;
}

void observe_evidence_close(struct observe_evidence *e)
{
	if (!e)
		return;
	observer_remove(&e->c->observers, &e->base);
	for (int32_t i = 0; e->kept && i < 2 * (e->to - e->from); i++)
		token_kept_drop(&e->one, &e->kept[i]);
	free(e->kept);
	token_attention_close(&e->one);
	for (int i = 0; i < VERIFY_MOST; i++)
		free(e->step[i].p);
	free(e->sum.p);
	free(e);
}

void observe_evidence_sums(const struct observe_evidence *e, int32_t first, int32_t n, float *out)
{
	for (int32_t i = 0; i < n; i++)
		out[i] = e && first + i >= 0 && (size_t)(first + i) < e->sum.n ? e->sum.p[first + i] : 0;
}

/* ---- attention of one token in one layer ---- */

struct observe_token {
	struct observer base; /* must be the first member */
	struct cache *c;
	struct token_attention one;
	int32_t layer, head; /* `head` is the KV head, or -1 for all heads */
	float *p;            /* [n] share of attention on each token; borrowed */
	int32_t n;
};

static void token_attended(struct observer *o, const struct attention *a)
{
	struct observe_token *t = (struct observe_token *)o;
	int32_t from = MAX(0, t->head), to = t->head < 0 ? t->c->hp->n_kv_head : t->head + 1;

	if (a->layer != t->layer)
		return;
	for (int32_t i = 0; i < t->n; i++)
		t->p[i] = -1;
	token_attention_take(&t->one, a, NULL);
	for (int32_t h = from; h < to; h++) {
		token_attention_head(&t->one, a, h, 1);
		for (int32_t i = 0; i < t->one.n_col; i++) {
			int32_t token = t->one.token[i];

			if (token >= 0 && token < t->n)
				t->p[token] = MAX(0, t->p[token]) + t->one.share[i] / (float)(to - from);
		}
	}
}

static void token_commit(struct observer *o, const struct step *st)
{
}

static const struct observer_ops token_ops = { token_attended, token_commit, evidence_rewind, NULL };

int observe_token_open(struct observe_token **out, struct cache *c, int32_t layer, int32_t head, float *p, int32_t n,
                       struct err *err)
{
	struct observe_token *t = xcalloc(1, sizeof *t);

	*t = (struct observe_token){ .base.ops = &token_ops, .c = c, .layer = layer, .head = head, .p = p, .n = n };
	if (token_attention_open(&t->one, c, err)) {
		free(t);
		return -1;
	}
	observer_add(&c->observers, &t->base);
	*out = t;
	return 0;
}

void observe_token_close(struct observe_token *t)
{
	if (!t)
		return;
	observer_remove(&t->c->observers, &t->base);
	token_attention_close(&t->one);
	free(t);
}
