/* tests/engine/t_rings.c - compares the bookkeeping of a cascade (which token is in which slot) with published
 * contents, and with an implementation by plain lists. */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/cache/rings.h"

/* ---- a model of lists: one head, tokens only, written from the description of the method ---- */

struct list {
	int32_t *tok;
	int32_t n;
};
struct lists {
	struct rings_shape s;
	int32_t t;
	struct list ring[RINGS_MOST];
	const float *mu; /* by token */
};

static void lists_init(struct lists *l, const struct rings_shape *s, const float *mu)
{
	*l = (struct lists){ .s = *s, .mu = mu };
	for (int32_t i = 0; i < s->n; i++)
		l->ring[i].tok = xcalloc((size_t)s->w + 1, sizeof(int32_t));
}

static void lists_free(struct lists *l)
{
	for (int32_t i = 0; i < l->s.n; i++)
		free(l->ring[i].tok);
}

static void lists_insert(struct lists *l)
{
	int32_t x = l->t++, since = x - l->s.sinks, period = 1;
	int all = !l->s.no_eager && x <= l->s.n * l->s.w + l->s.sinks;

	if (since < 0)
		return;
	for (int32_t i = 0; i < l->s.n; i++, period *= l->s.f) {
		struct list *r = &l->ring[i];
		int32_t *newest = r->n ? &r->tok[r->n - 1] : NULL;

		if (all || since % period == 0) {
			r->tok[r->n++] = x;
			if (r->n <= l->s.w)
				return;
			x = r->tok[0];
			memmove(r->tok, r->tok + 1, (size_t)--r->n * sizeof *r->tok);
			continue;
		}
		if (!newest) {
			r->tok[r->n++] = x;
			return;
		}
		if (l->mu[x] > l->mu[*newest] || (l->mu[x] >= l->mu[*newest] && !l->s.keep_ties))
			*newest = x;
		return;
	}
}

/* ---- reading rings ---- */

/* Set out[] to head h's tokens in ring i, oldest first. Returns their number. */
static int32_t contents(const struct rings *r, int32_t i, int32_t h, int32_t *out)
{
	int32_t n = rings_fill(r, i), base = (r->s.n - 1 - i) * r->s.w;

	if (rings_filling(r)) {
		int32_t all = r->t > r->s.sinks ? r->t - r->s.sinks : 0, first = all - n;
		for (int32_t m = 0; m < i; m++)
			first -= rings_fill(r, m);
		for (int32_t k = 0; k < n; k++)
			out[k] = r->id[(size_t)(first + k) * (size_t)r->heads + (size_t)h];
		return n;
	}
	for (int32_t k = 0; k < n; k++) {
		int64_t number = r->next[i] - n + k, first = r->s.sinks + base;
		int32_t row = base + (int32_t)((number - first) % r->s.w);
		CHECK(r->number[row] == number);
		out[k] = r->id[(size_t)row * (size_t)r->heads + (size_t)h];
	}
	return n;
}

/* Insert the next n tokens into the rings, with the attention mass mu[]. */
static void feed(struct rings *r, int32_t n, const float *mu, int32_t mu_stride)
{
	int32_t stage = rings_stage(r);

	for (int32_t i = 0; r->mass && i < n; i++)
		for (int32_t h = 0; h < r->heads && stage + i >= 0; h++)
			r->mass[(size_t)(stage + i) * (size_t)r->heads + (size_t)h] =
				mu[(size_t)(r->t + i) * (size_t)mu_stride + (size_t)h];
	rings_insert(r, n);
}

static struct rings open_rings(const struct rings_shape *s, int32_t heads, int scored)
{
	struct rings r;
	struct err err = { 0 };

	if (rings_init(&r, s, heads, scored, 0, &err))
		test_skip("%s", err.msg);
	return r;
}

static char *text_of(const struct rings *r, char *out, size_t cap)
{
	int32_t tok[64];
	size_t at = 0;

	out[0] = 0;
	for (int32_t i = r->s.n - 1; i >= 0; i--) {
		int32_t n = contents(r, i, 0, tok);
		for (int32_t k = 0; k < n && at < cap; k++)
			at += (size_t)snprintf(out + at, cap - at, "%s%d", k ? " " : "", tok[k]);
		if (i && at < cap)
			at += (size_t)snprintf(out + at, cap - at, " | ");
	}
	return out;
}

/* ---- published contents ---- */

TEST(contents_with_equal_scores)
{
	char text[512];

	for (int eager = 0; eager < 2; eager++)
		for (int keep = 0; keep < 2; keep++)
			for (int scored = 0; scored < 2; scored++) {
				struct rings r = open_rings(&(struct rings_shape){ .sinks = 2,
				                                                   .w = 4,
				                                                   .n = 3,
				                                                   .f = 2,
				                                                   .stage = 1,
				                                                   .no_eager = !eager,
				                                                   .keep_ties = keep },
				                            3, scored);
				for (int t = 0; t < 40; t++)
					rings_insert(&r, 1);
				CHECK_STR(text_of(&r, text, sizeof text),
				          keep ? "14 18 22 26 | 28 30 32 34 | 36 37 38 39"
				               : "17 21 25 27 | 29 31 33 35 | 36 37 38 39");
				rings_release(&r);
			}
}

TEST(contents_with_scores)
{
	static const struct {
		struct rings_shape s;
		int tokens;
		const char *want;
	} v[] = {
		{ { .sinks = 2, .w = 4, .n = 3, .f = 2, .stage = 40 }, 40, "16 19 24 27 | 29 30 32 35 | 36 37 38 39" },
		{ { .sinks = 4, .w = 8, .n = 4, .f = 2, .stage = 40 },
		  400,
		  "291 294 305 313 316 327 338 343 | 346 349 354 357 360 365 371 373 | "
		  "376 379 381 382 384 387 389 390 | 392 393 394 395 396 397 398 399" },
	};
	char text[512];

	for (int i = 0; i < 2; i++)
		for (int step = 1; step <= 40; step += 13) {
			struct rings r = open_rings(&v[i].s, 1, 1);
			float mu[400];
			for (int t = 0; t < 400; t++)
				mu[t] = (float)(t * 37 % 11) / 11;
			for (int t = 0; t < v[i].tokens; t += step)
				feed(&r, v[i].tokens - t < step ? v[i].tokens - t : step, mu, 1);
			CHECK_STR(text_of(&r, text, sizeof text), v[i].want);
			rings_release(&r);
		}
}

TEST(spans)
{
	static const struct {
		int32_t w, n, want;
	} v[] = { { 512, 4, 7669 }, { 256, 8, 65085 }, { 1024, 2, 3071 } };
	/* the spans in v[] are those for this number of tokens: they vary within a period of the oldest ring */
	enum { TOKENS = 200000 };
	int32_t tok[1024];

	for (int i = 0; i < 3; i++) {
		struct rings r =
			open_rings(&(struct rings_shape){ .sinks = 4, .w = v[i].w, .n = v[i].n, .f = 2, .stage = 512 },
		                   1, 0);
		int32_t newest;
		for (int t = 0; t < TOKENS; t += 500)
			rings_insert(&r, 500);
		contents(&r, 0, 0, tok);
		newest = tok[v[i].w - 1];
		contents(&r, v[i].n - 1, 0, tok);
		CHECK_INT(newest, TOKENS - 1);
		CHECK_INT(newest - tok[0] + 1, v[i].want);
		CHECK_INT(r.oldest, tok[0]);
		CHECK_INT(r.evicted, TOKENS - 4 - v[i].w * v[i].n);
		rings_release(&r);
	}
}

TEST(one_ring_is_a_sliding_window)
{
	struct rings r = open_rings(&(struct rings_shape){ .sinks = 4, .w = 50, .n = 1, .f = 2, .stage = 70 }, 2, 0);
	int32_t tok[50];

	for (int i = 0; i < 300; i++) {
		int32_t n = 1 + (int32_t)(test_rand() % 70), have;
		rings_insert(&r, n);
		have = contents(&r, 0, i & 1, tok);
		CHECK_INT(have, r.t - 4 < 0 ? 0 : r.t - 4 < 50 ? r.t - 4 : 50);
		for (int32_t k = 0; k < have; k++)
			CHECK_INT(tok[k], r.t - have + k);
	}
	rings_release(&r);
}

TEST(ranks)
{
	/* 2 sinks and rings with 2, 4 and 4 tokens, oldest ring first, have ranks 0-1, 2-3, 4-7 and 8-11; the query has
	 * rank 12. */
	struct rings r =
		open_rings(&(struct rings_shape){ .sinks = 2, .w = 4, .n = 3, .f = 2, .stage = 1, .no_eager = 1 }, 1,
	                   0);

	while (rings_fill(&r, 2) < 2)
		rings_insert(&r, 1);
	CHECK_INT(rings_fill(&r, 0), 4);
	CHECK_INT(rings_fill(&r, 1), 4);
	CHECK_INT(rings_rank(&r), 12);
	for (int32_t i = 0, first[] = { 8, 4, 2 }; i < 3; i++)
		for (int32_t k = 0; k < rings_fill(&r, i); k++) {
			int64_t number = r.next[i] - rings_fill(&r, i) + k;
			CHECK_INT(rings_rank(&r) - (rings_query(&r, i) - number), first[i] + k);
		}
	rings_release(&r);
}

TEST(heads_decide_alone_and_stay_in_order)
{
	enum { HEADS = 8, W = 64, N = 4, TOKENS = 6000 };
	struct rings r =
		open_rings(&(struct rings_shape){ .sinks = 4, .w = W, .n = N, .f = 2, .stage = 128 }, HEADS, 1);
	float *mu = xmalloc(TOKENS * HEADS * sizeof *mu);
	int32_t tok[HEADS][W], spread[N] = { 0 }, bound[N] = { 0, 1, 3, 7 };

	for (int i = 0; i < TOKENS * HEADS; i++)
		mu[i] = test_randf(0, 1);
	while (r.t < TOKENS) {
		int32_t n = 1 + (int32_t)(test_rand() % 128);
		feed(&r, n < TOKENS - r.t ? n : TOKENS - r.t, mu, HEADS);
		for (int32_t i = 0; i < N && !rings_filling(&r); i++) {
			int32_t last = -1;
			for (int32_t h = 0; h < HEADS; h++)
				contents(&r, i, h, tok[h]);
			for (int32_t k = 0; k < W; k++) {
				int32_t lo = INT32_MAX, hi = 0;
				for (int32_t h = 0; h < HEADS; h++) {
					CHECK(!k || tok[h][k] > tok[h][k - 1]);
					lo = tok[h][k] < lo ? tok[h][k] : lo;
					hi = tok[h][k] > hi ? tok[h][k] : hi;
				}
				spread[i] = hi - lo > spread[i] ? hi - lo : spread[i];
				last = hi;
			}
			CHECK(last >= 0);
		}
	}
	for (int32_t i = 0; i < N; i++)
		CHECK_MSG(spread[i] <= bound[i], "tokens of equal rank in ring %d are up to %d apart", i + 1,
		          spread[i]);
	CHECK(spread[3] > 0);
	free(mu);
	rings_release(&r);
}

/* ---- against lists ---- */

/* A model of the planes: each slot holds its token and the position by which its key is rotated. apply() moves slots as
 * the rings say. */
struct cell {
	int32_t token;
	int64_t number;
};

static void apply(const struct rings *r, struct cell *cell)
{
	struct cell *old = xmalloc((size_t)r->heads * (size_t)r->n_slots * sizeof *old);

	memcpy(old, cell, (size_t)r->heads * (size_t)r->n_slots * sizeof *old);
	for (int32_t i = 0; i < r->n_changed; i++)
		for (int32_t h = 0; h < r->heads; h++) {
			size_t at = (size_t)i * (size_t)r->heads + (size_t)h, head = (size_t)h * (size_t)r->n_slots;
			struct cell c = old[head + (size_t)r->from[at]];
			CHECK(r->rope_shift_at[at] < r->n_rope_shift);
			c.number += r->rope_shift_at[at] >= 0 ? r->rope_shift[r->rope_shift_at[at]] : 0;
			cell[head + (size_t)r->changed[i]] = c;
		}
	free(old);
}

static void against_lists(const struct rings_shape *s, int32_t heads, int32_t length, int levels)
{
	struct rings r = open_rings(s, heads, 1);
	struct lists *l = xcalloc((size_t)heads, sizeof *l);
	float *mu = xmalloc((size_t)length * (size_t)heads * sizeof *mu),
	      *own = xmalloc((size_t)length * (size_t)heads * sizeof *mu);
	struct cell *cell = xcalloc((size_t)heads * (size_t)r.n_slots, sizeof *cell);
	int32_t *want = xmalloc((size_t)s->w * sizeof *want), alive = 0, some = 0;
	uint8_t *seen = xcalloc((size_t)length * (size_t)heads, 1);

	for (int32_t i = 0; i < length; i++)
		for (int32_t h = 0; h < heads; h++)
			own[(size_t)h * (size_t)length + (size_t)i] = mu[i * heads + h] =
				(float)(test_rand() % (uint64_t)levels);
	for (int32_t h = 0; h < heads; h++)
		lists_init(&l[h], s, own + (size_t)h * (size_t)length);
	while (r.t < length) {
		int32_t n = 1 + (int32_t)(test_rand() % (uint64_t)s->stage), stage = rings_stage(&r);

		n = n < length - r.t ? n : length - r.t;
		for (int32_t h = 0; h < heads; h++)
			for (int32_t i = 0; i < n; i++) {
				/* A staged key is rotated by the position that it will have in the newest ring. */
				int64_t number =
					rings_query(&r, 0) + i - (r.t < s->sinks && s->no_eager ? s->sinks - r.t : 0);
				if (stage + i >= 0)
					cell[(size_t)h * (size_t)r.n_slots + (size_t)(stage + i)] =
						(struct cell){ r.t + i, number };
				lists_insert(&l[h]);
			}
		feed(&r, n, mu, heads);
		apply(&r, cell);
	}
	for (int32_t h = 0; h < heads; h++)
		for (int32_t i = 0; i < s->n; i++) {
			int32_t k = contents(&r, i, h, want), base = (s->n - 1 - i) * s->w;
			CHECK_INT(k, l[h].ring[i].n);
			for (int32_t j = 0; j < k; j++) {
				CHECK_INT(want[j], l[h].ring[i].tok[j]);
				seen[(size_t)want[j] * (size_t)heads + (size_t)h] = 1;
			}
			for (int32_t row = base; row < base + s->w && !rings_filling(&r); row++)
				if (row - base < k || k == s->w) {
					const struct cell *c = &cell[(size_t)h * (size_t)r.n_slots + (size_t)row];
					CHECK_INT(c->token, r.id[(size_t)row * (size_t)heads + (size_t)h]);
					CHECK_INT(c->number, r.number[row]);
				}
		}
	for (int32_t t = s->sinks; t < length; t++) {
		int32_t n = 0;
		for (int32_t h = 0; h < heads; h++)
			n += seen[(size_t)t * (size_t)heads + (size_t)h];
		alive += n > 0;
		some += n > 0 && n < heads;
	}
	CHECK_INT(r.evicted, (length > s->sinks ? length - s->sinks : 0) - alive);
	CHECK_INT(r.evicted_in_part, some);
	for (int32_t h = 0; h < heads; h++)
		lists_free(&l[h]);
	free(l);
	free(mu);
	free(own);
	free(cell);
	free(want);
	free(seen);
	rings_release(&r);
}

TEST(plan_equals_lists)
{
	for (int i = 0; i < 600; i++) {
		struct rings_shape s = {
			.sinks = (int32_t)(test_rand() % 6),
			.n = 1 + (int32_t)(test_rand() % 5),
			.w = 1 + (int32_t)(test_rand() % 24),
			.f = 2 + (int32_t)(test_rand() % 3),
			.no_eager = test_rand() % 4 == 0,
			.keep_ties = test_rand() % 4 == 0,
		};
		int32_t most = s.n * s.w * 3 + 8;
		s.stage = i % 3 ? 1 + (int32_t)(test_rand() % (uint64_t)most) : 1;
		against_lists(&s, 1 + (int32_t)(test_rand() % 4), (int32_t)(test_rand() % 900), i % 2 ? 3 : 1000000);
	}
}

TEST(rewind_while_nothing_is_dropped)
{
	struct rings r = open_rings(&(struct rings_shape){ .sinks = 4, .w = 10, .n = 3, .f = 2, .stage = 16 }, 2, 1);

	rings_insert(&r, 16);
	rings_insert(&r, 16);
	CHECK_INT(rings_rewind(&r, 34), 32);
	CHECK_INT(rings_rewind(&r, 20), 20);
	rings_insert(&r, 14);
	CHECK_INT(rings_rewind(&r, 2), 2);
	CHECK_INT(rings_stage(&r), -2);
	for (int i = 0; i < 4; i++)
		rings_insert(&r, 8);
	CHECK_INT(r.t, 34);
	CHECK(rings_filling(&r)); /* all slots are full, but no token is evicted yet */
	CHECK_INT(rings_rewind(&r, 33), 33);
	rings_insert(&r, 2);
	CHECK(!rings_filling(&r));
	CHECK_INT(rings_rewind(&r, 34), 4);
	CHECK_INT(r.evicted, 0);
	CHECK_INT(rings_stage(&r), 0);
	rings_release(&r);
}

/* ---- continuing a snapshot ---- */

/* The tokens in the slots are enough to restore all other bookkeeping, at any time and for any shape. */
TEST(the_rest_follows_from_the_tokens)
{
	for (int i = 0; i < 400; i++) {
		struct rings_shape s = { .sinks = (int32_t)(test_rand() % 6),
			                 .n = 1 + (int32_t)(test_rand() % 6),
			                 .w = 1 + (int32_t)(test_rand() % 20),
			                 .f = 2 + (int32_t)(test_rand() % 3) };
		int32_t heads = 1 + (int32_t)(test_rand() % 4),
			length = s.sinks + s.n * s.w + 1 + (int32_t)(test_rand() % 700), keep;
		struct rings a, b;
		float *mu = xcalloc((size_t)(length + 300) * (size_t)heads, sizeof *mu);

		s.stage = 1 + (int32_t)(test_rand() % 40);
		a = open_rings(&s, heads, 1);
		b = open_rings(&s, heads, 1);
		for (int32_t k = 0; k < (length + 300) * heads; k++)
			mu[k] = test_randf(0, 1);
		while (a.t < length) {
			int32_t n = 1 + (int32_t)(test_rand() % (uint64_t)s.stage);

			feed(&a, n < length - a.t ? n : length - a.t, mu, heads);
		}
		memcpy(b.id, a.id, (size_t)(a.size * heads) * sizeof *b.id);
		CHECK_INT(rings_restore(&b, length), 0);
		memcpy(b.mass, a.mass, (size_t)(a.n_slots * heads) * sizeof *b.mass);
		for (int more = 0; more < 2; more++) { /* compare now, and 300 tokens later */
			CHECK(a.t == b.t && a.evicted == b.evicted && a.evicted_in_part == b.evicted_in_part &&
			      a.oldest == b.oldest);
			CHECK(!memcmp(a.next, b.next, (size_t)s.n * sizeof *a.next) &&
			      !memcmp(a.cnt, b.cnt, (size_t)s.n * sizeof *a.cnt));
			CHECK(!memcmp(a.number, b.number, (size_t)a.size * sizeof *a.number));
			CHECK(!memcmp(a.id, b.id, (size_t)(a.size * heads) * sizeof *a.id));
			CHECK(!memcmp(a.held, b.held, ((size_t)a.mask + 1) * sizeof *a.held));
			while (!more && a.t < length + 300) {
				feed(&a, 1, mu, heads);
				feed(&b, 1, mu, heads);
			}
		}
		/* A wrong token in one slot must be refused, or do no harm, however long the stream continues. */
		length = b.t;
		keep = b.id[test_rand() % (uint64_t)(b.size * heads)];
		keep = test_rand() % 2 ? keep + (int32_t)(test_rand() % 200) - 100
		                       : (int32_t)(test_rand() % (uint64_t)length);
		rings_reset(&b, &s);
		memcpy(b.id, a.id, (size_t)(a.size * heads) * sizeof *b.id);
		b.id[test_rand() % (uint64_t)(b.size * heads)] = keep;
		if (!rings_restore(&b, length))
			for (int32_t k = 0; k < 3000; k++)
				rings_insert(&b, 1);
		free(mu);
		rings_release(&a);
		rings_release(&b);
	}
}

/* rings_slots_read() returns slots, each once. Which entries stay depends only on the mass of these slots: the mass of
 * all other slots may be anything. */
TEST(only_these_are_looked_at)
{
	for (int i = 0; i < 400; i++) {
		struct rings_shape s = { .sinks = (int32_t)(test_rand() % 6),
			                 .n = 1 + (int32_t)(test_rand() % 6),
			                 .w = 1 + (int32_t)(test_rand() % 20),
			                 .f = 2 + (int32_t)(test_rand() % 3),
			                 .stage = 1 + (int32_t)(test_rand() % 40),
			                 .no_eager = i % 5 == 0 };
		int32_t heads = 1 + (int32_t)(test_rand() % 4), row[400], seen[400];
		struct rings a = open_rings(&s, heads, 1), b = open_rings(&s, heads, 1);
		size_t sums = (size_t)(a.n_slots * heads);
		float *rest = xmalloc(sums * sizeof *rest);

		while (a.t < s.sinks + s.n * s.w + 300) {
			int32_t n = 1 + (int32_t)(test_rand() % (uint64_t)s.stage), stage = rings_stage(&a), looks,
				some;

			for (int32_t k = 0; k < n * heads; k++)
				if (stage * heads + k >= 0)
					a.mass[stage * heads + k] = test_randf(0, 1);
			memcpy(rest, a.mass, sums * sizeof *rest);
			for (size_t k = 0; k < sums; k++)
				b.mass[k] = NAN;
			looks = rings_slots_read(&a, n, row, 400);
			CHECK(looks <= 2 * n + 2 * s.n + n && looks <= 400);
			memset(seen, 0, sizeof seen);
			for (int32_t k = 0; k < looks; k++) {
				CHECK(row[k] >= 0 && row[k] < a.n_slots && !seen[row[k]]++);
				memcpy(b.mass + row[k] * heads, a.mass + row[k] * heads,
				       (size_t)heads * sizeof *b.mass);
			}
			some = looks / 2;
			CHECK_INT(rings_slots_read(&a, n, row, some), looks);
			rings_insert(&a, n);
			rings_insert(&b, n);
			CHECK(a.n_changed == b.n_changed &&
			      !memcmp(a.id, b.id, (size_t)(a.n_slots * heads) * sizeof *a.id));
			/* The mass moves with its entry, so the mass of moved entries is equal in a and b. */
			for (int32_t k = 0; k < a.n_changed; k++)
				CHECK(!memcmp(a.mass + a.changed[k] * heads, b.mass + b.changed[k] * heads,
				              (size_t)heads * sizeof *a.mass));
		}
		free(rest);
		rings_release(&a);
		rings_release(&b);
	}
}

/* ---- scores ---- */

TEST(ema)
{
	static const struct {
		int32_t w;
		double want;
	} v[] = { { 256, 0.982172 }, { 512, 0.991046 }, { 1024, 0.995513 }, { 4096, 0.998876 } };
	static const float p[] = { .1f, .3f, 0, .5f };
	struct ema e;
	float weight[8], sum, mu = .2f, seq;

	for (int i = 0; i < 4; i++)
		CHECK_MSG(fabs((double)ema_gamma(v[i].w) - v[i].want) < 5e-7, "gamma(%d) = %.7f", v[i].w,
		          (double)ema_gamma(v[i].w));
	/* After an average of 0.2, add a chunk of four tokens, at any point of a stream, in one or two pieces. */
	for (int32_t t = 4; t < 2000000; t = t * 3 + 1)
		for (int cut = 0; cut <= 4; cut++) {
			ema_set(&e, .9f);
			ema_weights(&e, t - 1, 1, weight);
			sum = mu / e.gain * weight[0];
			for (int part = 0; part < 2; part++) {
				int32_t n = part ? 4 - cut : cut, at = part ? cut : 0;
				if (!n)
					continue;
				sum = ldexpf(sum, ema_weights(&e, t + at, n, weight));
				for (int32_t i = 0; i < n; i++)
					sum += weight[i] * p[at + i];
			}
			CHECK_MSG(fabsf(ema_value(&e, sum, t + 4) - 0.21281f) < 1e-6f, "at %d: %.7f", t,
			          (double)ema_value(&e, sum, t + 4));
		}
	for (seq = mu, e.shift = 0; e.shift < 4; e.shift++)
		seq = .9f * seq + .1f * p[e.shift];
	CHECK(fabsf(seq - 0.21281f) < 1e-6f);
}

/* Over a long stream in steps of any size, sums stay finite and keep their ratios. */
TEST(ema_grows_without_end)
{
	struct ema e;
	float weight[64], a = 0, b = 0;
	double mu = 0;

	ema_set(&e, ema_gamma(16));
	for (int32_t t = 0; t < 100000;) {
		int32_t n = 1 + (int32_t)(test_rand() % 64), scale = ema_weights(&e, t, n, weight);
		a = ldexpf(a, scale);
		b = ldexpf(b, scale);
		for (int32_t i = 0; i < n; i++, t++) {
			float p = test_randf(0, 1);
			a += weight[i] * p;
			b += weight[i] * p / 2;
			mu = mu * (double)ema_gamma(16) + (1 - (double)ema_gamma(16)) * (double)p;
		}
		CHECK(fabs((double)ema_value(&e, a, t) / mu - 1) < 1e-5);
		CHECK(a == 2 * b);
	}
}

/* ---- notes ---- */

TEST(notes_tell_all_that_happens)
{
	enum { HEADS = 3, TOKENS = 500 };
	struct rings r = open_rings(&(struct rings_shape){ .sinks = 3, .w = 8, .n = 3, .f = 2, .stage = 20 }, HEADS, 1);
	float mu[TOKENS * HEADS];
	int32_t dropped[TOKENS] = { 0 }, ring[TOKENS] = { 0 };

	r.log_events = 1;
	for (int i = 0; i < TOKENS * HEADS; i++)
		mu[i] = test_randf(0, 1);
	while (r.t < TOKENS) {
		int32_t n = 1 + (int32_t)(test_rand() % 20), admitted = 0, first = r.t;
		feed(&r, n < TOKENS - r.t ? n : TOKENS - r.t, mu, HEADS);
		for (size_t i = 0; i < r.n_event; i++) {
			const struct rings_event *o = &r.event[i];
			admitted += o->what == SLOT_ADMITTED;
			if (o->what == SLOT_EVICTED)
				dropped[o->token] += o->heads;
			if (o->what == SLOT_MOVED) {
				CHECK(o->ring > 1 && o->ring <= 3 && o->ring >= ring[o->token]);
				ring[o->token] = o->ring;
			}
		}
		CHECK_INT(admitted, r.t - (first > 3 ? first : MIN(r.t, 3)));
		for (int32_t t = 3; t < r.t; t++)
			CHECK_INT(r.held[t & r.mask] && t >= r.oldest ? HEADS - r.held[t & r.mask] : HEADS, dropped[t]);
	}
	rings_release(&r);
}
