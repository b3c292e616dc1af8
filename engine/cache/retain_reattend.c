/* engine/cache/retain_reattend.c - the policy `reattention`: sequences longer than the trained context (ReAttention,
 * arXiv 2407.15176).
 *
 * No token is evicted. A token attends to three groups of entries: the first tokens (sinks), k selected tokens, and the
 * newest `local` tokens. The entries of these groups get consecutive positions, so no distance exceeds the trained
 * length. The score of a token in a layer is the highest probability that any head of the layer gives to it, without
 * RoPE and without the sinks. The layer selects the tokens with the highest scores, and their neighbours. All heads of
 * the layer read the same selected tokens. Every decoded token makes a new selection. In the last step of a prefill,
 * the last tokens select for all tokens of the step. In earlier steps of a prefill, tokens attend to the sinks and the
 * newest tokens only.
 *
 * A plane has three ranges of slots, in this order:
 * - the first ctx slots: token i is in slot i, and its key is not rotated. Snapshots save these entries.
 * - the `near` slots: copies of the sinks and of the selected entries, rotated (RoPE) to positions from 0 on.
 * - the `tail` slots: copies of the newest tokens, rotated to their positions in the sequence.
 * Copies are always computed from the first ctx slots, so their bits do not depend on earlier steps, rollbacks and
 * snapshots. While a sequence has at most sinks + k + `local` tokens, the `near` slots have the first tokens, and
 * attention is full. */
#include "engine/cache/cache.h"

#include <math.h>
#include <stdlib.h>

#include "engine/cache/serialize.h"

enum {
	/* Maximum number of tokens of a step. A token attends to the newest `local` tokens before its step, and also
	 * to the earlier tokens of the step. Short steps keep this number near `local`, because small models fail to
	 * find facts if they attend to more tokens. */
	CHUNK_MOST = 128,
	/* number of tokens at the end of a prefill that select entries; the queries of all these tokens are used
	 * together */
	ASKING = 32
};

struct reattend_params {
	int32_t local, sinks, k, pool;
};
_Static_assert(sizeof(struct reattend_params) <= POLICY_VALUES, "settings do not fit");

struct reattend {
	struct tensor score; /* f32 [n_kv_head][ctx] */
	/* i32 [1][k]: selected tokens in ascending order, counted from the first token after the sinks */
	struct tensor slots;
	struct tensor move; /* i32 [n_kv_head][3 * most_moves()]: moves of KV entries (struct kv_moves) */
	struct tensor q;    /* f32 [chunk][n_head * head_dim]: queries that read the `near` slots */
	struct rope near;   /* angles of the positions 0 to sinks + k - 1, for the keys in the `near` slots */
	struct rope tail;   /* angles of the keys that are copied to the `tail` slots */
	struct rope query;  /* angles of the queries in `q` */
	/* [ctx] `best` has the highest score of each token in any head so far, `other` the scores of the tokens in one
	 * head */
	float *best, *other;
	int32_t *list, *chosen; /* host memory for the contents of `move` and `slots` */
	/* number of tokens in chosen[]: the tokens that the current layer has selected, in ascending order */
	int32_t n_chosen;
	/* The `tail` slots have copies of the tokens from `base` to end - 1. If `plain` is 1, the `near` slots have
	 * copies of the first tokens of the sequence. */
	int32_t base, end;
	int plain;
};

static const struct reattend_params *par_of(const struct cache *c)
{
	return (const void *)c->policy.values;
}

/* ---- sizes ---- */

static int32_t near_slots(const struct cache *c)
{
	return par_of(c)->sinks + par_of(c)->k;
}

static int32_t reattend_chunk(const struct cache *c)
{
	int32_t n = MIN(par_of(c)->local, CHUNK_MOST);

	return MIN(c->batch, n);
}

/* Return the number of `tail` slots (for copies of the newest tokens). If the `tail` slots have no room for a step, all
 * copies are made again. There are so many slots that this happens at most once in `local` tokens. */
static int32_t tail_slots(const struct cache *c)
{
	return 2 * par_of(c)->local + 2 * reattend_chunk(c);
}

static int32_t reattend_cap(const struct cache *c)
{
	return c->ctx + near_slots(c) + tail_slots(c);
}

static int32_t most_moves(const struct cache *c)
{
	return MAX(near_slots(c), reattend_chunk(c));
}

static uint64_t reattend_bytes(const struct cache *c)
{
	uint64_t heads = (uint64_t)c->hp->n_kv_head, chunk = (uint64_t)reattend_chunk(c);

	return 4 * heads * ((uint64_t)c->ctx + (uint64_t)par_of(c)->k + 3 * (uint64_t)most_moves(c)) +
	       4 * chunk * (uint64_t)widest_queries(c->hp) + rope_bytes(c->hp, near_slots(c)) +
	       2 * rope_bytes(c->hp, (int32_t)chunk);
}

/* ---- life ---- */

static int check_model(const struct cache *c, struct err *err)
{
	int32_t sees = near_slots(c) + par_of(c)->local + reattend_chunk(c);

	if (c->hp->ctx_train > 0 && sees > c->hp->ctx_train)
		return err_set(
			err, ERR_USAGE,
			"cache policy 'reattention' lets a token attend to %d others, this model was trained for "
			"%d; use a smaller k or local",
			sees, c->hp->ctx_train);
	if (c->be->device)
		return err_set(err, ERR_USAGE,
		               "cache policy 'reattention' computes on the CPU alone; use --device cpu");
	return 0;
}

static int reattend_init(struct cache *c, struct err *err)
{
	struct reattend *f = c->retained = xcalloc(1, sizeof *f);
	int32_t heads = c->hp->n_kv_head, chunk = reattend_chunk(c);

	if (check_model(c, err))
		return -1;
	if (cache_alloc(c, &f->score, DT_F32, heads, c->ctx, err) ||
	    cache_alloc(c, &f->slots, DT_I32, 1, par_of(c)->k, err) ||
	    cache_alloc(c, &f->move, DT_I32, heads, 3 * (int64_t)most_moves(c), err) ||
	    cache_alloc(c, &f->q, DT_F32, chunk, widest_queries(c->hp), err) ||
	    rope_init(&f->near, c->hp, c->be, near_slots(c), near_slots(c), err) ||
	    rope_init(&f->tail, c->hp, c->be, chunk, near_slots(c), err) ||
	    rope_init(&f->query, c->hp, c->be, chunk, near_slots(c), err))
		return -1;
	f->list = xcalloc((size_t)heads * (size_t)f->move.cols, sizeof *f->list);
	f->chosen = xcalloc((size_t)par_of(c)->k, sizeof *f->chosen);
	f->best = xcalloc((size_t)c->ctx, sizeof *f->best);
	f->other = xcalloc((size_t)c->ctx, sizeof *f->other);
	rope_set(&f->near, 0, 0, near_slots(c));
	return 0;
}

static void reattend_release(struct cache *c)
{
	struct reattend *f = c->retained;

	cache_drop(c, &f->score);
	cache_drop(c, &f->slots);
	cache_drop(c, &f->move);
	cache_drop(c, &f->q);
	for (struct rope *r = &f->near; r <= &f->query; r++)
		if (r->be)
			rope_release(r);
	free(f->list);
	free(f->best);
	free(f->other);
	free(f->chosen);
	free(f);
}

static void reattend_selector_opened(struct cache *c)
{
	c->marked = c->steps_matter = 1;
}

/* ---- copies ---- */

/* Copy the entries of n tokens in one layer to consecutive slots, beginning with slot `to`. Rotate the key of copy i by
 * row `row` + i of `angles`. If `token` is not NULL, it lists the n tokens. If `token` is NULL, copy n consecutive
 * tokens beginning with `first`. */
static void copies_make(struct cache *c, int32_t layer, const int32_t *token, int32_t first, int32_t to, int32_t n,
                        const struct rope *angles, int32_t row)
{
	struct reattend *f = c->retained;
	const struct rope_freqs *freqs = model_rope(c->hp, layer);
	struct tensor move = f->move;
	int32_t heads = kv_layer_heads(c->hp, layer), *out = f->list;
	struct kv_moves m = { .move = &move,
		              .n = n,
		              .n_kv_head = heads,
		              .head_dim = model_layer_spec(c->hp, layer)->attn.head_dim,
		              .dims = freqs ? freqs->dims : 0,
		              .cap = c->kv.cap,
		              .neox = freqs ? freqs->neox : 0 };

	if (n <= 0 || layer_window(c->hp, layer))
		return;
	for (int32_t h = 0; h < heads; h++)
		for (int32_t i = 0; i < n; i++, out += 3) {
			out[0] = token ? token[i] : first + i;
			out[1] = to + i;
			out[2] = row + i;
		}
	move.cols = 3 * n;
	c->be->ops->write(c->be, &move, 0, f->list, (size_t)(out - f->list) * sizeof *f->list);
	m.shift = freqs ? rope_table(angles, layer) : NULL;
	c->be->ops->kv_move(c->be, &c->kv.k[layer], &m);
	m.shift = NULL;
	c->be->ops->kv_move(c->be, &c->kv.v[layer], &m);
}

/* Copy the tokens from index `from` up to, but not including, index `to` to the `tail` slots, in all layers. */
static void tail_fill(struct cache *c, int32_t from, int32_t to)
{
	struct reattend *f = c->retained;
	int32_t slot = c->ctx + near_slots(c) - f->base;

	for (int32_t n; from < to; from += n) {
		n = MIN(to - from, reattend_chunk(c));
		rope_set(&f->tail, from, from, n);
		for (int32_t layer = 0; layer < c->hp->n_layer; layer++)
			copies_make(c, layer, NULL, from, slot + from, n, &f->tail, 0);
	}
}

/* 1 if a token at position pos attends to selected entries. This is so if more than sinks + k + `local` tokens precede
 * it. */
static int is_long(const struct cache *c, int32_t pos)
{
	return pos > near_slots(c) + par_of(c)->local;
}

/* Fill the `tail` slots with copies of the newest tokens. While the sequence is short (not is_long()), also fill the
 * `near` slots with copies of the first tokens. Do nothing if the slots already have the copies that this step
 * reads. */
static void copies_ready(struct cache *c, const struct step *st)
{
	struct reattend *f = c->retained;
	int32_t near = near_slots(c), pos = st->pos, first = is_long(c, pos) ? pos - par_of(c)->local : near;

	if (!is_long(c, pos) && !f->plain) {
		for (int32_t layer = 0; layer < c->hp->n_layer; layer++)
			copies_make(c, layer, NULL, 0, c->ctx, MIN(near, pos), &f->near, 0);
		f->plain = 1;
	}
	if (f->base <= first && f->end >= pos && pos + st->n - f->base <= tail_slots(c) &&
	    (f->base == near || is_long(c, pos)))
		return;
	f->base = f->end = first;
	tail_fill(c, first, pos);
	f->end = MAX(first, pos);
}

/* ---- a step ---- */

/* 1 if the tokens of a step attend to selected entries. */
static int selects(const struct step *st)
{
	return step_generates(st) || st->last;
}

/* Return how many sinks and selected entries each token of a step attends to if the sequence is long (is_long()). */
static int32_t near_read(const struct cache *c, const struct step *st)
{
	return selects(st) ? near_slots(c) : par_of(c)->sinks;
}

static void reattend_begin(struct cache *c, const struct step *st)
{
	struct reattend *f = c->retained;
	/* Position of the step's first token, after the sinks, the selected entries and the newest `local` tokens. */
	int32_t rank = near_read(c, st) + par_of(c)->local;

	copies_ready(c, st);
	rope_set(&c->rope, st->pos, is_long(c, st->pos) ? rank : st->pos, st->n);
	rope_set(&f->query, rank, rank, st->n);
	/* If the backend failed, the copies may be wrong: make them again in the next step. */
	if (c->be->failed)
		f->base = f->end = f->plain = 0;
}

static void reattend_put(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x)
{
	struct reattend *f = c->retained;

	c->q.cols = f->q.cols = x->q->cols;
	kv_rotate_queries(&c->kv, layer, &c->q, x->q, &c->rope, st->n);
	if (!x->k)
		return;
	kv_put(&c->kv, layer, x->k, x->v, st->pos, st->n);
	copies_make(c, layer, NULL, st->pos, c->ctx + near_slots(c) + st->pos - f->base, st->n, &c->rope, 0);
}

static int32_t reattend_region(const struct cache *c, const struct step *st)
{
	return st->pos + st->n;
}

/* Compute the probabilities that query q gives to the n tokens after the sinks. For each of these tokens, raise best[i]
 * to the logarithm of the token's highest probability in any head, if this logarithm is larger. */
static void score_tokens(struct cache *c, int32_t layer, const struct tensor *q, int32_t n)
{
	struct reattend *f = c->retained;
	struct tensor keys = c->kv.k[layer];
	int32_t heads = kv_layer_heads(c->hp, layer);
	size_t row = (size_t)f->score.cols * sizeof(float);
	const struct attn_spec *a = &model_layer_spec(c->hp, layer)->attn;

	keys.data = (char *)keys.data + (size_t)par_of(c)->sinks * kv_layer_row_bytes(c->hp, keys.type, layer);
	c->be->ops->key_scan(c->be, &(struct scan_args){
					    .out = &f->score,
					    .q = q,
					    .keys = &keys,
					    .n_head = a->n_head,
					    .n_kv_head = heads,
					    .head_dim = a->head_dim,
					    .cap = c->kv.cap,
					    .n_slots = n,
					    .bits = 16,
					    .scale = a->scale,
					    .reduce = REDUCE_MAX,
				    });
	for (int32_t h = 0; h < heads; h++) {
		c->be->ops->read(c->be, &f->score, (size_t)h * row, f->other, (size_t)n * sizeof *f->other);
		for (int32_t i = 0; i < n; i++)
			f->best[i] = MAX(f->other[i], f->best[i]);
	}
}

/* Select k of the first n tokens by the queries of the step's last tokens. Write the indices of the selected tokens to
 * chosen[]. */
static void select_among(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x, int32_t n)
{
	struct reattend *f = c->retained;
	int32_t sinks = par_of(c)->sinks, k = par_of(c)->k;

	for (int32_t i = 0; i < n; i++)
		f->best[i] = -INFINITY;
	for (int32_t i = MAX(0, st->n - ASKING); i < st->n; i++) {
		struct tensor q = tensor_rows(x->q, i);

		score_tokens(c, layer, &q, n - sinks);
	}
	c->be->ops->write(c->be, &f->score, 0, f->best, (size_t)(n - sinks) * sizeof *f->best);
	c->be->ops->topk(c->be, &(struct topk_args){ .slots = &f->slots,
	                                             .score = &f->score,
	                                             .n_kv_head = 1,
	                                             .n = n - sinks,
	                                             .k = k,
	                                             .pool = par_of(c)->pool });
	c->be->ops->read(c->be, &f->slots, 0, f->chosen, (size_t)k * sizeof *f->chosen);
	f->n_chosen = c->be->failed ? 0 : k;
	for (int32_t i = 0; i < f->n_chosen; i++)
		f->chosen[i] += sinks;
}

/* Append a range of slots to the segments that the layer reads, unless the range is empty. */
static void segment_add(struct reading *r, const struct tensor *q, int32_t slot0, int32_t n)
{
	if (n > 0)
		r->seg[r->n_seg++] = (struct attn_segment){ .q = q, .slot0 = slot0, .n_slots = n };
	r->skip += n;
}

static void reattend_segments(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x,
                              struct reading *r)
{
	struct reattend *f = c->retained;
	int32_t end = st->pos + st->n, from = st->pos - par_of(c)->local, sinks = par_of(c)->sinks, first;

	r->q = cache_frame(c, st, 0, &c->q);
	if (!is_long(c, st->pos)) {
		segment_add(r, r->q, c->ctx, end);
		return;
	}
	f->plain = f->n_chosen = 0;
	kv_rotate_queries(&c->kv, layer, &f->q, x->q, &f->query, st->n);
	if (selects(st))
		select_among(c, st, layer, x, from);
	first = near_slots(c) - f->n_chosen;
	copies_make(c, layer, NULL, 0, c->ctx, sinks, &f->near, 0);
	copies_make(c, layer, f->chosen, 0, c->ctx + first, f->n_chosen, &f->near, first);
	segment_add(r, &f->q, c->ctx, sinks);
	segment_add(r, &f->q, c->ctx + first, f->n_chosen);
	segment_add(r, r->q, c->ctx + near_slots(c) + from - f->base, end - from);
}

static int32_t reattend_token_at(const struct cache *c, int32_t slot)
{
	const struct reattend *f = c->retained;
	int32_t at = slot - c->ctx, near = near_slots(c), first = near - f->n_chosen;

	if (at >= near)
		return f->base + at - near;
	return f->plain || at < first ? at : f->chosen[at - first];
}

static void reattend_commit(struct cache *c, const struct step *st, const float *nll)
{
	struct reattend *f = c->retained;

	f->end = st->pos + st->n;
}

/* ---- rollback, snapshots ---- */

static int32_t reattend_verify_most(const struct cache *c, int32_t pos)
{
	/* If the model scales queries by position, verify only one token at a time: the factor of a drafted token would
	 * depend on the token's index in the step. */
	return c->hp->temperature != 0 ? 1 : c->ctx - pos;
}

static int32_t reattend_rewind(struct cache *c, int32_t n)
{
	struct reattend *f = c->retained;

	f->end = MIN(n, f->end);
	return n;
}

static uint64_t reattend_read_bytes(const struct cache *c, int32_t pos, int generated)
{
	uint64_t entry = kv_full_read_bytes(c->hp, c->types);
	int32_t local = par_of(c)->local, near = generated ? near_slots(c) : par_of(c)->sinks;

	if (!is_long(c, pos))
		return entry * (uint64_t)pos;
	/* To select, a generated token also reads the keys of all tokens. The keys are half of the entries' bytes. */
	return entry * (uint64_t)(near + local) + (generated ? entry / 2 * (uint64_t)(pos - local) : 0);
}

static int32_t reattend_ready(const struct cache *c, int32_t n)
{
	return n;
}

static int32_t reattend_take(struct cache *c, int32_t n)
{
	struct reattend *f = c->retained;

	f->base = f->end = f->plain = 0;
	return n;
}

static void reattend_archive(struct cache *c, struct serializer *a, int32_t n)
{
	if (serialize_loading(a))
		reattend_take(c, n);
}

/* clang-format off */
static const struct retention_ops retain_reattend = {
	.alone = 1, .bytes = reattend_bytes, .cap = reattend_cap, .chunk = reattend_chunk, .init = reattend_init, .release = reattend_release,
	.selector_opened = reattend_selector_opened, .begin = reattend_begin, .put = reattend_put, .region = reattend_region,
	.segments = reattend_segments, .token_at = reattend_token_at, .commit = reattend_commit, .verify_most = reattend_verify_most, .rewind = reattend_rewind,
	.read_bytes = reattend_read_bytes, .ready = reattend_ready, .take = reattend_take, .archive = reattend_archive,
};
/* clang-format on */

#define AT(field) offsetof(struct reattend_params, field)
static const struct param reattend_settings[] = {
	{ "k", PARAM_INT, AT(k), 1, 1e6, NULL, "256", "selected KV entries that a generated token reads" },
	{ "local", PARAM_INT, AT(local), 1, 1e6, NULL, "512", "newest tokens that are read" },
	{ "sinks", PARAM_INT, AT(sinks), 0, 1000, NULL, "4", "first tokens that are read" },
	{ "pool", PARAM_ODD, AT(pool), 1, 63, NULL, "31",
	  "neighbours that are selected with an entry, itself included" },
	{ .key = NULL },
};
const struct policy_def policy_reattention = {
	.name = "reattention",
	.help = "texts longer than the trained context: first, selected and newest tokens at consecutive positions",
	.params = reattend_settings,
	.retention = &retain_reattend,
};
