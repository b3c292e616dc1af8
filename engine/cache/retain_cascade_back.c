/* engine/cache/retain_cascade_back.c - returning a cascade to an earlier token: rollback, another pinned prefix,
 * snapshots. The rest is in retain_cascade.c.
 *
 * A rollback of committed tokens can reach a *point*, a length for which a copy of the mass exists: the beginning of
 * the last prefill (POINT_TURN, as long as no entry has moved), its end (POINT_READ), and the last join (POINT_JOIN),
 * after which a few decoded tokens are replayed. A rollback beyond these points prefills again from the first token
 * whose attention is summed. */
#include "engine/cache/retain_cascade.h"

#include <string.h>

#include "engine/cache/cascade_shape.h"
#include "engine/cache/serialize.h"

/* ---- rollback, pinning ---- */

/* Return the index of the last saved state of the masses at or before t tokens that a rollback can continue from;
 * -1 = none. */
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

/* Roll back to restore point i. No entry may have moved since. Return the number of tokens at that point. */
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

/* Roll back to at most `to` tokens, to a length at which no attention mass had been summed yet. Return that
 * length. */
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
	/* Build the key sketches that the first `kept` tokens lack. Ring entries have none, nor has a prefix too
	 * short for a selector. */
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

/* The entries come without mass and surprise, so take only the tokens that need neither. */
int32_t cascade_take(struct cache *c, int32_t n)
{
	struct cascade *f = c->retained;
	struct rings *r = &f->rings;
	struct rings_shape s = r->s;
	int32_t most = s.sinks + r->size;

	cascade_set_shape(c, &s);
	if (r->factor)
		/* the factor of the first stream token needs the surprise at the two tokens before it */
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

/* Pass a stream of n tokens and its rings to the serializer, in the current shape. */
static void rings_archive(struct cache *c, struct serializer *a, int32_t n)
{
	struct cascade *f = c->retained;
	struct rings *r = &f->rings;
	int32_t sinks = r->s.sinks, waiting = f->waiting, t, slots;

	if (!serialize_loading(a) && f->mass.be)
		mass_read(&f->mass); /* the backend's failure is sticky and reported there */
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
	/* The snapshot is damaged: empty the cache, but keep the previous size of the pinned prefix. */
	s = f->rings.s;
	cascade_set_shape(c, &s);
	cascade_pin(c, was.sinks > least ? was.sinks : 0, NULL);
	c->pinned = was_pinned;
	if (c->sel.ops)
		c->sel.ops->rewind(&c->sel, 0);
}

/* Pass the points to the serializer: the tokens of each point (-1 = unused), the masses of the points, and the
 * surprise at tokens that may be replayed. */
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
