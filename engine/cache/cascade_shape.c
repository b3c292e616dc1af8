/* engine/cache/cascade_shape.c - computes the sizes of a bounded cache; see cascade_shape.h. */
#include "engine/cache/cascade_shape.h"

/* Pinned tokens must leave room for a conversation. Under policy `auto` with size=0 this room is ROOM_MIN slots, but at
 * most a quarter of the tokens that the cache keeps. */
enum { ROOM_MIN = 256 };

/* Return n, but at least 1 and at most `most`. */
static int32_t clamp(int32_t n, int32_t most)
{
	n = MIN(n, most);
	return n > 0 ? n : 1;
}

/* Return the context length for policy `auto`: the requested length, but at most the length that the model was trained
 * with. */
static int32_t fill_ctx(const struct cache *c)
{
	return c->hp->ctx_train > 0 ? clamp(c->ctx, c->hp->ctx_train) : c->ctx;
}

int32_t cascade_chunk(const struct cache *c)
{
	const struct cascade_params *p = cascade_params(c);
	int32_t part = fill_ctx(c) / 8, n = c->batch;

	if (p->fill)
		return clamp(n, MAX(part, 16));
	n = clamp(n, p->stride);
	return p->score == SCORE_SURPRISE ? clamp(n, p->size / p->n) : n;
}

int32_t cascade_lag(const struct rings_shape *s, int32_t chunk)
{
	return clamp(s->stage - chunk + 1, clamp(s->w / 8, LAG));
}

/* Return the number of slots for the tokens of a step and for tokens that wait to be inserted into the rings. The
 * number of waiting tokens is limited, so that no position exceeds the trained length. */
static int32_t fixed_stage(const struct cache *c, const struct rings_shape *s)
{
	int32_t chunk = cascade_chunk(c), lag = clamp(s->w / 8, clamp(chunk, LAG));
	int32_t room = c->hp->ctx_train - s->sinks - s->n * s->w - chunk;

	if (c->hp->ctx_train > 0 && lag > room + 1)
		lag = room > 0 ? room + 1 : 1;
	return chunk + lag - 1;
}

static int32_t fill_stage(const struct cache *c)
{
	return cascade_chunk(c) + clamp(fill_ctx(c) / 32, LAG) - 1;
}

/* Return how many tokens policy `auto` keeps: as many as the requested context has, or fewer if the trained length is
 * too short. */
static int32_t fill_hold(const struct cache *c)
{
	int32_t trained = c->hp->ctx_train;

	return trained > 0 ? clamp(c->ctx, trained - fill_stage(c)) : c->ctx;
}

/* Return the number of slots of the store for policy `auto`, at most the trained length. The slots are for the tokens
 * that the cache keeps and for new tokens. The n rings have n - 1 spare slots, because their size may be rounded up (n
 * is cascade_params.n). */
static int32_t fill_cap(const struct cache *c)
{
	int32_t cap = fill_hold(c) + fill_stage(c) + cascade_params(c)->n - 1, trained = c->hp->ctx_train;

	return trained > 0 && cap > trained ? trained : cap;
}

/* Return the shape for policy `auto`: the sinks are the pinned tokens, and the rings get all other slots. */
static struct rings_shape fill_shape(const struct cache *c, int64_t pinned)
{
	const struct cascade_params *p = cascade_params(c);
	struct rings_shape s = { .n = p->n, .f = p->f, .stage = fill_stage(c) };
	int64_t rest;

	s.sinks = pinned > p->sinks ? (int32_t)(pinned < INT32_MAX / 2 ? pinned : INT32_MAX / 2) : p->sinks;
	rest = (int64_t)fill_hold(c) - s.sinks;
	if (p->size)
		rest = p->size <= rest ? p->size : 0;
	while (s.n > 1 && rest < 2 * s.n)
		s.n--;
	/* Round the ring size up if the store has enough slots. The rings can then store the whole requested
	 * context. */
	s.w = rest > 0 ? (int32_t)((rest + s.n - 1) / s.n) : 0;
	if (s.w > 0 && (p->size || s.sinks + s.n * s.w + s.stage > fill_cap(c)))
		s.w = (int32_t)(rest / s.n);
	return s;
}

struct rings_shape cascade_shape(const struct cache *c, int64_t pinned)
{
	const struct cascade_params *p = cascade_params(c);
	struct rings_shape s = { .sinks = p->sinks, .n = p->n, .w = p->size / p->n, .f = p->f };

	if (p->fill) {
		struct rings_shape largest = fill_shape(c, 0);

		s = fill_shape(c, pinned);
		/* The rings' memory was allocated for `largest`, the shape without pinned tokens. If w (slots per ring)
		 * was rounded up so far that the rings exceed this memory, round w down. */
		if (s.n * s.w > largest.n * largest.w)
			s.w = (fill_hold(c) - s.sinks) / s.n;
		return s;
	}
	s.stage = fixed_stage(c, &s);
	return s;
}

int32_t cascade_cap(const struct cache *c)
{
	struct rings_shape s = cascade_shape(c, 0);

	return cascade_params(c)->fill ? fill_cap(c) : s.sinks + s.n * s.w + s.stage;
}

int32_t cascade_holds(const struct cache *c)
{
	struct rings_shape s = cascade_shape(c, 0);

	return s.sinks + s.n * s.w;
}

int32_t cascade_heads(const struct cache *c)
{
	int32_t heads = layers_retained(c->hp) * (cascade_params(c)->heads == HEADS_KV ? c->hp->n_kv_head : 1);

	return heads ? heads : 1;
}

int cascade_check(const struct cache *c, const struct rings_shape *s, struct err *err)
{
	const struct cascade_params *p = cascade_params(c);
	int64_t end = (int64_t)s->sinks + p->size + cascade_chunk(c);

	if (p->fill) {
		if (s->w > 0)
			return 0;
		if (p->size > 0)
			return err_set(
				err, ERR_FIT,
				"the context (-c %d) leaves no room for size=%d of cache policy '%s'; use a smaller size, or a larger -c",
				c->ctx, p->size, c->policy.def->name);
		return err_set(
			err, ERR_FIT,
			"the context (-c %d) leaves no room for a conversation under cache policy '%s'; start with a larger -c",
			c->ctx, c->policy.def->name);
	}
	if (p->size % s->n || p->size < s->n)
		return err_set(err, ERR_USAGE,
		               "cache policy '%s' cannot cut size=%d into %d rings; use a multiple of %d",
		               c->policy.def->name, p->size, s->n, s->n);
	if (c->hp->ctx_train > 0 && end > c->hp->ctx_train)
		return err_set(err, ERR_FIT,
		               "cache policy '%s' needs %lld positions (%d sinks, size %d, stride %d), the model was "
		               "trained for %d; use a smaller size",
		               c->policy.def->name, (long long)end, s->sinks, p->size, cascade_chunk(c),
		               c->hp->ctx_train);
	return 0;
}

int cascade_check_pinned(const struct cache *c, const struct rings_shape *s, int32_t n, struct err *err)
{
	const struct cascade_params *p = cascade_params(c);
	int32_t hold = fill_hold(c), room = p->size ? p->size : ROOM_MIN < hold / 4 ? ROOM_MIN : hold / 4;
	int32_t trained = c->hp->ctx_train, stage = fill_stage(c);
	int64_t want = (int64_t)n + (p->size ? room : ROOM_MIN);

	if (s->n * s->w >= room)
		return 0;
	/* Suggest a larger -c if the trained length has room for the wanted tokens (pinned tokens and conversation), a
	 * step, and LAG waiting tokens. */
	if (trained <= 0 || want + c->batch + LAG <= trained)
		return err_set(err, ERR_FIT,
		               "%d tokens to keep do not fit a context of %d with %d of conversation behind them; "
		               "start with -c %lld",
		               n, hold, room, (long long)want);
	return err_set(err, ERR_FIT,
	               "%d tokens to keep do not fit: the model was trained for %d, of which %d are for the "
	               "conversation; %d fit",
	               n, trained, stage + room, hold > room ? hold - room : 0);
}
