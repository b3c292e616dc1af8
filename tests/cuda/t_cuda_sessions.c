/* tests/cuda/t_cuda_sessions.c - sessions that move between the CPU and the CUDA backend, on the emulated plugin or a
 * GPU (cuda_test.h). A session that was saved on one backend is resumed on the other backend without prefill. On the
 * backend that saved it, the session continues bit for bit. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "sessions/snap/snap_private.h"
#include "tests/cuda/cuda_test.h"
#include "tests/lib/resume_help.h"
#include "tests/lib/storedir.h"

enum { READ = 600, ANSWER = 12, CTX = 1024 }; /* READ: two stored chunks of 256 tokens, and 88 more tokens */

static struct engine *open_on(const char *device)
{
	struct engine *e = NULL;
	struct engine_options o = { .model_path = test_file("tests/vectors/models/llama-llama3.gguf"),
		                    .device = device,
		                    .threads = 1 };
	struct err err = { 0 };

	test_cuda_use_plugin();
	if (engine_open(&e, &o, &err)) {
		test_fail(__FILE__, __LINE__, "%s: %s", device, err.msg);
		abort();
	}
	return e;
}

static struct timeline *open_timeline(struct engine *e, const char *kv)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = CTX, .kv = kv, .batch = 64 }, &err)) {
		test_fail(__FILE__, __LINE__, "timeline_open under %s: %s", kv, err.msg);
		abort();
	}
	return tl;
}

static void open_again(struct place *p, struct snaps **s)
{
	struct err e = { 0 };

	snaps_close(*s);
	if (snaps_open(s, p->store, &(struct snaps_options){ .budget = 1u << 30 }, NULL, &e))
		test_fail(__FILE__, __LINE__, "%s", e.msg);
}

/* Resume the session on engine e in a new run. others: name of the device that computed the KV entries if it is not the
 * device of e, else "". */
static struct timeline *back_on(struct place *p, struct snaps **s, struct engine *e, const char *kv, int64_t message,
                                const char *others)
{
	struct timeline *tl = open_timeline(e, kv);
	struct snap_loaded got = { 0 };
	struct fingerprint f;
	struct err err = { 0 };
	size_t n;

	open_again(p, s);
	CHECK(!snaps_fingerprint(*s, e, tl, &f, &err));
	CHECK_MSG(snap_load(*s, tl, &f, message, NULL, &got, &err) == 1, "%s: %s%s", kv, got.why, err.msg);
	timeline_tokens(tl, &n);
	CHECK_INT(got.tokens, n);
	CHECK_MSG(!strncmp(got.by, others, strlen(others)) && !*others == !got.by[0], "%s: by '%s', not '%s'", kv,
	          got.by, others);
	return tl;
}

static void across(struct engine *const e[2], int from, const char *kv)
{
	static const char *const name[2] = { "cpu ", "cuda " };
	struct place p;
	struct snaps *s = NULL;
	struct timeline *tl = open_timeline(e[from], kv), *u, *v;
	int32_t id[READ], n_vocab = engine_info(e[0])->n_vocab, here[ANSWER], there[ANSWER], again[ANSWER];
	struct err err = { 0 };

	place_make(&p);
	open_again(&p, &s);
	for (int32_t i = 0; i < READ; i++)
		id[i] = 3 + (i * 7 + i * i / 5) % (n_vocab - 3);
	CHECK_MSG(timeline_sync(tl, id, READ, NULL, NULL, &err) == 0, "%s", err.msg);
	save_on(s, e[from], tl, 1);
	u = back_on(&p, &s, e[!from], kv, 1, name[from]);
	answer(tl, here, ANSWER);
	answer(u, there, ANSWER);
	CHECK_MSG(!memcmp(here, there, sizeof here), "%s from %s: another answer", kv, name[from]);
	save_on(s, e[!from], u, 2);
	/* Resumed on the same device, the session continues bit for bit. */
	v = back_on(&p, &s, e[!from], kv, 2, "");
	asks(u, 5);
	asks(v, 5);
	answer(u, there, ANSWER);
	answer(v, again, ANSWER);
	CHECK_MSG(!memcmp(there, again, sizeof there), "%s: another answer after a break", kv);
	if (timeline_logits(u) && timeline_logits(v))
		CHECK_MSG(!memcmp(timeline_logits(u), timeline_logits(v), (size_t)n_vocab * sizeof(float)),
		          "%s: other bits after a break", kv);
	timeline_close(v);
	timeline_close(tl);
	/* Back on the first device, which still has its own snapshot of the first message. */
	tl = back_on(&p, &s, e[from], kv, 2, name[!from]);
	v = back_on(&p, &s, e[!from], kv, 2, "");
	answer(tl, here, ANSWER);
	answer(v, there, ANSWER);
	CHECK_MSG(!memcmp(here, there, sizeof here), "%s back on %s: another answer", kv, name[from]);
	timeline_close(tl);
	tl = back_on(&p, &s, e[from], kv, 1, "");
	timeline_close(tl);
	timeline_close(u);
	timeline_close(v);
	snaps_close(s);
	place_remove(&p);
}

TEST(cuda_sessions_move_and_come_back)
{
	static const char *const kv[] = { "full", "auto", "sift:k=32", "cascade:size=64,n=4,sinks=2,stride=16",
		                          "refresh:k=32,qc=3" };
	struct engine *e[2] = { open_on("cpu"), open_on("cuda") };

	for (size_t k = 0; k < LEN(kv); k++)
		for (int from = 0; from < 2; from++)
			across(e, from, kv[k]);
	engine_close(e[0]);
	engine_close(e[1]);
}

/* With other settings of the cache, a session is prefilled again, on the same device and on another. */
TEST(cuda_sessions_of_other_settings_are_read_again)
{
	struct engine *cpu = open_on("cpu"), *cuda = open_on("cuda");
	struct timeline *tl = open_timeline(cpu, "full"), *u = open_timeline(cuda, "sift:k=32");
	struct snap_loaded got = { 0 };
	struct place p;
	struct snaps *s = NULL;
	struct fingerprint f;
	struct err err = { 0 };
	int32_t id[40];

	place_make(&p);
	open_again(&p, &s);
	for (int32_t i = 0; i < 40; i++)
		id[i] = 3 + i;
	CHECK(timeline_sync(tl, id, 40, NULL, NULL, &err) == 0);
	save_on(s, cpu, tl, 1);
	CHECK(!snaps_fingerprint(s, cuda, u, &f, &err));
	CHECK_INT(snap_load(s, u, &f, 1, NULL, &got, &err), 0);
	CHECK_MSG(strstr(got.why, "cache policy was 'full', is 'sift") == got.why, "%s", got.why);
	timeline_close(tl);
	timeline_close(u);
	snaps_close(s);
	engine_close(cpu);
	engine_close(cuda);
	place_remove(&p);
}
