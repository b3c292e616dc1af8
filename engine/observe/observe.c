/* engine/observe/observe.c - the list of observers; computes how much one token attends to each earlier token. */
#include "engine/observe/observe.h"

#include <stdlib.h>
#include <string.h>

#include "engine/cache/cache.h"
#include "engine/cache/rings.h"

void observer_add(struct observer **list, struct observer *o)
{
	o->next = *list;
	*list = o;
}

void observer_remove(struct observer **list, struct observer *o)
{
	for (; *list; list = &(*list)->next)
		if (*list == o) {
			*list = o->next;
			return;
		}
}

/* ---- attention of a single token ---- */

int token_attention_open(struct token_attention *t, struct cache *c, struct err *err)
{
	/* Buffers are as wide as full layers need. Sliding-window layers may have queries of another width, but they
	 * are observed only in models without full layers. */
	int32_t width = c->hp->n_head * c->hp->head_dim, most = kv_read_most(&c->kv);
	int failed;

	*t = (struct token_attention){ .kv = &c->kv };
	failed = cache_alloc(c, &t->mass, DT_F32, c->hp->n_kv_head, most, err) ||
	         cache_alloc(c, &t->out, DT_F32, 1, width, err) ||
	         !(t->share = try_alloc((size_t)most, sizeof *t->share, "shares of attention", err)) ||
	         !(t->token = try_alloc((size_t)most, sizeof *t->token, "tokens", err));
	for (int i = 0; !failed && i <= RINGS_MOST; i++)
		failed = cache_alloc(c, &t->q[i], DT_F32, 1, width, err);
	t->met = xcalloc(1, sizeof *t->met);
	if (!failed)
		return 0;
	token_attention_close(t);
	return -1;
}

void token_attention_close(struct token_attention *t)
{
	struct tensor *all[3 + RINGS_MOST] = { &t->mass, &t->out };

	for (int i = 0; i <= RINGS_MOST; i++)
		all[2 + i] = &t->q[i];
	for (int i = 0; t->kv && i < 3 + RINGS_MOST; i++)
		if (all[i]->data)
			t->kv->be->ops->drop(t->kv->be, all[i]);
	free(t->share);
	free(t->token);
	free(t->met);
	*t = (struct token_attention){ 0 };
}

/* Each segment (range or list of slots) in t->met refers to the queries of a step's n tokens. Change it to refer to a
 * copy of the last token's query. Segments that had the same queries share one copy. */
static void segments_of_last(struct token_attention *t, int32_t n)
{
	struct attn_segment *seg = t->met->seg;
	const struct tensor *q[READ_SEGMENTS];
	int n_q = 0;

	for (int i = 0; n > 1 && i < t->met->n_seg; i++) {
		int k = 0;

		while (k < n_q && q[k] != seg[i].q)
			k++;
		if (k == n_q) {
			q[n_q++] = seg[i].q;
			t->kv->be->ops->copy(t->kv->be, &t->q[k], 0, seg[i].q, n - 1, 1);
		}
		seg[i].q = &t->q[k];
	}
}

void token_attention_take(struct token_attention *t, const struct attention *a, const int32_t *flag)
{
	struct backend *be = t->kv->be;
	const float one = 1;

	*t->met = *a->r;
	t->met->n_region = kv_segments_met(t->kv, t->met->seg, a->r->n_region, flag);
	memmove(t->met->seg + t->met->n_region, a->r->seg + a->r->n_region,
	        (size_t)(a->r->n_seg - a->r->n_region) * sizeof *a->r->seg);
	t->met->n_seg = t->met->n_region + a->r->n_seg - a->r->n_region;
	segments_of_last(t, a->st->n);
	t->layer = a->layer;
	t->n_col = 0;
	t->n_region = a->r->n_region ? 0 : a->r->skip;
	for (int i = 0; i < t->met->n_seg; i++) {
		t->n_col += t->met->seg[i].n_slots;
		t->n_region += i < t->met->n_region ? t->met->seg[i].n_slots : 0;
	}
	memset(t->share, 0, (size_t)t->n_col * sizeof *t->share);
	t->seen = t->mass;
	t->seen.cols = MIN(t->mass.cols, (t->n_col + 3) / 4 * 4);
	for (int32_t h = 0; h < t->seen.rows; h++)
		be->ops->write(be, &t->seen, 4 * (size_t)h * (size_t)t->seen.cols, t->share, 4 * (size_t)t->n_col);
	kv_attend(t->kv, a->layer,
	          &(struct kv_call){
			  .out = &t->out,
			  .seg = t->met->seg,
			  .n_seg = t->met->n_seg,
			  .prompt = !step_generates(a->st),
			  .sinks = a->x->sinks,
			  .probe = &(struct attn_probe){ .mass = &t->seen, .weight = &one, .reduce = REDUCE_MEAN },
		  },
	          1);
}

/* Copy `from` to `to`, a tensor in host memory. The first call allocates `to` with `most` columns, which must be enough
 * for all later calls. */
static void keep_one(const struct token_attention *t, struct tensor *to, const struct tensor *from, int32_t most)
{
	struct backend *be = t->kv->be;
	struct tensor source = *from;

	if (!to->data) {
		*to = (struct tensor){ .type = DT_F32, .rows = from->rows, .cols = most };
		if (be->ops->alloc_host(be, to)) {
			to->data = NULL;
			return;
		}
	}
	to->rows = from->rows;
	to->cols = from->cols;
	source.type = DT_F32; /* copy() copies the bits of f32 values unchanged, so it can copy i32 values, too */
	be->ops->copy(be, to, 0, &source, 0, from->rows);
}

void token_attention_keep(const struct token_attention *t, struct token_kept *k, struct predicate when)
{
	k->when = when;
	k->met = *t->met;
	k->layer = t->layer;
	k->n_col = t->n_col;
	keep_one(t, &k->mass, &t->seen, t->mass.cols);
	for (int i = 0; i < k->met.n_seg; i++) {
		if (!k->met.seg[i].slots)
			continue;
		keep_one(t, &k->list[i], k->met.seg[i].slots, MAX(t->mass.cols, k->met.seg[i].slots->cols));
		k->met.seg[i].slots = &k->list[i];
	}
}

int token_attention_recall(struct token_attention *t, const struct token_kept *k)
{
	if (k->when.flag && kv_flag(t->kv, &k->when) != k->when.is)
		return 0;
	*t->met = k->met;
	t->seen = k->mass;
	t->layer = k->layer;
	t->n_col = k->n_col;
	return 1;
}

void token_kept_drop(const struct token_attention *t, struct token_kept *k)
{
	if (k->mass.data)
		t->kv->be->ops->drop(t->kv->be, &k->mass);
	for (int i = 0; i < READ_SEGMENTS; i++)
		if (k->list[i].data)
			t->kv->be->ops->drop(t->kv->be, &k->list[i]);
}

/* Return the token whose entry is in a slot. Call this function only when the rings are full, and before the step's own
 * tokens are inserted. */
static int32_t token_at(const struct cache *c, const struct retained_view *v, int32_t layer, int32_t head, int32_t slot)
{
	const struct rings *r = v->rings;
	int32_t place = slot - r->s.sinks, stage = rings_stage(r), number = c->kv.full_index[layer];

	if (place < 0)
		return slot;
	if (place >= stage) /* a staged slot: its token has not joined the rings */
		return r->t + place - stage;
	return r->id[(int64_t)place * r->heads +
	             (r->heads == c->kv.n_full ? number : number * c->hp->n_kv_head + head)];
}

void token_attention_head(struct token_attention *t, const struct attention *a, int32_t head, int with_tokens)
{
	struct backend *be = t->kv->be;
	struct retained_view v = { 0 };
	int32_t (*at)(const struct cache *, int32_t) = a->c->policy.def->retention->token_at;
	int32_t *token = t->token;

	memset(t->share, 0, (size_t)t->n_col * sizeof *t->share);
	be->ops->read(be, &t->seen, 4 * (size_t)head * (size_t)t->seen.cols, t->share, 4 * (size_t)t->n_col);
	if (!with_tokens)
		return;
	if (a->c->policy.def->retention->view && t->kv->full_index[t->layer] >= 0)
		a->c->policy.def->retention->view(a->c, &v);
	for (int k = 0; k < t->met->n_seg; token += t->met->seg[k++].n_slots) {
		const struct attn_segment *seg = &t->met->seg[k];

		if (seg->slots)
			be->ops->read(be, seg->slots, 4 * (size_t)head * (size_t)seg->slots->cols, token,
			              4 * (size_t)seg->n_slots);
		for (int32_t i = 0; !seg->slots && i < seg->n_slots; i++)
			token[i] = at ? at(a->c, seg->slot0 + i) : seg->slot0 + i;
		for (int32_t i = 0; v.rings && !rings_filling(v.rings) && i < seg->n_slots; i++)
			token[i] = token_at(a->c, &v, t->layer, head, token[i]);
	}
}
