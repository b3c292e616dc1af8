/* engine/cache/cache.c - runs the steps of a cache (begin, attend in each layer, commit) and rolls tokens back;
 * see cache.h. */
#include "engine/cache/cache.h"

#include <string.h>

#include "engine/cache/kv_host.h"
#include "engine/cache/kv_file_cache.h"
#include "engine/cache/serialize.h"

/* ---- a step ---- */

void cache_begin(struct cache *c, const struct step *st)
{
	if (!st->pos)
		kv_clear(&c->kv);
	c->step = *st;
	c->step.tried = st->n;
	c->step.index = 0;
	/* A prefill after decoded tokens begins a new message. Keep the recurrent states, so that a rollback can remove
	 * the message. */
	if (c->model && !step_generates(st) && c->total > c->read_end)
		recurrent_keep(&c->recurrent);
	if (c->model)
		recurrent_begin(&c->recurrent, st->kind == STEP_VERIFY && st->n > 1);
	kv_ahead_step(&c->kv, step_generates(st) ? st->n : 0);
	kv_host_step(&c->kv, step_generates(st) ? st->n : 0);
	windows_begin(c, &c->step);
	c->policy.def->retention->begin(c, &c->step);
}

void cache_put(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x, const struct rope *rope)
{
	c->q.cols = x->q->cols;
	kv_rotate_queries(&c->kv, layer, c->q.data ? &c->q : x->q, x->q, rope, st->n);
	if (!x->k)
		return;
	kv_rotate(&c->kv, layer, x->k, x->k, rope, st->n);
	kv_put(&c->kv, layer, x->k, x->v, st->pos, st->n);
}

/* 1 if the step is a VERIFY step of several drafted tokens, each of which selects its own KV entries. */
static int drafts_select(const struct step *st)
{
	return st->kind == STEP_VERIFY && st->tried > 1;
}

/* Copy one row of src to the one-row tensor `one`, and return `one`. The first call for this tensor allocates it, wide
 * enough for the queries of every layer. */
static struct tensor *row_of(struct cache *c, struct tensor *one, const struct tensor *src, int32_t row)
{
	if (!one->data && cache_alloc(c, one, DT_F32, 1, widest_queries(c->hp), NULL))
		return one; /* the backend remembers the failure, and sync() reports it later */
	one->cols = src->cols;
	c->be->ops->copy(c->be, one, 0, src, row, 1);
	return one;
}

const struct tensor *cache_frame(struct cache *c, const struct step *st, int frame, const struct tensor *q)
{
	return drafts_select(st) ? row_of(c, &c->one[st->index].frame[frame], q, st->index) : q;
}

int cache_region(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x, const struct tensor *q,
                 int32_t n_slots, struct attn_segment seg[SELECT_SEGMENTS])
{
	if (c->selecting && step_generates(st))
		return c->sel.ops->select(&c->sel, st, layer, q, x->q, n_slots, seg);
	return select_whole(q, n_slots, seg);
}

/* Before attention reads KV entries, copy them into fast memory. Return the segments (ranges or lists of slots),
 * changed so that they read the copies. If the planes are in host memory, the entries are copied to the GPU. If the
 * planes are on disk, only the entries that a decoded token has selected are copied to memory, provided that they fit
 * (kv_file_cache.h). `near` is memory for the changed segments. */
static struct attn_segment *rows_in_memory(struct cache *c, const struct step *st, int32_t layer, struct reading *r,
                                           struct attn_segment near[READ_SEGMENTS])
{
	int taken = 0;

	if (kv_host_serves(&c->kv, layer) && r->n_seg == 1) {
		near[0] = r->seg[0];
		kv_host_gather(&c->kv, layer, near, r->n_slots);
		return near;
	}
	if (!c->kv.file_cache || !step_generates(st))
		return r->seg;
	memcpy(near, r->seg, (size_t)r->n_seg * sizeof *near);
	for (int i = 0; i < r->n_region && !taken; i++)
		taken = kv_file_cache_take(&c->kv, layer, &near[i]);
	return taken ? near : r->seg;
}

static const struct selector_ops *selector_of(const struct cache *c, int32_t layer)
{
	return c->selecting && !layer_window(c->hp, layer) ? c->sel.ops : NULL;
}

/* Fill in *r with the segments (ranges or lists of slots) to which the tokens of st attend. `st` is a whole step, or a
 * single drafted token of a VERIFY step. */
static void segments_of(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x, struct reading *r)
{
	const struct retention_ops *retention = c->policy.def->retention;
	const struct selector_ops *s = selector_of(c, layer);

	*r = (struct reading){ .n_slots = retention->region(c, st) };
	if (s && s->note && st->pos < r->n_slots)
		s->note(&c->sel, layer, st->pos, r->n_slots - st->pos);
	(layer_window(c->hp, layer) ? windows_segments : retention->segments)(c, st, layer, x, r);
}

/* Finish a layer after its attention. The selections that the segments asked for have been made by now, so set the
 * members seg.selection to NULL. Then notify disk prefetch, observers and selector. */
static void after_attention(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x,
                            struct reading *r)
{
	const struct selector_ops *s = selector_of(c, layer);

	for (int i = 0; i < r->n_seg; i++)
		r->seg[i].selection = NULL;
	if (step_generates(st))
		kv_ahead_note(&c->kv, layer, r->seg, r->n_seg);
	for (struct observer *o = c->observers; o; o = o->next)
		o->ops->attended(o, &(struct attention){ .c = c, .st = st, .layer = layer, .r = r, .x = x });
	if (s && s->seen)
		s->seen(&c->sel, st, layer, r->q, x->q, r->n_slots);
}

/* Estimate which blocks of KV entries each prompt token should read (cache.read_share). Returns NULL if all entries are
 * read. */
static const struct tensor *blocks_of(struct cache *c, const struct step *st, int32_t layer, const struct reading *r)
{
	const struct attn_spec *a = &model_layer_spec(c->hp, layer)->attn;
	const struct attn_segment *seg = r->seg;

	if (!c->blocks.data || step_generates(st) || r->n_seg != 1 || seg->slots || seg->slot0 ||
	    layer_window(c->hp, layer))
		return NULL;
	c->blocks.cols = a->n_head * cache_block_bytes(c->kv.cap);
	c->be->ops->read_blocks(c->be,
	                        &(struct read_blocks_args){
					.out = &c->blocks,
					.q = seg->q,
					.keys = &c->kv.k[layer],
					.n_head = a->n_head,
					.n_kv_head = a->n_kv_head,
					.head_dim = a->head_dim,
					.cap = c->kv.cap,
					.n_slots = seg->n_slots,
					.scale = a->scale,
					.share = c->read_share,
				},
	                        st->n);
	return &c->blocks;
}

/* Compute the attention of the tokens of st in one layer. */
static void attend_once(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x)
{
	const struct retention_ops *r = c->policy.def->retention;
	const struct selector_ops *s = selector_of(c, layer);
	const struct attn_probe *own = NULL, *probe = NULL;
	struct reading reads;
	struct attn_segment near[READ_SEGMENTS];
	const struct attn_selection *by;
	struct kv_call call;

	segments_of(c, st, layer, x, &reads);
	by = reads.seg[0].selection;
	if (c->kv.clock || (step_generates(st) && (kv_ahead_wants(&c->kv, layer) || kv_host_serves(&c->kv, layer))))
		/* select before the attention: the time for selecting then does not count as attention, and the
		 * selected entries can be prefetched or copied */
		kv_select(&c->kv, reads.seg, reads.n_seg);
	kv_ahead_ask(&c->kv, layer, reads.seg, reads.n_seg);
	if (s && s->probe)
		probe = s->probe(&c->sel, st, layer, reads.n_slots);
	if (r->probe && !layer_window(c->hp, layer))
		own = r->probe(c, st, layer, reads.skip);
	call = (struct kv_call){ .out = x->out,
		                 .seg = rows_in_memory(c, st, layer, &reads, near),
		                 .n_seg = reads.n_seg,
		                 .prompt = !step_generates(st),
		                 .sinks = x->sinks,
		                 .blocks = blocks_of(c, st, layer, &reads) };
	/* kv_attend() takes only one probe (recorder of attention weights). If both retention and selector have a
	 * probe, attend twice. */
	call.probe = own ? own : probe;
	kv_attend(&c->kv, layer, &call, st->n);
	call.probe = probe;
	if (own && probe)
		kv_attend(&c->kv, layer, &call, st->n);
	if (step_generates(st) && st->index + 1 == st->tried && by)
		kv_host_ahead(&c->kv, layer, by->topk);
	after_attention(c, st, layer, x, &reads);
	if (r->seen && !layer_window(c->hp, layer))
		r->seen(c, st, layer);
}

/* Return for how many drafted tokens of a VERIFY step, from token st->index on, one call can compute the attention. The
 * result is 1 in each of these cases: the attention of a token changes what later tokens read; entries are on disk, or
 * in host memory beside a GPU; attention is timed; the backend cannot guarantee that an output row has the same bits in
 * calls with other rows. */
static int32_t tokens_together(struct cache *c, const struct step *st, int32_t layer)
{
	const struct retention_ops *r = c->policy.def->retention;
	const struct selector_ops *s = selector_of(c, layer);
	int32_t left = st->tried - st->index, most;

	if (r->alone || !c->be->rows_alone || c->kv.disk || c->kv.host || c->kv.clock ||
	    (r->probe && !layer_window(c->hp, layer) && r->probe(c, st, layer, 0)))
		return 1;
	most = !s ? left : s->together ? s->together(&c->sel, r->region(c, st)) : 1;
	return MIN(most, left);
}

/* Return the query of drafted token st->index of a VERIFY step, and an output buffer for this token. */
static struct qkv token_of(struct cache *c, const struct step *st, const struct qkv *x)
{
	struct qkv one = *x;

	one.q = row_of(c, &c->one[st->index].raw, x->q, st->index);
	one.out = row_of(c, &c->one[st->index].out, x->out, st->index);
	return one;
}

/* Compute the attention of n drafted tokens of a VERIFY step in one call. Each token reads the entries that were
 * selected for it. */
static void attend_each(struct cache *c, struct step st, int32_t layer, const struct qkv *x, int32_t n)
{
	struct step at[VERIFY_MOST];
	struct qkv one[VERIFY_MOST];
	struct reading reads[VERIFY_MOST];
	struct kv_call call[VERIFY_MOST] = { { 0 } };

	for (int32_t i = 0; i < n; i++, st.index++, st.pos++) {
		at[i] = st;
		one[i] = token_of(c, &st, x);
		if (c->be->failed)
			return;
		segments_of(c, &st, layer, &one[i], &reads[i]);
		call[i] = (struct kv_call){
			.out = one[i].out, .seg = reads[i].seg, .n_seg = reads[i].n_seg, .sinks = x->sinks
		};
	}
	kv_attend_each(&c->kv, layer, call, n);
	for (int32_t i = 0; i < n; i++) {
		after_attention(c, &at[i], layer, &one[i], &reads[i]);
		c->be->ops->copy(c->be, x->out, at[i].index, one[i].out, 0, 1);
	}
}

void cache_attend(struct cache *c, int32_t layer, const struct qkv *x)
{
	struct step st = c->step;

	(layer_window(c->hp, layer) ? windows_put : c->policy.def->retention->put)(c, &st, layer, x);
	if (!drafts_select(&st)) {
		attend_once(c, &st, layer, x);
		kv_used(&c->kv, layer);
		return;
	}
	st.n = 1;
	for (int32_t n; st.index < st.tried; st.index += n, st.pos += n) {
		n = tokens_together(c, &st, layer);
		if (n == 1) {
			struct qkv one = token_of(c, &st, x);

			if (c->be->failed)
				return;
			attend_once(c, &st, layer, &one);
			c->be->ops->copy(c->be, x->out, st.index, one.out, 0, 1);
		} else {
			attend_each(c, st, layer, x, n);
		}
	}
	kv_used(&c->kv, layer);
}

void cache_commit(struct cache *c, int32_t n, const float *nll)
{
	struct step st = c->step;

	st.n = n;
	if (!n) {
		cache_rollback(c);
		return;
	}
	for (struct observer *o = c->observers; o; o = o->next)
		if (o->ops->computed)
			o->ops->computed(o, &st);
	c->policy.def->retention->commit(c, &st, nll);
	c->total = st.pos + n;
	kv_slide(&c->kv, c->total);
	if (!step_generates(&st))
		c->read_end = c->total;
	if (c->model)
		recurrent_commit(&c->recurrent, n, st.tried);
	if (c->model && !step_generates(&st) && st.last)
		recurrent_keep(&c->recurrent);
	if (c->selecting && c->sel.ops->end)
		c->sel.ops->end(&c->sel, &st, c->policy.def->retention->region(c, &st));
	for (struct observer *o = c->observers; o; o = o->next)
		o->ops->commit(o, &st);
}

/* Rolling back a step needs no undo. The next step overwrites uncommitted KV entries. New attention mass and selections
 * are stored apart from the committed ones until a commit. */
void cache_rollback(struct cache *c)
{
	c->step = (struct step){ 0 };
	kv_host_invalidate(&c->kv);
}

int32_t cache_repeat(struct cache *c)
{
	return c->selecting && c->sel.ops->repeat ? c->sel.ops->repeat(&c->sel, c->total) : 0;
}

void cache_repeated(struct cache *c)
{
	c->sel.ops->repeated(&c->sel);
}

int32_t cache_verify_most(const struct cache *c, int32_t pos)
{
	const struct retention_ops *r = c->policy.def->retention;
	/* Without be->rows_alone, the bits of an output row may depend on the other rows of a call. Each drafted token
	 * then needs a call of its own, which recurrent layers cannot do. So a VERIFY step has only one token if the
	 * model has recurrent layers. */
	int32_t most = c->model && !c->be->rows_alone ? 1 : r->verify_most(c, pos), n;

	if (c->selecting && c->sel.ops->verify_most) {
		struct step st = { .kind = STEP_VERIFY, .pos = pos, .n = 1, .tried = 1 };

		n = c->sel.ops->verify_most(&c->sel, pos, r->region(c, &st));
		most = MIN(n, most);
	}
	most = MIN(most, VERIFY_MOST);
	most = MIN(most, c->chunk);
	return most > 0 ? most : 1;
}

/* ---- rollback, pinning, exchange of stores, snapshots ---- */

/* Roll the selector and the observers back to n tokens. Returns the largest number of tokens, at most n, after which
 * all of them can continue. */
static int32_t rewind_others(struct cache *c, int32_t n)
{
	int32_t to = c->selecting ? c->sel.ops->rewind(&c->sel, n) : n;

	for (struct observer *o = c->observers; o; o = o->next) {
		int32_t m = o->ops->rewind(o, n);

		to = MIN(m, to);
	}
	return to;
}

/* after a rollback at most this many tokens are decoded again; a larger number of tokens is prefilled instead */
enum { REPLAY_MOST = 64 };

/* Roll back all parts of the cache except the sliding-window layers to at most n tokens. Returns the number of tokens
 * that remain. For `replay`, see cache_rewind(). */
static int32_t rewind_parts(struct cache *c, int32_t n, int32_t *replay)
{
	const struct retention_ops *r = c->policy.def->retention;
	int32_t to = rewind_others(c, n), kept = r->rewind(c, to), again = 0;

	/* Removed tokens can be decoded again if the selector can continue after n tokens. In this case rewind_others()
	 * has returned at least n. Otherwise the tokens must be prefilled, because the selector has to observe the end
	 * of a prefill. */
	if (to >= n && kept >= c->read_end && n - kept <= REPLAY_MOST && c->total > kept)
		again = c->total - kept;
	while (kept < to && !again) {
		to = rewind_others(c, kept);
		kept = r->rewind(c, to);
	}
	if (kept < n)
		/* the retention may have rolled back further than selector and observers: roll them back to `kept`
		 * tokens, too */
		rewind_others(c, kept);
	while (c->model && recurrent_rewind(&c->recurrent, kept) < kept) {
		again = 0;
		to = rewind_others(c, c->recurrent.at);
		/* The recurrent layers could roll back only to recurrent.at tokens, so the tokens from there to n are
		 * prefilled again. If there are at least sel.tail such tokens, the selector observes them, and need not
		 * roll back any further. */
		if (to > 0 && n - c->recurrent.at >= c->sel.tail)
			to = c->recurrent.at;
		kept = r->rewind(c, to);
	}
	c->total = kept;
	c->read_end = MIN(kept, c->read_end);
	if (replay)
		*replay = again;
	return kept;
}

/* The lengths of the sequence to which the sliding-window layers may roll back: `least` and all larger lengths, and the
 * length `pin`. */
struct returns {
	int32_t least, pin;
};

/* Find the lengths to which the sliding-window layers may roll back. Once KV entries have moved, a snapshot saves only
 * windows that end at one of the newest tokens, and the window at the end of the pinned prefix. A sequence loaded from
 * this snapshot can roll back only to these lengths. Apply the same limits to a sequence that was not loaded, so that
 * both behave alike. */
static struct returns rollback_lengths_of(const struct cache *c)
{
	int moved = c->kv.window_cap && cache_ready(c, c->total) < c->total;

	return (struct returns){ .least = moved ? c->total - WINDOW_LEAST : 0, .pin = c->kv.pin };
}

/* Roll the sliding-window layers back to n tokens, and restore missing entries from kv.copy. Return 1, or 0 if the
 * layers cannot roll back to n tokens. */
static int windows_return(struct cache *c, const struct returns *r, int32_t n)
{
	int32_t first = n + 1 - kv_window_most(&c->kv);

	if ((n < r->least && n != r->pin) || !kv_rollback(&c->kv, n))
		return 0;
	if (n < r->least && c->kv.held < first)
		/* treat entries before this slot as missing, because a loaded sequence does not have them */
		c->kv.held = first;
	return 1;
}

int32_t cache_rewind(struct cache *c, int32_t n, int32_t *replay)
{
	struct returns r = rollback_lengths_of(c);
	int32_t kept = rewind_parts(c, n, replay);

	return kept && !windows_return(c, &r, kept) ? rewind_parts(c, 0, replay) : kept;
}

void cache_keep_states(struct cache *c)
{
	if (c->model)
		recurrent_keep(&c->recurrent);
}

int32_t cache_pin(struct cache *c, int32_t n, struct err *err)
{
	struct returns r = rollback_lengths_of(c);
	int32_t kept;

	/* drop cached copies of entries, because pinning may move entries to other slots */
	kv_file_cache_clear(&c->kv);
	kept = c->policy.def->retention->pin ? c->policy.def->retention->pin(c, n, err) : c->total;

	if (c->model && kept >= 0 && kept < c->total)
		return cache_rewind(c, kept, NULL);
	if (kept >= 0 && kept < c->total) {
		c->total = kept;
		c->read_end = MIN(kept, c->read_end);
	}
	return kept > 0 && !windows_return(c, &r, kept) ? cache_rewind(c, 0, NULL) : kept;
}

uint64_t cache_read_bytes(const struct cache *c, int32_t pos, int generated)
{
	return c->policy.def->retention->read_bytes(c, pos, generated) + kv_window_read_bytes(&c->kv, pos);
}

uint64_t cache_used_bytes(const struct cache *c)
{
	const struct retention_ops *r = c->policy.def->retention;
	int32_t kept = r->kept ? r->kept(c) : c->total, held = c->total - (c->total ? c->kv.held : 0);

	return kv_full_token_bytes(c->hp, c->types) * (uint64_t)kept +
	       kv_window_token_bytes(c->hp, c->types) * (uint64_t)held;
}

void cache_note(struct cache *c, int32_t n)
{
	for (int32_t layer = 0; n > 0 && c->selecting && c->sel.ops->note && layer < c->kv.n_layer; layer++) {
		for (int32_t slot = 0, m; slot < n && !layer_window(c->hp, layer); slot += m) {
			m = n - slot < c->chunk ? n - slot : c->chunk;
			c->sel.ops->note(&c->sel, layer, slot, m);
		}
		kv_used(&c->kv, layer);
	}
}

int cache_take_store(struct cache *c, struct cache *other, int32_t n)
{
	struct recurrent states = c->recurrent;

	if (!c->kv.disk != !other->kv.disk || !c->kv.host != !other->kv.host) {
		if (kv_copy(&c->kv, &other->kv, n))
			return -1;
	} else {
		kv_swap(&c->kv, &other->kv);
		for (int32_t layer = 0; layer < c->kv.n_layer; layer++)
			kv_used(&c->kv, layer);
	}
	c->recurrent = other->recurrent;
	other->recurrent = states;
	c->total = c->read_end = n;
	cache_note(c, n);
	return 0;
}

int32_t cache_ready(const struct cache *c, int32_t n)
{
	return c->policy.def->retention->ready(c, n);
}

int32_t cache_take(struct cache *c, int32_t n)
{
	/* the caller has loaded KV entries, but no states of recurrent layers: if the model has such layers, accept no
	 * tokens */
	c->total = c->read_end = c->model ? 0 : c->policy.def->retention->take(c, n);
	return c->total && !kv_complete(&c->kv, c->total) ? cache_rewind(c, 0, NULL) : c->total;
}

void cache_archive(struct cache *c, struct serializer *a, int32_t n)
{
	c->policy.def->retention->archive(c, a, n);
	if (c->kv.window_cap && !a->bad && cache_ready(c, n) < n)
		windows_archive(c, a, n);
	if (c->model && !a->bad)
		recurrent_archive(&c->recurrent, a, n);
	if (!serialize_loading(a))
		return;
	c->total = c->read_end = n;
	if (n && !kv_complete(&c->kv, n))
		serialize_fail(a, "the window of a layer");
}

void cache_points_archive(struct cache *c, struct serializer *a)
{
	serialize_i32(a, &c->read_end, 0, c->total, "the end of the prefill");
	if (c->policy.def->retention->points && !a->bad)
		c->policy.def->retention->points(c, a);
	if (c->model && !a->bad)
		recurrent_copies_archive(&c->recurrent, a, c->total);
}
