/* tests/cuda/t_cuda_kv_memory.c - a KV cache larger than the GPU memory it may use (--kv-memory), on the emulated
 * plugin or a GPU (cuda_test.h).
 *
 * Results must have the same bits as without the limit, whether entries are prefetched or fetched on demand, and the
 * limit must be kept. Every reason why the cache cannot be in host memory must be reported in one sentence. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/cache/kv_host.h"
#include "engine/timeline/timeline.h"
#include "tests/cuda/cuda_test.h"
#include "tests/lib/carry.h"
#include "tests/lib/tiny.h"

enum { CTX = 1024, READ = 110, MORE = 20, STEPS = 24, DEEP = 3 };

static struct engine *open_deep(int family, int layers)
{
	struct engine *e;

	test_cuda_use_plugin();
	tiny_layers = layers;
	e = tiny_open(&tiny_families[family], 1, TRAINED, 10000);
	CHECK(!strncmp(engine_info(e)->device, "cuda", 4));
	return e;
}

static struct timeline *open_kv(struct engine *e, const char *kv, const char *type, uint64_t memory)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (timeline_open(&tl, e,
	                  &(struct timeline_options){
				  .kv = kv, .kv_type = type, .ctx = CTX, .batch = 64, .kv_memory = memory },
	                  &err)) {
		test_fail(__FILE__, __LINE__, "%s: %s", kv, err.msg);
		abort();
	}
	return tl;
}

/* Return the least device memory with which this cache works. *all: the memory that it takes without a limit. */
static uint64_t least_of(struct engine *e, const char *kv, const char *type, uint64_t *all)
{
	struct timeline_options o = { .kv = kv, .kv_type = type, .ctx = CTX, .batch = 64 };
	struct timeline_need need;
	struct err err = { 0 };

	CHECK_INT(timeline_need(e, &o, &need, &err), 0);
	*all = need.kv_bytes;
	o.kv_memory = 1;
	CHECK_INT(timeline_need(e, &o, &need, &err), 0);
	CHECK(need.host_bytes > 0 && !need.disk_bytes);
	return need.least_bytes;
}

static void fill(int32_t *id, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		id[i] = 3 + (int32_t)((seed >> 40) % (N_VOCAB - 3));
	}
}

/* Several timelines that get the same calls and must have the same bits. */
enum { MOST = 3 };
struct some {
	struct timeline *tl[MOST];
	int n;
	const char *kv;
};

static void equal_now(const struct some *s, const char *when)
{
	const float *x = timeline_logits(s->tl[0]);

	for (int i = 1; i < s->n; i++) {
		const float *y = timeline_logits(s->tl[i]);

		CHECK_MSG(x && y && !memcmp(x, y, N_VOCAB * sizeof *x), "%s: %d has other logits %s", s->kv, i, when);
	}
}

static void all_read(const struct some *s, const int32_t *id, size_t n, const char *when)
{
	struct err err = { 0 };

	for (int i = 0; i < s->n; i++)
		CHECK_MSG(timeline_sync(s->tl[i], id, n, NULL, NULL, &err) >= 0, "%s: %s", s->kv, err.msg);
	equal_now(s, when);
}

static void all_step(const struct some *s, const int32_t *id, size_t n, const char *when)
{
	struct err err = { 0 };

	for (size_t k = 0; k < n; k++) {
		for (int i = 0; i < s->n; i++)
			CHECK_MSG(!timeline_extend(s->tl[i], id + k, 1, 1, NULL, NULL, &err), "%s: %s", s->kv, err.msg);
		equal_now(s, when);
	}
}

static void same_bits(struct engine *e, const char *kv, const char *type)
{
	static int32_t id[READ + MORE + STEPS];
	uint64_t all, least = least_of(e, kv, type, &all), memory = least + (all - least) / 8;
	struct some s = { .n = 3, .kv = kv };
	struct timeline_stats st;
	struct kv_fetched got[MOST];

	CHECK_MSG(least < all, "%s: at least %llu of %llu bytes", kv, (unsigned long long)least,
	          (unsigned long long)all);
	s.tl[0] = open_kv(e, kv, type, 0);
	s.tl[1] = open_kv(e, kv, type, memory);
	s.tl[2] = open_kv(e, kv, type, memory);
	CHECK(!s.tl[0]->cache.kv.host && s.tl[1]->cache.kv.host && s.tl[2]->cache.kv.host);
	s.tl[2]->cache.kv.host->ahead = 0;
	fill(id, READ + MORE + STEPS, 1);
	all_read(&s, id, READ, "after the prefill");
	all_step(&s, id + READ, STEPS, "after a generated token");
	fill(id + READ / 2, READ / 2 + MORE, 2);
	all_read(&s, id, READ + MORE, "after a rollback");
	all_step(&s, id + READ + MORE, STEPS / 2, "after a token behind the rollback");
	carry(s.tl[0], s.tl[1], id, READ + MORE + STEPS / 2, kv);
	carry(s.tl[1], s.tl[2], id, READ + MORE + STEPS / 2, kv);
	equal_now(&s, "after loading");
	carry(s.tl[2], s.tl[0], id, READ + MORE + STEPS / 2, kv);
	all_step(&s, id + READ + MORE + STEPS / 2, STEPS / 2, "after a token behind loading");
	for (int i = 1; i < s.n; i++) {
		timeline_stats(s.tl[i], &st);
		CHECK_MSG(st.kv_host_bytes > 0 && !st.kv_disk_bytes && st.kv_bytes <= memory &&
		                  st.kv_resident_bytes <= st.kv_bytes,
		          "%s: %llu and %llu bytes of %llu", kv, (unsigned long long)st.kv_bytes,
		          (unsigned long long)st.kv_resident_bytes, (unsigned long long)memory);
		kv_host_count(&s.tl[i]->cache.kv, &got[i]);
	}
	CHECK(got[1].wanted == got[2].wanted && got[1].wanted > 0 && !got[2].ahead && got[1].ahead > 0);
	CHECK(got[1].waited < got[2].waited && got[2].waited < got[2].wanted);
	test_note("%s %s: of %llu selected entries %llu are waited for, %llu where none come ahead (%llu do)", kv, type,
	          (unsigned long long)got[1].wanted, (unsigned long long)got[1].waited,
	          (unsigned long long)got[2].waited, (unsigned long long)got[1].ahead);
	for (int i = 0; i < s.n; i++)
		timeline_close(s.tl[i]);
}

TEST(cuda_kv_memory_has_the_same_bits)
{
	struct engine *e = open_deep(0, DEEP);

	same_bits(e, "sift:k=24", "f16");
	same_bits(e, "sift:k=24,split=even,bits=4,sample=8", "q8_0");
	same_bits(e, "sift:k=16,split=even", "f32");
	engine_close(e);
}

TEST(cuda_kv_memory_where_layers_have_windows)
{
	struct engine *e = open_deep(WINDOWED, 2 * DEEP);

	same_bits(e, "sift:k=16", "bf16");
	engine_close(e);
}

/* ---- drafts, another policy, refusals ---- */

/* Verify n drafted tokens on all timelines, and accept the first `keep` of them. */
static void all_draft(const struct some *s, const int32_t *draft, int32_t n, int32_t keep)
{
	struct err err = { 0 };

	for (int i = 0; i < s->n; i++) {
		const float *logits = NULL;

		CHECK_MSG(timeline_verify(s->tl[i], draft, n, &logits, &err) == n, "%s: %s", s->kv, err.msg);
		CHECK_MSG(!timeline_accept(s->tl[i], keep, &err), "%s: %s", s->kv, err.msg);
	}
}

TEST(cuda_kv_memory_drafts_and_another_policy)
{
	static const char *const to[] = { "sift:k=20", "full", "sift:k=16,bits=8" };
	struct engine *e = open_deep(0, DEEP);
	static int32_t id[READ + STEPS];
	struct some s = { .n = 2, .kv = "sift:k=16" };
	uint64_t all, least = least_of(e, to[0], NULL, &all), other = least_of(e, to[2], NULL, &all);
	struct err err = { 0 };

	s.tl[0] = open_kv(e, s.kv, NULL, 0);
	s.tl[1] = open_kv(e, s.kv, NULL, MAX(other, least));
	fill(id, READ + STEPS, 3);
	all_read(&s, id, READ, "after the prefill");
	for (int32_t i = 0; i < 4; i++) {
		all_draft(&s, id + 5 * i, 5, i * 2 % 5);
		all_step(&s, id + READ + 2 * i, 2, "after a token behind a draft");
	}
	for (int i = 0; i < 3; i++) {
		CHECK_MSG(!timeline_switch_kv(s.tl[0], to[i], &err), "%s", err.msg);
		if (i == 1) {
			CHECK(timeline_switch_kv(s.tl[1], to[i], &err) < 0 && err.code == ERR_USAGE);
			CHECK_MSG(strstr(err.msg, "'full' needs all entries in the GPU's memory") != NULL, "%s",
			          err.msg);
			continue;
		}
		CHECK_MSG(!timeline_switch_kv(s.tl[1], to[i], &err), "%s", err.msg);
		all_read(&s, id, READ + STEPS / 2, "under another policy");
		all_step(&s, id + READ + STEPS / 2, 3, "after its tokens");
	}
	timeline_close(s.tl[0]);
	timeline_close(s.tl[1]);
	engine_close(e);
}

static void refused(struct engine *e, const char *kv, uint64_t memory, enum err_code code, const char *says)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	CHECK_MSG(timeline_open(&tl, e,
	                        &(struct timeline_options){ .kv = kv, .ctx = CTX, .batch = 64, .kv_memory = memory },
	                        &err) < 0,
	          "%s opens", kv);
	CHECK_MSG(err.code == code && strstr(err.msg, says), "%s: %s", kv, err.msg);
}

TEST(cuda_kv_memory_refuses)
{
	static const char *const kv[] = { "full", "sift:k=16,bits=16", "refresh:k=16", "quest:k=32" };
	struct engine *e = open_deep(0, DEEP);
	struct timeline *tl;

	for (size_t i = 0; i < LEN(kv); i++)
		refused(e, kv[i], 64 << 10, ERR_USAGE,
		        "needs all entries in the GPU's memory, and --kv-memory allows fewer; use 'sift'");
	refused(e, "sift:k=16", 64 << 10, ERR_FIT, "--kv-memory allows 0.1");
	/* A cache that fits into the limit works with any policy. */
	tl = open_kv(e, "full", NULL, 64 << 20);
	CHECK(!tl->cache.kv.host);
	timeline_close(tl);
	engine_close(e);
}
