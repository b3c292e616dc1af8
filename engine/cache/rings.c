/* engine/cache/rings.c - see rings.h. rings_insert() first only plans: it follows each token through the rings, and
 * records in src[slot][head] the slot from which `slot` will receive its entry. Then apply_moves() moves all entries at
 * once and lists the moves for the KV cache. */
#include "engine/cache/rings.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

/* Return an upper limit of the number of tokens from the oldest to the newest token that a head holds. Ring i accepts
 * one token in f^i, so its w slots span at most (w + 1) * f^i tokens. The sum also counts the staged tokens, which
 * are not in a ring yet. */
static int64_t token_span(const struct rings_shape *s)
{
	int64_t sum = 0, period = 1;

	for (int32_t i = 0; i < s->n; i++, period *= s->f)
		sum += period * (s->w + 1);
	return sum + s->stage + 1;
}

static int64_t pow2_at_least(int64_t n)
{
	int64_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* Return an upper limit of the number of keys that one rings_insert() rotates. Ring 0 receives `stage` tokens, and each
 * ring passes on at most half of the tokens that it receives. So all rings together receive less than 2 * stage tokens.
 * Add 2 for each ring: one for rounding up, one because the newest slot may get another entry. */
static int64_t rope_shift_max(const struct rings_shape *s)
{
	return 2 * (int64_t)s->stage + 2 * s->n;
}

/* Return the maximum number of slots that one rings_insert() changes. */
static int64_t touch_max(const struct rings_shape *s)
{
	int64_t n = rope_shift_max(s), slots = (int64_t)s->n * s->w;

	return MIN(n, slots);
}

uint64_t rings_bytes(const struct rings_shape *s, int32_t heads, int with_mass, int with_factor)
{
	uint64_t slots = (uint64_t)s->n * (uint64_t)s->w + (uint64_t)s->stage, h = (uint64_t)heads;

	return slots * (h * (with_mass ? 12 : 8) + 25) + (uint64_t)touch_max(s) * h * 16 +
	       (uint64_t)pow2_at_least(token_span(s)) * (with_factor ? 8 : 4);
}

int rings_init(struct rings *r, const struct rings_shape *s, int32_t heads, int with_mass, int with_factor,
               struct err *err)
{
	size_t slots = (size_t)s->n * (size_t)s->w + (size_t)s->stage, h = (size_t)heads;
	size_t most = (size_t)touch_max(s), tokens = (size_t)pow2_at_least(token_span(s));
	const char *what = "the rings of the cache";

	*r = (struct rings){ .heads = heads };
	if (tokens > INT32_MAX / 2)
		return err_set(err, ERR_USAGE,
		               "%d rings of %d tokens, the last of which accepts one in %d^%d, span more tokens "
		               "than can be counted; use fewer rings",
		               s->n, s->w, s->f, s->n - 1);
	r->mask = (int32_t)tokens - 1;
	if (!(r->id = try_alloc(slots * h, sizeof *r->id, what, err)) ||
	    !(r->src = try_alloc(slots * h, sizeof *r->src, what, err)) ||
	    !(r->number = try_alloc(slots, sizeof *r->number, what, err)) ||
	    !(r->renumber = try_alloc(slots, sizeof *r->renumber, what, err)) ||
	    !(r->rope_shift_from = try_alloc(slots, sizeof *r->rope_shift_from, what, err)) ||
	    !(r->touched = try_alloc(slots, 1, what, err)) ||
	    !(r->held = try_alloc(tokens, sizeof *r->held, what, err)) ||
	    (with_factor && !(r->factor = try_alloc(tokens, sizeof *r->factor, what, err))) ||
	    (with_mass && !(r->mass = try_alloc(slots * h, sizeof *r->mass, what, err))) ||
	    !(r->changed = try_alloc(most, sizeof *r->changed, what, err)) ||
	    !(r->from = try_alloc(most * h, sizeof *r->from, what, err)) ||
	    !(r->rope_shift_at = try_alloc(most * h, sizeof *r->rope_shift_at, what, err)) ||
	    !(r->rope_shift = try_alloc((size_t)rope_shift_max(s), sizeof *r->rope_shift, what, err)) ||
	    !(r->new_id = try_alloc(most * h, sizeof *r->new_id, what, err)) ||
	    !(r->new_mass = try_alloc(most * h, sizeof *r->new_mass, what, err)) ||
	    !(r->hand = try_alloc(h, sizeof *r->hand, what, err))) {
		rings_release(r);
		return -1;
	}
	rings_reset(r, s);
	return 0;
}

void rings_release(struct rings *r)
{
	free(r->id);
	free(r->src);
	free(r->number);
	free(r->renumber);
	free(r->rope_shift_from);
	free(r->touched);
	free(r->held);
	free(r->factor);
	free(r->mass);
	free(r->changed);
	free(r->from);
	free(r->rope_shift_at);
	free(r->rope_shift);
	free(r->new_id);
	free(r->new_mass);
	free(r->hand);
	free(r->event);
	for (int i = 0; i < 3; i++)
		free(r->event_at[i]);
	memset(r, 0, sizeof *r);
}

/* ---- slots and positions ---- */

/* Return the number of the first entry of ring i. A ring numbers its entries in the order in which they arrive. While
 * the rings are filling, this entry is in the ring's first slot, and the entry's number is also the token's position in
 * the cache. */
static int64_t first_number(const struct rings *r, int32_t i)
{
	return r->s.sinks + (int64_t)(r->s.n - 1 - i) * r->s.w;
}

static int32_t slot_of(const struct rings *r, int32_t i, int64_t number)
{
	return (int32_t)((r->s.n - 1 - i) * (int64_t)r->s.w + (number - first_number(r, i)) % r->s.w);
}

/* Return the ring that a slot belongs to. For a staged slot, return ring 0. */
static int32_t ring_of(const struct rings *r, int32_t slot)
{
	return slot >= r->size ? 0 : r->s.n - 1 - slot / r->s.w;
}

int32_t rings_stage(const struct rings *r)
{
	return rings_filling(r) ? r->t - r->s.sinks : r->size;
}

int32_t rings_fill(const struct rings *r, int32_t i)
{
	int32_t left = r->t - r->s.sinks - i * r->s.w;

	if (!rings_filling(r))
		return r->cnt[i];
	return left < 0 ? 0 : MIN(left, r->s.w);
}

void rings_span(const struct rings *r, int32_t i, int32_t *first, int32_t *last)
{
	int32_t fill = rings_fill(r, i);

	*first = *last = -1;
	if (rings_filling(r) && fill) {
		*last = r->t - i * r->s.w - 1;
		*first = *last - fill + 1;
		return;
	}
	for (int64_t number = r->next[i] - fill; number < r->next[i]; number++) {
		const int32_t *id = r->id + (size_t)slot_of(r, i, number) * (size_t)r->heads;

		for (int32_t h = 0; h < r->heads; h++) {
			*first = *first < 0 || id[h] < *first ? id[h] : *first;
			*last = id[h] > *last ? id[h] : *last;
		}
	}
}

int64_t rings_query(const struct rings *r, int32_t i)
{
	int64_t sum = rings_filling(r) ? r->t : r->next[i];

	for (int32_t m = 0; m < i && !rings_filling(r); m++)
		sum += r->cnt[m];
	return sum;
}

int32_t rings_rank(const struct rings *r)
{
	int32_t sum = MIN(r->t, r->s.sinks);

	for (int32_t i = 0; i < r->s.n; i++)
		sum += rings_fill(r, i);
	return sum;
}

/* ---- the log of events ---- */

static void log_event(struct rings *r, enum slot_what what, int32_t token, int32_t ring, double mass)
{
	struct rings_event *e;
	int32_t *at;

	if (!r->event_at[what]) {
		r->event_at[what] = xmalloc(((size_t)r->mask + 1) * sizeof *at);
		memset(r->event_at[what], 0xff, ((size_t)r->mask + 1) * sizeof *at);
	}
	at = &r->event_at[what][token & r->mask];
	if (*at < 0) {
		GROW(r->event, r->n_event, r->cap_event);
		*at = (int32_t)r->n_event++;
		r->event[*at] = (struct rings_event){ .what = what, .token = token };
	}
	e = &r->event[*at];
	e->ring = MAX(ring, e->ring);
	e->heads++;
	e->mass += mass;
}

static void events_clear(struct rings *r)
{
	for (size_t i = 0; i < r->n_event; i++)
		r->event_at[r->event[i].what][r->event[i].token & r->mask] = -1;
	r->n_event = 0;
}

/* ---- inserting ---- */

static float mass_at(const struct rings *r, int32_t head, int32_t slot)
{
	return r->mass ? r->mass[(size_t)slot * (size_t)r->heads + (size_t)head] : 0;
}

/* Put token r->t into a slot in all heads. */
static void token_enters(struct rings *r, int32_t slot)
{
	int32_t *id = r->id + (size_t)slot * (size_t)r->heads;

	for (int32_t h = 0; h < r->heads; h++)
		id[h] = r->t;
	assert(!r->held[r->t & r->mask]);
	r->held[r->t & r->mask] = r->heads;
}

/* Evict in head h the token that was in slot s when rings_insert() began. */
static void head_evict(struct rings *r, int32_t h, int32_t s, int32_t ring)
{
	int32_t token = r->id[(size_t)s * (size_t)r->heads + (size_t)h], left = --r->held[token & r->mask];

	if (left == r->heads - 1)
		r->evicted_in_part++;
	if (!left) {
		r->evicted_in_part--;
		r->evicted++;
	}
	if (r->log_events)
		log_event(r, SLOT_EVICTED, token, ring + 1, (double)mass_at(r, h, s));
}

/* Record that a slot may receive another entry, whose key must then be rotated to position `number`. */
static void slot_touch(struct rings *r, int32_t slot, int64_t number)
{
	if (!r->touched[slot]) {
		r->touched[slot] = 1;
		r->changed[r->n_changed++] = slot;
	}
	r->renumber[slot] = number;
}

/* Set next[] and cnt[] to their values after the token that fills all rings. */
static void start_full(struct rings *r)
{
	for (int32_t i = 0; i < r->s.n; i++) {
		r->next[i] = first_number(r, i) + r->s.w;
		r->cnt[i] = r->s.w;
	}
}

/* In each head, compare two tokens: the token offered by the previous ring, and the newest token of this ring. Evict
 * the token with less attention mass. If both have the same mass, or mass is not summed, evict the newest token of this
 * ring; if s.keep_ties is set, evict the offered token. */
static void ring_compete(struct rings *r, int32_t ring, int32_t slot)
{
	int32_t *there = r->src + (size_t)slot * (size_t)r->heads, *hand = r->hand;

	for (int32_t h = 0; h < r->heads; h++) {
		int wins = !r->s.keep_ties;

		if (r->mass) {
			float x = mass_at(r, h, hand[h]), y = mass_at(r, h, there[h]);

			if (r->factor) {
				x *= r->factor[r->id[(size_t)hand[h] * (size_t)r->heads + (size_t)h] & r->mask];
				y *= r->factor[r->id[(size_t)there[h] * (size_t)r->heads + (size_t)h] & r->mask];
			}
			wins = x > y || (x == y && wins);
		}
		head_evict(r, h, wins ? there[h] : hand[h], ring);
		if (wins)
			there[h] = hand[h];
	}
}

/* Follow the insertion of token t through the rings. Return the ring at which the insertion ends, or s.n if the last
 * ring displaces a token, which is then evicted.
 *
 * Token t is offered to ring 0. A full ring that accepts the offered token offers its own oldest token to the next
 * ring. The insertion ends at a ring that accepts the token and has a free slot, or at a ring that does not accept it.
 * In the second case set *competes to 1: the offered token competes with the newest token of that ring. If ring i
 * accepts a token, increment next[i], the number that its next entry will get. If ring i also had a free slot,
 * increment cnt[i], its number of filled slots. */
static int32_t cascade_end(const struct rings *r, int32_t t, int64_t *next, int32_t *cnt, int *competes)
{
	int32_t behind = t - r->s.sinks;
	/* 1: every ring accepts the token. This holds for all tokens that fill the rings, and for the first token
	 * after that. */
	int all = !r->s.no_eager && behind <= r->size;

	for (int32_t i = 0; i < r->s.n; i++) {
		*competes = !all && behind % r->period[i] != 0 && cnt[i];
		if (*competes)
			return i;
		next[i]++;
		if (cnt[i] < r->s.w) {
			cnt[i]++;
			return i;
		}
	}
	return r->s.n;
}

/* Insert the token staged in slot `stage`. */
static void insert_one(struct rings *r, int32_t stage)
{
	int32_t end;
	int competes;

	token_enters(r, stage);
	r->number[stage] = r->next[0];
	for (int32_t h = 0; h < r->heads; h++)
		r->hand[h] = stage;
	end = cascade_end(r, r->t, r->next, r->cnt, &competes);
	for (int32_t i = 0; i <= end && i < r->s.n; i++) {
		int32_t slot = slot_of(r, i, r->next[i] - 1), *there = r->src + (size_t)slot * (size_t)r->heads;

		slot_touch(r, slot, r->next[i] - 1);
		if (i == end) {
			if (competes)
				ring_compete(r, i, slot);
			else
				memcpy(there, r->hand, (size_t)r->heads * sizeof *there);
			return;
		}
		for (int32_t h = 0; h < r->heads; h++) {
			int32_t out = there[h];

			there[h] = r->hand[h];
			r->hand[h] = out;
		}
	}
	for (int32_t h = 0; h < r->heads; h++)
		head_evict(r, h, r->hand[h], r->s.n - 1);
}

int32_t rings_slots_read(const struct rings *r, int32_t n, int32_t *slot, int32_t most)
{
	int32_t cnt[RINGS_MOST], full = r->s.sinks + r->size, stage = rings_stage(r), n_read = 0;
	int64_t first[RINGS_MOST], next[RINGS_MOST];

	for (int32_t i = 0; i < r->s.n; i++) {
		cnt[i] = rings_filling(r) ? r->s.w : r->cnt[i];
		next[i] = rings_filling(r) ? first_number(r, i) + r->s.w : r->next[i];
		first[i] = INT64_MAX;
	}
	for (int32_t t = r->t; t < r->t + n; t++) {
		int competes;
		int32_t end;

		if (t < r->s.sinks || (!r->s.no_eager && t < full))
			continue;
		end = cascade_end(r, t, next, cnt, &competes);
		for (int32_t i = 0; i <= end && i < r->s.n; i++)
			first[i] = next[i] - 1 < first[i] ? next[i] - 1 : first[i];
		if (n_read++ < most)
			slot[n_read - 1] = stage + t - r->t;
	}
	for (int32_t i = 0; i < r->s.n; i++)
		for (int64_t number = first[i], k = 0; number < next[i] && k < r->s.w; number++, k++)
			if (n_read++ < most)
				slot[n_read - 1] = slot_of(r, i, number);
	return n_read;
}

/* Return the index in rope_shift[] of the rotation that brings a key of slot s to position `number`, or -1 if the key
 * is at this position already. In all heads, the entries of slot s move to the same new slot, so each slot needs only
 * one rotation. */
static int32_t shift_index(struct rings *r, int32_t s, int64_t number)
{
	int64_t by = number - r->number[s];

	if (!by)
		return -1;
	if (r->rope_shift_from[s] < 0) {
		assert(r->n_rope_shift < rope_shift_max(&r->s));
		r->rope_shift_from[s] = r->n_rope_shift;
		r->rope_shift[r->n_rope_shift++] = by;
	}
	assert(r->rope_shift[r->rope_shift_from[s]] == by);
	return r->rope_shift_from[s];
}

/* Apply the planned moves src[] to id[], mass[] and number[]. Read all sources before writing any slot. Also list the
 * moves in changed[], from[] and rope_shift_at[], so that the KV cache can repeat them. */
static void apply_moves(struct rings *r)
{
	size_t heads = (size_t)r->heads;

	for (int32_t i = 0; i < r->n_changed; i++) {
		int32_t slot = r->changed[i];
		const int32_t *src = r->src + (size_t)slot * heads;
		size_t at = (size_t)i * heads;

		for (size_t h = 0; h < heads; h++) {
			int32_t s = src[h];

			r->from[at + h] = s;
			r->rope_shift_at[at + h] = s == slot ? -1 : shift_index(r, s, r->renumber[slot]);
			r->new_id[at + h] = r->id[(size_t)s * heads + h];
			if (r->mass)
				r->new_mass[at + h] = r->mass[(size_t)s * heads + h];
			if (r->log_events && s != slot && ring_of(r, s) != ring_of(r, slot))
				log_event(r, SLOT_MOVED, r->new_id[at + h], ring_of(r, slot) + 1,
				          (double)mass_at(r, (int32_t)h, s));
		}
	}
	for (int32_t i = 0; i < r->n_changed; i++) {
		int32_t slot = r->changed[i], *src = r->src + (size_t)slot * heads;
		size_t at = (size_t)i * heads;

		memcpy(r->id + (size_t)slot * heads, r->new_id + at, heads * sizeof *r->id);
		if (r->mass)
			memcpy(r->mass + (size_t)slot * heads, r->new_mass + at, heads * sizeof *r->mass);
		for (size_t h = 0; h < heads; h++) {
			if (r->rope_shift_from[src[h]] >= 0)
				r->rope_shift_from[src[h]] = -1;
			src[h] = slot;
		}
		r->number[slot] = r->renumber[slot];
		r->touched[slot] = 0;
	}
}

void rings_insert(struct rings *r, int32_t n)
{
	int32_t stage = rings_stage(r), full = r->s.sinks + r->size, end;

	r->n_changed = r->n_rope_shift = 0;
	events_clear(r);
	for (int32_t i = 0; i < n; i++, stage++, r->t++) {
		if (r->t < r->s.sinks)
			continue;
		if (r->log_events)
			log_event(r, SLOT_ADMITTED, r->t, 1, 0);
		if (!r->s.no_eager && r->t < full) {
			token_enters(r, stage);
			r->number[stage] = r->t;
			if (r->t == full - 1)
				start_full(r);
		} else
			insert_one(r, stage);
	}
	apply_moves(r);
	/* The staged slots are free again: clear their mass. */
	end = MIN(stage, r->n_slots);
	if (r->mass && end > r->size)
		memset(r->mass + (size_t)r->size * (size_t)r->heads, 0,
		       (size_t)(end - r->size) * (size_t)r->heads * sizeof *r->mass);
	if (r->oldest < r->s.sinks)
		r->oldest = r->s.sinks;
	while (r->oldest < r->t && !r->held[r->oldest & r->mask])
		r->oldest++;
}

/* ---- reset and rollback ---- */

void rings_ema_reset(struct rings *r)
{
	ema_set(&r->ema, ema_gamma(r->s.w));
}

void rings_reset(struct rings *r, const struct rings_shape *s)
{
	int64_t period = 1;

	r->s = *s;
	r->size = s->n * s->w;
	r->n_slots = r->size + s->stage;
	r->t = r->evicted = r->evicted_in_part = r->n_changed = r->n_rope_shift = 0;
	r->oldest = s->sinks;
	rings_ema_reset(r);
	for (int32_t i = 0; i < s->n; i++, period *= s->f) {
		r->period[i] = (int32_t)period;
		r->next[i] = first_number(r, i);
		r->cnt[i] = 0;
	}
	for (int32_t slot = 0; slot < r->n_slots; slot++) {
		r->touched[slot] = 0;
		r->rope_shift_from[slot] = -1;
		for (int32_t h = 0; h < r->heads; h++)
			r->src[(size_t)slot * (size_t)r->heads + (size_t)h] = slot;
	}
	memset(r->held, 0, ((size_t)r->mask + 1) * sizeof *r->held);
	if (r->mass)
		memset(r->mass, 0, (size_t)r->heads * (size_t)r->n_slots * sizeof *r->mass);
	events_clear(r);
}

int32_t rings_rewind(struct rings *r, int32_t n)
{
	int32_t slot;

	if (n >= r->t)
		return r->t;
	if (!rings_filling(r)) {
		struct rings_shape s = r->s;

		rings_reset(r, &s);
		r->t = MIN(n, s.sinks);
		return r->t;
	}
	for (int32_t token = MAX(n, r->s.sinks); token < r->t; token++)
		r->held[token & r->mask] = 0;
	slot = n > r->s.sinks ? n - r->s.sinks : 0;
	if (r->mass)
		memset(r->mass + (size_t)slot * (size_t)r->heads, 0,
		       (size_t)(r->n_slots - slot) * (size_t)r->heads * sizeof *r->mass);
	r->t = n;
	r->oldest = r->s.sinks;
	return n;
}

/* ---- restoring a snapshot ---- */

/* Rebuild the fields of ring i from id[], which may be corrupt. `newest` is the number of the sequence's last token,
 * counted from the end of the sinks. Return -1 if a token in id[] is newer than `newest`, is too old for its slot, or
 * occurs more often than there are heads. */
static int ring_restore(struct rings *r, int32_t i, int64_t newest)
{
	int64_t period = r->period[i], offered = 0;

	for (int32_t m = 0; m < i; m++)
		offered += (int64_t)r->period[m] * r->s.w;
	r->cnt[i] = r->s.w;
	r->next[i] = first_number(r, i) + r->s.w + 1 + newest / period - r->size / period;
	for (int32_t j = 0; j < r->s.w; j++) {
		int64_t number = r->next[i] - 1 - j, oldest = period * (newest / period - j) - offered;
		int32_t slot = slot_of(r, i, number);
		const int32_t *id = r->id + (size_t)slot * (size_t)r->heads;

		r->number[slot] = number;
		for (int32_t h = 0; h < r->heads; h++) {
			int64_t token = (int64_t)id[h] - r->s.sinks;

			if (token < 0 || token < oldest || token > newest || ++r->held[id[h] & r->mask] > r->heads)
				return -1;
		}
	}
	return 0;
}

int rings_restore(struct rings *r, int32_t t)
{
	int64_t newest = (int64_t)t - 1 - r->s.sinks;

	if (r->s.no_eager || newest < r->size)
		return -1;
	for (int32_t i = 0; i < r->s.n; i++)
		if (ring_restore(r, i, newest))
			return -1;
	r->t = t;
	r->oldest = t;
	for (size_t i = 0; i < (size_t)r->size * (size_t)r->heads; i++)
		r->oldest = MIN(r->id[i], r->oldest);
	r->evicted = t - r->s.sinks;
	for (int32_t token = r->oldest; token < t; token++) {
		int32_t held = r->held[token & r->mask];

		r->evicted -= held > 0;
		r->evicted_in_part += held > 0 && held < r->heads;
	}
	return 0;
}
