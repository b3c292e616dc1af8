/* engine/cache/retain_cascade.c - bounded retention. The first tokens (the prefix) are never evicted. Later tokens
 * pass through rings (ring buffers, rings.h), which keep fewer of them the older they get. The slots of the cache are
 * in this order: prefix, oldest ring, ..., newest ring, staged tokens (not yet in a ring).
 *
 * Policies `sink` and `cascade` have a prefix of a few tokens. In policy `auto`, the prefix is what the application
 * pins (system prompt and documents), and decoded tokens select from this prefix.
 *
 * Until the rings are full, token i is in slot i at position i, and results equal those of full attention. After that,
 * a token attends to the prefix, the rings and the staged tokens; for each ring its query is rotated to match the
 * positions in that ring.
 *
 * Staged tokens join the rings at the end of a prefill step, or when `lag` tokens have been decoded. A join compares
 * tokens by attention mass (attn_mass.h), moves entries and evicts. A join cannot be undone; retain_cascade_back.c says
 * to which lengths a rollback can return. */
#include "engine/cache/retain_cascade.h"

#include <math.h>
#include <stdlib.h>

#include "engine/cache/cascade_shape.h"

/* ---- life ---- */

static uint64_t cascade_bytes(const struct cache *c)
{
	struct rings_shape s = cascade_shape(c, 0);
	int32_t chunk = cascade_chunk(c), heads = cascade_heads(c);
	uint64_t q = 4 * (uint64_t)chunk * (uint64_t)c->hp->n_head * (uint64_t)c->hp->head_dim;
	uint64_t slots = (uint64_t)s.n * (uint64_t)s.w + (uint64_t)s.stage;
	int scored = cascade_scored(c);

	return (uint64_t)s.n * (q + rope_bytes(c->hp, chunk)) + rope_bytes(c->hp, cascade_moves(&s)) +
	       rings_bytes(&s, heads, scored, cascade_surprised(c)) + (scored ? mass_bytes(heads, slots) : 0);
}

/* Set the sizes of prefix and rings. Empties the rings and clears the attention mass. */
void cascade_set_shape(struct cache *c, const struct rings_shape *s)
{
	struct cascade *f = c->retained;

	c->kv.pin = s->sinks;
	f->lag = cascade_lag(s, c->chunk);
	f->waiting = 0;
	rings_reset(&f->rings, s);
	mass_reset(&f->mass);
	f->lost = 0;
	f->nll = 0;
	/* Attention mass decays to 1/100 within w tokens, where w is the number of slots of a ring. So early attention
	 * hardly matters by the time the first token is evicted. Policy `auto` therefore begins to sum attention late.
	 * With up to 3 rings, it begins when half of all ring slots are filled. With more rings, it begins when all but
	 * two rings are filled. Most conversations end earlier, so the sums cost them nothing. */
	f->probe_from =
		cascade_params(c)->fill ? s->sinks + s->n * s->w - (s->n > 3 ? 2 * s->w : s->n * s->w / 2) : s->sinks;
	/* A layer selects at least a quarter of the wanted number of entries (select_split()). If the prefix is not
	 * larger than this quarter, the layer reads the whole prefix, and selects nothing. */
	c->selecting = c->sel.ops && s->sinks > c->sel.ops->entries(&c->sel, s->sinks) / 4;
	c->marked = c->selecting;
	c->steps_matter = c->selecting && c->sel.tail > 1 && c->sel.tail > c->chunk / 2;
	c->region = c->selecting ? s->sinks : -1;
}

static int cascade_init(struct cache *c, struct err *err)
{
	struct cascade *f = c->retained = xcalloc(1, sizeof *f);
	struct cascade_params *p = (void *)c->policy.values;
	struct rings_shape s = cascade_shape(c, 0);
	int64_t width = (int64_t)c->hp->n_head * c->hp->head_dim;
	int32_t layers = layers_retained(c->hp);

	if (cascade_check(c, &s, err))
		return -1;
	if (p->stride > c->chunk)
		p->stride = c->chunk; /* change the setting itself, so that its text shows the stride that is used */
	c->wants_nll = cascade_surprised(c);
	if (rings_init(&f->rings, &s, cascade_heads(c), cascade_scored(c), cascade_surprised(c), err) ||
	    rope_init(&f->shift, c->hp, c->be, cascade_moves(&s), cascade_cap(c), err) ||
	    cache_alloc(c, &f->move, DT_I32, (int64_t)(layers ? layers : 1) * c->hp->n_kv_head,
	                3 * (int64_t)cascade_moves(&s), err) ||
	    (cascade_scored(c) && mass_init(&f->mass, c->be, &f->rings, err)) ||
	    !(f->weight = try_alloc((size_t)c->chunk, sizeof *f->weight, "weights", err)) ||
	    !(f->list = try_alloc((size_t)f->move.rows * (size_t)f->move.cols, sizeof *f->list, "moves of KV entries",
	                          err)))
		return -1;
	if (f->rings.factor &&
	    !(f->nll_seen = try_alloc((size_t)f->rings.mask + 1, sizeof *f->nll_seen, "surprise", err)))
		return -1;
	for (int32_t i = 0; i < s.n; i++)
		if (rope_init(&f->rope[i], c->hp, c->be, c->chunk, cascade_cap(c), err) ||
		    cache_alloc(c, &f->q[i], DT_F32, c->chunk, width, err))
			return -1;
	return 0;
}

static void cascade_selector_opened(struct cache *c)
{
	struct rings_shape s = cascade_shape(c, 0);

	if (c->sel.ops)
		c->tail = c->sel.tail < c->chunk ? c->sel.tail : 0;
	cascade_set_shape(c, &s);
}

static void cascade_release(struct cache *c)
{
	struct cascade *f = c->retained;

	cache_drop(c, &f->move);
	for (int i = 0; i < RINGS_MOST; i++) {
		cache_drop(c, &f->q[i]);
		if (f->rope[i].be)
			rope_release(&f->rope[i]);
	}
	if (f->shift.be)
		rope_release(&f->shift);
	if (f->mass.be)
		mass_release(&f->mass);
	rings_release(&f->rings);
	free(f->nll_seen);
	free(f->weight);
	free(f->list);
	free(f->event);
	free(f);
}

/* ---- a step ---- */

/* Return how many arrays of attention sums (attn_mass.h) a step writes: one per drafted token in a VERIFY step, one in
 * any other step. */
static int32_t arrays_of(const struct step *st)
{
	return st->kind == STEP_VERIFY ? st->tried : 1;
}

static void cascade_begin(struct cache *c, const struct step *st)
{
	struct cascade *f = c->retained;
	struct rings *r = &f->rings;
	int32_t skipped = r->s.sinks - st->pos;

	if (rings_filling(r)) {
		rope_set(&c->rope, st->pos, st->pos, st->n);
	} else {
		int32_t rank = rings_rank(r) + f->waiting;

		rope_set(&c->rope, rank, rank, st->n);
		for (int32_t i = 0; i < r->s.n; i++)
			rope_set(&f->rope[i], rings_query(r, i) + f->waiting, rank, st->n);
	}
	if (!step_generates(st) && r->t > c->read_end && f->mass.be && rings_filling(r) && r->t > f->probe_from)
		mass_keep(&f->mass, POINT_TURN, r->t, f->nll);
	f->probing = r->mass && skipped < st->n && st->pos + st->n > f->probe_from;
	if (!f->probing)
		return;
	if (mass_begin(&f->mass, st->pos, st->n, arrays_of(st), f->weight))
		return;
	/* Attention is summed from token probe_from on, but a step of drafted tokens may begin before probe_from. Give
	 * the earlier tokens the weight 0: the sums are then the same as if the tokens were decoded one by one. */
	if (st->kind == STEP_VERIFY && f->probe_from - st->pos > skipped)
		skipped = f->probe_from - st->pos;
	for (int32_t i = 0; i < skipped; i++)
		f->weight[i] = 0;
}

static void cascade_put(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x)
{
	struct cascade *f = c->retained;
	const struct rings *r = &f->rings;
	int filling = rings_filling(r);

	/* A token enters the newest ring first, so rotate its key by the positions of that ring. */
	if (x->k) {
		kv_rotate(&c->kv, layer, x->k, x->k, filling ? &c->rope : &f->rope[0], st->n);
		kv_put(&c->kv, layer, x->k, x->v, r->s.sinks + rings_stage(r) + f->waiting, st->n);
	}
	c->q.cols = x->q->cols;
	for (int32_t i = 0; i < r->s.n; i++)
		f->q[i].cols = x->q->cols;
	if (filling || r->s.sinks)
		kv_rotate_queries(&c->kv, layer, &c->q, x->q, &c->rope, st->n);
	for (int32_t i = 0; !filling && i < r->s.n; i++)
		kv_rotate_queries(&c->kv, layer, &f->q[i], x->q, &f->rope[i], st->n);
}

static int32_t cascade_region(const struct cache *c, const struct step *st)
{
	const struct cascade *f = c->retained;
	int32_t end = st->pos + st->n;

	return MIN(end, f->rings.s.sinks);
}

static void cascade_segments(struct cache *c, const struct step *st, int32_t layer, const struct qkv *x,
                             struct reading *out)
{
	struct cascade *f = c->retained;
	const struct rings *r = &f->rings;
	int32_t end = st->pos + st->n, sinks = r->s.sinks;
	struct attn_segment *seg = out->seg;
	int n = 0;

	if (rings_filling(r) || sinks)
		out->q = cache_frame(c, st, 0, &c->q);
	if (rings_filling(r) && !(step_generates(st) && c->selecting && st->pos >= sinks)) {
		seg[0] = (struct attn_segment){ .q = out->q, .n_slots = end };
		out->skip = MIN(sinks, end);
		out->n_seg = 1;
		return;
	}
	if (sinks > 0)
		n = cache_region(c, st, layer, x, out->q, sinks, seg);
	out->n_region = n;
	for (int i = 0; i < n; i++)
		out->skip += seg[i].n_slots;
	if (rings_filling(r))
		seg[n++] = (struct attn_segment){ .q = out->q, .slot0 = sinks, .n_slots = end - sinks };
	for (int32_t i = r->s.n - 1; !rings_filling(r) && i >= 0; i--)
		seg[n++] = (struct attn_segment){ .q = cache_frame(c, st, 1 + i, &f->q[i]),
			                          .slot0 = sinks + (r->s.n - 1 - i) * r->s.w,
			                          .n_slots = r->s.w + (i ? 0 : f->waiting + st->index + st->n) };
	out->n_seg = n;
}

static const struct attn_probe *cascade_probe(struct cache *c, const struct step *st, int32_t layer, int32_t skip)
{
	struct cascade *f = c->retained;
	const struct cascade_params *p = cascade_params(c);
	int whole = p->heads == HEADS_LAYER;
	int32_t full = c->kv.full_index[layer], index = st->kind == STEP_VERIFY ? st->index : 0;

	/* If a layer reads another layer's entries, do not measure its attention: the attention of the layer that owns
	 * the entries decides which of them are evicted. */
	if (!f->probing || layer_entries(c->hp, layer) != layer)
		return NULL;
	f->probe = (struct attn_probe){
		.mass = mass_to(&f->mass, index),
		.from = mass_from(&f->mass, index),
		.mass_row = whole ? full : full * c->hp->n_kv_head,
		.weight = f->weight + index,
		.reduce = (enum reduce)p->reduce,
		.whole_layer = whole,
		.skip = skip,
	};
	return &f->probe;
}

/* 1 if the waiting tokens join the rings at the end of this step. `waiting` includes the tokens of the step. */
static int joins(const struct cascade *f, const struct step *st, int32_t waiting)
{
	return rings_filling(&f->rings) || !step_generates(st) || waiting >= f->lag;
}

/* After the attention of the last layer, the sums of a decoded token are complete: on a device, copy those that the
 * commit will compare. */
static void cascade_seen(struct cache *c, const struct step *st, int32_t layer)
{
	struct cascade *f = c->retained;

	if (c->be->device && f->probing && st->kind == STEP_GENERATE && layer == c->kv.full[c->kv.n_full - 1] &&
	    joins(f, st, f->waiting + 1))
		mass_show(&f->mass, f->waiting + 1);
}

/* ---- the commit ---- */

/* Move the keys and values of all layers as planned by rings_insert(). */
static void entries_move(struct cache *c)
{
	struct cascade *f = c->retained;
	struct rings *r = &f->rings;
	const struct hparams *hp = c->hp;
	int32_t n = r->n_changed, whole = cascade_params(c)->heads == HEADS_LAYER, kv_heads = hp->n_kv_head,
		sinks = r->s.sinks;
	struct tensor move = f->move;
	int32_t rows = c->kv.n_full * kv_heads;
	struct kv_moves m = { .move = &move,
		              .n = n,
		              .n_kv_head = kv_heads,
		              .head_dim = hp->head_dim,
		              .dims = hp->rope[0].dims,
		              .cap = c->kv.cap,
		              .neox = hp->rope[0].neox };
	int32_t *out = f->list;

	/* Send the lists of moves of all layers to the backend in one write. */
	for (int32_t row = 0; row < rows; row++) {
		size_t at = (size_t)(whole ? row / kv_heads : row);

		for (int32_t i = 0; i < n; i++, at += (size_t)r->heads, out += 3) {
			int32_t from = r->from[at];

			out[0] = from == r->changed[i] ? -1 : sinks + from;
			out[1] = sinks + r->changed[i];
			out[2] = r->rope_shift_at[at];
		}
	}
	c->moving = 1;
	move.cols = 3 * n;
	rope_set_shifts(&f->shift, r->rope_shift, r->n_rope_shift);
	c->be->ops->write(c->be, &move, 0, f->list, (size_t)(out - f->list) * sizeof *f->list);
	for (int32_t k = 0; k < c->kv.n_full; k++, m.move_row += kv_heads) {
		int32_t layer = c->kv.full[k];
		const struct rope_freqs *freqs = model_rope(hp, layer);

		m.shift = freqs && r->n_rope_shift ? rope_table(&f->shift, layer) : NULL;
		if (freqs) {
			m.dims = freqs->dims;
			m.neox = freqs->neox;
		}
		c->be->ops->kv_move(c->be, &c->kv.k[layer], &m);
		m.shift = NULL;
		c->be->ops->kv_move(c->be, &c->kv.v[layer], &m);
		kv_used(&c->kv, layer);
	}
}

/* Report the admissions, moves and evictions of the last rings_insert() to c->evictions_fn. */
static void evictions_report(struct cache *c)
{
	struct cascade *f = c->retained;
	struct rings *r = &f->rings;
	float heads = (float)r->heads;

	if (f->cap_event < r->n_event) {
		f->cap_event = 2 * r->n_event;
		f->event = xrealloc(f->event, f->cap_event * sizeof *f->event);
	}
	for (size_t i = 0; i < r->n_event; i++) {
		const struct rings_event *o = &r->event[i];
		int32_t held = o->token < r->oldest ? 0 : r->held[o->token & r->mask];

		f->event[i] = (struct slot_event){
			.what = o->what,
			.token = o->token,
			.ring = o->ring,
			.evicted = (float)(r->heads - held) / heads,
			.share = o->what == SLOT_ADMITTED ? 1 : (float)o->heads / heads,
			.mass = r->mass ? ema_value(&r->ema, (float)(o->mass / o->heads), r->t) : 0,
		};
	}
	if (r->n_event)
		c->evictions_fn(f->event, r->n_event, c->evictions_ud);
}

/* Insert the waiting tokens into the rings. If the rings are full, this moves entries between slots and makes all
 * rollback points invalid. */
static void waiting_join(struct cache *c)
{
	struct cascade *f = c->retained;
	struct rings *r = &f->rings;
	int32_t n = f->waiting;

	mass_read_back(&f->mass, n);
	f->waiting = 0;
	r->log_events = c->evictions_fn != NULL;
	rings_insert(r, n);
	if (r->n_changed)
		entries_move(c);
	mass_follow(&f->mass);
	f->lost |= c->be->failed;
	if (!rings_filling(r))
		mass_forget(&f->mass, -1);
	if (c->evictions_fn)
		evictions_report(c);
}

/* Set the factor of each token's attention mass to 0.5 plus the larger of two surprises (negative log-likelihoods): the
 * surprise at the token itself, and at the token before it. */
static void note_surprise(struct cascade *f, const struct step *st, const float *nll)
{
	struct rings *r = &f->rings;

	for (int32_t i = 0; r->factor && i < st->n; i++) {
		float *seen = &f->nll_seen[(st->pos + i) & r->mask], now = nll[i];

		if (isnan(now))
			now = step_generates(st) ? *seen : 0;
		r->factor[(st->pos + i) & r->mask] = MAX(now, f->nll) + 0.5f;
		*seen = f->nll = now;
	}
}

/* Until the rings are full, a rollback point is kept after every LAG tokens. If such a point is reached before the last
 * of several drafted tokens, keep the sums as they were at that point. */
static void keep_inner_point(struct cascade *f, const struct step *st, const float *nll)
{
	int32_t t = f->rings.t / LAG * LAG;

	if (f->mass.be && f->probing && step_generates(st) && rings_filling(&f->rings) && t > st->pos &&
	    t < f->rings.t && t > f->probe_from)
		mass_keep_inner(&f->mass, POINT_JOIN, t, nll ? f->nll_seen[(t - 1) & f->rings.mask] : 0,
		                t - st->pos - 1);
}

/* At the end of a step, keep the attention sums as a rollback point in three cases: the step is the last one of a
 * prefill; a decode step ends at a multiple of LAG tokens while the rings are filling; a decode step has inserted
 * tokens into full rings (joined = 1). */
static void keep_points(struct cascade *f, const struct step *st, int joined)
{
	const struct rings *r = &f->rings;

	if (!step_generates(st))
		f->mass.point[POINT_READ].t = f->mass.point[POINT_JOIN].t = -1;
	/* Before probe_from, the first token whose attention is summed, there are no sums to keep. While tokens wait
	 * for insertion, no point is kept. */
	if (!f->mass.be || !f->probing || f->lost || f->waiting || r->t <= f->probe_from)
		return;
	if (!step_generates(st) && st->last)
		mass_keep(&f->mass, POINT_READ, r->t, f->nll);
	else if (step_generates(st) && (rings_filling(r) ? r->t % LAG == 0 : joined))
		mass_keep(&f->mass, POINT_JOIN, r->t, f->nll);
}

static void cascade_commit(struct cache *c, const struct step *st, const float *nll)
{
	struct cascade *f = c->retained;
	int joined;

	if (nll)
		note_surprise(f, st, nll);
	if (f->probing)
		mass_commit(&f->mass, st->kind == STEP_VERIFY ? st->n : 1);
	f->waiting += st->n;
	joined = joins(f, st, f->waiting);
	if (joined)
		waiting_join(c);
	keep_inner_point(f, st, nll);
	if (f->probing)
		mass_scale(&f->mass, st->pos + st->n, c->chunk);
	keep_points(f, st, joined);
}

static int32_t cascade_verify_most(const struct cache *c, int32_t pos)
{
	const struct cascade *f = c->retained;
	const struct rings *r = &f->rings;
	int32_t most = rings_filling(r) ? r->s.sinks + r->size - r->t : f->lag - f->waiting, n = 1;

	/* A step must end at a token after which entries or attention sums change. This holds for three tokens: the
	 * token that fills the rings, the last token before waiting tokens are inserted into full rings, and the last
	 * token before attention sums are scaled. */
	while (n < most && n < VERIFY_MOST && !(r->mass && mass_must_scale(&f->mass, pos + n, c->chunk)))
		n++;
	return n;
}

/* ---- for statistics and observers ---- */

static void cascade_ring_stats(const struct cache *c, struct ring_stats *out)
{
	const struct cascade *f = c->retained;
	const struct rings *r = &f->rings;

	out->pinned = r->s.sinks;
	out->n_ring = r->s.n;
	out->ring_slots = r->s.w;
	out->factor = r->s.f;
	for (int32_t i = 0; i < r->s.n; i++) {
		out->fill[i] = rings_fill(r, i);
		rings_span(r, i, &out->first[i], &out->last[i]);
	}
	out->seen = cascade_tokens(f);
	out->evicted = r->evicted;
	out->evicted_in_part = r->evicted_in_part;
	out->oldest = r->t > r->s.sinks ? r->oldest : -1;
}

static int32_t cascade_kept(const struct cache *c)
{
	const struct cascade *f = c->retained;

	return rings_rank(&f->rings) + f->waiting;
}

static void cascade_view(const struct cache *c, struct retained_view *out)
{
	const struct cascade *f = c->retained;

	out->rings = &f->rings;
	out->waiting = f->waiting;
	out->observed = f->rings.mass && cascade_tokens(f) > f->probe_from;
}

static void cascade_mass_read(struct cache *c)
{
	struct cascade *f = c->retained;

	if (f->mass.be)
		mass_read(&f->mass);
}

static uint64_t cascade_read_bytes(const struct cache *c, int32_t pos, int generated)
{
	const struct cascade *f = c->retained;
	const struct rings *r = &f->rings;
	int32_t most = r->s.sinks + r->size, slots = MIN(pos, most);
	uint64_t selected = 0;

	if (generated && c->selecting && pos >= r->s.sinks) {
		selected = c->sel.ops->read_bytes(&c->sel, r->s.sinks);
		slots -= r->s.sinks;
	}
	return selected + kv_full_read_bytes(c->hp, c->types) * (uint64_t)slots;
}

/* clang-format off */
const struct retention_ops retain_cascade = {
	.endless = 1, .bytes = cascade_bytes, .cap = cascade_cap, .holds = cascade_holds, .chunk = cascade_chunk, .init = cascade_init, .release = cascade_release,
	.selector_opened = cascade_selector_opened, .begin = cascade_begin, .put = cascade_put, .region = cascade_region,
	.segments = cascade_segments, .probe = cascade_probe, .seen = cascade_seen, .commit = cascade_commit, .verify_most = cascade_verify_most,
	.rewind = cascade_rewind, .pin = cascade_pin, .read_bytes = cascade_read_bytes, .ring_stats = cascade_ring_stats, .view = cascade_view,
	.mass_read = cascade_mass_read, .kept = cascade_kept, .ready = cascade_ready, .take = cascade_take, .archive = cascade_archive,
	.points = cascade_points,
};
/* clang-format on */
