/* tests/engine/t_kvzip.c - the policy `kvzip`: which entries it selects, compared with scores computed in double; and
 * that a repetition that is stopped leaves no trace. Rollbacks, snapshots and families are tested with those of all
 * policies. */
#include "tests/lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/observe/observe.h"
#include "engine/timeline/timeline.h"
#include "tests/lib/tiny.h"

enum { CTX = 512, PROMPT = 300, MORE = 90, BATCH = 100 };

static struct timeline *open_kv(const char *kv, int threads, const char *type)
{
	static struct engine *e[4];
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (!e[threads])
		e[threads] = tiny_open(&tiny_families[0], threads, TRAINED, 10000);
	CHECK_MSG(!timeline_open(&tl, e[threads],
	                         &(struct timeline_options){ .ctx = CTX, .kv = kv, .kv_type = type, .batch = BATCH },
	                         &err),
	          "%s: %s", kv, err.msg);
	return tl;
}

static const int32_t *some_tokens(void)
{
	static int32_t id[PROMPT + MORE];

	for (int i = 0; i < PROMPT + MORE; i++)
		id[i] = 3 + (int32_t)(test_rand() % 60);
	return id;
}

/* Observes repetitions: computes the score of each slot in double, and can stop one. */
struct watch {
	struct observer base;
	struct timeline *tl;
	double *score; /* [LAYERS][KV_HEADS][CTX] largest probability of each slot */
	int32_t repeated, steps, stop_at;
};

/* Raise the scores of one KV head by the probabilities that one query gives to the first n slots. */
static void query_scores(const float *q, const float *k, int32_t n, double *score)
{
	double p[CTX], m = -INFINITY, sum = 0;

	for (int32_t i = 0; i < n; i++) {
		p[i] = 0;
		for (int j = 0; j < HEAD; j++)
			p[i] += (double)q[j] * k[i * HEAD + j] / sqrt(HEAD);
		m = fmax(m, p[i]);
	}
	for (int32_t i = 0; i < n; i++)
		sum += exp(p[i] - m);
	for (int32_t i = 0; i < n; i++)
		score[i] = fmax(score[i], exp(p[i] - m) / sum);
}

static void watch_attended(struct observer *o, const struct attention *a)
{
	struct watch *w = (struct watch *)o;
	static float q[BATCH * HEADS * HEAD], k[CTX * HEAD];
	struct backend *be = a->c->be;
	int32_t n = a->st->n;

	if (!a->st->repeated)
		return;
	if (!a->layer) {
		w->repeated += a->st->repeated;
		if (w->steps++ == w->stop_at)
			timeline_cancel(w->tl);
	}
	be->ops->read(be, a->r->q, 0, q, (size_t)n * HEADS * HEAD * sizeof *q);
	for (int h = 0; h < KV_HEADS; h++) {
		be->ops->read(be, &a->c->kv.k[a->layer], (size_t)h * CTX * HEAD * sizeof *k, k, sizeof k);
		for (int32_t i = n - a->st->repeated; i < n; i++)
			for (int g = 0; g < HEADS / KV_HEADS; g++)
				query_scores(q + ((size_t)i * HEADS + (size_t)(h * (HEADS / KV_HEADS) + g)) * HEAD, k,
				             a->r->n_slots - (n - 1 - i),
				             w->score + (size_t)(a->layer * KV_HEADS + h) * CTX);
	}
}

static void watch_commit(struct observer *o, const struct step *st)
{
}

static int32_t watch_rewind(struct observer *o, int32_t n)
{
	return n;
}

static const struct observer_ops watch_ops = { watch_attended, watch_commit, watch_rewind, NULL };

static void watch_open(struct watch *w, struct timeline *tl, int32_t stop_at)
{
	*w = (struct watch){ .base = { .ops = &watch_ops }, .tl = tl, .stop_at = stop_at };
	w->score = xcalloc(LAYERS * KV_HEADS * CTX, sizeof *w->score);
	observer_add(&tl->cache.observers, &w->base);
}

static void watch_close(struct watch *w)
{
	w->tl->cache.observers = NULL;
	free(w->score);
}

static int descending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Check the lists of slots from .. to - 1 against the scores: `mean` slots per head are those of the largest scores. */
static void check_lists(const struct watch *w, int32_t from, int32_t to, int32_t mean, const char *at)
{
	const struct selector *s = &w->tl->cache.sel;
	enum { HEADS_ALL = LAYERS * KV_HEADS };
	static double sorted[HEADS_ALL * CTX];
	int32_t n = 0, least = CTX, most = 0, total = 0;
	double cut;

	for (int h = 0; h < HEADS_ALL; h++)
		for (int32_t i = from; i < to; i++)
			sorted[n++] = i < 4 ? 2 : w->score[h * CTX + i];
	qsort(sorted, (size_t)n, sizeof *sorted, descending);
	cut = sorted[mean * HEADS_ALL - 1];
	for (int l = 0; l < LAYERS; l++) {
		struct attn_segment seg[SELECT_SEGMENTS];

		CHECK_INT(s->ops->holds(s, l, to, seg), 2);
		CHECK_INT(seg[1].slot0, to);
		for (int h = 0; h < KV_HEADS; h++) {
			int32_t slot[CTX], length = kv_list_length(s->kv, &seg[0], h), listed = 0;
			uint8_t in[CTX] = { 0 };

			CHECK(length <= seg[0].n_slots);
			s->kv->be->ops->read(s->kv->be, seg[0].slots, 4 * (size_t)h * (size_t)seg[0].slots->cols, slot,
			                     4 * (size_t)seg[0].n_slots);
			for (int32_t i = 0; i < length; i++) {
				CHECK_MSG(slot[i] >= 0 && slot[i] < to && (!i || slot[i] > slot[i - 1]), "%s: slot %d",
				          at, slot[i]);
				in[slot[i]] = 1;
				listed += slot[i] >= from;
			}
			for (int32_t i = length; i < seg[0].n_slots; i++)
				CHECK_INT(slot[i], 0);
			for (int32_t i = from; i < to; i++) {
				double x = i < 4 ? 2 : w->score[(l * KV_HEADS + h) * CTX + i];

				CHECK_MSG(fabs(x - cut) < 1e-4 * cut || in[i] == (x > cut),
				          "%s: layer %d, head %d, slot %d: score %g, %g selects", at, l, h, i, x, cut);
			}
			total += listed;
			least = MIN(least, listed);
			most = MAX(most, listed);
		}
	}
	CHECK_MSG(abs(total - mean * HEADS_ALL) <= 1, "%s: %d slots selected, not %d", at, total, mean * HEADS_ALL);
	CHECK_MSG(least < most, "%s: all heads have %d slots", at, most);
}

TEST(the_repetition_selects)
{
	const int32_t *id = some_tokens();
	struct timeline *tl = open_kv("kvzip:k=1/5", 2, "f32");
	struct sampling s = sampling_default;
	struct step_out out;
	struct err err = { 0 };
	struct watch w;

	watch_open(&w, tl, -1);
	CHECK_MSG(!timeline_sync(tl, id, PROMPT, NULL, NULL, &err), "%s", err.msg);
	CHECK_INT(w.repeated, PROMPT);
	CHECK(w.steps > 3);
	check_lists(&w, 0, PROMPT, PROMPT / 5, "first section");
	for (int i = 0; i < 7; i++)
		CHECK(timeline_step(tl, &s, &out, &err) == 1);
	memset(w.score, 0, LAYERS * KV_HEADS * CTX * sizeof *w.score);
	w.repeated = 0;
	CHECK_MSG(!timeline_extend(tl, id + PROMPT, MORE, 0, NULL, NULL, &err), "%s", err.msg);
	CHECK_INT(w.repeated, 7 + MORE);
	check_lists(&w, PROMPT, PROMPT + 7 + MORE, (7 + MORE) / 5, "second section");
	/* few tokens more are read whole */
	CHECK_MSG(!timeline_extend(tl, id, 20, 0, NULL, NULL, &err), "%s", err.msg);
	CHECK_INT(w.repeated, 7 + MORE);
	watch_close(&w);
	timeline_close(tl);
}

/* Check that two sequences have the same logits and snapshots. */
static void check_same(struct timeline *a, struct timeline *b, const char *at)
{
	struct str x = { 0 }, y = { 0 };
	struct err err = { 0 };

	CHECK_MSG(timeline_logits(a) && timeline_logits(b) &&
	                  !memcmp(timeline_logits(a), timeline_logits(b), N_VOCAB * sizeof(float)),
	          "%s: other logits", at);
	CHECK_MSG(!timeline_head_save(a, &x, &err) && !timeline_head_save(b, &y, &err), "%s: %s", at, err.msg);
	CHECK_MSG(x.n == y.n && !memcmp(x.p, y.p, x.n), "%s: other snapshots", at);
	str_free(&x);
	str_free(&y);
}

TEST(a_stopped_repetition_is_made_again)
{
	const int32_t *id = some_tokens();

	for (int stop = 0; stop < 5; stop++) {
		struct timeline *a = open_kv("kvzip", 2, "f32"), *b = open_kv("kvzip", 1 + stop % 3, "f32");
		struct err err = { 0 };
		struct watch w;

		watch_open(&w, a, stop);
		CHECK(timeline_sync(a, id, PROMPT, NULL, NULL, &err) < 0 && err.code == ERR_CANCELLED);
		timeline_resume(a);
		CHECK(!timeline_logits(a));
		CHECK_MSG(timeline_sync(a, id, PROMPT, NULL, NULL, &err) == PROMPT - 1, "%s", err.msg);
		watch_close(&w);
		CHECK_MSG(!timeline_sync(b, id, PROMPT, NULL, NULL, &err), "%s", err.msg);
		check_same(a, b, "after a stop");
		CHECK(!timeline_extend(a, id, 40, 1, NULL, NULL, &err) &&
		      !timeline_extend(b, id, 40, 1, NULL, NULL, &err));
		check_same(a, b, "40 tokens later");
		timeline_close(a);
		timeline_close(b);
	}
}

/* Where the context has no room for a repetition, everything is read. */
TEST(a_full_context_is_read_whole)
{
	const int32_t *id = some_tokens();
	struct timeline *a = open_kv("kvzip", 2, "f16"), *b = open_kv("full", 2, "f16");
	int32_t all[CTX];
	struct err err = { 0 };

	for (int i = 0; i < CTX; i++)
		all[i] = id[i % PROMPT];
	CHECK_MSG(!timeline_sync(a, all, CTX - 20, NULL, NULL, &err) &&
	                  !timeline_sync(b, all, CTX - 20, NULL, NULL, &err),
	          "%s", err.msg);
	CHECK(!timeline_extend(a, all, 10, 1, NULL, NULL, &err) && !timeline_extend(b, all, 10, 1, NULL, NULL, &err));
	CHECK(!memcmp(timeline_logits(a), timeline_logits(b), N_VOCAB * sizeof(float)));
	timeline_close(a);
	timeline_close(b);
}
