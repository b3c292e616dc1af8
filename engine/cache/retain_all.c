/* engine/cache/retain_all.c - retention that keeps all entries: token i is in slot i and has position i. So a sequence
 * cannot be longer than the context.
 *
 * Decoded tokens attend to the entries that the policy's selector selects; selection does not apply to prompt tokens.
 * The policy `full` has no selector: its decoded tokens attend to all entries. */
#include "engine/cache/cache.h"

#include <stdlib.h>

#include "engine/cache/serialize.h"

static int32_t all_cap(const struct cache *c)
{
	return c->ctx;
}

static uint64_t all_bytes(const struct cache *c)
{
	return 0;
}

static int all_init(struct cache *c, struct err *err)
{
	return 0;
}

static void all_release(struct cache *c)
{
}

static void all_selector_opened(struct cache *c)
{
	struct selector *s = &c->sel;

	if (!s->ops)
		return;
	c->selecting = c->marked = 1;
	c->tail = s->tail;
	/* The size of prefill steps matters in two cases: the selector says so, or the last step may have fewer tokens
	 * than the selector observes. */
	c->steps_matter = (s->ops->steps_matter && s->ops->steps_matter(s)) || (s->tail > 1 && s->tail > c->chunk / 2);
}

static void all_begin(struct cache *c, const struct step *st)
{
	rope_set(&c->rope, st->pos, st->pos, st->n);
}

static void all_put(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x)
{
	cache_put(c, st, layer, x, &c->rope);
}

static int32_t all_region(const struct cache *c, const struct step *st)
{
	return st->pos + st->n;
}

static void all_segments(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x, struct reading *r)
{
	r->q = c->q.data ? cache_frame(c, st, 0, &c->q) : x->q;
	r->n_seg = r->n_region = cache_region(c, st, layer, x, r->q, r->n_slots, r->seg);
	for (int i = 0; i < r->n_seg; i++)
		r->skip += r->seg[i].n_slots;
}

static void all_commit(struct cache *c, const struct step *st, const float *nll)
{
}

static int32_t all_verify_most(const struct cache *c, int32_t pos)
{
	return c->ctx - pos;
}

static int32_t all_rewind(struct cache *c, int32_t n)
{
	return n;
}

static uint64_t all_read_bytes(const struct cache *c, int32_t pos, int generated)
{
	if (generated && c->selecting)
		return c->sel.ops->read_bytes(&c->sel, pos + 1);
	return kv_full_read_bytes(c->hp, c->types) * (uint64_t)pos;
}

static int32_t all_ready(const struct cache *c, int32_t n)
{
	return n;
}

static int32_t all_take(struct cache *c, int32_t n)
{
	cache_note(c, n);
	return c->selecting ? c->sel.ops->rewind(&c->sel, n) : n;
}

static void all_archive(struct cache *c, struct serializer *a, int32_t n)
{
	if (serialize_loading(a))
		cache_note(c, n);
	if (c->selecting && c->sel.ops->archive)
		c->sel.ops->archive(&c->sel, a, n);
}

/* clang-format off */
const struct retention_ops retain_all = {
	.keeps_all = 1, .bytes = all_bytes, .cap = all_cap, .init = all_init, .release = all_release, .selector_opened = all_selector_opened,
	.begin = all_begin, .put = all_put, .region = all_region, .segments = all_segments, .commit = all_commit,
	.verify_most = all_verify_most, .rewind = all_rewind, .read_bytes = all_read_bytes, .ready = all_ready, .take = all_take,
	.archive = all_archive,
};
/* clang-format on */

static const struct param full_params[] = { { .key = NULL } };

const struct policy_def policy_full = {
	.name = "full",
	.help = "every token stays and is read; the length is limited by -c",
	.params = full_params,
	.retention = &retain_all,
};
