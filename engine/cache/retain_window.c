/* engine/cache/retain_window.c - retention of sliding-window layers: token i is in slot i at position i. There are
 * slots for the window, the tokens of a step, and some more tokens for rollbacks (kv_store.h).
 *
 * The cache policy applies to full layers only. In sliding-window layers all tokens read the whole window, attention is
 * not observed, and entries do not move. Positions may become larger than the trained length. This does no harm,
 * because RoPE depends only on distances within the window, and angles are computed in double. */
#include "engine/cache/cache.h"

#include "engine/cache/serialize.h"

/* 1 if sliding-window layers need RoPE angles of their own. Without eviction, sliding-window layers use the same angles
 * as full layers. */
static int own_frame(const struct cache *c)
{
	return layers_unwindowed(c->hp) < c->hp->n_layer && !cache_keeps_all(c);
}

uint64_t windows_bytes(const struct cache *c)
{
	return own_frame(c) ? rope_bytes(c->hp, c->batch) : 0;
}

int windows_open(struct cache *c, struct err *err)
{
	return own_frame(c) ? rope_init(&c->window_rope, c->hp, c->be, c->chunk, c->kv.cap, err) : 0;
}

void windows_close(struct cache *c)
{
	if (c->window_rope.be)
		rope_release(&c->window_rope);
}

void windows_begin(struct cache *c, const struct step *st)
{
	if (c->window_rope.be)
		rope_set(&c->window_rope, st->pos, st->pos, st->n);
}

void windows_put(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x)
{
	cache_put(c, st, layer, x, c->window_rope.be ? &c->window_rope : &c->rope);
}

void windows_segments(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x, struct reading *out)
{
	int32_t first = kv_window_first(&c->kv, layer, st->pos);

	out->q = c->q.data ? cache_frame(c, st, 0, &c->q) : x->q;
	out->seg[0] = (struct attn_segment){ .q = out->q, .slot0 = first, .n_slots = st->pos + st->n - first };
	out->n_seg = 1;
	out->skip = out->seg[0].n_slots;
}

/* Also save the WINDOW_LEAST tokens before the windows. At the end of a sequence, some tokens still wait for insertion
 * into the rings (retain_cascade.c). A later rollback may remove these tokens. The windows then begin and end at
 * earlier tokens. */
void windows_archive(struct cache *c, struct serializer *a, int32_t n)
{
	struct kv_store *kv = &c->kv;
	int32_t from = n + 1 - kv_window_most(kv) - WINDOW_LEAST;

	from = MAX(from, kv->held);
	serialize_i32(a, &from, 0, n, "the first token in the windows of layers");
	if (serialize_loading(a) && !a->bad && !kv_window_fits(kv, from, n - from))
		serialize_fail(a, "the first token in the windows of layers");
	if (serialize_loading(a) && !a->bad)
		kv_keep_pinned(kv); /* the entries of the pinned prefix have been loaded by now */
	if (!a->bad)
		serialize_kv(a, kv, 1, from, n - from);
}
