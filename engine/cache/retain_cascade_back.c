/* engine/cache/retain_cascade_back.c - rollback, pinning and snapshots of bounded retention. The other functions are in
 * retain_cascade.c.
 *
 * A rollback needs the attention mass as it was at an earlier length of the sequence. The mass is kept for three
 * lengths, called rollback points:
 *   POINT_TURN: the beginning of the last prefill;
 *   POINT_READ: the end of the last prefill;
 *   POINT_JOIN: while the rings are filling, the last multiple of LAG tokens; later, the last insertion of tokens.
 * An insertion into full rings invalidates all earlier points.
 *
 * A rollback returns to the last rollback point at or before the wanted length. Decoded tokens between this point and
 * the wanted length are then decoded again. If there is no such point, the rollback returns to a length at which no
 * mass had been summed yet, and the tokens after this length are prefilled again. */
#include "engine/cache/retain_cascade.h"

#include <string.h>

#include "engine/cache/cascade_shape.h"
#include "engine/cache/serialize.h"

/* ---- rollback, pinning ---- */

/* Return the index of the usable rollback point with the largest number of tokens that is at most t, or -1 if there is
 * none. Once the rings are full, a point is usable only if nothing was inserted after it. */
static int point_before(const struct cascade *f, int32_t t)
{
	int best = -1;

	for (int i = 0; i < MASS_POINTS; i++) {
		int32_t at = f->mass.point[i].t;

		if (at >= 0 && at <= t && (rings_filling(&f->rings) || at == f->rings.t) &&
		    (best < 0 || at > f->mass.point[best].t))
			best = i;
	}
	return best;
}

/* Roll back to rollback point i. No entry may have moved since that point. Returns the number of tokens at that
 * point. */
static int32_t back_to_point(struct cascade *f, int i)
{
	struct mass_point p = f->mass.point[i];

	f->waiting = 0;
	if (f->rings.t > p.t)
		rings_rewind(&f->rings, p.t);
	mass_restore(&f->mass, i);
	mass_forget(&f->mass, p.t);
	f->nll = p.nll;
	return p.t;
}

/* Roll back to a length of at most `to` tokens at which no attention mass had been summed yet. Return this length. */
static int32_t back_without_mass(struct cascade *f, int32_t to)
{
	struct rings *r = &f->rings;

	f->waiting = 0;
	if (!rings_filling(r) && to > r->s.sinks)
		to = r->s.sinks;
	if (f->mass.be && rings_filling(r) && to > f->probe_from)
		to = f->probe_from;
	to = rings_rewind(r, to);
	if (r->mass)
		memset(r->mass, 0, (size_t)r->heads * (size_t)r->n_slots * sizeof *r->mass);
	rings_ema_reset(r);
	mass_reset(&f->mass);
	return to;
}

int32_t cascade_rewind(struct cache *c, int32_t n)
{
	struct cascade *f = c->retained;
	struct rings *r = &f->rings;
	int32_t to = n;
	int i;

	if (f->lost) {
		struct rings_shape s = r->s;

		cascade_set_shape(c, &s);
		to = 0;
	}
	if (to >= cascade_tokens(f))
		return cascade_tokens(f);
	/* only waiting tokens are removed, and there is no attention mass to restore */
	if (!f->mass.be && to >= r->t && !rings_filling(r)) {
		f->waiting = to - r->t;
		return to;
	}
	if (f->mass.be && (i = point_before(f, to)) >= 0)
		return back_to_point(f, i);
	return back_without_mass(f, to);
}

int32_t cascade_pin(struct cache *c, int32_t n, struct err *err)
{
	struct cascade *f = c->retained;
	struct rings *r = &f->rings;
	struct rings_shape s = cascade_shape(c, n);
	int32_t kept = cascade_tokens(f), old = r->s.sinks;

	if (!cascade_params(c)->fill)
		return kept;
	if (s.sinks == old)
		return kept;
	if (cascade_check_pinned(c, &s, n, err))
		return -1;
	if (!rings_filling(r) && kept > old)
		kept = old;
	kept = MIN(kept, s.sinks);
	cascade_set_shape(c, &s);
	r->t = kept;
	/* Entries that were in rings have no key sketches, so let the selector make key sketches of the whole
	 * prefix. */
	cache_note(c, kept);
	if (c->sel.ops && kept < old)
		c->sel.ops->rewind(&c->sel, kept);
	c->pinned = s.sinks;
	return kept;
}

/* ---- snapshots ---- */

int32_t cascade_ready(const struct cache *c, int32_t n)
{
	const struct cascade *f = c->retained;

	(void)n;
	return rings_filling(&f->rings) ? f->rings.t : f->rings.s.sinks;
}

/* Loaded entries have no attention mass and no surprise (negative log-likelihood). So accept the tokens only up to the
 * first one that needs either of these. */
int32_t cascade_take(struct cache *c, int32_t n)
{
	struct cascade *f = c->retained;
	struct rings *r = &f->rings;
	struct rings_shape s = r->s;
	int32_t most = s.sinks + r->size;

	cascade_set_shape(c, &s);
	if (r->factor)
		/* The factors r->factor[] are computed from the surprise (negative log-likelihood) of the last sink and
		 * of each later token. The surprise of a token is computed from the logits after the previous token,
		 * and loaded entries come without logits. So do not accept the last two sinks: the next prefill
		 * computes them again. */
		most = s.sinks - 2;
	else if (r->mass)
		most = MAX(f->probe_from, s.sinks);
	n = n < most ? n : MAX(most, 0);
	cache_note(c, MIN(n, s.sinks));
	if (c->selecting)
		n = c->sel.ops->rewind(&c->sel, n);
	r->log_events = 0;
	rings_insert(r, n);
	return n;
}

/* Save or load the rings after n tokens (serialize.h), in the current shape. */
static void rings_archive(struct cache *c, struct serializer *a, int32_t n)
{
	struct cascade *f = c->retained;
	struct rings *r = &f->rings;
	int32_t sinks = r->s.sinks, waiting = f->waiting, t, slots;

	if (!serialize_loading(a) && f->mass.be)
		mass_read(&f->mass); /* if the backend fails here, its next sync() reports the failure */
	serialize_i32(a, &waiting, 0, f->lag - 1 < n ? f->lag - 1 : n, "the tokens that wait");
	serialize_i64(a, &r->ema.shift, 0, (int64_t)(r->ema.rate * ((double)n + c->chunk)) + 1,
	              "the weight of attention mass");
	serialize_bytes(a, &f->nll, sizeof f->nll);
	if (a->bad)
		return;
	t = n - waiting;
	slots = t > sinks ? t - sinks : 0;
	if (t - sinks > r->size) {
		slots = r->size + waiting;
		serialize_i32s(a, r->id, (uint64_t)r->size * (uint64_t)r->heads, 0, t - 1, "a token of the stream");
		if (serialize_loading(a) && !a->bad && rings_restore(r, t))
			serialize_fail(a, "the order of the stream");
		serialize_kv(a, &c->kv, 0, sinks, r->size + waiting);
	} else if (waiting) {
		serialize_fail(a, "the tokens that wait");
	} else if (serialize_loading(a)) {
		r->log_events = 0;
		rings_insert(r, t);
	}
	if (a->bad)
		return;
	if (serialize_loading(a))
		f->waiting = waiting;
	mass_archive(&f->mass, a, slots);
	for (int32_t token = r->oldest; r->factor && token < n; token++)
		serialize_bytes(a, &r->factor[token & r->mask], sizeof *r->factor);
}

void cascade_archive(struct cache *c, struct serializer *a, int32_t n)
{
	struct cascade *f = c->retained;
	struct rings_shape s = f->rings.s, was = s;
	int32_t sinks = s.sinks, pinned = c->pinned, was_pinned = pinned, least = cascade_params(c)->sinks;
	int fill = cascade_params(c)->fill;

	serialize_i32(a, &sinks, fill ? least : sinks, fill ? INT32_MAX / 2 : sinks, "the tokens pinned");
	serialize_i32(a, &pinned, 0, sinks, "the tokens pinned");
	if (serialize_loading(a) && !a->bad) {
		if (sinks != s.sinks && cascade_pin(c, sinks > least ? sinks : 0, NULL) < 0)
			serialize_fail(a, "the tokens pinned");
		s = f->rings.s;
		cascade_set_shape(c, &s);
		c->pinned = pinned;
		cache_note(c, MIN(n, s.sinks));
	}
	rings_archive(c, a, n);
	if (c->sel.ops && c->sel.ops->archive)
		c->sel.ops->archive(&c->sel, a, MIN(n, s.sinks));
	if (!serialize_loading(a) || !a->bad)
		return;
	/* The snapshot is damaged: empty the cache, but keep the length of the pinned prefix. */
	s = f->rings.s;
	cascade_set_shape(c, &s);
	cascade_pin(c, was.sinks > least ? was.sinks : 0, NULL);
	c->pinned = was_pinned;
	if (c->sel.ops)
		c->sel.ops->rewind(&c->sel, 0);
}

/* Save or load the rollback points. Each has a number of tokens (-1: the point is unused) and the attention mass at
 * that length. Also save or load the surprise (negative log-likelihood) at tokens that may be decoded again. */
void cascade_points(struct cache *c, struct serializer *a)
{
	struct cascade *f = c->retained;
	const struct rings *r = &f->rings;
	int32_t slots[MASS_POINTS] = { 0 };

	for (int i = 0; f->mass.be && i < MASS_POINTS; i++) {
		int32_t t = f->mass.point[i].t;

		serialize_i32(a, &t, -1, r->t, "a point to go back to");
		if (a->bad)
			break;
		if (t >= 0 && (rings_filling(r) ? t < f->probe_from : t != r->t))
			serialize_fail(a, "a point to go back to");
		f->mass.point[i].t = t;
		slots[i] = t < r->s.sinks ? 0 : t - r->s.sinks < r->size ? t - r->s.sinks : r->size;
	}
	if (f->mass.be)
		mass_points_archive(&f->mass, a, slots);
	for (int32_t t = c->total - 2 * LAG > c->read_end ? c->total - 2 * LAG : c->read_end;
	     f->nll_seen && t < c->total; t++)
		serialize_bytes(a, &f->nll_seen[t & r->mask], sizeof *f->nll_seen);
	if (a->bad && serialize_loading(a))
		mass_forget(&f->mass, -1);
}
