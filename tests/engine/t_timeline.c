/* tests/engine/t_timeline.c - sync, step, extend, rollback and cancel on a small trained model: what is reused, what is
 * refused, and that all ways to the same sequence give the same bits. */
#include "tests/lib/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/engine_private.h"

enum { CTX = 512, N_VOCAB = 512 };

static struct engine *open_story(int threads)
{
	struct engine *e = NULL;
	struct err err = { 0 };
	const char *path = test_file("tests/vectors/stories260K/stories260K-q8_0.gguf");

	if (engine_open(&e, &(struct engine_options){ .model_path = path, .threads = threads }, &err))
		test_skip("cannot open the story model: %s", err.msg);
	return e;
}

static struct timeline *open_timeline(struct engine *e, int32_t ctx, int32_t batch)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = ctx, .batch = batch, .kv = "full" }, &err))
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

/* Set out[] to the logits after one more token, which attends to the whole cache. */
static void probe(struct timeline *tl, float *out)
{
	struct err err = { 0 };
	const int32_t id = 42;
	CHECK_MSG(timeline_extend(tl, &id, 1, 0, keep, out, &err) == 0, "%s", err.msg);
}

TEST(results_do_not_depend_on_threads_or_chunks)
{
	int32_t id[300];
	float want[N_VOCAB], got[N_VOCAB];
	const struct {
		int threads, batch;
	} way[] = { { 1, 512 }, { 2, 512 }, { 3, 512 }, { 2, 1 }, { 2, 7 }, { 3, 64 }, { 1, 100 } };
	struct err err = { 0 };

	random_ids(id, 300);
	for (size_t i = 0; i < LEN(way); i++) {
		struct engine *e = open_story(way[i].threads);
		struct timeline *tl = open_timeline(e, CTX, way[i].batch);
		CHECK_INT(timeline_sync(tl, id, 300, NULL, NULL, &err), 0);
		probe(tl, i ? got : want);
		CHECK_MSG(!i || !memcmp(got, want, sizeof got),
		          "%d threads, chunks of %d differ from 1 thread, one chunk", way[i].threads, way[i].batch);
		timeline_close(tl);
		engine_close(e);
	}
}

struct wide {
	float logits[49152];
};

static void keep_wide(int32_t pos, const float *logits, void *ud)
{
	memcpy(ud, logits, sizeof(struct wide));
}

/* Generate eight tokens after a prompt of 90, and in a second timeline prefill all of them. Sets *stepped and *cold to
 * the logits after one more token. */
static int two_ways(const char *type, int threads, int32_t batch, struct wide *stepped, struct wide *cold)
{
	struct sampling greedy = { .temperature = 0, .top_p = 1, .repeat_penalty = 1 };
	struct engine *e = NULL;
	struct timeline *tl = NULL;
	struct tokens all = { 0 };
	struct step_out out;
	struct err err = { 0 };
	const int32_t next = 42, *seq;
	int32_t id[90];
	size_t n;

	for (int i = 0; i < 90; i++)
		id[i] = 3 + 37 * i % (N_VOCAB - 3);
	if (engine_open(&e, &(struct engine_options){ .model_path = test_model(), .threads = threads }, &err) ||
	    timeline_open(&tl, e,
	                  &(struct timeline_options){ .ctx = 256, .batch = batch, .kv = "full", .kv_type = type },
	                  &err)) {
		CHECK_MSG(0, "%s", err.msg);
		engine_close(e);
		return -1;
	}
	CHECK_INT(timeline_sync(tl, id, 90, NULL, NULL, &err), 0);
	for (int i = 0; i < 8 && timeline_step(tl, &greedy, &out, &err) == 1; i++)
		;
	CHECK(timeline_extend(tl, &next, 1, 0, keep_wide, stepped, &err) == 0);
	seq = timeline_tokens(tl, &n);
	tokens_append(&all, seq, n - 1);
	CHECK_INT(timeline_sync(tl, NULL, 0, NULL, NULL, &err), 0);
	CHECK_INT(timeline_sync(tl, all.id, all.n, NULL, NULL, &err), 0);
	CHECK(timeline_extend(tl, &next, 1, 0, keep_wide, cold, &err) == 0);
	tokens_free(&all);
	timeline_close(tl);
	engine_close(e);
	return 0;
}

/* A model large enough for several panels and tiles per thread. All numbers of threads and all cuts of the prompt give
 * the same bits. Decoded tokens equal prefilled ones bit for bit with f32 planes, and up to rounding with f16
 * planes. */
TEST(default_model_is_bit_identical_too)
{
	static struct wide first[2], stepped, cold;

	for (int f32 = 0; f32 < 2; f32++)
		for (int threads = 1; threads <= 3; threads++) {
			const char *type = f32 ? "f32" : "f16";
			double apart;

			if (two_ways(type, threads, threads == 2 ? 33 : threads == 3 ? 7 : 512, &stepped, &cold))
				return;
			if (threads == 1) {
				first[0] = stepped;
				first[1] = cold;
			}
			apart = test_nmse(stepped.logits, cold.logits, LEN(cold.logits));
			CHECK_MSG(apart <= (f32 ? 0 : 1e-3), "%s, %d threads: steps and a cold prefill differ by %g",
			          type, threads, apart);
			CHECK_MSG(!memcmp(&first[0], &stepped, sizeof cold), "%s, generated: %d threads differ from 1",
			          type, threads);
			CHECK_MSG(!memcmp(&first[1], &cold, sizeof cold), "%s, read: %d threads differ from 1", type,
			          threads);
		}
}

TEST(sync_reuses_the_common_prefix)
{
	struct engine *e = open_story(2);
	struct timeline *tl = open_timeline(e, CTX, 0), *fresh = open_timeline(e, CTX, 0);
	struct timeline_stats st;
	struct err err = { 0 };
	float a[N_VOCAB], b[N_VOCAB];
	int32_t id[200];

	random_ids(id, 200);
	CHECK_INT(timeline_sync(tl, id, 100, NULL, NULL, &err), 0);
	CHECK_INT(timeline_sync(tl, id, 100, NULL, NULL, &err), 100); /* nothing to do */
	CHECK_INT(timeline_sync(tl, id, 150, NULL, NULL, &err), 100); /* longer */
	/* shorter: the last token is computed again for its logits */
	CHECK_INT(timeline_sync(tl, id, 60, NULL, NULL, &err), 59);
	id[80] = 400;
	CHECK_INT(timeline_sync(tl, id, 200, NULL, NULL, &err), 60);
	id[120] = 401;
	CHECK_INT(timeline_sync(tl, id, 200, NULL, NULL, &err), 120); /* an edit in the middle */
	timeline_stats(tl, &st);
	CHECK_INT(st.reused_tokens, 120);
	CHECK_INT(st.prefill_tokens, 80);
	CHECK_INT(timeline_sync(fresh, id, 200, NULL, NULL, &err), 0);
	probe(tl, a);
	probe(fresh, b);
	CHECK(!memcmp(a, b, sizeof a));
	timeline_close(tl);
	timeline_close(fresh);
	engine_close(e);
}

TEST(limits_are_refused_and_nothing_is_cut)
{
	struct engine *e = open_story(1);
	struct timeline *tl = open_timeline(e, 64, 0);
	struct sampling greedy = { .temperature = 0, .top_p = 1, .repeat_penalty = 1 };
	struct step_out out;
	struct err err = { 0 };
	int32_t id[70];
	size_t n;
	int r;

	random_ids(id, 70);
	CHECK_INT(timeline_step(tl, &greedy, &out, &err), -1);
	CHECK_INT(err.code, ERR_USAGE);
	CHECK_INT(timeline_sync(tl, id, 50, NULL, NULL, &err), 0);
	CHECK_INT(timeline_sync(tl, id, 65, NULL, NULL, &err), -1);
	CHECK_INT(err.code, ERR_FIT);
	CHECK(strstr(err.msg, "65 tokens") && strstr(err.msg, "64"));
	timeline_tokens(tl, &n);
	CHECK_INT(n, 50);
	while ((r = timeline_step(tl, &greedy, &out, &err)) == 1)
		;
	if (r < 0) { /* unless the model has ended its answer before */
		CHECK_INT(err.code, ERR_FIT);
		timeline_tokens(tl, &n);
		CHECK_INT(n, 64);
	}
	id[3] = N_VOCAB;
	CHECK_INT(timeline_sync(tl, id, 10, NULL, NULL, &err), -1);
	CHECK_INT(err.code, ERR_USAGE);
	id[3] = -1;
	CHECK_INT(timeline_sync(tl, id, 10, NULL, NULL, &err), -1);
	timeline_close(tl);
	CHECK_INT(timeline_open(&tl, e, &(struct timeline_options){ .ctx = 1 << 30, .kv = "full" }, &err), -1);
	CHECK_INT(err.code, ERR_FIT);
	CHECK_MSG(strstr(err.msg, "-c ") != NULL, "no advice in: %s", err.msg);
	CHECK_INT(timeline_open(&tl, e, &(struct timeline_options){ .kv_type = "f8" }, &err), -1);
	CHECK_INT(err.code, ERR_USAGE);
	engine_close(e);
}

static void cancel_at(int32_t done, int32_t total, void *ud)
{
	if (done >= 100)
		timeline_cancel(ud);
}

TEST(a_cancelled_sync_leaves_a_valid_prefix)
{
	struct engine *e = open_story(2);
	struct timeline *tl = open_timeline(e, CTX, 25), *fresh = open_timeline(e, CTX, 0);
	struct err err = { 0 };
	float a[N_VOCAB], b[N_VOCAB];
	int32_t id[300];
	size_t n;

	random_ids(id, 300);
	CHECK_INT(timeline_sync(tl, id, 300, cancel_at, tl, &err), -1);
	CHECK_INT(err.code, ERR_CANCELLED);
	timeline_tokens(tl, &n);
	CHECK_INT(n, 100);
	/* the timeline stays cancelled until timeline_resume() */
	CHECK_INT(timeline_sync(tl, id, 300, NULL, NULL, &err), -1);
	timeline_resume(tl);
	CHECK_INT(timeline_sync(tl, id, 300, NULL, NULL, &err), 100);
	CHECK_INT(timeline_sync(fresh, id, 300, NULL, NULL, &err), 0);
	probe(tl, a);
	probe(fresh, b);
	CHECK(!memcmp(a, b, sizeof a));
	timeline_close(tl);
	timeline_close(fresh);
	engine_close(e);
}

/* Cancel from another thread at random moments, then complete the sequence: it must equal one that was never
 * cancelled. */
struct canceller {
	struct timeline *tl;
	useconds_t after;
};

static void *cancel_later(void *arg)
{
	struct canceller *c = arg;
	usleep(c->after);
	timeline_cancel(c->tl);
	return NULL;
}

TEST(cancels_from_another_thread_leave_no_trace)
{
	struct engine *e = open_story(2);
	struct timeline *tl = open_timeline(e, CTX, 50), *fresh = open_timeline(e, CTX, 0);
	struct err err = { 0 };
	float a[N_VOCAB], b[N_VOCAB];
	int32_t id[400];

	random_ids(id, 400);
	CHECK_INT(timeline_sync(fresh, id, 400, NULL, NULL, &err), 0);
	probe(fresh, b);
	for (int round = 0; round < 30; round++) {
		struct canceller c = { tl, (useconds_t)(test_rand() % 12000) };
		pthread_t th;
		timeline_sync(tl, NULL, 0, NULL, NULL, &err);
		pthread_create(&th, NULL, cancel_later, &c);
		timeline_sync(tl, id, 400, NULL, NULL, &err);
		pthread_join(th, NULL);
		timeline_resume(tl);
		CHECK(timeline_sync(tl, id, 400, NULL, NULL, &err) >= 0);
		probe(tl, a);
		CHECK_MSG(!memcmp(a, b, sizeof a), "round %d differs", round);
	}
	timeline_close(tl);
	timeline_close(fresh);
	engine_close(e);
}

TEST(f32_and_f16_caches_agree_closely)
{
	struct engine *e = open_story(2);
	float out[2][N_VOCAB];
	const char *type[] = { "f32", "f16" };
	int32_t id[200];

	random_ids(id, 200);
	for (int i = 0; i < 2; i++) {
		struct timeline *tl = NULL;
		struct err err = { 0 };
		CHECK(!timeline_open(&tl, e, &(struct timeline_options){ .ctx = CTX, .kv_type = type[i] }, &err));
		CHECK_INT(timeline_sync(tl, id, 200, NULL, NULL, &err), 0);
		probe(tl, out[i]);
		timeline_close(tl);
	}
	CHECK_MSG(test_nmse(out[1], out[0], N_VOCAB) < 1e-4, "NMSE %g", test_nmse(out[1], out[0], N_VOCAB));
	engine_close(e);
}

TEST(infinite_weights_end_in_an_error_not_in_nonsense)
{
	struct engine *e = NULL;
	struct timeline *tl = NULL;
	struct err err = { 0 };
	struct sampling greedy = { .temperature = 0, .top_p = 1, .repeat_penalty = 1 };
	struct step_out out;
	const int32_t id[] = { 5, 6, 7 };
	size_t n;

	if (engine_open(&e,
	                &(struct engine_options){ .model_path = test_unpacked("malformed-gguf", "weights-inf.gguf") },
	                &err))
		return; /* refusing the file is right, too */
	CHECK(!timeline_open(&tl, e, &(struct timeline_options){ .ctx = 32 }, &err));
	CHECK_INT(timeline_sync(tl, id, 3, NULL, NULL, &err), 0);
	CHECK_INT(timeline_step(tl, &greedy, &out, &err), -1);
	CHECK_INT(err.code, ERR_FAIL);
	timeline_tokens(tl, &n);
	CHECK_INT(n, 3);
	timeline_close(tl);
	engine_close(e);
	err = (struct err){ 0 };
	CHECK_INT(engine_open(&e,
	                      &(struct engine_options){ .model_path =
	                                                        test_unpacked("malformed-gguf", "weights-inf.gguf"),
	                                                .check_weights = 1 },
	                      &err),
	          -1);
	CHECK_INT(err.code, ERR_MODEL);
}

/* ---- several timelines of one engine ---- */

/* A thread that runs one timeline from its own seed: prefill, steps, an edit, more steps. seen: all tokens and logits,
 * in order. */
struct reader_of {
	struct engine *e;
	uint64_t seed;
	int32_t batch;
	struct str seen;
};

static void saw(int32_t pos, const float *logits, void *ud)
{
	str_add(ud, logits, N_VOCAB * sizeof *logits);
}

static void *one_reader(void *arg)
{
	struct reader_of *r = arg;
	struct sampling s = { .temperature = 1, .top_p = 1, .repeat_penalty = 1.1f, .repeat_last = 64 };
	struct timeline *tl = NULL;
	struct step_out out;
	struct err err = { 0 };
	int32_t id[120];
	uint64_t x = r->seed;

	for (int i = 0; i < 120; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		id[i] = 3 + (int32_t)((x >> 33) % (N_VOCAB - 3));
	}
	sampling_seed(&s, r->seed);
	for (int round = 0; round < 3; round++) {
		/* Timelines are also opened and closed while other threads work. */
		if (timeline_open(&tl, r->e, &(struct timeline_options){ .ctx = 256, .batch = r->batch }, &err) ||
		    timeline_sync(tl, id, 90, NULL, NULL, &err) < 0)
			break;
		for (int i = 0; i < 20 && timeline_step(tl, &s, &out, &err) == 1; i++)
			str_add(&r->seen, &out.id, sizeof out.id);
		id[60] = 3 + round;
		if (timeline_sync(tl, id, 100, NULL, NULL, &err) < 0 ||
		    timeline_extend(tl, id + 100, 20, 0, saw, &r->seen, &err))
			break;
		timeline_close(tl);
		tl = NULL;
	}
	if (err.code)
		str_adds(&r->seen, err.msg);
	timeline_close(tl);
	return NULL;
}

TEST(several_threads_share_an_engine)
{
	enum { READERS = 3 };
	struct engine *e = open_story(2);
	struct reader_of alone[READERS], together[READERS];
	pthread_t thread[READERS];

	for (int i = 0; i < READERS; i++) {
		alone[i] = together[i] = (struct reader_of){ .e = e, .seed = 7 + (uint64_t)i, .batch = 10 + 30 * i };
		one_reader(&alone[i]);
		CHECK(alone[i].seen.n > 3 * 20 * N_VOCAB * sizeof(float));
	}
	CHECK(alone[0].seen.n != alone[1].seen.n || memcmp(alone[0].seen.p, alone[1].seen.p, alone[0].seen.n));
	for (int i = 0; i < READERS; i++)
		CHECK(!pthread_create(&thread[i], NULL, one_reader, &together[i]));
	for (int i = 0; i < READERS; i++) {
		pthread_join(thread[i], NULL);
		CHECK_MSG(alone[i].seen.n == together[i].seen.n &&
		                  !memcmp(alone[i].seen.p, together[i].seen.p, alone[i].seen.n),
		          "reader %d saw something else", i);
		str_free(&alone[i].seen);
		str_free(&together[i].seen);
	}
	engine_close(e);
}

/* A cancelled timeline does not disturb others of the same engine; neither does one that cannot be opened. */
TEST(timelines_do_not_disturb_each_other)
{
	struct engine *e = open_story(2);
	struct timeline *tl = open_timeline(e, CTX, 25), *other = open_timeline(e, CTX, 0), *none = NULL;
	struct err err = { 0 };
	int32_t id[300];

	random_ids(id, 300);
	CHECK_INT(timeline_sync(tl, id, 300, cancel_at, tl, &err), -1);
	CHECK_INT(err.code, ERR_CANCELLED);
	CHECK_INT(timeline_sync(other, id, 300, NULL, NULL, &err), 0);
	CHECK_INT(timeline_open(&none, e, &(struct timeline_options){ .ctx = INT32_MAX, .kv = "full" }, &err), -1);
	CHECK_INT(err.code, ERR_FIT);
	CHECK(!none);
	CHECK_INT(timeline_sync(other, id, 200, NULL, NULL, &err), 199);
	timeline_close(tl);
	timeline_close(other);
	engine_close(e);
}

/* The default model spends a fifth of a step on the logits, so a cancel often interrupts their computation. A sequence
 * restored to the same tokens must continue as before. */
TEST(cancelled_steps_leave_the_logits_whole)
{
	struct engine *e = NULL;
	struct sampling greedy = { .temperature = 0, .top_p = 1, .repeat_penalty = 1 };
	struct timeline *tl;
	struct err err = { 0 };
	struct step_out out;
	int32_t id[16], first, second;
	int stopped = 0;

	if (engine_open(&e, &(struct engine_options){ .model_path = test_model(), .threads = 2 }, &err)) {
		CHECK_MSG(0, "%s", err.msg);
		return;
	}
	tl = open_timeline(e, 64, 0);
	random_ids(id, 16);
	CHECK_INT(timeline_sync(tl, id, 16, NULL, NULL, &err), 0);
	CHECK_INT(timeline_step(tl, &greedy, &out, &err), 1);
	first = out.id;
	double start = now_seconds();
	CHECK_INT(timeline_step(tl, &greedy, &out, &err), 1);
	second = out.id;
	useconds_t step = (useconds_t)(1e6 * (now_seconds() - start));
	for (int round = 0; round < 60; round++) {
		struct canceller c = { tl, step / 2 + (useconds_t)(test_rand() % (step + 1)) };
		pthread_t th;
		CHECK(timeline_sync(tl, id, 16, NULL, NULL, &err) >= 0);
		CHECK_INT(timeline_step(tl, &greedy, &out, &err), 1);
		CHECK_INT(out.id, first);
		pthread_create(&th, NULL, cancel_later, &c);
		stopped += timeline_step(tl, &greedy, &out, &err) < 0;
		pthread_join(th, NULL);
		timeline_resume(tl);
		/* Roll back the sampled token that has no entry yet: the logits of the token before it are needed
		 * again. */
		CHECK(timeline_sync(tl, id, 16, NULL, NULL, &err) >= 15);
		CHECK_INT(timeline_step(tl, &greedy, &out, &err), 1);
		CHECK_MSG(out.id == first, "round %d: token %d instead of %d", round, out.id, first);
		CHECK_INT(timeline_step(tl, &greedy, &out, &err), 1);
		CHECK_MSG(out.id == second, "round %d: then token %d instead of %d", round, out.id, second);
	}
	test_note("%d of 60 steps were stopped", stopped);
	timeline_close(tl);
	engine_close(e);
}

/* ---- what a token asks for ---- */

static struct {
	struct backend_ops ops;
	const struct backend_ops *real;
	int reads;
} asked;

static void count_read(struct backend *be, const struct tensor *t, size_t off, void *dst, size_t n)
{
	asked.reads++;
	asked.real->read(be, t, off, dst, n);
}

/* Count the reads from the backend, because each read waits for a GPU. Each token reads its logits. Under refresh it
 * also reads which layers selected anew. A cascade also reads sums of attention when tokens enter its rings, which is
 * at every 16th token. */
TEST(a_token_asks_for_its_logits_alone)
{
	/* clang-format off */
	static const struct { const char *kv; int each, joins; } way[] = {
		{ "full", 1, 0 }, { "sink:size=64", 1, 0 }, { "cascade:size=256,n=2", 1, 1 }, { "cascade:size=256,n=2,heads=layer", 1, 1 },
		{ "cascade:size=64,select=0", 1, 0 }, { "sift:k=40", 1, 0 }, { "sift:k=24,sample=16", 1, 0 }, { "sift:k=40,split=even", 1, 0 },
		{ "refresh:k=40", 3, 0 }, { "refresh:k=40,scan=kv", 3, 0 }, { "recycled:k=40,stride=10", 3, 0 }, { "quest:k=64", 1, 0 },
		{ "auto:k=40,sample=20,size=256,n=2", 1, 1 }, { "auto:prefix=refresh,k=40,size=256,n=2", 3, 1 },
	};
	/* clang-format on */
	struct engine *e = open_story(1);
	struct err err = { 0 };
	int32_t id[400];

	random_ids(id, 400);
	asked.real = e->be->ops;
	asked.ops = *asked.real;
	asked.ops.read = count_read;
	for (size_t i = 0; i < LEN(way); i++) {
		struct sampling s = { .temperature = 0, .top_p = 1, .repeat_penalty = 1 };
		struct step_out out;
		struct timeline *tl;
		int tokens = 0;

		if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = CTX, .batch = 64, .kv = way[i].kv }, &err))
			test_skip("%s: %s", way[i].kv, err.msg);
		CHECK_INT(timeline_pin(tl, 100, &err), 0);
		CHECK_INT(timeline_sync(tl, id, 400, NULL, NULL, &err), 0);
		asked.reads = 0;
		e->be->ops = &asked.ops;
		for (; tokens < 65 && timeline_step(tl, &s, &out, &err) == 1; tokens++)
			;
		e->be->ops = asked.real;
		CHECK_INT(tokens, 65);
		/* The first token needs no read, because its logits were read by the prefill. */
		CHECK_MSG(asked.reads >= 64 && asked.reads <= 64 * way[i].each + 4 * way[i].joins,
		          "%s: %d reads for 64 tokens", way[i].kv, asked.reads);
		timeline_close(tl);
	}
	engine_close(e);
}

/* ---- the memory of a device ---- */

static struct {
	struct backend_ops ops;
	struct engine *e;
	int asked, unlocked;
} device;

/* Pretend that the device has 1 KiB left. unlocked: number of calls without the engine's lock, which is needed because
 * another thread may be using the backend. */
static void device_memory(const struct backend *be, uint64_t *available, uint64_t *total)
{
	device.asked++;
	if (!pthread_mutex_trylock(&device.e->lock)) {
		device.unlocked++;
		pthread_mutex_unlock(&device.e->lock);
	}
	*available = 1 << 10;
	*total = (uint64_t)80 << 30;
}

TEST(a_device_is_asked_for_its_memory_under_the_lock)
{
	struct engine *e = open_story(1);
	const struct backend_ops *real = e->be->ops;
	struct timeline *tl = open_timeline(e, CTX, 64);
	struct timeline_need need;
	struct err err = { 0 };

	device.e = e;
	device.ops = *real;
	device.ops.memory = device_memory;
	e->be->ops = &device.ops;
	CHECK(!timeline_need(e, &(struct timeline_options){ .ctx = CTX }, &need, &err));
	CHECK(need.device_bytes == (uint64_t)80 << 30 && need.free_bytes == 1 << 10);
	CHECK_INT(timeline_switch_kv(tl, "sift:k=40", &err), -1);
	CHECK_MSG(err.code == ERR_FIT && strstr(err.msg, "the GPU has"), "%s", err.msg);
	CHECK(device.asked >= 2);
	CHECK_INT(device.unlocked, 0);
	e->be->ops = real;
	CHECK_INT(timeline_switch_kv(tl, "sift:k=40", &err), 0);
	timeline_close(tl);
	engine_close(e);
}
