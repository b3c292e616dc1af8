/* tests/engine/t_snapshot.c - a sequence that is saved and loaded continues bit for bit, under every cache policy,
 * wherever it is cut.
 *
 * A timeline gets random calls (its life); at some point it is saved, and a second timeline loads it. From then on both
 * get the same calls, and every token, logit and result must be equal. WEIR_SOAK=N: N times as many save points, at
 * least 1,000. Damaged heads are tested, too: flipped and missing bytes, also with a right checksum. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/base.h"
#include "engine/engine_snapshot.h"
#include "tests/lib/predictor.h"
#include "tests/lib/tiny.h"
#include "engine/lab/lab.h"

static struct engine *open_tiny(int family, int threads)
{
	struct engine *e = tiny_open(&tiny_families[family], threads, TRAINED, 10000);

	predictor_put_for(e);
	return e;
}

/* ---- saving and loading ---- */

struct saved {
	struct str rows, head;
	int32_t ready;
};

static void saved_free(struct saved *s)
{
	str_free(&s->rows);
	str_free(&s->head);
}

/* Save a timeline, its entries in pieces of random size. */
static int save(struct timeline *tl, struct saved *s, struct err *err)
{
	size_t row = timeline_token_bytes(tl, 1);

	*s = (struct saved){ .ready = timeline_entries_ready(tl) };
	for (int32_t at = 0, n; at < s->ready; at += n) {
		char *piece;

		n = 1 + (int32_t)(test_rand() % 300);
		n = n < s->ready - at ? n : s->ready - at;
		piece = xmalloc(row * (size_t)n);
		if (timeline_entries_save(tl, at, n, 1, piece, err))
			return -1;
		str_add(&s->rows, &n, sizeof n);
		str_add(&s->rows, piece, row * (size_t)n);
		free(piece);
	}
	return timeline_head_save(tl, &s->head, err);
}

static int load_rows(struct timeline *tl, const struct saved *s, struct err *err)
{
	size_t row = timeline_token_bytes(tl, 1), at = 0;
	int32_t n;

	for (int32_t first = 0; at < s->rows.n; first += n, at += sizeof n + row * (size_t)n) {
		memcpy(&n, s->rows.p + at, sizeof n);
		if (timeline_entries_load(tl, first, n, 1, s->rows.p + at + sizeof n, err))
			return -1;
	}
	return 0;
}

static int load(struct timeline *tl, const struct saved *s, struct err *err)
{
	return load_rows(tl, s, err) || timeline_head_load(tl, s->head.p, s->head.n, err) ? -1 : 0;
}

/* ---- two timelines that must be one ---- */

struct life {
	struct engine *e;
	const char *kv, *type;
	int32_t ctx, batch, pin, n_vocab;
	struct timeline *tl[2]; /* tl[1]: the loaded timeline, from the save point on */
	struct sampling s[2];
	int twins;
	char at[160]; /* the current place, for messages */
};

static struct timeline *open_life(const struct life *l)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (timeline_open(&tl, l->e,
	                  &(struct timeline_options){
				  .ctx = l->ctx, .batch = l->batch, .kv = l->kv, .kv_type = l->type },
	                  &err))
		test_skip("%s: %s", l->kv, err.msg);
	return tl;
}

static void same_state(struct life *l)
{
	struct timeline_stats a, b;
	size_t n, m;
	const int32_t *x, *y;
	const uint8_t *p, *q;
	const float *u, *v;

	if (!l->twins)
		return;
	x = timeline_tokens(l->tl[0], &n);
	y = timeline_tokens(l->tl[1], &m);
	CHECK_MSG(n == m && (!n || !memcmp(x, y, n * sizeof *x)), "%s: other tokens (%zu, %zu)", l->at, n, m);
	p = timeline_marks(l->tl[0], &n);
	q = timeline_marks(l->tl[1], &m);
	CHECK_MSG(n == m && (!n || !memcmp(p, q, n)), "%s: other marks (%zu, %zu)", l->at, n, m);
	CHECK_MSG(timeline_entries_ready(l->tl[0]) == timeline_entries_ready(l->tl[1]), "%s: %d entries ready, not %d",
	          l->at, timeline_entries_ready(l->tl[1]), timeline_entries_ready(l->tl[0]));
	u = timeline_logits(l->tl[0]);
	v = timeline_logits(l->tl[1]);
	CHECK_MSG(!u == !v && (!u || !memcmp(u, v, (size_t)l->n_vocab * sizeof *u)), "%s: other logits", l->at);
	timeline_stats(l->tl[0], &a);
	timeline_stats(l->tl[1], &b);
	CHECK_MSG(!memcmp(&a.rings, &b.rings, sizeof a.rings) && a.ctx == b.ctx, "%s: other rings", l->at);
	CHECK_MSG(timeline_read_bytes(l->tl[0], a.rings.seen, 1) == timeline_read_bytes(l->tl[1], a.rings.seen, 1),
	          "%s: other bytes to read", l->at);
}

static void sync_both(struct life *l, const int32_t *id, size_t n)
{
	int32_t kept[2] = { 0, 0 };
	struct err err = { 0 };

	for (int i = 0; i <= l->twins; i++)
		if ((kept[i] = timeline_sync(l->tl[i], id, n, NULL, NULL, &err)) < 0)
			CHECK_MSG(0, "%s: sync: %s", l->at, err.msg);
	CHECK_MSG(!l->twins || kept[0] == kept[1], "%s: %d tokens reused, not %d", l->at, kept[1], kept[0]);
	same_state(l);
}

static void step_both(struct life *l, int steps)
{
	struct step_out out[2];
	struct err err = { 0 };
	const int32_t other = 5;
	int rc[2];

	for (int k = 0; k < steps; k++) {
		for (int i = 0; i <= l->twins; i++)
			if ((rc[i] = timeline_step(l->tl[i], &l->s[i], &out[i], &err)) < 0) {
				CHECK_MSG(err.code == ERR_FIT, "%s: step %d: %s", l->at, k, err.msg);
				return;
			} else if (!rc[i] && timeline_extend(l->tl[i], &other, 1, 1, NULL, NULL, &err)) {
				CHECK_MSG(err.code == ERR_FIT, "%s: %s", l->at, err.msg);
				return;
			}
		if (l->twins && (rc[0] != rc[1] || out[0].id != out[1].id)) {
			CHECK_MSG(0, "%s: step %d gives token %d, not %d", l->at, k, out[1].id, out[0].id);
			return;
		}
	}
	/* Decode one more token, so that the last sampled token gets its entry and the logits depend on the whole
	 * cache. */
	for (int i = 0; i <= l->twins; i++)
		if (test_rand() % 2 || l->twins)
			timeline_extend(l->tl[i], &other, 1, 1, NULL, NULL, &err);
	same_state(l);
}

/* Keep the first `keep` tokens, and prefill n new ones. */
static void read_on(struct life *l, size_t keep, int32_t n)
{
	struct tokens id = { 0 };
	size_t have, most = l->ctx - 2;
	const int32_t *now = timeline_tokens(l->tl[0], &have);
	struct timeline_stats st;

	timeline_stats(l->tl[0], &st);
	keep = MIN(keep, have);
	tokens_append(&id, now, keep);
	for (int32_t i = 0; i < n; i++)
		tokens_add(&id, 3 + (int32_t)(test_rand() % (uint64_t)(l->n_vocab - 3)));
	if (!st.endless && id.n > most)
		id.n = most;
	sync_both(l, id.id, id.n);
	tokens_free(&id);
}

static void something(struct life *l, int32_t scale)
{
	size_t have;

	timeline_tokens(l->tl[0], &have);
	switch (test_rand() % 6) {
	case 0:
	case 1: read_on(l, have, 1 + (int32_t)(test_rand() % (uint64_t)scale)); break;
	case 2: /* an edit */ read_on(l, have ? test_rand() % have : 0, 1 + (int32_t)(test_rand() % 40)); break;
	case 3: /* fewer */ read_on(l, have > 3 ? have - test_rand() % 3 : have, 0); break;
	default: step_both(l, 1 + (int)(test_rand() % (uint64_t)scale)); break;
	}
}

static void begin(struct life *l, uint64_t seed)
{
	struct err err = { 0 };

	l->tl[0] = open_life(l);
	l->twins = 0;
	l->s[0] = sampling_default;
	if (seed % 2)
		l->s[0].temperature = 0;
	else
		l->s[0].temperature = 1.2f;
	sampling_seed(&l->s[0], seed);
	if (l->pin && timeline_pin(l->tl[0], l->pin, &err))
		CHECK_MSG(0, "%s: %s", l->kv, err.msg);
}

/* Save the timeline and load it into a second one, which gets the same calls from now on. Returns 1 if that worked. */
static int part(struct life *l)
{
	struct saved s;
	struct err err = { 0 };
	int failed = save(l->tl[0], &s, &err);

	CHECK_MSG(!failed, "%s: saving: %s", l->at, err.msg);
	l->tl[1] = open_life(l);
	l->s[1] = l->s[0];
	l->twins = 1;
	if (!failed) {
		failed = load(l->tl[1], &s, &err);
		CHECK_MSG(!failed, "%s: loading: %s", l->at, err.msg);
	}
	saved_free(&s);
	same_state(l);
	return failed;
}

static void end(struct life *l)
{
	timeline_close(l->tl[0]);
	if (l->twins)
		timeline_close(l->tl[1]);
}

static const struct {
	const char *kv;
	int32_t ctx, batch, pin, scale;
} lives[] = {
	{ "full", 1024, 64, 0, 200 },
	{ "full", 700, 7, 0, 60 },
	{ "sift:k=40", 1024, 64, 0, 200 },
	{ "sift:k=24,sample=16", 1024, 64, 0, 200 },
	{ "sift:k=1/8,bits=4", 1024, 64, 0, 200 },
	{ "sift:k=32,split=even,bits=16", 900, 100, 0, 150 },
	{ "refresh:k=40", 1024, 64, 0, 200 },
	{ "refresh:k=40,qc=1,s=0.2", 1024, 64, 0, 150 },
	{ "refresh:k=40,qc=7,s=2", 1024, 64, 0, 150 },
	{ "refresh:k=1/16,scan=kv,qc=2,s=0.99", 1024, 64, 0, 150 },
	{ "recycled:k=30,stride=4", 1024, 64, 0, 150 },
	{ "streaming++:size=50,stride=6", 1024, 64, 0, 150 },
	{ "quest:k=64", 1024, 64, 0, 200 },
	{ "quest:k=64,bound=raw", 1024, 64, 0, 200 },
	{ "quest:k=72,page=8", 1024, 64, 0, 200 },
	{ "quest:k=64,page=64,bound=raw", 1024, 64, 0, 200 },
	{ "reattention:local=272,k=40,pool=3", 1024, 64, 0, 150 },
	{ "h2o:k=40", 1024, 64, 0, 150 },
	{ "h2o+:k=40,dense=1", 1024, 200, 0, 150 },
	{ "snapkv:k=50", 1024, 64, 0, 150 },
	{ "predict:k=60,block=4,first=8,last=16,rows=16,dense=1", 1024, 64, 0, 150 },
	{ "predict:k=64,first=16,last=16,calibrate=3", 900, 200, 0, 150 },
	{ "predict:k=48,block=1,first=4,last=16,by=mixed,rows=40", 1024, 20, 0, 150 },
	{ "snapkv:k=40,window=1", 1024, 64, 0, 150 },
	{ "kvzip", 1024, 64, 0, 150 },
	{ "kvzip:k=30", 1024, 200, 0, 150 },
	{ "sink:size=100,stride=32", 1024, 64, 0, 200 },
	{ "sink:size=700,stride=32", 1024, 64, 0, 100 },
	{ "cascade:size=96,stride=32", 1024, 64, 0, 200 },
	{ "cascade:size=96,n=3,f=3,heads=layer,sinks=0,stride=64", 1024, 64, 0, 200 },
	{ "cascade:size=120,n=4,score=surprise,stride=30", 1024, 64, 0, 200 },
	{ "cascade:size=64,n=2,select=0,stride=16", 1024, 64, 0, 200 },
	{ "cascade:size=96,n=8,reduce=median,stride=64", 1024, 64, 0, 200 },
	{ "cascade:size=800,stride=64", 1024, 64, 0, 100 },
	{ "auto", 256, 64, 0, 150 },
	{ "auto", 2000, 200, 0, 200 },
	{ "auto:k=20,sample=10", 400, 64, 150, 100 },
	{ "auto:k=20,sample=0,size=64", 600, 64, 200, 100 },
	{ "auto:prefix=refresh,k=30,size=80", 600, 64, 200, 100 },
	{ "auto:prefix=full", 400, 64, 120, 150 },
};
enum { LIVES = LEN(lives) };

static int soak(void)
{
	const char *s = getenv("WEIR_SOAK");

	return s && strtol(s, NULL, 10) > 0 ? (int)strtol(s, NULL, 10) : 0;
}

/* Run random calls under the settings lives[which], save and load at a random point, and compare both timelines. */
static void live(struct life l, int which, int i)
{
	l.kv = lives[which].kv;
	l.ctx = lives[which].ctx;
	l.batch = lives[which].batch;
	l.pin = lives[which].pin;
	snprintf(l.at, sizeof l.at, "point %d, %s, %s, %s", i, engine_info(l.e)->name, l.kv, l.type);
	begin(&l, (uint64_t)i + 1);
	read_on(&l, 0, 1 + (int32_t)(test_rand() % (uint64_t)(2 * lives[which].scale)));
	for (int k = (int)(test_rand() % 6); k > 0; k--)
		something(&l, lives[which].scale);
	if (!part(&l)) {
		step_both(&l, 64 + (int)(test_rand() % (soak() ? 193 : 33)));
		for (int k = 0; k < 3; k++)
			something(&l, lives[which].scale);
		step_both(&l, 10);
	}
	end(&l);
}

TEST(what_was_loaded_goes_on_bit_for_bit)
{
	static const char *const types[] = { "f16", "f32", "q8_0", "q4_0", "k=q8_0,v=q4_0" };
	int points = soak() ? (150 * soak() > 1000 ? 150 * soak() : 1000) : 5 * LIVES;
	struct engine *e[FAMILIES];

	for (int i = 0; i < FAMILIES; i++)
		e[i] = open_tiny(i, 1 + i % 2);
	for (int i = 0; i < points; i++) {
		int which = i % LIVES, round = i / LIVES;

		live((struct life){ .e = e[(round + which) % FAMILIES],
		                    .type = types[(round + which / 3) % LEN(types)],
		                    .n_vocab = N_VOCAB },
		     which, i);
	}
	test_note("%d save points", points);
	for (int i = 0; i < FAMILIES; i++)
		engine_close(e[i]);
}

/* Save, load and compare as above, with models of families that have sliding windows, experts, sinks or recurrent
 * states. */
TEST(families_go_on_bit_for_bit)
{
	/* models trained with contexts that are long enough for all lives */
	static const char *const name[] = { "olmo3",   "lfm2",   "gemma4",    "gpt-oss",
		                            "lfm2moe", "qwen35", "qwen35moe", "granitehybrid" };
	enum { N = LEN(name) };
	int points = soak() ? 1000 : 2 * LIVES;
	struct engine *e[N];

	for (int i = 0; i < N; i++) {
		struct err err = { 0 };
		char rel[96];

		snprintf(rel, sizeof rel, "tests/vectors/models/%s.gguf", name[i]);
		if (engine_open(&e[i],
		                &(struct engine_options){
					.model_path = test_file(rel), .device = "cpu", .threads = 1 + i % 2 },
		                &err))
			test_skip("%s", err.msg);
		predictor_put_for(e[i]);
	}
	for (int i = 0; i < points; i++) {
		struct engine *which = e[(i + i / LIVES) % N];

		live((struct life){ .e = which, .type = i % 2 ? "f16" : "f32", .n_vocab = engine_info(which)->n_vocab },
		     i % LIVES, i);
	}
	test_note("%d save points", points);
	for (int i = 0; i < N; i++)
		engine_close(e[i]);
}

/* The policy and the pinned tokens may change before and after saving. A timeline may also be saved between a change of
 * policy and the next prefill. */
TEST(policies_may_change_before_and_after)
{
	static const struct {
		const char *before, *after;
		int32_t pin;
	} v[] = {
		{ "full", "sift:k=30", 0 },
		{ "sift:k=30", "full", 0 },
		{ "quest:k=64", "h2o:k=40", 0 },
		{ "cascade:size=96,stride=32", "full", 0 },
		{ "sift:k=30,bits=4", "refresh:k=30", 0 },
		{ "full", "auto:k=20,sample=10,size=64", 120 },
		{ "auto:k=20,sample=10,size=64", "sift:k=30", 120 },
	};
	struct engine *e = open_tiny(0, 2);
	struct err err = { 0 };

	for (size_t i = 0; i < 2 * LEN(v); i++) {
		struct life l = {
			.e = e, .kv = v[i / 2].before, .type = "f16", .ctx = 600, .batch = 64, .n_vocab = N_VOCAB
		};

		snprintf(l.at, sizeof l.at, "%s, then %s", l.kv, v[i / 2].after);
		begin(&l, i);
		read_on(&l, 0, 200);
		if (i % 2) { /* changed, then saved */
			CHECK_MSG(!timeline_switch_kv(l.tl[0], v[i / 2].after, &err), "%s: %s", l.at, err.msg);
			l.kv = v[i / 2].after;
		} else {
			step_both(&l, 20);
		}
		if (!part(&l)) {
			for (int k = 0; k < 2 && !(i % 2); k++)
				CHECK_MSG(!timeline_switch_kv(l.tl[k], v[i / 2].after, &err), "%s: %s", l.at, err.msg);
			for (int k = 0; k < 2 && v[i / 2].pin; k++)
				timeline_pin(l.tl[k], v[i / 2].pin, &err);
			same_state(&l);
			for (int k = 0; k < 3; k++) {
				size_t n;

				timeline_tokens(l.tl[0], &n);
				read_on(&l, n, 30);
				step_both(&l, 20);
			}
			for (int k = 0; k < 2; k++)
				timeline_pin(l.tl[k], 60, &err);
			read_on(&l, 130, 30);
			step_both(&l, 20);
		}
		end(&l);
	}
	engine_close(e);
}

static void check_begun(const struct timeline *tl, const char *line)
{
	struct str all = { 0 }, rows = { 0 };

	timeline_identity(tl, &all);
	timeline_entries_identity(tl, &rows);
	for (int i = 0; i < 2; i++) {
		const char *at = strstr(i ? rows.p : all.p, "begun by ");

		CHECK_MSG(*line ? at && !strcmp(at, line) : !at, "'%s', not '%s'", at ? at : "", line);
	}
	str_free(&all);
	str_free(&rows);
}

/* As long as a sequence has loaded entries, both its identities name the kernels that computed these entries, because
 * later results depend on them. */
TEST(begun_by_others_is_told_apart)
{
	struct engine *e = open_tiny(0, 1);
	struct life l = { .e = e, .kv = "full", .type = "f16", .ctx = 600, .batch = 64, .n_vocab = N_VOCAB };
	struct err err = { 0 };
	struct saved s;

	begin(&l, 1);
	check_begun(l.tl[0], "");
	timeline_begun(l.tl[0], "cpu x", 5, 10); /* the cache has no tokens, so nothing is recorded */
	check_begun(l.tl[0], "");
	read_on(&l, 0, 100);
	timeline_begun(l.tl[0], "cpu x", 5, INT32_MAX);
	check_begun(l.tl[0], "begun by cpu x until 100\n");
	timeline_begun(l.tl[0], "cpu and more", 3, 90);
	check_begun(l.tl[0], "begun by cpu until 90\n");
	step_both(&l, 20);
	check_begun(l.tl[0], "begun by cpu until 90\n");
	/* A head does not record these kernels: the caller that loads it reports them. */
	CHECK_INT(save(l.tl[0], &s, &err), 0);
	l.tl[1] = open_life(&l);
	CHECK_MSG(load(l.tl[1], &s, &err) == 0, "%s", err.msg);
	check_begun(l.tl[1], "");
	timeline_begun(l.tl[1], "cpu", 3, 90);
	timeline_close(l.tl[1]);
	read_on(&l, 95, 5);
	check_begun(l.tl[0], "begun by cpu until 90\n");
	read_on(&l, 60, 40);
	check_begun(l.tl[0], "begun by cpu until 60\n");
	CHECK(timeline_sync(l.tl[0], NULL, 0, NULL, NULL, &err) >= 0);
	check_begun(l.tl[0], "");
	saved_free(&s);
	end(&l);
	engine_close(e);
}

/* After a change of policy, tokens generated under the old one keep their entries. The identity then differs, so that
 * no other timeline loads them. */
TEST(mixed_rows_are_told_apart)
{
	struct engine *e = open_tiny(0, 1);
	struct life l = { .e = e, .kv = "sift:k=30", .type = "f16", .ctx = 600, .batch = 64, .n_vocab = N_VOCAB };
	struct str fresh = { 0 }, mixed = { 0 }, again = { 0 };
	struct err err = { 0 };
	struct saved s;

	begin(&l, 1);
	read_on(&l, 0, 100);
	step_both(&l, 20);
	CHECK(!timeline_switch_kv(l.tl[0], "full", &err));
	timeline_identity(l.tl[0], &mixed);
	CHECK_MSG(strstr(mixed.p, "generated under sift") != NULL, "%s", mixed.p);
	CHECK_INT(save(l.tl[0], &s, &err), 0);
	l.kv = "full";
	l.tl[1] = open_life(&l);
	timeline_identity(l.tl[1], &fresh);
	CHECK(strcmp(fresh.p, mixed.p));
	CHECK_INT(load(l.tl[1], &s, &err), -1);
	CHECK_INT(err.code, ERR_FAIL);
	/* After a rollback to prefilled tokens, no entry of the old policy is left. */
	read_on(&l, 60, 40);
	timeline_identity(l.tl[0], &again);
	CHECK_STR(again.p, fresh.p);
	saved_free(&s);
	str_free(&fresh);
	str_free(&mixed);
	str_free(&again);
	l.twins = 1;
	end(&l);
	engine_close(e);
}

/* ---- entries alone ---- */

static void stop_at(int32_t done, int32_t total, void *ud)
{
	void **arg = ud;

	(void)total;
	if (done >= *(int32_t *)arg[1])
		timeline_cancel(arg[0]);
}

/* Replace the end of the text by another one, maybe cancel, maybe generate, and then restore the text. */
static void detour(struct timeline *tl, const int32_t *id, size_t n)
{
	struct sampling s = sampling_default;
	struct tokens other = { 0 };
	struct step_out out;
	struct err err = { 0 };
	int32_t at = (int32_t)(test_rand() % 120);

	sampling_seed(&s, test_rand());
	tokens_append(&other, id, test_rand() % 3 ? test_rand() % n : n);
	for (int k = (int)(test_rand() % 150); k >= 0; k--)
		tokens_add(&other, 3 + (int32_t)(test_rand() % (N_VOCAB - 3)));
	if (test_rand() % 2) {
		timeline_sync(tl, other.id, other.n, stop_at, (void *[]){ tl, &at }, &err);
		timeline_resume(tl);
	} else if (timeline_sync(tl, other.id, other.n, NULL, NULL, &err) >= 0) {
		for (int k = (int)(test_rand() % 20); k > 0 && timeline_step(tl, &s, &out, &err) > 0; k--)
			;
	}
	CHECK_MSG(timeline_sync(tl, id, n, NULL, NULL, &err) >= 0, "%s", err.msg);
	tokens_free(&other);
}

/* Sequences with the same first tokens and the same marks have the same entries, however they were computed. So such
 * sequences may share saved entries. */
TEST(rows_follow_from_tokens_and_marks)
{
	struct engine *e = open_tiny(0, 2);
	int64_t compared = 0, all = 0;

	for (int i = 0; i < (soak() ? 20 : 4) * LIVES; i++) {
		int which = i % LIVES;
		struct life l = { .e = e,
			          .kv = lives[which].kv,
			          .type = "f16",
			          .ctx = lives[which].ctx,
			          .batch = lives[which].batch,
			          .pin = lives[which].pin,
			          .n_vocab = N_VOCAB };
		struct tokens id = { 0 };
		struct err err = { 0 };
		const uint8_t *mark[2];
		uint8_t *rows[2];
		int32_t n = INT32_MAX, same = 0;
		size_t had[2], row;

		begin(&l, 1);
		l.tl[1] = open_life(&l);
		/* The number of pinned tokens matters only for generated tokens. */
		CHECK(!timeline_pin(l.tl[1], l.pin + (l.pin && i / LIVES % 2 ? 7 : 0), &err));
		for (int part_of = 0; part_of < 3; part_of++) {
			/* The stream after the pinned tokens must not overflow the rings. An overflow evicts entries,
			 * and then the entries of later tokens would differ. */
			int32_t reads =
				1 + (int32_t)(test_rand() % (l.pin ? part_of ? 8 : 20 : 150)) + (part_of ? 0 : l.pin);
			int32_t generates = (int32_t)(test_rand() % (l.pin ? 8 : 30));

			for (int32_t k = 0; k < reads; k++)
				tokens_add(&id, 3 + (int32_t)(test_rand() % (N_VOCAB - 3)));
			for (int k = 0; k < 2; k++)
				CHECK_MSG(timeline_sync(l.tl[k], id.id, id.n, NULL, NULL, &err) >= 0, "%s: %s", l.kv,
				          err.msg);
			/* A detour prefills generated tokens, so make it only before the first one is generated. */
			for (int k = (int)(test_rand() % 3); k > 0 && !part_of; k--)
				detour(l.tl[1], id.id, id.n);
			for (int32_t k = 0; k < generates; k++) {
				tokens_add(&id, 3 + (int32_t)(test_rand() % (N_VOCAB - 3)));
				for (int j = 0; j < 2; j++)
					CHECK_MSG(!timeline_extend(l.tl[j], id.id + id.n - 1, 1, 1, NULL, NULL, &err),
					          "%s: %s", l.kv, err.msg);
			}
		}
		for (int k = 0; k < 2; k++) {
			int32_t ready = timeline_entries_ready(l.tl[k]);

			mark[k] = timeline_marks(l.tl[k], &had[k]);
			n = MIN(ready, n);
		}
		row = timeline_token_bytes(l.tl[0], 1);
		for (int k = 0; k < 2; k++) {
			rows[k] = xmalloc(row * (size_t)n);
			CHECK(!timeline_entries_save(l.tl[k], 0, n, 1, rows[k], &err));
		}
		while (same < n && mark[0][same] == mark[1][same])
			same++;
		/* entries are [plane][head][n]: compare the first `same` slots of each head */
		for (size_t k = 0, piece = row / (2 * LAYERS * KV_HEADS); k < 2 * LAYERS * KV_HEADS; k++)
			if (memcmp(rows[0] + k * piece * (size_t)n, rows[1] + k * piece * (size_t)n,
			           piece * (size_t)same)) {
				CHECK_MSG(0, "%s: equal marks of %d tokens, other entries", l.kv, same);
				break;
			}
		compared += same;
		all += n;
		free(rows[0]);
		free(rows[1]);
		tokens_free(&id);
		l.twins = 1;
		end(&l);
	}
	CHECK_MSG(compared > all * 8 / 10, "only %lld of %lld entries can be shared", (long long)compared,
	          (long long)all);
	engine_close(e);
}

/* Entries of a prefill that are loaded without a head are as good as newly prefilled ones. */
TEST(adopted_rows_are_as_good_as_read)
{
	struct engine *e = open_tiny(1, 2);

	for (int i = 0; i < 2 * LIVES; i++) {
		int which = i % LIVES;
		struct life l = { .e = e,
			          .kv = lives[which].kv,
			          .type = i % 2 ? "k=q8_0,v=q4_0" : "f16",
			          .ctx = lives[which].ctx,
			          .batch = lives[which].batch,
			          .pin = lives[which].pin,
			          .n_vocab = N_VOCAB };
		struct tokens id = { 0 };
		struct err err = { 0 };
		struct saved s = { .ready = 0 };
		int32_t kept, read = l.pin ? l.pin + 20 : 90;
		/* 1: what is selected depends on where prefills ended, and loaded entries are no such end */
		int ends = !strncmp(l.kv, "kvzip", 5);

		snprintf(l.at, sizeof l.at, "adopting, %s", l.kv);
		for (int32_t k = 0; k < read + 50; k++)
			tokens_add(&id, 3 + (int32_t)(test_rand() % (N_VOCAB - 3)));
		begin(&l, (uint64_t)i);
		CHECK(timeline_sync(l.tl[0], id.id, (size_t)read, NULL, NULL, &err) >= 0);
		CHECK_INT(save(l.tl[0], &s, &err), 0);
		l.tl[1] = open_life(&l);
		l.s[1] = l.s[0];
		CHECK(!timeline_pin(l.tl[1], l.pin, &err));
		CHECK_MSG(!load_rows(l.tl[1], &s, &err), "%s: %s", l.at, err.msg);
		kept = timeline_adopt(l.tl[1], id.id, NULL, (size_t)s.ready, &err);
		CHECK_MSG(kept >= 0 && kept <= s.ready, "%s: %d of %d adopted: %s", l.at, kept, s.ready, err.msg);
		CHECK_MSG(strstr(l.kv, "h2o:") || kept >= (l.pin                 ? l.pin
		                                           : strchr("ac", *l.kv) ? 0
		                                                                 : read) -
		                                                  64,
		          "%s: only %d of %d adopted", l.at, kept, s.ready);
		CHECK(!timeline_logits(l.tl[1]));
		/* Compare with a timeline that prefills all tokens in the same pieces, or at once. */
		timeline_close(l.tl[0]);
		begin(&l, (uint64_t)i);
		CHECK(ends || timeline_sync(l.tl[0], id.id, (size_t)kept, NULL, NULL, &err) >= 0);
		for (int k = 0; k < 2; k++)
			CHECK_MSG(timeline_sync(l.tl[k], id.id, id.n, NULL, NULL, &err) == (k || !ends ? kept : 0),
			          "%s: %s", l.at, err.msg);
		CHECK_MSG(!memcmp(timeline_logits(l.tl[0]), timeline_logits(l.tl[1]), N_VOCAB * sizeof(float)),
		          "%s: other logits", l.at);
		l.twins = 1;
		for (int k = 0; k < 40; k++) {
			struct step_out out[2];

			for (int j = 0; j < 2; j++)
				if (!timeline_step(l.tl[j], &l.s[j], &out[j], &err))
					timeline_extend(l.tl[j], &(int32_t){ 5 }, 1, 1, NULL, NULL, &err);
			CHECK_MSG(out[0].id == out[1].id, "%s: step %d", l.at, k);
		}
		end(&l);
		saved_free(&s);
		tokens_free(&id);
	}
	engine_close(e);
}

/* ---- what does not fit ---- */

/* If tokens were rolled back before saving, the logits after a missing token are not saved. */
TEST(what_was_forgotten_is_not_saved)
{
	struct engine *e = open_tiny(0, 1);
	struct life l = { .e = e, .kv = "auto", .type = "f16", .ctx = 300, .batch = 64, .pin = 90, .n_vocab = N_VOCAB };
	struct err err = { 0 };

	begin(&l, 1);
	read_on(&l, 0, 250);
	CHECK_MSG(timeline_pin(l.tl[0], 70, &err) == 0, "%s", err.msg);
	CHECK_INT(part(&l), 0);
	CHECK(!timeline_logits(l.tl[1]));
	end(&l);
	engine_close(e);
}

TEST(wrong_orders_are_refused)
{
	struct engine *e = open_tiny(0, 1);
	struct life l = { .e = e, .kv = "full", .type = "f16", .ctx = 300, .batch = 64, .n_vocab = N_VOCAB };
	struct timeline *tl;
	struct err err = { 0 };
	struct saved s;
	struct str out = { 0 };
	size_t n, row;
	int32_t id[100];

	begin(&l, 1);
	tl = l.tl[0];
	read_on(&l, 0, 100);
	memcpy(id, timeline_tokens(tl, &n), sizeof id);
	CHECK_INT(save(tl, &s, &err), 0);
	CHECK_INT(s.ready, 100);
	row = timeline_token_bytes(tl, 1);
	s.rows.n = 0;
	str_add(&s.rows, &(int32_t){ 100 }, 4);
	s.rows.n += 100 * row; /* one piece of 100 entries with arbitrary bytes */
	CHECK_INT(timeline_entries_save(tl, 0, 101, 1, s.rows.p, &err), -1);
	CHECK_INT(timeline_entries_save(tl, -1, 5, 1, s.rows.p, &err), -1);
	CHECK_INT(timeline_entries_save(tl, 101, 0, 1, s.rows.p, &err), -1);
	CHECK_INT(timeline_entries_save(tl, INT32_MAX, INT32_MAX, 1, s.rows.p, &err), -1);
	CHECK_INT(err.code, ERR_USAGE);
	CHECK_INT(timeline_entries_save(tl, 100, 0, 1, s.rows.p, &err), 0);
	CHECK_INT(timeline_entries_save(tl, 0, 100, 1, s.rows.p + 4, &err), 0);
	/* A head is refused if its entries are missing, or if fewer or more entries are loaded. */
	CHECK_INT(timeline_head_load(tl, s.head.p, s.head.n, &err), -1);
	CHECK_INT(err.code, ERR_FAIL);
	timeline_tokens(tl, &n);
	CHECK_INT(n, 0);
	CHECK_INT(timeline_entries_load(tl, 0, 50, 1, s.rows.p + 4, &err), 0);
	CHECK_INT(timeline_head_load(tl, s.head.p, s.head.n, &err), -1);
	CHECK_INT(timeline_entries_load(tl, 0, 100, 1, s.rows.p + 4, &err), 0);
	CHECK_INT(timeline_entries_load(tl, 100, 1, 1, s.rows.p + 4, &err), 0);
	CHECK_INT(timeline_head_load(tl, s.head.p, s.head.n, &err), -1);
	/* Entries with gaps are refused, and more entries than fit. */
	CHECK_INT(timeline_entries_load(tl, 0, 50, 1, s.rows.p + 4, &err), 0);
	CHECK_INT(timeline_entries_load(tl, 60, 10, 1, s.rows.p + 4, &err), -1);
	CHECK_INT(err.code, ERR_USAGE);
	CHECK_INT(timeline_entries_load(tl, 50, 10, 1, s.rows.p + 4, &err), -1);
	CHECK_INT(timeline_entries_load(tl, 0, -1, 1, s.rows.p + 4, &err), -1);
	CHECK_INT(timeline_entries_load(tl, 0, 301, 1, s.rows.p + 4, &err), -1);
	CHECK_INT(err.code, ERR_FIT);
	CHECK_INT(timeline_entries_load(tl, 0, 100, 1, s.rows.p + 4, &err), 0);
	CHECK_INT(timeline_entries_load(tl, 100, INT32_MAX, 1, s.rows.p + 4, &err), -1);
	/* Overwrite loaded entries by a prefill; the head then no longer fits. */
	CHECK_INT(timeline_entries_load(tl, 0, 100, 1, s.rows.p + 4, &err), 0);
	CHECK_INT(timeline_sync(tl, id + 1, 10, NULL, NULL, &err), 0);
	CHECK_INT(timeline_head_load(tl, s.head.p, s.head.n, &err), -1);
	/* timeline_adopt() refuses fewer tokens than entries, invalid tokens, and wrong marks. */
	CHECK_INT(timeline_entries_load(tl, 0, 100, 1, s.rows.p + 4, &err), 0);
	CHECK_INT(timeline_adopt(tl, id, NULL, 99, &err), -1);
	CHECK_INT(timeline_entries_load(tl, 0, 100, 1, s.rows.p + 4, &err), 0);
	id[50] = N_VOCAB;
	CHECK_INT(timeline_adopt(tl, id, NULL, 100, &err), -1);
	id[50] = 50;
	CHECK_INT(timeline_entries_load(tl, 0, 100, 1, s.rows.p + 4, &err), 0);
	CHECK_INT(timeline_adopt(tl, id, (const uint8_t *)s.head.p, 100, &err), -1);
	CHECK_INT(timeline_adopt(tl, id, NULL, 0, &err), 0);
	CHECK_INT(timeline_sync(tl, id, 100, NULL, NULL, &err), 0);
	end(&l);

	/* Load into timelines of another policy, entry type or context. */
	for (int i = 0; i < 4; i++) {
		static const struct {
			const char *kv, *type;
			int32_t ctx;
			enum err_code code;
		} v[] = {
			{ "quest:k=64", "f16", 300, ERR_FAIL },
			{ "full", "f32", 300, ERR_FAIL },
			{ "full", "f16", 99, ERR_FIT },
			{ "full", "f16", 101, ERR_NONE },
		};
		l.kv = v[i].kv;
		l.type = v[i].type;
		l.ctx = v[i].ctx;
		begin(&l, 1);
		err.code = ERR_NONE;
		if (i == 1) /* entries of this type are larger */
			s.rows.p = xrealloc(s.rows.p, s.rows.cap = 4 + 2 * 100 * row);
		if (load(l.tl[0], &s, &err))
			CHECK_MSG(err.code == v[i].code, "%s: %s", l.kv, err.msg);
		else
			CHECK_INT(v[i].code, ERR_NONE);
		end(&l);
	}
	CHECK(!timeline_open(&tl, e, &(struct timeline_options){ .ctx = 300 }, &err));
	CHECK(timeline_watch(tl, (const char *const[]){ "sift:k=20" }, 1, &err) < 0 && err.code == ERR_USAGE);
	timeline_close(tl);
	CHECK(!timeline_open(&tl, e, &(struct timeline_options){ .ctx = 300, .kv = "full" }, &err));
	CHECK(!timeline_watch(tl, (const char *const[]){ "sift:k=20" }, 1, &err));
	CHECK_INT(timeline_sync(tl, id, 20, NULL, NULL, &err), 0);
	CHECK_INT(timeline_entries_ready(tl), 0);
	CHECK_INT(timeline_head_save(tl, &out, &err), -1);
	CHECK_INT(err.code, ERR_USAGE);
	CHECK_INT(timeline_entries_load(tl, 0, 1, 1, s.rows.p + 4, &err), -1);
	CHECK_INT(out.n, 0);
	timeline_close(tl);
	saved_free(&s);
	engine_close(e);
}

/* ---- identities ---- */

static void identity_of(const struct engine *e, const char *kv, const char *type, int32_t ctx, int32_t batch,
                        struct str *out)
{
	struct life l = { .e = (struct engine *)(uintptr_t)e, .kv = kv, .type = type, .ctx = ctx, .batch = batch };
	struct timeline *tl = open_life(&l);

	str_clear(out);
	timeline_identity(tl, out);
	timeline_close(tl);
}

TEST(identities_name_all_that_decides_bits)
{
	struct engine *e[7] = { open_tiny(0, 1),
		                open_tiny(0, 2),
		                open_tiny(1, 1),
		                open_tiny(2, 1),
		                tiny_open(&tiny_families[0], 1, TRAINED, 10001),
		                tiny_open(&tiny_families[0], 1, TRAINED + 1, 10000),
		                NULL };
	struct str id[6] = { { 0 } }, a = { 0 }, b = { 0 };
	static const struct {
		const char *kv[2], *type[2];
		int32_t ctx[2], batch[2];
		int same;
	} v[] = {
		{ { "full", "full" }, { "f16", "f16" }, { 300, 500 }, { 64, 64 }, 1 },
		{ { "full", "full" }, { "f16", "f16" }, { 300, 500 }, { 64, 32 }, 1 },
		{ { "full", "full" }, { "f16", "f32" }, { 300, 300 }, { 64, 64 }, 0 },
		{ { "full", "sift" }, { "f16", "f16" }, { 300, 300 }, { 64, 64 }, 0 },
		{ { "sift", "sift:k=512" }, { "f16", "f16" }, { 300, 500 }, { 64, 64 }, 1 },
		{ { "sift:k=1/8", "sift:k=1/8" }, { "f16", "f16" }, { 300, 500 }, { 64, 64 }, 1 },
		{ { "sift:k=100", "sift:k=101" }, { "f16", "f16" }, { 300, 300 }, { 64, 64 }, 0 },
		{ { "sift", "sift" }, { "f16", "f16" }, { 300, 300 }, { 64, 32 }, 0 },
		{ { "refresh:s=0.85", "refresh:s=0.85000001" }, { "f16", "f16" }, { 300, 300 }, { 64, 64 }, 0 },
		{ { "refresh:k=1/8", "refresh:k=1/8.0000001" }, { "f16", "f16" }, { 300, 300 }, { 64, 64 }, 0 },
		{ { "cascade:size=64", "cascade:size=64" }, { "f16", "f16" }, { 300, 500 }, { 64, 64 }, 1 },
		{ { "auto", "auto" }, { "f16", "f16" }, { 300, 500 }, { 32, 32 }, 0 },
		{ { "h2o", "h2o+:dense=0" }, { "f16", "f16" }, { 300, 300 }, { 64, 64 }, 0 },
	};

	for (int i = 0; i < 6; i++) {
		engine_identity(e[i], &id[i]);
		CHECK(id[i].n > 200);
		for (int k = 0; k < i; k++)
			CHECK_MSG((strcmp(id[i].p, id[k].p) == 0) == (i == 1), "engines %d and %d: %s", k, i, id[i].p);
	}
	CHECK(strstr(id[0].p, "byte order little\n") && strstr(id[0].p, "architecture llama\n") &&
	      strstr(id[0].p, "kernels cpu"));
	CHECK(strstr(id[0].p, "tensor blk.2.ffn_down.weight ") != NULL);
	for (size_t i = 0; i < LEN(v); i++) {
		identity_of(e[0], v[i].kv[0], v[i].type[0], v[i].ctx[0], v[i].batch[0], &a);
		identity_of(e[0], v[i].kv[1], v[i].type[1], v[i].ctx[1], v[i].batch[1], &b);
		CHECK_MSG((strcmp(a.p, b.p) == 0) == v[i].same, "%s %s", a.p, b.p);
	}
	/* The identity differs for another level of CPU kernels. */
	setenv("WEIR_CPU", "c", 1);
	e[6] = open_tiny(0, 1);
	unsetenv("WEIR_CPU");
	str_clear(&a);
	engine_identity(e[6], &a);
	CHECK(strstr(a.p, "kernels cpu c\n") && strcmp(a.p, id[0].p));
	for (int i = 0; i < 7; i++)
		engine_close(e[i]);
	for (int i = 0; i < 6; i++)
		str_free(&id[i]);
	str_free(&a);
	str_free(&b);
}

/* ---- damage ---- */

/* bytes of the frame of a head: magic, version, length and hash of the rest */
enum { FRAME = 32 };

static void seal(struct str *head)
{
	uint64_t magic, bytes = head->n - FRAME, hash;

	memcpy(&magic, head->p, 8);
	hash = hash64(magic, head->p + FRAME, head->n - FRAME);
	memcpy(head->p + 16, &bytes, 8);
	memcpy(head->p + 24, &hash, 8);
}

static void damage(struct str *head, size_t from)
{
	static const int32_t odd[] = { 0, -1, 1, INT32_MAX, INT32_MIN, 255, 65536, -2 };
	size_t at = from + test_rand() % (head->n - from);

	switch (test_rand() % 8) {
	case 0: head->n = at; break;
	case 1: str_add(head, "weir", 1 + test_rand() % 4); break;
	case 2:
	case 3:
	case 4:
		at -= (at - from) % 4;
		if (head->n - at >= 4)
			memcpy(head->p + at, &odd[test_rand() % 8], 4);
		break;
	case 5: /* small changes, after which numbers are often still in range */
		head->p[at - (at - from) % 4] += test_rand() % 2 ? 1 : -1;
		break;
	default: head->p[at] ^= (char)(1 << test_rand() % 8); break;
	}
}

/* Return where damage may begin: at the start of the head, or near its end. Numbers there are checked. Between them are
 * logits and entries, which may have any value. */
static size_t somewhere(const struct str *head)
{
	size_t tail = head->n > 3000 ? head->n - 1500 : FRAME;

	return test_rand() % 3 ? FRAME : tail;
}

TEST(damaged_heads_do_no_harm)
{
	static const int which[] = { 0, 3, 5, 6, 8, 10, 14, 15, 16, 18, 20, 22, 24, 26, 28, 29, 30, 32 };
	int rounds = (soak() ? 20 * soak() : 1) * 250, loaded = 0, refused = 0;
	struct engine *e = open_tiny(0, 1);

	for (size_t i = 0; i < LEN(which); i++) {
		struct life l = { .e = e,
			          .kv = lives[which[i]].kv,
			          .type = "q8_0",
			          .ctx = lives[which[i]].ctx,
			          .batch = lives[which[i]].batch,
			          .pin = lives[which[i]].pin,
			          .n_vocab = N_VOCAB };
		struct saved s;
		struct err err = { 0 };
		struct timeline *tl;

		begin(&l, 2 * i);
		read_on(&l, 0, 260);
		step_both(&l, 20);
		CHECK_INT(save(l.tl[0], &s, &err), 0);
		tl = open_life(&l);
		for (int k = 0; k < rounds; k++) {
			struct str head = { 0 };
			int sealed = k % 5 > 0, failed;
			size_t n;

			str_add(&head, s.head.p, s.head.n);
			for (int m = (int)(test_rand() % 3); m >= 0 && head.n > FRAME + 8; m--)
				damage(&head, sealed ? somewhere(&head) < head.n ? somewhere(&head) : FRAME : 0);
			if (sealed && head.n > FRAME)
				seal(&head);
			/* an exact allocation, so that a sanitizer detects a read past its end */
			head.p = xrealloc(head.p, head.n + !head.n);
			CHECK(!load_rows(tl, &s, &err));
			failed = timeline_head_load(tl, head.p, head.n, &err);
			timeline_tokens(tl, &n);
			if (failed) {
				refused++;
				CHECK_INT(err.code, ERR_FAIL);
				CHECK_INT(n, 0);
				CHECK(!timeline_logits(tl));
			} else {
				loaded++;
				CHECK_MSG(sealed || (head.n == s.head.n && !memcmp(head.p, s.head.p, head.n)),
				          "%s: damage was not seen", l.kv);
			}
			if (!failed || k % 25 == 0) {
				const int32_t id[] = { 5, 6, 7, 8, 9, 10 };
				struct step_out out;

				for (int m = 0; m < 3; m++)
					timeline_step(tl, &l.s[0], &out, &err);
				timeline_extend(tl, id, 6, k % 2, NULL, NULL, &err);
				/* until every entry in the rings is replaced */
				for (int m = 0; m < 70 && k % 10 == 0; m++)
					timeline_extend(tl, id, 6, 0, NULL, NULL, &err);
				timeline_sync(tl, id, 4, NULL, NULL, &err);
			}
			free(head.p);
		}
		/* After all refused heads, a good one can be loaded. */
		CHECK_MSG(!load(tl, &s, &err), "%s: %s", l.kv, err.msg);
		l.tl[1] = tl;
		l.s[1] = l.s[0];
		l.twins = 1;
		snprintf(l.at, sizeof l.at, "after damage, %s", l.kv);
		same_state(&l);
		step_both(&l, 20);
		end(&l);
		saved_free(&s);
	}
	test_note("%d heads were refused, %d could be loaded and used", refused, loaded);
	engine_close(e);
}

/* ---- the default model ---- */

TEST(default_model_goes_on_bit_for_bit)
{
	static const struct {
		const char *kv, *type;
		int32_t pin, batch;
	} v[] = {
		{ "full", "f16", 0, 0 },
		{ "sift:k=48", "f16", 0, 0 },
		{ "cascade:size=64,stride=32", "q8_0", 0, 0 },
		{ "auto:k=32,sample=16,size=48", "f16", 70, 64 },
		{ "refresh:k=1/4", "q4_0", 0, 0 },
		{ "auto", "f16", 0, 0 },
	};
	struct engine *e = NULL;
	struct err err = { 0 };

	if (engine_open(&e, &(struct engine_options){ .model_path = test_model(), .threads = 2 }, &err))
		test_skip("%s", err.msg);
	for (int i = 0; i < (soak() ? 40 : 4); i++) {
		struct life l = { .e = e,
			          .kv = v[i % 6].kv,
			          .type = v[i % 6].type,
			          .ctx = 1024,
			          .batch = v[i % 6].batch,
			          .pin = v[i % 6].pin,
			          .n_vocab = engine_info(e)->n_vocab };

		snprintf(l.at, sizeof l.at, "default model, %s", l.kv);
		begin(&l, (uint64_t)i);
		read_on(&l, 0, 100 + (int32_t)(test_rand() % 40));
		step_both(&l, 4 + (int)(test_rand() % 8));
		if (!part(&l)) {
			step_both(&l, soak() ? 256 : 16);
			read_on(&l, 90, 10);
			step_both(&l, 4);
		}
		end(&l);
	}
	engine_close(e);
}

/* The time to save and load entries of 8,000 tokens with arbitrary values. */
TEST(how_long_it_takes)
{
	static const char *const kv[] = { "full", "sift" };
	enum { TOKENS = 8000 };
	struct engine *e = NULL;
	struct err err = { 0 };

	if (engine_open(&e, &(struct engine_options){ .model_path = test_model(), .threads = 2 }, &err))
		test_skip("%s", err.msg);
	for (int i = 0; i < 2; i++) {
		struct life l = { .e = e, .kv = kv[i], .type = "f16", .ctx = 8192 };
		struct timeline *tl = open_life(&l);
		size_t row = timeline_token_bytes(tl, 1), bytes = row * TOKENS;
		double least[2] = { 1e9, 1e9 }, busy = 1e9;
		uint16_t *rows = try_alloc(bytes, 1, "rows", &err);
		int32_t *id = xcalloc(TOKENS, sizeof *id), kept;

		if (!rows)
			test_skip("%s", err.msg);
		for (size_t k = 0; k < bytes / 2; k++)
			rows[k] = (uint16_t)(0x2c00 + k % 4096);
		CHECK_INT(timeline_entries_load(tl, 0, TOKENS, 1, rows, &err), 0);
		kept = timeline_adopt(tl, id, NULL, TOKENS, &err);
		CHECK(kept > TOKENS - 20);
		for (int k = 0; k < 3; k++) {
			struct str head = { 0 };
			double start = cpu_seconds(), took[2], cpu;
			clock_t clocks;
			size_t at = 0;

			/* Save in chunks of 256 tokens, as they are stored: each is [plane][head][256]. */
			for (int32_t first = 0, n; first < kept; first += n, at += row * (size_t)n) {
				n = kept - first < 256 ? kept - first : 256;
				CHECK_INT(timeline_entries_save(tl, first, n, 1, (char *)rows + at, &err), 0);
			}
			CHECK_INT(timeline_head_save(tl, &head, &err), 0);
			took[0] = cpu_seconds() - start;
			start = cpu_seconds();
			clocks = clock();
			at = 0;
			for (int32_t first = 0, n; first < kept; first += n, at += row * (size_t)n) {
				n = kept - first < 256 ? kept - first : 256;
				CHECK_INT(timeline_entries_load(tl, first, n, 1, (char *)rows + at, &err), 0);
			}
			CHECK_MSG(timeline_head_load(tl, head.p, head.n, &err) == 0, "%s", err.msg);
			took[1] = cpu_seconds() - start;
			cpu = (double)(clock() - clocks) / CLOCKS_PER_SEC;
			busy = MIN(cpu, busy);
			for (int m = 0; m < 2; m++)
				least[m] = MIN(took[m], least[m]);
			str_free(&head);
		}
		test_note(
			"%-4s %d tokens, %.0f MiB: saved in %.0f ms (%.2f GB/s), loaded in %.0f ms (%.2f GB/s, %.0f ms of "
			"processor time)",
			kv[i], kept, (double)bytes / (1 << 20), 1e3 * least[0], (double)bytes / least[0] / 1e9,
			1e3 * least[1], (double)bytes / least[1] / 1e9, 1e3 * busy);
		CHECK(least[0] < 2 * test_patience() && least[1] < 2 * test_patience());
		free(rows);
		free(id);
		timeline_close(tl);
	}
	engine_close(e);
}
