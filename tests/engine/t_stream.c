/* tests/engine/t_stream.c - bounded caches: rings with rotated queries are compared with keys that are rotated again
 * for every call, with full attention, and with a sliding window; also failed calls, pinned prefixes, endless
 * sequences.
 *
 * The first half tests policies alone, with random queries, keys and values; the second half tests whole timelines. */
#include "tests/lib/test.h"
#include "engine/policies/policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/engine_view.h"
#include "engine/cache/cache.h"
#include "engine/cache/cascade_shape.h"
#include "engine/cache/rings.h"
#include "tests/lib/scored.h"

enum { DIM = 16, CALL_MAX = 128 };

/* ---- a policy without a model ---- */

struct rig {
	struct arch arch;
	struct hparams hp;
	double freq[DIM / 2];
	struct backend *be;
	struct cache p;
	struct tensor q, k, v, out;
	int32_t pos;
	uint64_t seed;
	float sharp; /* factor on the queries: larger = more peaked attention */
	/* From the policy's events, for one layer and head. alive: kept tokens after the sinks, in order; dropped:
	 * tokens that the last call dropped. */
	int32_t *alive, n_alive, cap_alive;
	int32_t *dropped, n_dropped, cap_dropped;
	int32_t next; /* the next token that enters the rings; later ones are staged */
};

struct rig_options {
	const char *kv;
	int32_t n_layer, n_head, n_kv, ctx, batch, trained;
	enum dtype type;
	int threads, neox;
	float sharp;
	uint64_t seed;
};

static void on_rows(const struct slot_event *e, size_t n, void *ud)
{
	struct rig *r = ud;

	for (size_t i = 0; i < n; i++) {
		if (e[i].what == SLOT_ADMITTED) {
			if (r->n_alive == r->cap_alive) {
				r->cap_alive = 2 * r->cap_alive + 64;
				r->alive = xrealloc(r->alive, (size_t)r->cap_alive * sizeof *r->alive);
			}
			r->alive[r->n_alive++] = e[i].token;
			r->next = e[i].token + 1;
			CHECK_INT(e[i].ring, 1);
		}
		CHECK(e[i].share > 0 && e[i].share <= 1 && e[i].evicted >= 0 && e[i].evicted <= 1 && e[i].mass >= 0);
	}
	for (size_t i = 0; i < n; i++)
		if (e[i].what == SLOT_EVICTED) {
			int32_t kept = 0;
			CHECK(e[i].evicted >= e[i].share);
			if (e[i].evicted < 1)
				continue;
			for (int32_t j = 0; j < r->n_alive; j++)
				if (r->alive[j] != e[i].token)
					r->alive[kept++] = r->alive[j];
			CHECK_INT(kept, r->n_alive - 1);
			r->n_alive = kept;
			if (r->n_dropped == r->cap_dropped) {
				r->cap_dropped = 2 * r->cap_dropped + 64;
				r->dropped = xrealloc(r->dropped, (size_t)r->cap_dropped * sizeof *r->dropped);
			}
			r->dropped[r->n_dropped++] = e[i].token;
		}
}

static int rig_try(struct rig *r, const struct rig_options *o, struct err *err)
{
	char why[160];
	int32_t layers = o->n_layer ? o->n_layer : 1, heads = o->n_head ? o->n_head : 2, kv = o->n_kv ? o->n_kv : 1;
	int failed;

	memset(r, 0, sizeof *r);
	r->hp = (struct hparams){ .arch = &r->arch,
		                  .n_layer = layers,
		                  .n_head = heads,
		                  .n_kv_head = kv,
		                  .head_dim = DIM,
		                  .n_rope = 1,
		                  .rope = { { .dims = DIM, .neox = o->neox, .freq = r->freq, .mscale = 1 } },
		                  .ctx_train = o->trained };
	layer_specs_plain(&r->hp);
	for (int i = 0; i < DIM / 2; i++)
		r->freq[i] = pow(10000, -2.0 * i / DIM);
	if (backend_open(&r->be, "cpu", &(struct backend_options){ .threads = o->threads ? o->threads : 1 }, why))
		test_skip("%s", why);
	r->seed = o->seed;
	r->sharp = o->sharp != 0 ? o->sharp : 1.5f;
	r->p = (struct cache){ .hp = &r->hp,
		               .be = r->be,
		               .types = { o->type, o->type },
		               .batch = o->batch ? o->batch : CALL_MAX,
		               .ctx = o->ctx ? o->ctx : 4096 };
	r->q = r->out = (struct tensor){ .type = DT_F32, .rows = CALL_MAX, .cols = heads * DIM };
	r->k = r->v = (struct tensor){ .type = DT_F32, .rows = CALL_MAX, .cols = kv * DIM };
	r->be->ops->alloc(r->be, &r->q);
	r->be->ops->alloc(r->be, &r->k);
	r->be->ops->alloc(r->be, &r->v);
	r->be->ops->alloc(r->be, &r->out);
	failed = policy_parse(&r->p.policy, o->kv, err) || cache_open(&r->p, err);
	r->p.evictions_fn = on_rows;
	r->p.evictions_ud = r;
	return failed;
}

static void rig_close(struct rig *r)
{
	cache_close(&r->p);
	r->be->ops->drop(r->be, &r->q);
	r->be->ops->drop(r->be, &r->k);
	r->be->ops->drop(r->be, &r->v);
	r->be->ops->drop(r->be, &r->out);
	r->be->ops->close(r->be);
	free(r->alive);
	free(r->dropped);
	free(r->hp.spec);
}

static struct rig rig_open(struct rig *r, const struct rig_options *o)
{
	struct err err = { 0 };

	if (rig_try(r, o, &err)) {
		rig_close(r);
		test_skip("%s: %s", o->kv, err.msg);
	}
	return *r;
}

/* Return a number between -1 and 1 that depends only on the seed, token, layer, kind and index i. */
static float value_at(uint64_t seed, int32_t token, int32_t layer, int kind, int32_t i)
{
	uint64_t h = seed * 0x9e3779b97f4a7c15u + (uint64_t)token * 0xd1b54a32d192ed03u +
	             (uint64_t)(layer * 4 + kind) * 0x2545f4914f6cdd1du + (uint64_t)i * 0x8cb92ba72f3d8dd7u;

	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93u;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93u;
	return (float)(int32_t)(h >> 32) / 2147483648.0f;
}

enum { KIND_Q, KIND_K, KIND_V };

static void fill_token(const struct rig *r, int32_t token, int32_t layer, int kind, int32_t heads, int32_t head0,
                       float *out)
{
	for (int32_t i = 0; i < heads * DIM; i++)
		out[i] = value_at(r->seed, token, layer, kind, i + head0 * DIM) * (kind == KIND_V ? 1 : r->sharp);
}

/* Begin a call for tokens pos .. pos + n and run its first n_layer layers. out: f32 [n_layer][n][n_head * DIM], may be
 * NULL. shift: added to the token numbers, for a call that will fail. */
static void rig_layers(struct rig *r, int32_t n, int decode, int32_t n_layer, int32_t shift, float *out)
{
	struct backend *be = r->be;
	size_t q = (size_t)r->q.cols, kv = (size_t)r->k.cols;
	float *buf = xmalloc((size_t)n * q * sizeof *buf);

	cache_begin(&r->p,
	            &(struct step){ .kind = decode ? STEP_GENERATE : STEP_READ, .pos = r->pos, .n = n, .last = 1 });
	for (int32_t l = 0; l < n_layer; l++) {
		for (int32_t i = 0; i < n; i++)
			fill_token(r, r->pos + i + shift, l, KIND_Q, r->hp.n_head, 0, buf + (size_t)i * q);
		be->ops->write(be, &r->q, 0, buf, (size_t)n * q * sizeof *buf);
		for (int32_t i = 0; i < n; i++)
			fill_token(r, r->pos + i + shift, l, KIND_K, r->hp.n_kv_head, 0, buf + (size_t)i * kv);
		be->ops->write(be, &r->k, 0, buf, (size_t)n * kv * sizeof *buf);
		for (int32_t i = 0; i < n; i++)
			fill_token(r, r->pos + i + shift, l, KIND_V, r->hp.n_kv_head, 0, buf + (size_t)i * kv);
		be->ops->write(be, &r->v, 0, buf, (size_t)n * kv * sizeof *buf);
		cache_attend(&r->p, l, &(struct qkv){ &r->q, &r->k, &r->v, &r->out, NULL });
		if (out)
			be->ops->read(be, &r->out, 0, out + (size_t)l * (size_t)n * q, (size_t)n * q * sizeof *out);
	}
	free(buf);
}

/* Make a whole call. */
static void rig_call(struct rig *r, int32_t n, int decode, const float *nll, float *out)
{
	r->n_dropped = 0;
	rig_layers(r, n, decode, r->hp.n_layer, 0, out);
	CHECK_MSG(!r->be->ops->sync(r->be), "%s", r->be->err);
	cache_commit(&r->p, n, nll);
	CHECK_MSG(!r->be->ops->sync(r->be), "%s", r->be->err);
	r->pos += n;
}

/* Roll back to n tokens, and decode the tokens whose number cache_rewind() sets in `replay`. Returns the number of
 * tokens left. */
static int32_t rig_rewind(struct rig *r, int32_t n)
{
	int32_t replay;

	r->pos = cache_rewind(&r->p, n, &replay);
	while (replay-- > 0 && r->pos < n)
		rig_call(r, 1, 1, NULL, NULL);
	return r->pos;
}

/* ---- the same in double, with keys that are rotated by their rank for every call ---- */

static void rotate(const struct rig *r, double *x, double pos)
{
	for (int i = 0; i < DIM / 2; i++) {
		int a = r->hp.rope[0].neox ? i : 2 * i, b = r->hp.rope[0].neox ? i + DIM / 2 : 2 * i + 1;
		double c = cos(pos * r->freq[i]), s = sin(pos * r->freq[i]), xa = x[a], xb = x[b];
		x[a] = xa * c - xb * s;
		x[b] = xa * s + xb * c;
	}
}

/* Compute the attention of the next call in double, over tokens key[0..n_key) (in order of rank) and its own tokens. p:
 * if not NULL, receives the probabilities [n][n_head][n_key + n]. */
static void exact_call(const struct rig *r, const int32_t *key, int32_t n_key, int32_t n, int32_t layer, float *out,
                       double *p)
{
	int32_t group = r->hp.n_head / r->hp.n_kv_head, all = n_key + n;
	double *k = xmalloc((size_t)all * DIM * sizeof *k), *share = xmalloc((size_t)all * sizeof *share);
	float raw[DIM], *v = xmalloc((size_t)all * DIM * sizeof *v);

	for (int32_t h = 0; h < r->hp.n_head; h++) {
		for (int32_t c = 0; c < all && h % group == 0; c++) {
			int32_t token = c < n_key ? key[c] : r->pos + c - n_key;
			fill_token(r, token, layer, KIND_K, 1, h / group, raw);
			fill_token(r, token, layer, KIND_V, 1, h / group, v + c * DIM);
			for (int i = 0; i < DIM; i++)
				k[c * DIM + i] = (double)raw[i];
			rotate(r, k + c * DIM, c);
		}
		for (int32_t i = 0; i < n; i++) {
			double q[DIM], most = -INFINITY, sum = 0, o[DIM] = { 0 };
			int32_t sees = n_key + i + 1;
			fill_token(r, r->pos + i, layer, KIND_Q, 1, h, raw);
			for (int d = 0; d < DIM; d++)
				q[d] = (double)raw[d];
			rotate(r, q, n_key + i);
			for (int32_t c = 0; c < sees; c++) {
				share[c] = 0;
				for (int d = 0; d < DIM; d++)
					share[c] += q[d] * k[c * DIM + d];
				share[c] /= sqrt(DIM);
				most = MAX(share[c], most);
			}
			for (int32_t c = 0; c < sees; c++)
				sum += share[c] = exp(share[c] - most);
			for (int32_t c = 0; c < all; c++) {
				double x = c < sees ? share[c] / sum : 0;
				if (p)
					p[((size_t)i * (size_t)r->hp.n_head + (size_t)h) * (size_t)all + (size_t)c] = x;
				for (int d = 0; d < DIM; d++)
					o[d] += x * (double)v[c * DIM + d];
			}
			for (int d = 0; d < DIM; d++)
				out[((size_t)i * (size_t)r->hp.n_head + (size_t)h) * DIM + (size_t)d] = (float)o[d];
		}
	}
	free(k);
	free(v);
	free(share);
}

/* Set key[] to the tokens that the next call attends to, according to the policy's events: sinks, kept tokens in order,
 * staged tokens. Returns their number. */
static int32_t visible(struct rig *r, int32_t sinks, int32_t *key)
{
	int32_t n = MIN(r->pos, sinks);

	for (int32_t i = 0; i < n; i++)
		key[i] = i;
	for (int32_t i = 0; i < r->n_alive; i++)
		key[n + i] = r->alive[i];
	qsort(key + n, (size_t)r->n_alive, sizeof *key, by_number);
	n += r->n_alive;
	for (int32_t t = MAX(r->next, sinks); t < r->pos; t++)
		key[n++] = t;
	return n;
}

struct misfit {
	double diff, ref;
};

static void misfit_add(struct misfit *m, const float *got, const float *want, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double d = (double)got[i] - (double)want[i];
		m->diff += d * d;
		m->ref += (double)want[i] * (double)want[i];
	}
}

/* Make random calls, and compare each with keys that are rotated again. Returns the NMSE over all outputs. */
static double against_exact(const struct rig_options *o, int32_t sinks, int32_t calls, int32_t most)
{
	struct rig r;
	float *got, *want;
	int32_t key[8192];
	struct misfit sum = { 0, 0 };
	size_t width;

	rig_open(&r, o);
	width = (size_t)r.q.cols;
	got = xmalloc(CALL_MAX * width * (size_t)r.hp.n_layer * sizeof *got);
	want = xmalloc(CALL_MAX * width * sizeof *want);
	most = MIN(most, r.p.chunk);
	for (int32_t i = 0; i < calls; i++) {
		int32_t n = test_rand() % 3 ? 1 + (int32_t)(test_rand() % (uint64_t)most) : 1,
			n_key = visible(&r, sinks, key);
		exact_call(&r, key, n_key, n, 0, want, NULL);
		rig_call(&r, n, n == 1, NULL, got);
		misfit_add(&sum, got, want, (size_t)n * width);
	}
	rig_close(&r);
	free(got);
	free(want);
	return sum.diff / sum.ref;
}

TEST(rotated_queries_equal_rotated_keys)
{
	static const char *const kv[] = {
		"cascade:size=48,n=3,sinks=4",
		"cascade:size=40,n=4,sinks=0,f=3",
		"cascade:size=12,n=2,sinks=2,heads=layer",
		"cascade:size=64,n=4,sinks=1,select=0",
		"cascade:size=60,n=5,f=4,sinks=3,reduce=mean",
		"sink:size=30,sinks=4",
		"cascade:size=8,n=8,sinks=4",
		"cascade:size=64,n=2,reduce=median",
		"cascade:size=256,n=2,f=4",
		"cascade:size=120,n=3,stride=1",
	};
	static const int32_t sinks[] = { 4, 0, 2, 1, 3, 4, 4, 4, 4, 4 };
	double worst[2] = { 0, 0 };

	for (size_t i = 0; i < LEN(kv); i++)
		for (int f16 = 0; f16 < 2; f16++) {
			struct rig_options o = { .kv = kv[i],
				                 .type = f16 ? DT_F16 : DT_F32,
				                 .n_head = 3,
				                 .neox = (int)i & 1,
				                 .seed = i + 1 };
			double e;
			if (i == 2) {
				o.n_head = 6;
				o.n_kv = 2;
			}
			e = against_exact(&o, sinks[i], i == 9 ? 500 : 150, i % 2 ? 20 : 70);
			worst[f16] = MAX(e, worst[f16]);
			CHECK_MSG(e < (f16 ? 1e-6 : 1e-10), "%s, %s planes: NMSE %.2g", kv[i], f16 ? "f16" : "f32", e);
		}
	test_note("NMSE of rotated queries against rotated keys: %.2g with f32 planes, %.2g with f16", worst[0],
	          worst[1]);
}

/* Positions above 10^6, where an angle in float would be wrong by 0.06 rad. */
TEST(rotation_holds_after_a_million_tokens)
{
	static float got[CALL_MAX * 2 * DIM], want[CALL_MAX * 2 * DIM];

	for (int f16 = 0; f16 < 2; f16++) {
		struct misfit sum = { 0, 0 };
		struct rig r;
		int32_t key[64];
		rig_open(&r, &(struct rig_options){
				     .kv = "cascade:size=24,n=3,sinks=2", .type = f16 ? DT_F16 : DT_F32, .seed = 77 });
		while (r.pos < 1000500) {
			int32_t n = r.pos < 999872 ? CALL_MAX : 1 + (int32_t)(test_rand() % 12), n_key;
			if (r.pos < 999872) {
				/* The outputs of the first million tokens are not compared. */
				rig_call(&r, n, 0, NULL, NULL);
				continue;
			}
			n_key = visible(&r, 2, key);
			exact_call(&r, key, n_key, n, 0, want, NULL);
			rig_call(&r, n, n == 1, NULL, got);
			misfit_add(&sum, got, want, (size_t)n * 2 * DIM);
		}
		CHECK_MSG(sum.diff / sum.ref < (f16 ? 1e-6 : 1e-10), "NMSE %.2g", sum.diff / sum.ref);
		test_note("after 10^6 tokens, %s planes: NMSE %.2g", f16 ? "f16" : "f32", sum.diff / sum.ref);
		rig_close(&r);
	}
}

/* ---- which tokens are kept ---- */

struct judge {
	int32_t tok[RINGS_MOST][256], cnt[RINGS_MOST], n, w, f, sinks, t;
	double *mu, *worth; /* by token */
	/* largest relative difference of two scores at which the policy's decision differs from the double
	 * computation */
	double slack;
	int32_t compared, differed;
};

static int is_dropped(const struct rig *r, int32_t token)
{
	for (int32_t i = 0; i < r->n_dropped; i++)
		if (r->dropped[i] == token)
			return 1;
	return 0;
}

static void judge_insert(struct judge *j, const struct rig *r)
{
	int32_t x = j->t++, since = x - j->sinks, period = 1;

	if (since < 0)
		return;
	for (int32_t i = 0; i < j->n; i++, period *= j->f) {
		int32_t *newest;
		if (since <= j->n * j->w || since % period == 0) {
			j->tok[i][j->cnt[i]++] = x;
			if (j->cnt[i] <= j->w)
				return;
			x = j->tok[i][0];
			memmove(j->tok[i], j->tok[i] + 1, (size_t)--j->cnt[i] * sizeof(int32_t));
			continue;
		}
		newest = &j->tok[i][j->cnt[i] - 1];
		{
			double a = j->mu[x] * j->worth[x], b = j->mu[*newest] * j->worth[*newest];
			int wins = a >= b;
			j->compared++;
			if (!is_dropped(r, wins ? *newest : x)) {
				/* The policy decided differently, which only rounding may cause. */
				double off = fabs(a - b) / MAX(a, b);
				j->differed++;
				j->slack = MAX(off, j->slack);
				wins = !wins;
			}
			CHECK(is_dropped(r, wins ? *newest : x));
			if (wins)
				*newest = x;
		}
		return;
	}
	CHECK(is_dropped(r, x));
}

static double reduced(const struct rig *r, const double *p, int32_t i, int32_t c, int32_t all)
{
	double v[16], most = 0, sum = 0;
	int32_t heads = r->hp.n_head;

	for (int32_t h = 0; h < heads; h++) {
		double x = p[((size_t)i * (size_t)heads + (size_t)h) * (size_t)all + (size_t)c];
		int32_t at = h;
		for (; at > 0 && v[at - 1] > x; at--)
			v[at] = v[at - 1];
		v[at] = x;
		sum += x;
		most = MAX(x, most);
	}
	return cascade_params(&r->p)->reduce == REDUCE_MAX    ? most
	       : cascade_params(&r->p)->reduce == REDUCE_MEAN ? sum / heads
	                                                      : (v[(heads - 1) / 2] + v[heads / 2]) / 2;
}

static void judged(const struct rig_options *o, int32_t most, int32_t tokens)
{
	struct rig r;
	struct judge j = { .slack = 0 };
	double *p, gamma;
	float *out = xmalloc(CALL_MAX * 8 * DIM * sizeof *out), nll[CALL_MAX], before = 0;
	int32_t key[1024];

	rig_open(&r, o);
	j.n = cascade_params(&r.p)->n;
	j.w = cascade_params(&r.p)->size / cascade_params(&r.p)->n;
	j.f = cascade_params(&r.p)->f;
	j.sinks = cascade_params(&r.p)->sinks;
	j.mu = xcalloc((size_t)tokens + CALL_MAX, sizeof *j.mu);
	j.worth = xcalloc((size_t)tokens + CALL_MAX, sizeof *j.worth);
	p = xmalloc(CALL_MAX * 8 * 1024 * sizeof *p);
	gamma = pow(100, -1.0 / j.w);
	most = MIN(most, r.p.chunk);
	while (r.pos < tokens) {
		int32_t n = 1 + (int32_t)(test_rand() % (uint64_t)most), n_key = visible(&r, j.sinks, key);
		int32_t all = n_key + n, first = r.pos;
		for (int32_t i = 0; i < n; i++) {
			nll[i] = r.p.wants_nll ? test_randf(0, 6) : 0;
			j.worth[first + i] = r.p.wants_nll ? (double)(MAX(nll[i], before)) + 0.5 : 1;
			before = nll[i];
		}
		exact_call(&r, key, n_key, n, 0, out, p);
		rig_call(&r, n, n == 1, r.p.wants_nll ? nll : NULL, NULL);
		for (int32_t c = 0; c < all; c++) {
			int32_t token = c < n_key ? key[c] : first + c - n_key;
			for (int32_t i = 0; i < n; i++)
				j.mu[token] = gamma * j.mu[token] + (1 - gamma) * reduced(&r, p, i, c, all);
		}
		while (j.t < (r.next > j.sinks ? r.next : MIN(r.pos, j.sinks)))
			judge_insert(&j, &r);
	}
	CHECK_MSG(j.compared > 100, "%d comparisons", j.compared);
	CHECK_MSG(j.slack < (o->type == DT_F32 ? 1e-4 : 2e-2), "%s: decided otherwise though scores differ by %.2g",
	          o->kv, j.slack);
	CHECK_MSG(j.differed <= j.compared / (o->type == DT_F32 ? 500 : 50), "%s: %d of %d comparisons differ", o->kv,
	          j.differed, j.compared);
	rig_close(&r);
	free(j.mu);
	free(j.worth);
	free(p);
	free(out);
}

TEST(who_stays_is_decided_by_attention)
{
	static const char *const kv[] = {
		"cascade:size=64,n=4,sinks=4",
		"cascade:size=36,n=3,f=3,sinks=2,reduce=mean",
		"cascade:size=48,n=2,sinks=4,reduce=median",
		"cascade:size=32,n=4,sinks=4,heads=layer",
		"cascade:size=96,n=4,sinks=4,score=surprise,stride=16",
		"cascade:size=256,n=4,sinks=4",
		"cascade:size=100,n=2,sinks=4,stride=1",
	};

	for (int i = 0; i < 7; i++)
		for (int f16 = 0; f16 < 2; f16++) {
			struct rig_options o = {
				.kv = kv[i], .type = f16 ? DT_F16 : DT_F32, .n_head = 3, .seed = 10 + (uint64_t)i
			};
			if (i == 3) {
				o.n_head = 6;
				o.n_kv = 2;
			}
			judged(&o, 1, i == 5 ? 1100 : 700);
			judged(&o, 60, 1500);
		}
}

/* Layers and KV heads are independent: computed together they give the same bits as each alone. */
TEST(heads_are_independent)
{
	enum { LAYERS = 3, KV = 2, GROUP = 2, CALLS = 60 };
	static float many[LAYERS][CALL_MAX * KV * GROUP * DIM], one[CALL_MAX * KV * GROUP * DIM];
	int32_t n[CALLS];
	static float want[CALLS][LAYERS][40 * KV * GROUP * DIM];
	struct rig r;

	rig_open(&r, &(struct rig_options){ .kv = "cascade:size=32,n=4",
	                                    .n_layer = LAYERS,
	                                    .n_head = KV * GROUP,
	                                    .n_kv = KV,
	                                    .type = DT_F16,
	                                    .seed = 5 });
	for (int i = 0; i < CALLS; i++) {
		size_t width = KV * GROUP * DIM;
		n[i] = 1 + (int32_t)(test_rand() % 40);
		rig_call(&r, n[i], n[i] == 1, NULL, &many[0][0]);
		for (int l = 0; l < LAYERS; l++)
			memcpy(want[i][l], &many[0][0] + (size_t)l * (size_t)n[i] * width,
			       (size_t)n[i] * width * sizeof(float));
	}
	rig_close(&r);
	/* Run only the first l + 1 layers, and compare layer l. */
	for (int l = 0; l < LAYERS; l++) {
		rig_open(&r, &(struct rig_options){ .kv = "cascade:size=32,n=4",
		                                    .n_layer = l + 1,
		                                    .n_head = KV * GROUP,
		                                    .n_kv = KV,
		                                    .type = DT_F16,
		                                    .seed = 5 });
		for (int i = 0; i < CALLS; i++) {
			size_t width = KV * GROUP * DIM;
			rig_call(&r, n[i], n[i] == 1, NULL, &many[0][0]);
			memcpy(one, &many[0][0] + (size_t)l * (size_t)n[i] * width,
			       (size_t)n[i] * width * sizeof(float));
			CHECK_MSG(!memcmp(one, want[i][l], (size_t)n[i] * width * sizeof(float)),
			          "layer %d differs in call %d", l, i);
		}
		rig_close(&r);
	}
	/* Run the first KV head alone. */
	rig_open(&r, &(struct rig_options){
			     .kv = "cascade:size=32,n=4", .n_head = GROUP, .n_kv = 1, .type = DT_F16, .seed = 5 });
	for (int i = 0; i < CALLS; i++) {
		rig_call(&r, n[i], n[i] == 1, NULL, one);
		for (int k = 0; k < n[i]; k++)
			CHECK_MSG(!memcmp(one + k * GROUP * DIM, want[i][0] + k * KV * GROUP * DIM,
			                  GROUP * DIM * sizeof(float)),
			          "a KV head alone differs in call %d", i);
	}
	rig_close(&r);
}

/* ---- full attention, while everything fits ---- */

static void equals_full(const char *kv, int32_t tokens, int32_t ctx, int pin, int exact)
{
	static float a[3 * CALL_MAX * 4 * DIM], b[3 * CALL_MAX * 4 * DIM];
	struct rig_options o = {
		.kv = "full", .n_layer = 3, .n_head = 4, .n_kv = 2, .type = DT_F16, .ctx = ctx, .seed = 3
	};
	struct misfit sum = { 0, 0 };
	struct err err = { 0 };
	struct rig full, r;

	rig_open(&full, &o);
	o.kv = kv;
	rig_open(&r, &o);
	if (pin)
		CHECK_MSG(cache_pin(&r.p, pin, &err) == 0, "%s", err.msg);
	while (full.pos < tokens) {
		int32_t n = test_rand() % 3 ? 1 + (int32_t)(test_rand() % 64) : 1;
		size_t bytes;
		n = MIN(n, r.p.chunk);
		n = n < tokens - full.pos ? n : tokens - full.pos;
		bytes = (size_t)n * 3 * 4 * DIM * sizeof(float);
		rig_call(&full, n, n == 1, NULL, a);
		rig_call(&r, n, n == 1, NULL, b);
		misfit_add(&sum, b, a, bytes / sizeof(float));
		CHECK_MSG(!exact || !memcmp(a, b, bytes), "%s differs from full at %d + %d", kv, full.pos - n, n);
	}
	CHECK_MSG(sum.diff / sum.ref < 1e-10, "%s differs from full: NMSE %.2g", kv, sum.diff / sum.ref);
	rig_close(&full);
	rig_close(&r);
}

TEST(all_that_fits_equals_full)
{
	equals_full("cascade:size=400,n=4,stride=64", 404, 1024, 0, 1);
	equals_full("cascade:size=400,n=2,f=3,heads=layer,stride=64", 404, 1024, 0, 1);
	equals_full("sink:size=300,sinks=0,stride=64", 300, 1024, 0, 1);
	equals_full("auto:prefix=full", 1024, 1024, 0, 1);
	equals_full("auto:prefix=full", 1024, 1024, 201, 1);
	equals_full("auto:prefix=sift,k=800", 1024, 1024, 300, 0);
	equals_full("auto:prefix=refresh,k=800", 1024, 1024, 300, 0);
}

/* ---- failure, threads, chunks ---- */

/* Make a fixed sequence of calls; fail: 1 = put failing calls between them. out: the outputs of the calls, as far as
 * they fit. */
static void run_calls(const struct rig_options *o, int fail, int pin, float *out, size_t cap)
{
	static float buf[3 * CALL_MAX * 4 * DIM];
	uint64_t order = 99;
	struct err err = { 0 };
	struct rig r;
	size_t at = 0;

	rig_open(&r, o);
	if (pin)
		CHECK_MSG(cache_pin(&r.p, pin, &err) == 0, "%s", err.msg);
	for (int i = 0; i < 80; i++) {
		int32_t n, kept;
		size_t width;
		order = order * 6364136223846793005u + 1442695040888963407u;
		n = (order >> 40) % 3 ? 1 + (int32_t)((order >> 33) % 40) : 1;
		n = MIN(n, r.p.chunk);
		width = (size_t)n * 3 * 4 * DIM;
		if (fail && (i % 3 == 0 || i > 70)) {
			int32_t m = 1 + (int32_t)(test_rand() % (uint64_t)(MIN(r.p.chunk, 40)));
			backend_flag cancel = 1;

			/* the call is cancelled before it begins, or ends before all layers have run */
			r.be->cancel = i % 5 < 2 ? &cancel : NULL;
			rig_layers(&r, m, m == 1, (int32_t)(test_rand() % 4), 1000000, NULL);
			CHECK(!r.be->ops->sync(r.be));
			r.be->cancel = NULL;
			if (i % 2) {
				kept = rig_rewind(&r, r.pos); /* a rollback to the current length keeps all tokens */
				CHECK_INT(kept, r.pos);
			}
		}
		rig_call(&r, n, n == 1, NULL, buf);
		if (at + width <= cap) {
			memcpy(out + at, buf, width * sizeof *out);
			at += width;
		}
	}
	memset(out + at, 0, (cap - at) * sizeof *out);
	rig_close(&r);
}

TEST(failed_calls_leave_no_trace)
{
	enum { CAP = 1 << 18 };
	static const char *const kv[] = { "cascade:size=64,n=4", "sink:size=50",
		                          "cascade:size=60,n=3,heads=layer,reduce=mean", "auto:prefix=full",
		                          "auto:prefix=sift,k=40,sample=20" };
	float *a = xmalloc(CAP * sizeof *a), *b = xmalloc(CAP * sizeof *b);

	for (int i = 0; i < 5; i++) {
		struct rig_options o = {
			.kv = kv[i], .n_layer = 3, .n_head = 4, .n_kv = 2, .type = DT_F16, .ctx = 512, .seed = 8
		};
		run_calls(&o, 0, i > 2 ? 70 : 0, a, CAP);
		run_calls(&o, 1, i > 2 ? 70 : 0, b, CAP);
		CHECK_MSG(!memcmp(a, b, CAP * sizeof *a), "%s: a failed call changed what follows", kv[i]);
	}
	free(a);
	free(b);
}

TEST(threads_change_no_bit)
{
	enum { CAP = 1 << 18 };
	float *a = xmalloc(CAP * sizeof *a), *b = xmalloc(CAP * sizeof *b);

	for (int threads = 1; threads <= 3; threads++) {
		struct rig_options o = { .kv = "cascade:size=64,n=4",
			                 .n_layer = 3,
			                 .n_head = 4,
			                 .n_kv = 2,
			                 .type = DT_F16,
			                 .seed = 8,
			                 .threads = threads };
		run_calls(&o, 0, 0, threads == 1 ? a : b, CAP);
		CHECK_MSG(threads == 1 || !memcmp(a, b, CAP * sizeof *a), "%d threads differ from 1", threads);
	}
	free(a);
	free(b);
}

/* ---- pinned ---- */

static void prefix_or_sinks(int rings)
{
	static float a[CALL_MAX * 4 * DIM], b[CALL_MAX * 4 * DIM];
	struct err err = { 0 };
	struct rig pinned, sinks;
	char kv[80];

	snprintf(kv, sizeof kv, "auto:prefix=full,size=64,n=%d", rings);
	rig_open(&pinned,
	         &(struct rig_options){
			 .kv = kv, .n_head = 4, .n_kv = 2, .type = DT_F16, .ctx = 512, .batch = 32, .seed = 4 });
	CHECK_INT(cache_pin(&pinned.p, 100, &err), 0);
	CHECK_INT(pinned.p.pinned, 100);
	snprintf(kv, sizeof kv, "cascade:size=64,n=%d,sinks=100,stride=%d", rings, pinned.p.chunk);
	rig_open(&sinks,
	         &(struct rig_options){ .kv = kv, .n_head = 4, .n_kv = 2, .type = DT_F16, .batch = 32, .seed = 4 });
	for (int i = 0; i < 300; i++) {
		int32_t n = 1 + (int32_t)(test_rand() % (uint64_t)pinned.p.chunk);
		rig_call(&pinned, n, n == 1, NULL, a);
		rig_call(&sinks, n, n == 1, NULL, b);
		/* auto sums attention only from shortly before the first comparison, so the sums differ by earlier
		 * attention. */
		CHECK_MSG(test_nmse(a, b, (size_t)n * 4 * DIM) < 0.02, "%d rings, call %d: NMSE %.2g", rings, i,
		          test_nmse(a, b, (size_t)n * 4 * DIM));
	}
	rig_close(&pinned);
	rig_close(&sinks);
}

/* A stream after a pinned prefix of n tokens gives the results of a stream with n sinks. */
TEST(pinned_prefix_is_many_sinks)
{
	prefix_or_sinks(4);
	prefix_or_sinks(2);
}

/* A selector whose k covers the whole prefix changes nothing, while the stream fills and when it is full. With a
 * smaller k the results are still close. */
TEST(prefix_is_read_through_a_selector)
{
	static const char *const kv[] = { "auto:size=64,prefix=sift,k=100", "auto:size=64,prefix=refresh,k=100",
		                          "auto:size=64,prefix=sift,k=60,sample=30,bits=8" };
	static float a[CALL_MAX * 4 * DIM], b[CALL_MAX * 4 * DIM];

	for (int i = 0; i < 3; i++) {
		struct rig_options o = { .kv = "auto:size=64,prefix=full",
			                 .n_head = 4,
			                 .n_kv = 2,
			                 .type = DT_F16,
			                 .ctx = 512,
			                 .batch = 32,
			                 .seed = 4 };
		struct misfit sum = { 0, 0 };
		struct err err = { 0 };
		struct rig full, r;
		rig_open(&full, &o);
		o.kv = kv[i];
		rig_open(&r, &o);
		CHECK_INT(cache_pin(&full.p, 90, &err), 0);
		CHECK_INT(cache_pin(&r.p, 90, &err), 0);
		while (full.pos < 600) {
			int32_t n = test_rand() % 4 && full.pos >= 90
			                    ? 1
			                    : 1 + (int32_t)(test_rand() % (uint64_t)r.p.chunk);
			rig_call(&full, n, n == 1 && full.pos >= 90, NULL, a);
			rig_call(&r, n, n == 1 && r.pos >= 90, NULL, b);
			misfit_add(&sum, b, a, (size_t)n * 4 * DIM);
		}
		CHECK_MSG(sum.diff / sum.ref < (i == 2 ? 0.05 : 1e-9), "%s: NMSE %.2g", kv[i], sum.diff / sum.ref);
		if (i == 2)
			CHECK(sum.diff > 0);
		rig_close(&full);
		rig_close(&r);
	}
}

TEST(pin_and_rewind)
{
	struct err err = { 0 };
	struct ring_stats rows = { .seen = 0 };
	struct rig r;

	rig_open(&r, &(struct rig_options){
			     .kv = "auto:prefix=full", .type = DT_F16, .ctx = 1024, .batch = 64, .seed = 6 });
	CHECK_INT(cache_pin(&r.p, 300, &err), 0);
	for (int i = 0; i < 8; i++)
		rig_call(&r, 64, 0, NULL, NULL);
	r.p.policy.def->retention->ring_stats(&r.p, &rows);
	CHECK_INT(rows.pinned, 300);
	CHECK_INT(rows.fill[0] + rows.fill[1] + rows.fill[2] + rows.fill[3], 212);
	CHECK_INT(rows.evicted, 0);
	CHECK_INT(rows.oldest, 300);
	CHECK_INT(rig_rewind(&r, 400), 400); /* nothing is evicted yet, so any rollback is possible */
	r.pos = 400;
	r.n_alive = 100;
	CHECK_INT(cache_pin(&r.p, 300, &err), 400); /* nothing changes */
	CHECK_INT(cache_pin(&r.p, 350, &err), 350); /* the first 350 entries are in the right slots */
	r.pos = 350;
	r.n_alive = 0;
	while (r.pos < 2000)
		rig_call(&r, 50, 0, NULL, NULL);
	r.p.policy.def->retention->ring_stats(&r.p, &rows);
	CHECK_INT(rows.pinned, 350);
	CHECK_INT(rows.evicted, 2000 - 350 - rows.n_ring * rows.ring_slots);
	CHECK_INT(r.n_alive, rows.n_ring * rows.ring_slots);
	CHECK_INT(rig_rewind(&r, 1999), 350); /* evicted entries cannot be restored, so only the prefix is left */
	r.pos = 350;
	r.n_alive = 0;
	while (r.pos < 1500)
		rig_call(&r, 50, 0, NULL, NULL);
	CHECK_INT(cache_pin(&r.p, 100, &err), 100);
	CHECK_INT(cache_pin(&r.p, 5000, &err), -1);
	CHECK_INT(err.code, ERR_FIT);
	CHECK_MSG(strstr(err.msg, "5000") && strstr(err.msg, "-c"), "%s", err.msg);
	CHECK_INT(r.p.pinned, 100); /* refused, so unchanged */
	rig_close(&r);

	rig_open(&r, &(struct rig_options){
			     .kv = "auto:prefix=full", .type = DT_F16, .ctx = 4096, .trained = 1024, .seed = 6 });
	CHECK_INT(cache_pin(&r.p, 900, &err), -1);
	CHECK_MSG(err.code == ERR_FIT && strstr(err.msg, "900") && strstr(err.msg, "1024"), "%s", err.msg);
	rig_close(&r);
}

/* A longer pinned prefix takes slots from the rings. There may then be fewer rings, but no ring may exceed its
 * allocated size. */
TEST(pinning_never_outgrows_the_rings)
{
	for (int32_t n = 1; n <= 8; n++)
		for (int32_t ctx = 12; ctx <= 80; ctx += 4) {
			struct ring_stats rows = { .seen = 0 };
			struct err err = { 0 };
			char kv[40];
			struct rig r;
			int32_t most;

			snprintf(kv, sizeof kv, "auto:prefix=full,n=%d", n);
			rig_open(&r, &(struct rig_options){ .kv = kv, .type = DT_F16, .ctx = ctx, .seed = 6 });
			r.p.policy.def->retention->ring_stats(&r.p, &rows);
			most = rows.n_ring * rows.ring_slots;
			for (int32_t pin = 1; pin < ctx && cache_pin(&r.p, pin, &err) >= 0; pin++) {
				r.p.policy.def->retention->ring_stats(&r.p, &rows);
				CHECK_MSG(rows.n_ring * rows.ring_slots <= most,
				          "n=%d, a context of %d, %d pinned: %d rings of %d, allocated for %d", n, ctx,
				          pin, rows.n_ring, rows.ring_slots, most);
				r.pos = 0;
				for (int i = 0; i < 20; i++)
					rig_call(&r, r.p.chunk, 0, NULL, NULL);
				r.n_alive = 0;
				CHECK_INT(rig_rewind(&r, 0), 0);
			}
			rig_close(&r);
		}
}

/* Generated tokens that are not in the rings yet can be rolled back, and the stream continues. */
TEST(the_newest_tokens_can_be_taken_back)
{
	static float got[2 * DIM], want[2 * DIM];
	struct misfit sum = { 0, 0 };
	int32_t key[512], taken = 0;
	struct rig r;

	rig_open(&r, &(struct rig_options){ .kv = "cascade:size=256,n=2", .type = DT_F32, .seed = 12 });
	while (r.pos < 600)
		rig_call(&r, 50, 0, NULL, NULL);
	for (int i = 0; i < 300; i++) {
		int32_t n_key;
		if (test_rand() % 4 == 0 && r.pos > r.next) {
			int32_t to = r.next + (int32_t)(test_rand() % (uint64_t)(r.pos - r.next));
			taken += r.pos - to;
			CHECK_INT(rig_rewind(&r, to), to);
			r.pos = to;
		}
		n_key = visible(&r, 4, key);
		exact_call(&r, key, n_key, 1, 0, want, NULL);
		rig_call(&r, 1, 1, NULL, got);
		misfit_add(&sum, got, want, 2 * DIM);
	}
	CHECK(taken > 100 && sum.diff / sum.ref < 1e-10);
	CHECK_INT(rig_rewind(&r, r.next - 1), 4);
	rig_close(&r);
}

/* ---- settings ---- */

TEST(settings_that_make_no_sense_are_refused)
{
	static const struct {
		const char *kv;
		int32_t trained;
		const char *words;
	} v[] = {
		{ "cascade:size=1000,n=3", 0, "multiple of 3" },
		{ "cascade:size=8192", 8192, "8192" },
		{ "sink:size=600,stride=100", 700, "704" },
		{ "cascade:f=5", 0, "2|3|4" },
		{ "cascade:n=9", 0, "1 to 8" },
		{ "cascade:score=luck", 0, "attn|surprise" },
		{ "sink:n=2", 0, "no setting" },
	};

	for (size_t i = 0; i < LEN(v); i++) {
		struct err err = { 0 };
		struct rig r;
		CHECK_INT(rig_try(&r, &(struct rig_options){ .kv = v[i].kv, .trained = v[i].trained, .batch = 512 },
		                  &err) != 0,
		          1);
		CHECK_MSG(strstr(err.msg, v[i].words), "%s: %s", v[i].kv, err.msg);
		rig_close(&r);
	}
}

/* ---- timelines ---- */

enum { N_VOCAB = 512 };

static struct engine *open_story(int threads)
{
	struct engine *e = NULL;
	struct err err = { 0 };
	const char *path = test_file("tests/vectors/stories260K/stories260K-q8_0.gguf");

	if (engine_open(&e, &(struct engine_options){ .model_path = path, .threads = threads }, &err))
		test_skip("cannot open the story model: %s", err.msg);
	return e;
}

static struct timeline *open_timeline(struct engine *e, const char *kv, int32_t ctx, int32_t batch)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = ctx, .batch = batch, .kv = kv }, &err))
		test_skip("cannot open a timeline: %s", err.msg);
	return tl;
}

static void random_ids(int32_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++)
		id[i] = 3 + (int32_t)(test_rand() % (N_VOCAB - 3));
}

static void keep(int32_t pos, const float *logits, void *ud)
{
	memcpy(ud, logits, N_VOCAB * sizeof(float));
}

static void probe(struct timeline *tl, float *out)
{
	struct err err = { 0 };
	const int32_t id = 42;

	CHECK_MSG(timeline_extend(tl, &id, 1, 1, keep, out, &err) == 0, "%s", err.msg);
}

TEST(timeline_equals_full_until_full)
{
	static const char *const kv[] = { "cascade:size=300,n=4,stride=64", "sink:size=300,stride=64",
		                          "auto:prefix=full", "auto" };
	struct engine *e = open_story(2);
	struct err err = { 0 };
	float want[N_VOCAB], got[N_VOCAB];
	int32_t id[300];

	for (int i = 0; i < 4; i++) {
		struct timeline *tl = open_timeline(e, kv[i], 512, 64), *full = open_timeline(e, "full", 512, 64);
		random_ids(id, 300);
		CHECK_INT(timeline_sync(full, id, 300, NULL, NULL, &err), 0);
		CHECK_MSG(timeline_pin(tl, 60, &err) == 0, "%s", err.msg);
		CHECK_INT(timeline_sync(tl, id, 300, NULL, NULL, &err), 0);
		probe(full, want);
		probe(tl, got);
		CHECK_MSG(!memcmp(want, got, sizeof got), "%s differs from full", kv[i]);
		/* Rollback while nothing is evicted. A cascade that sums attention from the first token on cannot
		 * subtract the attention of rolled-back tokens, so it prefills the stream again. */
		id[200] = id[200] == 7 ? 8 : 7;
		CHECK_INT(timeline_sync(tl, id, 250, NULL, NULL, &err), i ? 200 : 4);
		CHECK_INT(timeline_sync(full, id, 250, NULL, NULL, &err), 200);
		probe(full, want);
		probe(tl, got);
		CHECK_MSG(!memcmp(want, got, sizeof got), "%s differs from full after going back", kv[i]);
		timeline_close(tl);
		timeline_close(full);
	}
	engine_close(e);
}

static long resident_pages(void)
{
	long size = 0, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f && fscanf(f, "%ld %ld", &size, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages;
}

struct seen {
	int32_t admitted, dropped, last;
	double score;
};

static void count_rows(const struct slot_event *e, size_t n, void *ud)
{
	struct seen *s = ud;

	for (size_t i = 0; i < n; i++) {
		s->admitted += e[i].what == SLOT_ADMITTED;
		s->dropped += e[i].what == SLOT_EVICTED && e[i].evicted >= 1;
		s->last = e[i].token > s->last ? e[i].token : s->last;
		s->score += (double)e[i].mass;
	}
}

TEST(endless)
{
	static const char *const kv[] = { "sink:size=64,stride=32", "cascade:size=64,stride=32",
		                          "auto:prefix=full,size=64", "auto:size=64,k=16,sample=8",
		                          "cascade:size=64,stride=16,score=surprise" };
	struct engine *e = open_story(1);
	struct err err = { 0 };
	struct sampling greedy = { .temperature = 1, .top_p = 1, .repeat_penalty = 1, .top_k = 0 };
	int32_t id[6000];

	random_ids(id, 6000);
	sampling_seed(&greedy, 1);
	for (int i = 0; i < 5; i++) {
		struct timeline *tl = open_timeline(e, kv[i], 256, 32);
		struct timeline_stats early, late;
		struct seen seen = { 0, 0, 0, 0 };
		struct step_out out;
		long pages = 0, grown;
		int32_t n = 0, kept;
		timeline_on_evictions(tl, count_rows, &seen);
		CHECK_MSG(timeline_pin(tl, i >= 2 ? 40 : 0, &err) == 0, "%s", err.msg);
		timeline_stats(tl, &early);
		CHECK(early.endless);
		for (n = 1000; n <= 6000; n += 1000) {
			CHECK_MSG(timeline_sync(tl, id, (size_t)n, NULL, NULL, &err) == n - 1000, "%s: %s", kv[i],
			          err.msg);
			if (n == 2000)
				pages = resident_pages();
		}
		grown = resident_pages() - pages;
		for (int k = 0; k < 300; k++) {
			int rc = timeline_step(tl, &greedy, &out, &err);
			CHECK_MSG(rc >= 0, "%s: %s", kv[i], err.msg);
			if (rc < 0)
				break;
			if (rc == 0)
				CHECK(timeline_extend(tl, &(int32_t){ 5 }, 1, 1, NULL, NULL, &err) == 0);
		}
		timeline_stats(tl, &late);
		kept = late.rings.n_ring * late.rings.ring_slots;
		CHECK_INT(early.kv_bytes, late.kv_bytes);
		CHECK_INT(early.ctx, late.ctx);
		if (test_patience() == 1) /* not under a sanitizer, which does not release freed memory */
			CHECK_MSG(grown * sysconf(_SC_PAGESIZE) < 1 << 20, "%s: grew by %ld pages over 4,000 tokens",
			          kv[i], grown);
		CHECK_INT(late.rings.pinned, i >= 2 && i < 4 ? 40 : 4);
		CHECK_INT(kept, 64);
		CHECK(late.rings.seen >= 6299 && late.rings.seen <= late.n_tokens);
		/* Every token is pinned, kept by all heads, kept by some, or evicted. Each head keeps as many entries
		 * as the rings have slots. */
		CHECK(late.rings.evicted <= late.rings.seen - late.rings.pinned - kept);
		CHECK(late.rings.evicted + late.rings.evicted_in_part >
		      late.rings.seen - late.rings.pinned - kept - 16);
		CHECK_INT(seen.dropped, late.rings.evicted);
		/* Up to 15 tokens are not in the rings yet. */
		CHECK(seen.admitted <= late.rings.seen - late.rings.pinned &&
		      seen.admitted > late.rings.seen - late.rings.pinned - 16);
		CHECK(i == 0 || seen.score > 0);
		CHECK(late.rings.oldest >= late.rings.pinned && late.rings.oldest < late.rings.seen - kept + 1);
		timeline_close(tl);
	}
	engine_close(e);
}

static void cancel_at(int32_t done, int32_t total, void *ud)
{
	void **arg = ud;
	if (done >= *(int32_t *)arg[1])
		timeline_cancel(arg[0]);
}

TEST(cancel_leaves_the_state)
{
	static const char *const kv[] = { "cascade:size=64,stride=32", "auto:size=64,prefix=full" };
	struct engine *e = open_story(2);
	struct err err = { 0 };
	float want[N_VOCAB], got[N_VOCAB];
	int32_t id[800];

	random_ids(id, 800);
	for (int i = 0; i < 2; i++) {
		struct timeline *tl = open_timeline(e, kv[i], 256, 32);
		CHECK_INT(timeline_sync(tl, id, 800, NULL, NULL, &err), 0);
		probe(tl, want);
		timeline_close(tl);
		for (int32_t at = 0; at < 800; at += 150) {
			size_t had;
			tl = open_timeline(e, kv[i], 256, 32);
			CHECK_INT(timeline_sync(tl, id, 800, cancel_at, (void *[]){ tl, &at }, &err), -1);
			CHECK_INT(err.code, ERR_CANCELLED);
			timeline_resume(tl);
			timeline_tokens(tl, &had);
			CHECK_INT((int32_t)had, (at + 31) / 32 * 32);
			CHECK_INT(timeline_sync(tl, id, 800, NULL, NULL, &err), (int32_t)had);
			probe(tl, got);
			CHECK_MSG(!memcmp(want, got, sizeof got), "%s: a cancel at %d left a trace", kv[i], at);
			timeline_close(tl);
		}
	}
	engine_close(e);
}

/* The prefix stays if a new conversation begins after it, and equals a newly prefilled prefix. */
TEST(prefix_is_kept)
{
	struct engine *e = open_story(2);
	struct timeline *tl = open_timeline(e, "auto:size=80,prefix=full", 256, 32);
	struct timeline *fresh = open_timeline(e, "auto:size=80,prefix=full", 256, 32);
	struct err err = { 0 };
	float want[N_VOCAB], got[N_VOCAB];
	int32_t id[700];

	random_ids(id, 700);
	CHECK_INT(timeline_pin(tl, 96, &err), 0);
	CHECK_INT(timeline_sync(tl, id, 700, NULL, NULL, &err), 0);
	id[300] = 9;
	CHECK_INT(timeline_sync(tl, id, 600, NULL, NULL, &err), 96);
	CHECK_INT(timeline_pin(fresh, 96, &err), 0);
	CHECK_INT(timeline_sync(fresh, id, 600, NULL, NULL, &err), 0);
	probe(tl, got);
	probe(fresh, want);
	CHECK(!memcmp(want, got, sizeof got));
	timeline_close(tl);
	timeline_close(fresh);
	engine_close(e);
}
