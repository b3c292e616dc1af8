/* tests/engine/t_cache_view.c - the cache view: what a panel shows is compared with slot events, with the rings counted
 * token by token, and with the entries that policies must read. This is checked under every policy and after every
 * rollback. A view must not change the sequence. WEIR_SOAK=N: test sequences that are N times as long, and measure the
 * cost of a view on the default model. */
#include "tests/lib/test.h"
#include "engine/policies/policy.h"
#include "engine/observe/observe.h"

#include <math.h>
#include <stdlib.h>

#include "engine/cache/rings.h"
#include "engine/timeline/timeline.h"
#include "tests/lib/predictor.h"
#include "tests/lib/tiny.h"
#include "engine/engine_view.h"
#include "engine/engine_snapshot.h"
#include "engine/lab/lab.h"

enum { PAIRS = LAYERS * KV_HEADS };

static struct engine *engine(void)
{
	static struct engine *e;

	if (!e) {
		e = tiny_open(&tiny_families[0], 1, TRAINED, 10000);
		predictor_put_for(e);
	}
	return e;
}

static struct timeline *open_kv(const char *kv, int32_t ctx, int32_t batch)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (timeline_open(&tl, engine(), &(struct timeline_options){ .ctx = ctx, .batch = batch, .kv = kv }, &err))
		test_skip("%s: %s", kv, err.msg);
	return tl;
}

static void random_ids(int32_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++)
		id[i] = 3 + (int32_t)(test_rand() % (N_VOCAB - 3));
}

/* Decode n random tokens, in place of the tokens that sampling would give. */
static void generate(struct timeline *tl, int n)
{
	struct err err = { 0 };

	for (int i = 0; i < n; i++) {
		int32_t id;

		random_ids(&id, 1);
		CHECK_MSG(timeline_extend(tl, &id, 1, 1, NULL, NULL, &err) == 0, "%s", err.msg);
	}
}

static struct retained_view inside(const struct timeline *tl)
{
	struct retained_view in = { 0 };

	if (tl->cache.policy.def->retention->view)
		tl->cache.policy.def->retention->view(&tl->cache, &in);
	return in;
}

static struct selector *selector(struct timeline *tl)
{
	return tl->cache.selecting ? &tl->cache.sel : NULL;
}

/* ---- what must always be true ---- */

static int part(int32_t n, int32_t of)
{
	return n == 0 ? 0 : n == of ? 255 : (255 * n + of / 2) / of;
}

static void check_numbers(const struct cache_view *v, const char *at)
{
	double sum = 0;

	for (int i = 0; i <= RINGS_MOST; i++) {
		CHECK_MSG(v->share[i] >= 0 && v->share[i] <= 1, "%s: share %d is %g", at, i, (double)v->share[i]);
		sum += (double)v->share[i];
	}
	CHECK_MSG(sum == 0 || fabs(sum - 1) < 1e-5, "%s: shares sum to %g", at, sum);
	CHECK_MSG(v->watched != VIEW_MASS || sum > 0, "%s: scores without shares", at);
	sum = 0;
	for (int i = 0; i <= RINGS_MOST; i++) {
		CHECK_MSG(v->now[i] >= 0 && v->now[i] <= 1.0001f, "%s: now %d is %g", at, i, (double)v->now[i]);
		sum += (double)v->now[i];
	}
	CHECK_MSG(v->now_layers >= 0 && v->now_layers <= LAYERS && fabs(sum - (v->now_layers > 0)) < 1e-4,
	          "%s: shares now sum to %g in %d layers", at, sum, v->now_layers);
	CHECK_MSG((v->recovered <= -1 || v->recovered >= 0) && v->recovered <= 1, "%s: recovered %g", at,
	          (double)v->recovered);
	CHECK_MSG((v->estimated <= -1 || v->estimated >= 0) && v->estimated <= 1, "%s: estimated %g", at,
	          (double)v->estimated);
	CHECK_MSG(v->recovered < 0 || v->estimated < 0, "%s: recovered and estimated", at);
	CHECK_MSG(v->sink < 0 ? v->sink <= -1 : v->sink <= v->share[0], "%s: sink %g", at, (double)v->sink);
	CHECK_MSG(v->selected >= -1 && v->selected <= v->n_tokens, "%s: %d selected", at, v->selected);
	CHECK_MSG(v->refreshed >= -1 && v->refreshed <= LAYERS, "%s: %d refreshed", at, v->refreshed);
	CHECK_MSG((v->cosine >= -1 && v->cosine <= 1) || v->cosine <= -2, "%s: cosine %g", at, (double)v->cosine);
	CHECK(v->n_layer == LAYERS && v->seconds >= 0 && v->seconds < 1);
}

/* Take a view. Compare its columns with the view of single tokens, and the single tokens with the statistics. */
static void check_view(struct timeline *tl, int32_t cols, struct cache_view *v, const char *at)
{
	struct timeline_stats st;
	uint8_t *kept;
	int32_t gone = 0, thinned = 0, most = 0, most_behind = 0;

	timeline_stats(tl, &st);
	memset(v, 0xa5, sizeof *v);
	timeline_view(tl, cols, v);
	CHECK_INT(v->n_tokens, st.n_tokens);
	cols = cols < 1 ? 1 : MIN(VIEW_COLS, cols);
	CHECK_MSG(v->cols <= cols && v->per_col >= 1, "%s: %d columns of %d", at, v->cols, v->per_col);
	CHECK_MSG((int64_t)v->cols * v->per_col >= v->n_tokens &&
	                  (v->cols == 0 || (v->cols - 1) * v->per_col < v->n_tokens),
	          "%s: %d columns of %d for %d tokens", at, v->cols, v->per_col, v->n_tokens);
	CHECK(v->n_tokens > cols || v->per_col == 1);
	check_numbers(v, at);
	kept = malloc((size_t)v->n_tokens + 20);
	timeline_kept(tl, -7, v->n_tokens + 20, kept);
	for (int i = 0; i < 7; i++)
		CHECK(!kept[i]);
	for (int i = 0; i < 13; i++)
		CHECK(!kept[7 + v->n_tokens + i]);
	for (int32_t c = 0; c < v->cols; c++) {
		int32_t n = v->n_tokens - c * v->per_col, sum = 0, all = 1, none = 1;

		n = MIN(n, v->per_col);
		for (int32_t i = 0; i < n; i++) {
			uint8_t k = kept[7 + c * v->per_col + i];

			sum += k;
			all &= k == 255;
			none &= k == 0;
			gone += k == 0;
			thinned += k > 0 && k < 255;
			CHECK_MSG(c * v->per_col + i >= v->pinned || k == 255, "%s: a pinned token left", at);
		}
		CHECK_MSG(abs(v->kept[c] - (sum + n / 2) / n) <= 1 && (v->kept[c] == 255) == all &&
		                  (v->kept[c] == 0) == none,
		          "%s: column %d keeps %d, its tokens %d", at, c, v->kept[c], sum / n);
		CHECK_MSG(none ? v->where[c] == VIEW_EVICTED : v->where[c] <= st.rings.n_ring, "%s: column %d is in %d",
		          at, c, v->where[c]);
		for (int l = 0; l < LAYERS; l++) {
			CHECK_MSG(!none || v->heat[l][c] == 0, "%s: column %d is evicted and has heat", at, c);
			most = v->heat[l][c] > most ? v->heat[l][c] : most;
			if (c * v->per_col >= 4 && v->heat[l][c] > most_behind)
				most_behind = v->heat[l][c];
		}
	}
	for (int l = 0; l < VIEW_LAYERS; l++)
		for (int32_t c = l < LAYERS ? v->cols : 0; c < VIEW_COLS; c++)
			CHECK(v->heat[l][c] == 0);
	CHECK_MSG(v->watched != VIEW_MASS || (most == 255 && (most_behind == 255 || !most_behind)),
	          "%s: the most is %d, behind %d", at, most, most_behind);
	if (st.rings.n_ring) {
		CHECK_MSG(gone == st.rings.evicted && thinned == st.rings.evicted_in_part,
		          "%s: %d evicted, %d in part, not %d and %d", at, gone, thinned, st.rings.evicted,
		          st.rings.evicted_in_part);
		CHECK_INT(v->pinned, MIN(st.rings.pinned, v->n_tokens));
	}
	free(kept);
}

/* ---- against the rings, one by one ---- */

struct naive {
	int32_t n, heads;
	int32_t *held; /* [1 + RINGS_MOST][n] */
	double *sum;   /* [LAYERS][n] */
	double ring[1 + RINGS_MOST];
};

static void naive_count(struct naive *x, const struct timeline *tl)
{
	struct retained_view in = inside(tl);
	const struct rings *r = in.rings;
	int32_t rows = rings_filling(r) ? r->t - r->s.sinks : r->size;

	*x = (struct naive){ .n = (int32_t)tl->tokens.n, .heads = r->heads };
	x->held = calloc((size_t)x->n * (1 + RINGS_MOST), sizeof *x->held);
	x->sum = calloc((size_t)x->n * LAYERS, sizeof *x->sum);
	for (int32_t i = 0; i < x->n; i++)
		if (i < r->s.sinks || i >= r->t)
			x->held[(i < r->s.sinks ? 0 : 1) * x->n + i] = x->heads;
	for (int32_t row = 0; row < rows + in.waiting; row++)
		for (int32_t h = 0; h < r->heads; h++) {
			int32_t token = row < rows ? r->id[row * r->heads + h] : r->t + row - rows;
			int32_t ring = row >= rows        ? 1
			               : rings_filling(r) ? 1 + (r->t - 1 - token) / r->s.w
			                                  : r->s.n - row / r->s.w;

			CHECK(token >= r->s.sinks && token < x->n);
			if (row < rows)
				x->held[ring * x->n + token]++;
			if (!in.observed)
				continue;
			x->sum[(h * LAYERS / r->heads) * x->n + token] += (double)r->mass[row * r->heads + h];
			x->ring[ring] += (double)r->mass[row * r->heads + h];
		}
}

static void check_rings(struct timeline *tl, int32_t cols, const char *at)
{
	struct cache_view v;
	struct naive x;
	double all = 0, most = 0;

	check_view(tl, cols, &v, at);
	naive_count(&x, tl);
	for (int i = 1; i <= RINGS_MOST; i++)
		all += x.ring[i];
	CHECK_MSG(all > 0 ? v.watched == VIEW_MASS : v.watched != VIEW_MASS, "%s: watched %d", at, v.watched);
	for (int i = 1; i <= RINGS_MOST && all > 0; i++)
		CHECK_MSG(fabs(x.ring[i] / all - (double)v.share[i]) < 1e-5, "%s: share of ring %d is %g, not %g", at,
		          i, (double)v.share[i], x.ring[i] / all);
	for (int pass = 0; pass < 2; pass++)
		for (int32_t c = 0; c < v.cols; c++) {
			double sum[LAYERS] = { 0 };
			int32_t place[1 + RINGS_MOST] = { 0 };

			for (int32_t i = c * v.per_col; i < x.n && i < (c + 1) * v.per_col; i++) {
				for (int l = 0; l < LAYERS; l++)
					sum[l] += x.sum[l * x.n + i];
				for (int p = 0; p <= RINGS_MOST; p++)
					place[p] += x.held[p * x.n + i];
			}
			for (int p = 0; p <= RINGS_MOST; p++)
				CHECK_MSG(v.where[c] == VIEW_EVICTED ? !place[p] : place[p] <= place[v.where[c]],
				          "%s: where[%d] is %d", at, c, v.where[c]);
			for (int l = 0; l < LAYERS; l++) {
				if (!pass && c * v.per_col >= 4 && sum[l] > most)
					most = sum[l];
				if (pass && v.watched == VIEW_MASS && most > 0 && c * v.per_col >= v.pinned) {
					double h = sum[l] > 0 ? fmin(255, fmax(1, 255 + 32 * log2(sum[l] / most))) : 0;

					CHECK_MSG(fabs(h - v.heat[l][c]) <= 0.51, "%s: heat[%d][%d] is %d, not %g", at,
					          l, c, v.heat[l][c], h);
				}
			}
		}
	free(x.held);
	free(x.sum);
}

/* ---- against what a policy tells of its entries ---- */

struct told {
	float gone[8192];
};

static void on_rows(const struct slot_event *e, size_t n, void *ud)
{
	struct told *x = ud;

	for (size_t i = 0; i < n; i++)
		if (e[i].what == SLOT_EVICTED)
			x->gone[e[i].token] = e[i].evicted;
}

TEST(rings_are_shown_as_they_are)
{
	/* clang-format off */
	static const struct { const char *kv; int32_t pin, heads; } v[] = {
		{ "cascade:size=64,n=4,stride=32", 0, PAIRS }, { "cascade:size=60,n=3,f=3,sinks=0,stride=16", 0, PAIRS },
		{ "cascade:size=64,n=2,heads=layer,reduce=mean", 0, LAYERS }, { "cascade:size=96,n=1", 0, PAIRS },
		{ "cascade:size=64,n=4,select=0", 0, PAIRS }, { "cascade:size=32,n=8,stride=8,score=surprise", 0, PAIRS },
		{ "sink:size=50", 0, PAIRS }, { "sink:size=33,sinks=9", 0, PAIRS },
		{ "auto:size=80,prefix=full", 0, PAIRS }, { "auto:size=80,prefix=full", 100, PAIRS },
		{ "auto:size=64,k=16,sample=8", 100, PAIRS }, { "auto:size=64,k=16,sample=8,n=1", 70, PAIRS },
	};
	/* clang-format on */
	static int32_t id[2400];
	static struct told told;

	random_ids(id, 2400);
	for (size_t i = 0; i < LEN(v); i++) {
		struct timeline *tl = open_kv(v[i].kv, 256, 32);
		struct err err = { 0 };
		size_t n = 0;
		int32_t many;

		memset(&told, 0, sizeof told);
		timeline_on_evictions(tl, on_rows, &told);
		CHECK_MSG(timeline_pin(tl, v[i].pin, &err) == 0, "%s", err.msg);
		check_rings(tl, 256, v[i].kv);
		while (n < 2000) {
			uint8_t kept[2400];

			n += 1 + test_rand() % (n < 300 ? 40 : 300);
			memcpy(id, timeline_tokens(tl, &(size_t){ 0 }) ? timeline_tokens(tl, &(size_t){ 0 }) : id,
			       tl->tokens.n * sizeof *id);
			CHECK_MSG(timeline_sync(tl, id, n, NULL, NULL, &err) >= 0, "%s", err.msg);
			check_rings(tl, 1 + (int32_t)(test_rand() % 300), v[i].kv);
			generate(tl, (int)(test_rand() % 30));
			timeline_tokens(tl, &n);
			check_rings(tl, 1 + (int32_t)(test_rand() % 300), v[i].kv);
			many = (int32_t)n;
			timeline_kept(tl, 0, many, kept);
			for (int32_t k = 0; k < many; k++)
				CHECK_MSG(kept[k] == part((int32_t)lroundf((1 - told.gone[k]) * (float)v[i].heads),
				                          v[i].heads),
				          "%s: token %d of %d is kept by %d, evicted %g", v[i].kv, k, many, kept[k],
				          (double)told.gone[k]);
		}
		timeline_close(tl);
	}
}

/* ---- selected entries ---- */

/* From a view with one column per token, return how many KV heads read the token in a layer. */
static int heads_of(const struct cache_view *v, int layer, int32_t token)
{
	int h = v->heat[layer][token];

	CHECK_MSG(h == 0 || h == 223 || h == 255, "one of two heads is %d", h);
	return h == 255 ? 2 : h != 0;
}

/* Return the number of entries read in a layer, summed over its two KV heads. */
static int32_t rows_of(const struct cache_view *v, int layer)
{
	int32_t n = 0;

	for (int32_t i = 0; i < v->n_tokens; i++)
		n += heads_of(v, layer, i);
	return n;
}

static struct timeline *read_kv(const char *kv, int32_t n)
{
	struct timeline *tl = open_kv(kv, 512, 64);
	struct err err = { 0 };
	int32_t id[512];

	random_ids(id, 512);
	CHECK_MSG(timeline_sync(tl, id, (size_t)n, NULL, NULL, &err) == 0, "%s: %s", kv, err.msg);
	return tl;
}

TEST(lists_are_what_was_read)
{
	struct timeline *tl = read_kv("sift:k=16,split=even", 150);
	struct cache_view v;
	int32_t same = 0;

	/* Before the first view, nothing is recorded. */
	generate(tl, 3);
	CHECK(tl->panel == NULL);
	check_view(tl, 256, &v, "sift");
	CHECK(v.watched == VIEW_SELECTED && v.selected == -1);
	for (int step = 0; step < 5; step++) {
		generate(tl, 1);
		check_view(tl, 256, &v, "sift");
		CHECK_INT(v.selected, 16);
		CHECK_INT(v.refreshed, -1);
		for (int l = 0; l < LAYERS; l++) {
			CHECK_INT(rows_of(&v, l), 2 * 16);
			CHECK_INT(heads_of(&v, l, v.n_tokens - 1), 2); /* the token reads its own entry */
			same += l && !memcmp(v.heat[l], v.heat[l - 1], VIEW_COLS);
		}
	}
	CHECK_INT(same, 0); /* the lists of layers differ */
	timeline_close(tl);

	tl = read_kv("h2o+:k=16,dense=1", 150);
	timeline_view(tl, 256, &v);
	generate(tl, 2);
	check_view(tl, 256, &v, "h2o+, dense");
	CHECK_INT(rows_of(&v, 0), 2 * v.n_tokens);
	CHECK_INT(rows_of(&v, 1) + rows_of(&v, 2), 2 * 2 * 16);
	CHECK_INT(v.selected, (v.n_tokens + 32 + 1) / 3);
	timeline_close(tl);

	tl = read_kv("sift:k=1000", 150);
	timeline_view(tl, 256, &v);
	generate(tl, 1);
	check_view(tl, 256, &v, "sift, everything");
	CHECK_INT(v.selected, 0);
	CHECK_INT(rows_of(&v, 1), 2 * v.n_tokens);
	timeline_close(tl);

	tl = read_kv("streaming++:size=20,stride=7", 150);
	for (int step = 0; step < 9; step++) {
		timeline_view(tl, 256, &v);
		generate(tl, 1);
		check_view(tl, 256, &v, "streaming++");
		CHECK_INT(v.selected, step == 6 ? 0 : 24);
		for (int32_t i = 0; i < v.n_tokens; i++)
			CHECK_INT(heads_of(&v, 2, i), step == 6 || i < 4 || i >= v.n_tokens - 20 ? 2 : 0);
	}
	timeline_close(tl);

	tl = read_kv("quest:k=64", 180);
	for (int step = 0; step < 30; step++) {
		int32_t rows;

		timeline_view(tl, 256, &v);
		generate(tl, 1);
		check_view(tl, 256, &v, "quest");
		/* six pages are read: the first page, the last four, and one selected page; the last page is not
		 * full */
		rows = 6 * 16 - (16 - 1 - (v.n_tokens - 1) % 16);
		CHECK_INT(v.selected, rows);
		for (int l = 0; l < LAYERS; l++) {
			CHECK_INT(rows_of(&v, l), 2 * rows);
			for (int32_t i = 0; i < v.n_tokens; i++)
				CHECK_INT(heads_of(&v, l, i), heads_of(&v, l, i / 16 * 16));
		}
	}
	timeline_close(tl);
}

TEST(sets_that_serve_several_steps)
{
	static const char *const kv[] = { "recycled:k=24,stride=4,scan=k", "refresh:k=24,qc=4,s=1.5",
		                          "refresh:k=24,qc=4,s=-1.5" };
	struct cache_view v;
	float stride[LAYERS + 1];

	for (int i = 0; i < 3; i++) {
		struct timeline *tl = read_kv(kv[i], 200);

		timeline_view(tl, 256, &v);
		CHECK(v.cosine <= -2 && v.refreshed == -1);
		CHECK(timeline_strides(tl, stride, LAYERS + 1) == 0);
		for (int step = 1; step <= 20; step++) {
			int due = step % 4 == 0 && i != 2;

			generate(tl, 1);
			check_view(tl, 256, &v, kv[i]);
			CHECK_INT(v.refreshed, due ? LAYERS : 0);
			CHECK_MSG(i < 1 || step < 4 ? v.cosine <= -2 : v.cosine >= -1, "%s: cosine %g", kv[i],
			          (double)v.cosine);
			for (int l = 0; l < LAYERS; l++) {
				CHECK(heads_of(&v, l, v.n_tokens - 1) == 2);
				CHECK_MSG(rows_of(&v, l) >= 2 * 24 && rows_of(&v, l) <= 2 * 28, "%s: step %d reads %d",
				          kv[i], step, rows_of(&v, l));
			}
		}
		CHECK(timeline_strides(tl, stride, LAYERS + 1) == (i == 2 ? 0 : 4));
		for (int l = 0; l <= LAYERS; l++)
			CHECK(stride[l] == (i == 2 || l == LAYERS ? 0 : 4));
		timeline_close(tl);
	}
}

TEST(entries_that_are_not_kept)
{
	static const struct {
		const char *kv;
		int grows, recent, dense;
	} all[] = {
		{ "h2o:k=20", 0, 10, 0 },
		{ "h2o+:k=20", 0, 10, 1 },
		{ "snapkv:k=40,window=32", 1, 32, 0 },
		{ "snapkv:k=40,window=32,pool=5", 1, 32, 0 },
	};

	for (size_t i = 0; i < LEN(all); i++) {
		struct timeline *tl = read_kv(all[i].kv, 200);
		struct cache_view v;
		int32_t k = i < 2 ? 20 : 40, dense = 0;
		uint8_t kept[256];

		/* Count the first layers that read all entries. */
		for (struct attn_segment seg[SELECT_SEGMENTS];
		     dense < LAYERS && selector(tl)->ops->holds(selector(tl), dense, 200, seg) == 1 && !seg[0].slots &&
		     seg[0].n_slots == 200;)
			dense++;
		for (int step = 0; step < 20; step++) {
			int64_t pairs = 0, want;

			check_view(tl, 256, &v, all[i].kv);
			/* the view records nothing, because the selector's function holds() gives the slots at any
			 * time */
			CHECK(tl->panel == NULL);
			timeline_kept(tl, 0, v.n_tokens, kept);
			for (int32_t c = 0; c < v.n_tokens; c++) {
				int sum = 0;

				for (int l = 0; l < LAYERS; l++)
					sum += heads_of(&v, l, c);
				CHECK_INT(kept[c], part(sum, PAIRS));
				CHECK_INT(v.kept[c], kept[c]);
				CHECK(c < v.n_tokens - all[i].recent || kept[c] == 255);
				pairs += sum;
			}
			k += step && all[i].grows;
			want = (int64_t)KV_HEADS * ((LAYERS - dense) * k + dense * v.n_tokens);
			CHECK_MSG(pairs == want, "%s: step %d keeps %lld, not %lld", all[i].kv, step, (long long)pairs,
			          (long long)want);
			CHECK_INT(v.selected, ((LAYERS - dense) * k + dense * v.n_tokens + 1) / LAYERS);
			CHECK_MSG(i > 1 ? v.sink <= -1 : v.share[0] >= 1 && v.sink >= 0, "%s: sink %g", all[i].kv,
			          (double)v.sink);
			generate(tl, 1);
		}
		timeline_close(tl);
	}
}

TEST(a_pinned_prefix_is_shown_with_what_was_read_of_it)
{
	struct timeline *tl = open_kv("auto:k=16,sample=0,split=even,size=100", 512, 64);
	struct err err = { 0 };
	struct cache_view v;
	int32_t id[600];

	random_ids(id, 600);
	CHECK_MSG(timeline_pin(tl, 120, &err) == 0, "%s", err.msg);
	CHECK_MSG(timeline_sync(tl, id, 140, NULL, NULL, &err) == 0, "%s", err.msg);
	check_view(tl, 256, &v, "auto");
	CHECK(v.pinned == 120 && v.watched == VIEW_SELECTED && v.watched_pinned == VIEW_SELECTED && v.selected == -1);
	generate(tl, 3);
	check_view(tl, 256, &v, "auto");
	CHECK_INT(v.selected, 16);
	for (int l = 0; l < LAYERS; l++) {
		CHECK_INT(rows_of(&v, l), 2 * (16 + v.n_tokens - 120));
		CHECK_INT(heads_of(&v, l, 121), 2);
	}
	CHECK(v.where[119] == 0 && v.where[120] == 1);
	/* As the sequence grows, attention mass is summed; later, tokens after the prefix are evicted. The selection
	 * among the pinned entries is still shown. */
	CHECK_MSG(timeline_sync(tl, timeline_tokens(tl, &(size_t){ 0 }), 140, NULL, NULL, &err) >= 0, "%s", err.msg);
	CHECK_MSG(timeline_sync(tl, id, 250, NULL, NULL, &err) >= 0, "%s", err.msg);
	check_view(tl, 256, &v, "auto");
	CHECK(v.selected == -1 && v.watched == VIEW_MASS && v.watched_pinned == VIEW_SELECTED);
	generate(tl, 2);
	check_view(tl, 256, &v, "auto");
	CHECK(v.selected == 16 && v.watched == VIEW_MASS && v.share[0] <= 0 && v.sink <= -1);
	for (int l = 0; l < LAYERS; l++) {
		int32_t n = 0;

		for (int32_t i = 0; i < 120; i++)
			n += heads_of(&v, l, i);
		CHECK_INT(n, 2 * 16);
	}
	/* After the tokens are no longer pinned, the prefix is short, and all of it is read. */
	CHECK_MSG(timeline_pin(tl, 0, &err) == 0, "%s", err.msg);
	check_view(tl, 256, &v, "auto, unpinned");
	CHECK(v.watched_pinned == VIEW_NONE && v.pinned == 4);
	timeline_close(tl);
}

/* ---- shares of attention ---- */

/* Under full attention, return the share of attention that the last of the tokens id[0 .. n) pays to the first 4 and
 * the newest `size` tokens. */
static double full_share(const int32_t *id, size_t n, int32_t size)
{
	char kv[64];
	const char *watch = kv;
	struct timeline *tl = NULL;
	struct recovered r;
	struct err err = { 0 };

	snprintf(kv, sizeof kv, "streaming++:size=%d,sinks=4,stride=1000000", size);
	CHECK_MSG(!timeline_open(&tl, engine(), &(struct timeline_options){ .ctx = 512, .kv = "full", .batch = 64 },
	                         &err) &&
	                  !timeline_watch(tl, &watch, 1, &err),
	          "%s", err.msg);
	CHECK(timeline_sync(tl, id, n - 1, NULL, NULL, &err) >= 0 &&
	      !timeline_extend(tl, id + n - 1, 1, 1, NULL, NULL, &err));
	CHECK(!timeline_recovery(tl, 0, &r) && r.steps == 1);
	timeline_close(tl);
	return r.mass;
}

/* While nothing is evicted, a cascade equals full attention: compare the shares of attention of its regions with those
 * from full_share(). */
TEST(shares_of_attention_by_region)
{
	struct timeline *tl = open_kv("cascade:size=200,n=4,stride=32", 512, 32);
	struct err err = { 0 };
	struct cache_view v;
	int32_t id[204];

	random_ids(id, 204);
	for (size_t n = 1; n <= 204; n += n == 203 ? 1 : 1 + test_rand() % 60) {
		double before = 0, all;
		int decode = test_rand() % 2;

		n = MIN(204, n);
		CHECK(timeline_sync(tl, id, n - decode, NULL, NULL, &err) >= 0);
		timeline_view(tl, 64, &v);
		CHECK_INT(timeline_sync(tl, id, n - decode, NULL, NULL, &err), n - decode);
		CHECK(!decode || !timeline_extend(tl, id + n - 1, 1, 1, NULL, NULL, &err));
		check_view(tl, 64, &v, "cascade");
		if (!decode)
			continue; /* the tokens were prefilled before the first view, so they are not measured */
		CHECK_INT(v.now_layers, LAYERS);
		for (int i = 1; i <= 4; i++) {
			int32_t newest = 50 * i < (int32_t)n - 4 ? 50 * i : (int32_t)n - 4;

			if (newest <= 0)
				break;
			before += (double)v.now[i];
			all = full_share(id, n, newest);
			CHECK_MSG(fabs((double)v.now[0] + before - all) < 2e-3,
			          "%zu tokens: sinks and %d rings have %g, not %g", n, i, (double)v.now[0] + before,
			          all);
		}
	}
	/* In a prefill, the attention of the call's last token is measured. */
	random_ids(id, 204);
	CHECK(timeline_sync(tl, id, 90, NULL, NULL, &err) >= 0);
	timeline_view(tl, 64, &v);
	CHECK(timeline_sync(tl, id, 100, NULL, NULL, &err) >= 0);
	timeline_view(tl, 64, &v);
	CHECK(v.now_layers == LAYERS);
	CHECK_MSG(fabs((double)v.now[0] + (double)v.now[1] - full_share(id, 100, 50)) < 2e-3, "%g, not %g",
	          (double)v.now[0] + (double)v.now[1], full_share(id, 100, 50));
	timeline_close(tl);
}

/* The reported share of attention of the selected entries equals their share in the softmax over all keys. */
TEST(shares_of_entries)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };
	struct cache_view v;
	struct selector *s;
	struct backend *be;
	struct tensor q = { .type = DT_F32, .rows = 1, .cols = HEADS * HEAD },
		      list = { .type = DT_I32, .rows = KV_HEADS, .cols = 20 };
	float x[HEADS * HEAD], key[150 * HEAD];
	int32_t rows[KV_HEADS][20], id[150];
	struct attn_segment seg[2];
	struct scan_args scan;
	double want = 0, got;

	CHECK_MSG(!timeline_open(&tl, engine(),
	                         &(struct timeline_options){ .ctx = 200, .kv = "sift:k=20,bits=16", .kv_type = "f32" },
	                         &err),
	          "%s", err.msg);
	random_ids(id, 150);
	CHECK(timeline_sync(tl, id, 150, NULL, NULL, &err) == 0);
	timeline_view(tl, 64, &v);
	s = selector(tl);
	be = s->kv->be;
	CHECK(!be->ops->alloc(be, &q) && !be->ops->alloc(be, &list));
	for (int i = 0; i < HEADS * HEAD; i++)
		x[i] = (float)((double)(test_rand() % 2000) / 1000 - 1);
	for (int h = 0; h < KV_HEADS; h++)
		for (int i = 0; i < 20; i++)
			rows[h][i] = (int32_t)(test_rand() % 7) + 7 * i;
	be->ops->write(be, &q, 0, x, sizeof x);
	be->ops->write(be, &list, 0, rows, sizeof rows);
	seg[0] = (struct attn_segment){ .q = &q, .slots = &list, .n_slots = 20 };
	seg[1] = (struct attn_segment){ .q = &q, .slot0 = 145, .n_slots = 5 };
	for (int h = 0; h < HEADS; h++) {
		double sum = 0, on = 0, p[150];

		be->ops->read(be, &s->kv->k[1], (size_t)(h / 2) * (size_t)s->kv->cap * HEAD * 4, key, sizeof key);
		for (int i = 0; i < 150; i++) {
			p[i] = 0;
			for (int d = 0; d < HEAD; d++)
				p[i] += (double)key[i * HEAD + d] * (double)x[h * HEAD + d];
			sum += p[i] = exp(p[i] / sqrt(HEAD));
		}
		for (int i = 0; i < 20; i++)
			on += p[rows[h / 2][i]];
		for (int i = 145; i < 150; i++)
			on += p[i];
		want += on / sum / HEADS;
	}
	scan = s->ops->scan(s, 1, &q, 150);
	got = observe_panel_share_on(tl->panel, &scan, seg, 2);
	CHECK_MSG(fabs(got - want) < 1e-3, "%g, not %g", got, want);
	got = observe_panel_share_on(tl->panel, &scan, seg, 0);
	CHECK(got >= 0 && got <= 0);
	be->ops->drop(be, &q);
	be->ops->drop(be, &list);
	timeline_close(tl);
}

TEST(what_sets_recover)
{
	struct timeline *tl = read_kv("recycled:k=24,stride=4,scan=k", 200);
	struct cache_view v;
	float at_24;

	/* The recovered share is unknown until a set of slots is selected while views are taken. After a prefill it is
	 * unknown again. */
	for (int step = 1; step <= 12; step++) {
		timeline_view(tl, 256, &v);
		CHECK_MSG((v.recovered >= 0) == (step > 4), "step %d: recovered %g", step, (double)v.recovered);
		generate(tl, 1);
	}
	timeline_view(tl, 256, &v);
	at_24 = v.recovered;
	CHECK(at_24 > 0 && at_24 < 0.9f && v.estimated <= -1);
	generate(tl, 1);
	timeline_view(tl, 256, &v);
	CHECK_MSG(fabs((double)(v.recovered - at_24)) < 1e-9, "%g between two selections, %g at the first",
	          (double)v.recovered, (double)at_24);
	timeline_close(tl);

	/* A larger set of selected entries recovers more attention mass; the set of all entries recovers all mass. */
	tl = read_kv("recycled:k=150,stride=4,scan=k", 200);
	for (int step = 1; step <= 12; step++, generate(tl, 1))
		timeline_view(tl, 256, &v);
	CHECK_MSG(v.recovered > at_24 && v.recovered < 1, "%g of 150 entries, %g of 24", (double)v.recovered,
	          (double)at_24);
	timeline_close(tl);

	for (int i = 0; i < 2; i++) {
		float last = 0;

		for (int32_t k = 8; k <= 1000; k = k == 8 ? 64 : 1000) {
			char kv[64];

			snprintf(kv, sizeof kv, "sift:k=%d,bits=%d", k, i ? 2 : 16);
			tl = read_kv(kv, 200);
			timeline_view(tl, 256, &v);
			CHECK(v.estimated <= -1);
			generate(tl, 1);
			timeline_view(tl, 256, &v);
			CHECK_MSG(v.estimated > last && v.recovered <= -1, "%s: estimated %g, with fewer %g", kv,
			          (double)v.estimated, (double)last);
			last = v.estimated;
			timeline_close(tl);
			if (k == 1000)
				break;
		}
		CHECK(last >= 1);
	}
}

/* If the policy neither sums attention nor selects, the view measures attention layer by layer, starting with the
 * tokens after the first view. Tokens that are rolled back are no longer shown. */
TEST(attention_is_measured_where_no_policy_sums_it)
{
	static const char *const kv[] = { "full", "auto", "sink" };

	for (size_t i = 0; i < LEN(kv); i++) {
		struct timeline *tl = read_kv(kv[i], 100);
		struct cache_view v;
		struct err err = { 0 };
		int32_t id[60];
		size_t n;

		timeline_view(tl, 100, &v);
		generate(tl, 1);
		timeline_view(tl, 101, &v);
		CHECK_MSG(v.watched == VIEW_MEASURED, "%s: nothing was measured", kv[i]);
		for (int32_t l = 0; l < LAYERS; l++) {
			int seen = 0;

			for (int32_t c = 0; c < v.cols; c++)
				seen += v.heat[l][c] > 0;
			CHECK_MSG(seen > 50, "%s: layer %d has %d columns", kv[i], l, seen);
		}
		memcpy(id, timeline_tokens(tl, &n), 60 * sizeof *id);
		CHECK_MSG(timeline_sync(tl, id, 60, NULL, NULL, &err) >= 0, "%s: %s", kv[i], err.msg);
		timeline_view(tl, 60, &v);
		CHECK_INT(v.n_tokens, 60);
		generate(tl, 1);
		timeline_view(tl, 61, &v);
		CHECK_MSG(v.watched == VIEW_MEASURED, "%s: nothing after a rollback", kv[i]);
		timeline_close(tl);
	}
}

/* timeline_attention_read_measure() measures the attention of the tokens that follow without a view. Its figures equal
 * those of a view. */
TEST(how_much_is_read)
{
	static const char *const silent[] = { "full", "sink", "quest:k=16", "recycled:k=24,stride=4,scan=k" };
	struct timeline *tl = read_kv("sift:k=24,sample=16", 200);
	struct attention_read r, more;
	struct cache_view v;

	timeline_attention_read(tl, &r);
	CHECK(!r.known);
	generate(tl, 1);
	timeline_attention_read(tl, &r);
	CHECK(!r.known);
	for (int i = 0; i < 4; i++) {
		timeline_attention_read_measure(tl);
		generate(tl, 1);
	}
	timeline_attention_read(tl, &r);
	CHECK(r.known && r.exact > 0 && r.exact < 1);
	CHECK(fabsf(r.exact + r.sampled - 1) < 1e-6f && fabsf(r.spread - r.sampled / 4) < 1e-6f);
	timeline_view(tl, 16, &v);
	CHECK_MSG(fabsf(v.estimated - r.exact) < 1e-6f && fabsf(v.spread - r.spread) < 1e-6f,
	          "the view says %g and %g, not %g and %g", (double)v.estimated, (double)v.spread, (double)r.exact,
	          (double)r.spread);
	timeline_close(tl);

	/* A larger set of selected entries gets more of the attention; without a sample, the sampled share is 0. */
	tl = read_kv("sift:k=100", 200);
	timeline_attention_read_measure(tl);
	generate(tl, 1);
	timeline_attention_read(tl, &more);
	CHECK(more.known && more.exact > r.exact && more.sampled <= 0 && more.spread <= 0);
	timeline_close(tl);

	for (size_t i = 0; i < LEN(silent); i++) {
		tl = read_kv(silent[i], 200);
		timeline_attention_read_measure(tl);
		generate(tl, 6);
		timeline_attention_read(tl, &r);
		CHECK_MSG(!r.known, "%s", silent[i]);
		timeline_close(tl);
	}
}

/* ---- every policy with random steps ---- */

/* clang-format off */
static const char *const every[] = {
	"full", "auto", "auto:size=60,k=12,sample=6", "auto:size=60,prefix=refresh,k=12,qc=2", "auto:size=60,prefix=full,n=1",
	"sift:k=12", "sift:k=1/8,bits=8", "refresh:k=12",
	"refresh:k=12,scan=kv,qc=2", "recycled:k=12,stride=5", "streaming++:size=16,stride=6",
	"streaming++:size=16,sinks=0", "quest:k=32", "quest:k=32,bound=raw", "h2o:k=10", "h2o+:k=10", "snapkv:k=40",
	"snapkv:k=40,pool=5", "kvzip", "kvzip:k=20", "predict:k=24,block=4,first=4,last=8,rows=16", "sink:size=40", "cascade:size=40,n=4", "cascade:size=40,n=2,heads=layer,reduce=median",
	"cascade:size=40,n=2,score=surprise,stride=8", "cascade:size=40,n=2,select=0", "reattention:local=272,k=30,pool=3",
};
/* clang-format on */
enum { EVERY = LEN(every) };

static int soak(void)
{
	const char *s = getenv("WEIR_SOAK");
	double n = s ? strtod(s, NULL) : 0;

	return n > 1 ? (int)n : 1;
}

TEST(every_policy_is_covered)
{
	for (int i = 0; policies[i]; i++) {
		size_t n = strlen(policies[i]->name), found = 0;

		for (int k = 0; k < EVERY; k++)
			found += !strncmp(every[k], policies[i]->name, n) && (!every[k][n] || every[k][n] == ':');
		CHECK_MSG(found > 0, "%s is not covered", policies[i]->name);
	}
}

/* ---- where one layer attends ---- */

/* Check the reported attention of every token in one layer: it adds up to 1, only kept entries get some, and the report
 * does not change later logits. */
static void look_along(const char *kv, int32_t layer, int32_t head)
{
	enum { BEFORE = 30, AFTER = 120 };
	struct timeline *tl = open_kv(kv, 256, 16), *plain = open_kv(kv, 256, 16);
	int bounded = !strncmp(kv, "sink", 4) || !strncmp(kv, "cascade", 7);
	int32_t id[BEFORE + AFTER];
	float p[BEFORE + AFTER];
	uint8_t kept[BEFORE + AFTER];
	struct err err = { 0 };

	random_ids(id, BEFORE + AFTER);
	CHECK_MSG(timeline_sync(tl, id, BEFORE, NULL, NULL, &err) == 0 &&
	                  timeline_sync(plain, id, BEFORE, NULL, NULL, &err) == 0,
	          "%s", err.msg);
	for (int32_t i = BEFORE; i < BEFORE + AFTER; i++) {
		double sum = 0;

		timeline_kept(tl, 0, i, kept);
		CHECK_MSG(timeline_attention(tl, id[i], layer, head, p, &err) == 0, "%s: %s", kv, err.msg);
		CHECK_MSG(timeline_extend(plain, id + i, 1, 1, NULL, NULL, &err) == 0, "%s", err.msg);
		for (int32_t k = 0; k <= i; k++) {
			sum += p[k] > 0 ? (double)p[k] : 0;
			CHECK_MSG(p[k] < 0 || p[k] <= 1.0001f, "%s: token %d attends %d with %g", kv, i, k,
			          (double)p[k]);
			/* kept[k] is over all layers and heads, not only over this layer. */
			if (k < i && (bounded || !strcmp(kv, "full")))
				CHECK_MSG(p[k] >= 0 ? kept[k] > 0 : kept[k] < 255,
				          "%s: token %d: %d is kept %d, and its share is %g", kv, i, k, kept[k],
				          (double)p[k]);
		}
		CHECK_MSG(p[i] >= 0 && fabs(sum - 1) < 1e-3, "%s: token %d: %g of all, itself %g", kv, i, sum,
		          (double)p[i]);
		CHECK_MSG(!memcmp(timeline_logits(tl), timeline_logits(plain), N_VOCAB * sizeof(float)),
		          "%s: reporting token %d left a trace", kv, i);
	}
	timeline_close(tl);
	timeline_close(plain);
}

TEST(attention_is_told_token_by_token)
{
	for (int i = 0; i < EVERY; i++)
		for (int32_t layer = 0; layer < LAYERS; layer++)
			look_along(every[i], layer, layer % 2 ? -1 : layer % KV_HEADS);
	look_along("cascade:size=40,n=4", 0, -1);
}

/* The reported attention is that of the newest token with a KV entry, not of the sampled token, which has no entry yet.
 * A second observer on the same timeline gets the same results. */
TEST(attention_is_that_of_the_token_asked_about)
{
	for (int watched = 0; watched < 2; watched++) {
		struct timeline *tl = open_kv("full", 256, 16), *plain = open_kv("full", 256, 16);
		struct sampling s = sampling_default, u = s;
		struct step_out out;
		int32_t id[40];
		float p[42], want[42], sum = 0, sums[42];
		struct err err = { 0 };

		random_ids(id, 40);
		CHECK(timeline_sync(tl, id, 40, NULL, NULL, &err) == 0 &&
		      timeline_sync(plain, id, 40, NULL, NULL, &err) == 0);
		if (watched)
			CHECK_MSG(!timeline_evidence_begin(tl, &err), "%s", err.msg);
		CHECK(timeline_step(tl, &s, &out, &err) == 1 && timeline_step(plain, &u, &out, &err) == 1);
		CHECK(!timeline_extend(plain, NULL, 0, 1, NULL, NULL, &err));
		CHECK(!timeline_attention(plain, 9, LAYERS / 2, -1, want, &err));
		CHECK(!timeline_attention(tl, 9, LAYERS / 2, -1, p, &err));
		for (int i = 0; i < 42; i++)
			sum += p[i];
		CHECK_MSG(!memcmp(p, want, sizeof p) && fabs((double)sum - 1) < 1e-3, "%d observers: shares sum to %g",
		          1 + watched, (double)sum);
		timeline_evidence(tl, 0, 42, sums);
		for (int i = 0; i < 42; i++)
			CHECK((sums[i] > 0) == watched);
		timeline_close(tl);
		timeline_close(plain);
	}
}

TEST(attention_of_no_such_head_is_refused)
{
	struct timeline *tl = open_kv("full", 64, 16);
	struct err err = { 0 };
	float p[4];

	CHECK(timeline_attention(tl, 5, LAYERS, 0, p, &err) == -1 && err.code == ERR_USAGE);
	CHECK(timeline_attention(tl, 5, 0, KV_HEADS, p, &err) == -1 && err.code == ERR_USAGE);
	CHECK(timeline_attention(tl, 5, -1, -1, p, &err) == -1);
	CHECK(timeline_attention(tl, 5, 0, -1, p, &err) == 0 && p[0] > 0.999f);
	timeline_close(tl);
}

/* Check timeline_evidence() of one layer: it sums the squared attention of all heads, for reported tokens only. */
static void squares_along(const char *kv)
{
	enum { BEFORE = 30, AFTER = 60, ALL = BEFORE + AFTER };
	struct timeline *tl = open_kv(kv, 256, 16), *plain = open_kv(kv, 256, 16), *one[KV_HEADS];
	int32_t id[ALL], layer = LAYERS / 2;
	float p[ALL], sum[ALL];
	double want[ALL] = { 0 };
	struct err err = { 0 };

	random_ids(id, ALL);
	CHECK_MSG(timeline_sync(tl, id, BEFORE, NULL, NULL, &err) == 0 &&
	                  timeline_sync(plain, id, BEFORE, NULL, NULL, &err) == 0,
	          "%s", err.msg);
	CHECK_MSG(timeline_evidence_begin(tl, &err) == 0, "%s: %s", kv, err.msg);
	CHECK(timeline_extend(tl, id + BEFORE, AFTER, 1, NULL, NULL, &err) == 0 &&
	      timeline_extend(plain, id + BEFORE, AFTER, 1, NULL, NULL, &err) == 0);
	CHECK_MSG(!memcmp(timeline_logits(tl), timeline_logits(plain), N_VOCAB * sizeof(float)),
	          "%s: watching left a trace", kv);
	for (int h = 0; h < KV_HEADS; h++) {
		one[h] = open_kv(kv, 256, 16);
		CHECK(timeline_sync(one[h], id, BEFORE, NULL, NULL, &err) == 0);
		for (int32_t i = BEFORE; i < ALL; i++) {
			CHECK(timeline_attention(one[h], id[i], layer, h, p, &err) == 0);
			for (int32_t k = 0; k <= i; k++)
				want[k] += p[k] > 0 ? (double)p[k] * (double)p[k] : 0;
		}
		timeline_close(one[h]);
	}
	timeline_evidence(tl, 0, ALL, sum);
	for (int32_t k = 0; k < ALL; k++)
		CHECK_MSG(fabs((double)sum[k] - want[k]) < 1e-4 * (1 + want[k]), "%s: token %d has %g, not %g", kv, k,
		          (double)sum[k], want[k]);
	/* After timeline_evidence_begin() all sums are 0. The sums of tokens that do not exist are 0, too. */
	CHECK(timeline_evidence_begin(tl, &err) == 0);
	timeline_evidence(tl, -2, 4, sum);
	CHECK(sum[0] == 0 && sum[1] == 0 && sum[2] == 0 && sum[3] == 0);
	timeline_evidence_end(tl);
	timeline_evidence(tl, 0, 4, sum);
	CHECK(sum[0] == 0 && sum[3] == 0);
	timeline_close(tl);
	timeline_close(plain);
}

TEST(attention_is_summed_up)
{
	for (int i = 0; i < EVERY; i++)
		squares_along(every[i]);
	squares_along("cascade:size=40,n=4");
}

/* A refused change of policy keeps the timeline's observers. */
TEST(a_refused_change_of_policy_keeps_the_observers)
{
	enum { BEFORE = 60, AFTER = 6 };
	struct timeline *tl = open_kv("sift:k=20", 256, 16);
	struct cache_view v;
	int32_t id[BEFORE + AFTER];
	float before[BEFORE], sum[BEFORE];
	struct err err = { 0 };
	int grown = 0;

	random_ids(id, BEFORE + AFTER);
	CHECK(timeline_evidence_begin(tl, &err) == 0 && timeline_sync(tl, id, BEFORE, NULL, NULL, &err) == 0);
	timeline_view(tl, 10, &v);
	CHECK(timeline_extend(tl, id + BEFORE, 1, 1, NULL, NULL, &err) == 0);
	timeline_evidence(tl, 0, BEFORE, before);
	CHECK(before[0] > 0);
	CHECK(timeline_switch_kv(tl, "cascade:size=41,n=2", &err) < 0 && err.code == ERR_USAGE);
	timeline_evidence(tl, 0, BEFORE, sum);
	CHECK(!memcmp(sum, before, sizeof sum));
	timeline_view(tl, 10, &v);
	CHECK_INT(v.selected, 20);
	CHECK_MSG(timeline_extend(tl, id + BEFORE + 1, AFTER - 1, 1, NULL, NULL, &err) == 0, "%s", err.msg);
	timeline_evidence(tl, 0, BEFORE, sum);
	for (int i = 0; i < BEFORE; i++)
		grown += sum[i] > before[i];
	CHECK(grown > 0);
	CHECK_MSG(timeline_switch_kv(tl, "cascade:size=40,n=2", &err) == 0, "%s", err.msg);
	timeline_evidence(tl, 0, BEFORE, sum);
	CHECK(sum[0] == 0);
	timeline_close(tl);
}

/* Do what open_kv() does, but with KV entries in f32, so that prefill and decode of a token give the same bits. */
static struct timeline *open_f32(const char *policy, int32_t ctx, int32_t batch)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	CHECK_MSG(!timeline_open(&tl, engine(),
	                         &(struct timeline_options){
					 .ctx = ctx, .batch = batch, .kv = policy, .kv_type = "f32" },
	                         &err),
	          "%s", err.msg);
	return tl;
}

/* After a prefill the attention of its last token is reported, whatever the size of the last chunk. */
TEST(attention_of_the_last_read_token)
{
	static const char *const policy[] = { "full", "auto", "cascade:size=40,n=4,stride=16",
		                              "sink:size=40,stride=16" };

	for (size_t i = 0; i < LEN(policy); i++)
		for (int32_t n = 60; n < 64; n += 3) {
			struct timeline *tl = open_f32(policy[i], 256, 16), *one = open_f32(policy[i], 256, 16);
			int32_t id[64], layer = LAYERS / 2;
			float p[64], sum[64];
			double all = 0;
			struct err err = { 0 };

			random_ids(id, n);
			CHECK_MSG(timeline_evidence_begin(tl, &err) == 0 &&
			                  timeline_sync(tl, id, (size_t)n, NULL, NULL, &err) == 0,
			          "%s", err.msg);
			timeline_evidence(tl, 0, n, sum);
			for (int32_t k = 0; k < n; k++)
				all += sqrt((double)sum[k]);
			CHECK_MSG(all > 0.99 && sum[n - 1] > 0, "%s: %g of all", policy[i], all);
			if (i < 2) {
				double want[64] = { 0 };

				for (int h = 0; h < KV_HEADS; h++) {
					CHECK(timeline_sync(one, id, (size_t)n - 1, NULL, NULL, &err) >= 0 &&
					      timeline_attention(one, id[n - 1], layer, h, p, &err) == 0);
					for (int32_t k = 0; k < n; k++)
						want[k] += (double)p[k] * (double)p[k];
				}
				for (int32_t k = 0; k < n; k++)
					CHECK_MSG(fabs((double)sum[k] - want[k]) < 1e-4, "%s: token %d has %g, not %g",
					          policy[i], k, (double)sum[k], want[k]);
			}
			timeline_close(tl);
			timeline_close(one);
		}
}

static void cancel_some(int32_t done, int32_t total, void *ud)
{
	struct timeline *tl = ud;

	(void)total;
	if (done > 20)
		timeline_cancel(tl);
}

struct op {
	int what;
	size_t at, n;
	int32_t pin;
	const char *kv;
};
enum { OP_READ, OP_EDIT, OP_STEP, OP_CANCEL, OP_CANCEL_STEP, OP_PIN, OP_RESUME, OP_SWITCH, OPS };

static void resume(struct timeline **t, const char *kv)
{
	struct timeline *other = open_kv(kv, 300, 24);
	struct str head = { 0 };
	struct err err = { 0 };
	int32_t n = timeline_entries_ready(*t);
	void *rows = xmalloc((size_t)n * timeline_token_bytes(*t, 1) + 1);

	CHECK_MSG(!timeline_entries_save(*t, 0, n, 1, rows, &err) && !timeline_head_save(*t, &head, &err), "%s: %s", kv,
	          err.msg);
	if (!n || !timeline_entries_load(other, 0, n, 1, rows, &err))
		CHECK_MSG(!timeline_head_load(other, head.p, head.n, &err), "%s: %s", kv, err.msg);
	timeline_close(*t);
	*t = other;
	free(rows);
	str_free(&head);
}

static void act(struct timeline **at, const struct op *o, const char *kv, int32_t *id)
{
	struct timeline *tl = *at;
	struct sampling s = sampling_default;
	struct step_out out;
	struct err err = { 0 };
	size_t n;
	const int32_t *had = timeline_tokens(tl, &n);
	size_t to = (o->what == OP_EDIT ? o->at % (n + 1) : n) + o->n;

	memcpy(id, had ? had : id, n * sizeof *id);
	for (size_t i = to - o->n; i < to; i++)
		id[i] = 3 + (int32_t)((i * 7919 + o->at) % (N_VOCAB - 3));
	to = to < (size_t)tl->cache.limit ? to : (size_t)tl->cache.limit;
	sampling_seed(&s, o->at);
	switch (o->what) {
	case OP_PIN: timeline_pin(tl, o->pin, &err); break;
	case OP_RESUME:
		if (tl->mixed_from < 0)
			resume(at, kv);
		return;
	case OP_SWITCH:
		CHECK_MSG(timeline_switch_kv(tl, o->kv, &err) == 0 && timeline_switch_kv(tl, kv, &err) == 0, "%s: %s",
		          o->kv, err.msg);
		break;
	case OP_CANCEL: timeline_sync(tl, id, to, cancel_some, tl, &err); break;
	case OP_CANCEL_STEP:
		timeline_cancel(tl);
		timeline_step(tl, &s, &out, &err);
		break;
	case OP_STEP:
		for (size_t i = 0; i < o->n && timeline_logits(tl); i++)
			if (timeline_step(tl, &s, &out, &err) < 1)
				break;
		break;
	default: CHECK_MSG(timeline_sync(tl, id, to, NULL, NULL, &err) >= 0, "%s: %s", kv, err.msg);
	}
	timeline_resume(tl);
}

static int same_heads(struct timeline *a, struct timeline *b)
{
	struct str x = { 0 }, y = { 0 };
	struct err err;
	int same = !timeline_head_save(a, &x, &err) && !timeline_head_save(b, &y, &err) && x.n == y.n &&
	           !memcmp(x.p, y.p, x.n);

	str_free(&x);
	str_free(&y);
	return same;
}

/* Two timelines get the same calls, and only one is viewed: tokens, logits and snapshots must be equal. */
TEST(a_view_changes_nothing)
{
	static int32_t id[4096];
	static struct cache_view v;
	int views = 0;

	for (int k = 0; k < EVERY; k++) {
		struct timeline *tl[2] = { open_kv(every[k], 300, 24), open_kv(every[k], 300, 24) };

		check_view(tl[0], 256, &v, every[k]);
		CHECK(v.cols == 0 && v.n_tokens == 0);
		for (int i = 0; i < 60 * soak(); i++) {
			struct op o = { .what = (int)(test_rand() % OPS),
				        .at = test_rand() % 4096,
				        .n = 1 + test_rand() % 60,
				        .pin = (int32_t)(test_rand() % 130),
				        .kv = every[test_rand() % EVERY] };
			const float *a, *b;

			if (tl[0]->tokens.n > 2500)
				o.what = OP_EDIT;
			if (o.what > OP_CANCEL_STEP && test_rand() % 3)
				o.what = OP_STEP;
			for (int x = 0; x < 2; x++)
				act(&tl[x], &o, every[k], id);
			for (int x = (int)(test_rand() % 3); x > 0; x--, views++)
				check_view(tl[0], (int32_t)(test_rand() % 300) - 10, &v, every[k]);
			CHECK_INT(tl[0]->tokens.n, tl[1]->tokens.n);
			CHECK(!tl[0]->tokens.n ||
			      !memcmp(tl[0]->tokens.id, tl[1]->tokens.id, tl[0]->tokens.n * sizeof *id));
			a = timeline_logits(tl[0]);
			b = timeline_logits(tl[1]);
			CHECK_MSG(!a == !b && (!a || !memcmp(a, b, N_VOCAB * sizeof *a)),
			          "%s: other logits after a view", every[k]);
			CHECK_MSG(same_heads(tl[0], tl[1]), "%s: another state after a view", every[k]);
		}
		timeline_close(tl[0]);
		timeline_close(tl[1]);
	}
	test_note("%d views of %d policies", views, EVERY);
}

/* Generate up to the last token of the context; generating the next token fails. */
TEST(the_end_of_the_context)
{
	static const char *const kv[] = { "full", "sift:k=12", "h2o:k=10", "quest:k=32" };

	for (int i = 0; i < 4; i++) {
		struct timeline *tl = open_kv(kv[i], 70, 16);
		struct sampling s = sampling_default;
		struct cache_view v;
		struct step_out out;
		struct err err = { 0 };
		int32_t id[70];

		random_ids(id, 70);
		CHECK(timeline_sync(tl, id, 60, NULL, NULL, &err) == 0);
		for (int k = 0; k < 12; k++) {
			int rc = timeline_step(tl, &s, &out, &err);

			check_view(tl, 64, &v, kv[i]);
			if (rc == 0)
				generate(tl, tl->tokens.n < 70);
		}
		check_view(tl, 70, &v, kv[i]);
		CHECK_INT(v.n_tokens, 70);
		CHECK_INT(v.kept[69], 255);
		timeline_close(tl);
	}
}

/* ---- what it costs ---- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

SOAK_TEST(what_a_view_costs_with_8000_tokens)
{
	static const char *const kv[] = { "auto", "cascade:size=4096", "sift" };
	static int32_t id[8000];
	struct engine *e = NULL;
	struct err err = { 0 };

	if (engine_open(&e, &(struct engine_options){ .model_path = test_model() }, &err))
		test_skip("%s", err.msg);
	for (int i = 0; i < 8000; i++)
		id[i] = 100 + (int32_t)(test_rand() % 40000);
	for (size_t i = 0; i < LEN(kv); i++) {
		struct timeline *tl = NULL;
		struct cache_view v;
		double took[21];

		if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = 8192, .kv = kv[i] }, &err) ||
		    timeline_sync(tl, id, 7900, NULL, NULL, &err) < 0)
			test_skip("%s", err.msg);
		timeline_view(tl, VIEW_COLS, &v);
		for (int k = 0; k < 21; k++) {
			generate(tl, 1);
			timeline_view(tl, VIEW_COLS, &v);
			took[k] = v.seconds * 1e3;
		}
		qsort(took, 21, sizeof *took, by_size);
		test_note("%s: median %.2f ms, best %.2f, worst %.2f", kv[i], took[10], took[0], took[20]);
		CHECK_MSG(took[0] < 5 * test_patience(), "%s: a view takes %.2f ms", kv[i], took[0]);
		timeline_close(tl);
	}
	engine_close(e);
}
