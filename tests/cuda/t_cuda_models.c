/* tests/cuda/t_cuda_models.c - whole models on the CUDA backend, on the emulated plugin or a GPU (cuda_test.h).
 *
 * Logits are compared with those of another implementation; tokens under every cache policy are compared with those of
 * the CPU backend. Also, sequences begin on one backend and continue on the other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/engine_snapshot.h"
#include "engine/engine_private.h"
#include "tests/cuda/cuda_test.h"
#include "tests/lib/predictor.h"
#include "tests/lib/tiny.h"
#include "engine/timeline/timeline.h"

enum { MAX_IDS = 64 };

static struct engine *open_on(const char *device, const char *name)
{
	char rel[128];
	struct engine *e = NULL;
	struct err err = { 0 };

	test_cuda_use_plugin();
	snprintf(rel, sizeof rel, "tests/vectors/models/%s.gguf", name);
	if (engine_open(&e, &(struct engine_options){ .model_path = test_file(rel), .device = device, .threads = 1 },
	                &err)) {
		test_fail(__FILE__, __LINE__, "%s on %s: %s", name, device, err.msg);
		abort();
	}
	CHECK(!strncmp(engine_info(e)->device, device, strlen(device)));
	CHECK_INT(engine_info(e)->device_total > 0, !strcmp(device, "cuda"));
	return e;
}

static struct timeline *timeline_on(struct engine *e, const char *kv, const char *type, int32_t ctx)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = ctx, .kv = kv, .kv_type = type, .batch = 16 },
	                  &err)) {
		test_fail(__FILE__, __LINE__, "timeline_open under %s: %s", kv, err.msg);
		abort();
	}
	return tl;
}

/* ---- logits ---- */

struct wanted {
	int32_t id[MAX_IDS];
	size_t n_id, n_last;
	float *logits;
};

static void want_read(struct wanted *w, const char *name, int32_t n_vocab)
{
	char rel[128], *text, *end;
	size_t bytes = 0;

	memset(w, 0, sizeof *w);
	snprintf(rel, sizeof rel, "tests/vectors/models/%s.ids", name);
	text = end = test_read(test_file(rel), NULL);
	for (char *p = text; p; p = end) {
		long id = strtol(p, &end, 10);
		if (end == p || w->n_id == MAX_IDS)
			break;
		w->id[w->n_id++] = (int32_t)id;
	}
	free(text);
	snprintf(rel, sizeof rel, "tests/vectors/models/%s.logits.f32", name);
	w->logits = (float *)(void *)test_read(test_file(rel), &bytes);
	w->n_last = bytes / ((size_t)n_vocab * sizeof(float));
	CHECK(w->logits && w->n_id > 0 && w->n_last > 0 && w->n_last <= w->n_id);
}

struct got {
	float *logits;
	size_t n;
	int32_t n_vocab;
};

static void keep(int32_t pos, const float *logits, void *ud)
{
	struct got *g = ud;

	(void)pos;
	memcpy(g->logits + g->n++ * (size_t)g->n_vocab, logits, (size_t)g->n_vocab * sizeof *logits);
}

static float *logits_of(struct engine *e, const struct wanted *w, const char *type, int stepwise)
{
	struct got g = { .n_vocab = engine_info(e)->n_vocab };
	struct timeline *tl = timeline_on(e, "full", type, (int32_t)w->n_id + 8);
	struct err err = { 0 };

	g.logits = calloc(w->n_id, (size_t)g.n_vocab * sizeof *g.logits);
	CHECK_MSG(!timeline_extend(tl, w->id, w->n_id, stepwise, keep, &g, &err), "%s", err.msg);
	CHECK_INT(g.n, w->n_id);
	timeline_close(tl);
	return g.logits;
}

/* Bounds of the NMSE. AT_ONCE: several tokens at once, whose products are in f16. ONE_BY_ONE: single tokens, in f32.
 * QUANTISED: single tokens with quantised weights; their activations are rounded to 16 bits. */
#define AT_ONCE    1e-5
#define ONE_BY_ONE 1e-9
#define QUANTISED  1e-8

static void check_logits(const char *name, double at_once, double one_by_one)
{
	struct engine *e = open_on("cuda", name);
	struct wanted w;
	size_t n = (size_t)engine_info(e)->n_vocab, first;
	double nmse[2];

	want_read(&w, name, (int32_t)n);
	first = w.n_id - w.n_last;
	for (int stepwise = 0; stepwise < 2; stepwise++) {
		float *got = logits_of(e, &w, "f32", stepwise);

		nmse[stepwise] = test_nmse(got + first * n, w.logits, w.n_last * n);
		free(got);
	}
	CHECK_MSG(nmse[0] < at_once, "%s: error %.3g, limit %.3g", name, nmse[0], at_once);
	CHECK_MSG(nmse[1] < one_by_one, "%s, token by token: error %.3g, limit %.3g", name, nmse[1], one_by_one);
	test_note("%s: normalised squared error %.2g at once, %.2g token by token", name, nmse[0], nmse[1]);
	free(w.logits);
	engine_close(e);
}

TEST(cuda_model_qwen2_tied)
{
	check_logits("qwen2-tied", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_qwen2_untied)
{
	check_logits("qwen2-untied", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_qwen3)
{
	check_logits("qwen3", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_llama_llama3)
{
	check_logits("llama-llama3", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_llama_yarn)
{
	check_logits("llama-yarn", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_llama_block32)
{
	check_logits("llama-block32", AT_ONCE, QUANTISED);
}
TEST(cuda_model_llama_block256)
{
	check_logits("llama-block256", AT_ONCE, QUANTISED);
}
TEST(cuda_model_smollm3)
{
	check_logits("smollm3", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_granite)
{
	check_logits("granite", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_olmo2)
{
	check_logits("olmo2", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_phi3)
{
	check_logits("phi3", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_mistral3)
{
	check_logits("mistral3", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_phi3_long)
{
	check_logits("phi3-long", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_gemma2)
{
	check_logits("gemma2", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_gemma3)
{
	check_logits("gemma3", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_gemma4)
{
	check_logits("gemma4", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_gemma4moe)
{
	check_logits("gemma4moe", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_gpt_oss)
{
	check_logits("gpt-oss", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_gpt_oss_mxfp4)
{
	check_logits("gpt-oss-mxfp4", AT_ONCE, QUANTISED);
}
TEST(cuda_model_olmo3)
{
	check_logits("olmo3", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_lfm2)
{
	check_logits("lfm2", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_lfm2moe)
{
	check_logits("lfm2moe", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_qwen35)
{
	check_logits("qwen35", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_qwen35moe)
{
	check_logits("qwen35moe", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_qwen3next)
{
	check_logits("qwen3next", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_granitehybrid)
{
	check_logits("granitehybrid", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_granitehybridmoe)
{
	check_logits("granitehybridmoe", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_gemma)
{
	check_logits("gemma", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_qwen3vl)
{
	check_logits("qwen3vl", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_qwen3vlmoe)
{
	check_logits("qwen3vlmoe", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_qwen2vl)
{
	check_logits("qwen2vl", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_qwen2moe)
{
	check_logits("qwen2moe", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_mixtral)
{
	check_logits("mixtral", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_granitemoe)
{
	check_logits("granitemoe", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_olmoe)
{
	check_logits("olmoe", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_glm4)
{
	check_logits("glm4", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_exaone4)
{
	check_logits("exaone4", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_ernie4_5)
{
	check_logits("ernie4_5", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_seed_oss)
{
	check_logits("seed_oss", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_granitehybrid_groups)
{
	check_logits("granitehybrid-groups", AT_ONCE, ONE_BY_ONE);
}
TEST(cuda_model_qwen3moe)
{
	check_logits("qwen3moe", AT_ONCE, ONE_BY_ONE);
}

/* ---- the CPU and the device, side by side ---- */

/* answer() prefills a text and generates up to STEPS tokens greedily. logits: the logits after the last token. */
enum { STEPS = 12 };
struct answer {
	int32_t id[STEPS];
	int n;
	float *logits;
};

static void answer(struct timeline *tl, struct engine *e, const int32_t *id, size_t n, struct answer *a)
{
	struct sampling greedy = sampling_default;
	struct err err = { 0 };
	int32_t n_vocab = engine_info(e)->n_vocab;

	greedy.temperature = 0;
	memset(a, 0, sizeof *a);
	CHECK_MSG(timeline_sync(tl, id, n, NULL, NULL, &err) >= 0, "%s", err.msg);
	a->logits = malloc((size_t)n_vocab * sizeof *a->logits);
	if (timeline_logits(tl))
		memcpy(a->logits, timeline_logits(tl), (size_t)n_vocab * sizeof *a->logits);
	for (; a->n < STEPS; a->n++) {
		struct step_out out;
		int got = timeline_step(tl, &greedy, &out, &err);

		CHECK_MSG(got >= 0, "%s", err.msg);
		if (got <= 0)
			break;
		a->id[a->n] = out.id;
	}
}

static void same_answers(const char *what, const struct answer *a, const struct answer *b, int32_t n_vocab,
                         double limit)
{
	double nmse = test_nmse(b->logits, a->logits, (size_t)n_vocab);

	CHECK_MSG(nmse < limit, "%s: error %.3g, limit %.3g", what, nmse, limit);
	CHECK_MSG(a->n == b->n && !memcmp(a->id, b->id, (size_t)a->n * sizeof a->id[0]), "%s: other tokens", what);
}

/* Fill id[] with pseudo-random tokens, the same in every call. */
static void fill(int32_t *id, size_t n, int32_t n_vocab)
{
	uint64_t x = 88172645463325252u;

	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		id[i] = 3 + (int32_t)(x % (uint64_t)(n_vocab - 3));
	}
}

/* clang-format off */
static const char *const policies[] = {
	"full", "sink:size=24,sinks=2,stride=8", "cascade:size=32,n=4,sinks=2,stride=8", "sift:k=16", "sift:k=16,bits=4", "sift:k=16,bits=8",
	"refresh:k=16,qc=3", "refresh:k=16,qc=3,scan=kv", "recycled:k=16,stride=4", "streaming++:size=16,stride=8", "h2o:k=16", "h2o+:k=16",
	"snapkv:k=16,window=1", "quest:k=32", "auto", "auto:prefix=full", "predict:k=32,block=4,first=4,last=8,dense=1,by=mixed",
	"predict:k=24,block=4,first=4,last=8,dense=0,rows=16",
};
/* clang-format on */
enum { POLICIES = LEN(policies), READ = 110 }; /* 110 tokens fill seven pages, and quest does not read one of them */

static void policies_run(const char *model)
{
	struct engine *cpu = open_on("cpu", model), *cuda = open_on("cuda", model);
	int32_t n_vocab = engine_info(cpu)->n_vocab, id[READ];

	fill(id, READ, n_vocab);
	predictor_put_for(cpu);
	for (int i = 0; i < POLICIES; i++) {
		struct timeline *tc, *td;
		struct answer a, b;

		tc = timeline_on(cpu, policies[i], "f16", 128);
		td = timeline_on(cuda, policies[i], "f16", 128);
		answer(tc, cpu, id, READ, &a);
		answer(td, cuda, id, READ, &b);
		same_answers(policies[i], &a, &b, n_vocab, AT_ONCE);
		free(a.logits);
		free(b.logits);
		timeline_close(tc);
		timeline_close(td);
	}
	engine_close(cpu);
	engine_close(cuda);
}

TEST(cuda_policies_run_as_on_the_cpu)
{
	policies_run("llama-llama3");
}
TEST(cuda_policies_run_where_layers_differ)
{
	policies_run("gemma4");
}

TEST(cuda_refuses_four_bits_and_two_types)
{
	static const char *const type[] = { "q4_0", "k=q8_0,v=f16" };
	struct engine *e = open_on("cuda", "llama-block256");

	for (int i = 0; i < 2; i++) {
		struct timeline *tl = NULL;
		struct err err = { 0 };

		CHECK_INT(timeline_open(&tl, e, &(struct timeline_options){ .ctx = 64, .kv_type = type[i] }, &err), -1);
		CHECK_MSG(strstr(err.msg, "a GPU keeps keys and values in one type"), "%s: %s", type[i], err.msg);
	}
	engine_close(e);
}

TEST(cuda_cache_types)
{
	static const char *const type[] = { "f32", "bf16", "q8_0" };
	struct engine *cpu = open_on("cpu", "llama-block256"), *cuda = open_on("cuda", "llama-block256");
	int32_t n_vocab = engine_info(cpu)->n_vocab, id[40];

	fill(id, 40, n_vocab);
	for (int i = 0; i < 3; i++) {
		struct timeline *tc = timeline_on(cpu, "full", type[i], 64),
				*td = timeline_on(cuda, "full", type[i], 64);
		struct answer a, b;
		double nmse;

		answer(tc, cpu, id, 40, &a);
		answer(td, cuda, id, 40, &b);
		/* The bound is large, because the CPU rounds activations to 8 bits for these weights. */
		nmse = test_nmse(b.logits, a.logits, (size_t)n_vocab);
		CHECK_MSG(nmse < 2e-3, "%s: error %.3g", type[i], nmse);
		free(a.logits);
		free(b.logits);
		timeline_close(tc);
		timeline_close(td);
	}
	engine_close(cpu);
	engine_close(cuda);
}

/* ---- nothing is asked in the middle of a step ---- */

/* A copy of the backend's table of functions that counts reads. A read between two layers would wait for the device. */
static struct {
	const struct backend_ops *ops;
	struct backend_ops mine;
	int asked, between, layers, lists;
} watch;

static void watch_read(struct backend *be, const struct tensor *t, size_t off, void *dst, size_t n)
{
	watch.asked++;
	watch.ops->read(be, t, off, dst, n);
}

static int watch_sync(struct backend *be)
{
	watch.asked++;
	return watch.ops->sync(be);
}

static void watch_attn(struct backend *be, const struct attn_args *a, int32_t n)
{
	watch.layers++;
	watch.between += watch.asked;
	for (int i = 0; i < a->n_seg; i++)
		watch.lists += a->seg[i].slots != NULL;
	watch.ops->attn(be, a, n);
}

static void watch_begin(struct backend *be)
{
	memset(&watch, 0, sizeof watch);
	watch.ops = be->ops;
	watch.mine = *be->ops;
	watch.mine.read = watch_read;
	watch.mine.sync = watch_sync;
	watch.mine.attn = watch_attn;
	be->ops = &watch.mine;
}

/* Generate MORE tokens after a text. Returns how many layers ran after a read of the backend within the same token.
 * *lists: mean number of lists of slots that a token reads. */
enum { MORE = 12 };
static int layers_asked(struct engine *e, const char *kv, int *lists)
{
	enum { TEXT = 150 };
	struct timeline *tl = timeline_on(e, kv, "f16", 256);
	struct sampling greedy = sampling_default;
	struct err err = { 0 };
	int32_t id[TEXT];

	greedy.temperature = 0;
	fill(id, TEXT, N_VOCAB);
	CHECK_MSG(timeline_sync(tl, id, TEXT, NULL, NULL, &err) >= 0, "%s", err.msg);
	/* policy auto selects among the entries of pinned tokens */
	CHECK_MSG(!timeline_pin(tl, TEXT, &err), "%s", err.msg);
	watch_begin(e->be);
	/* The first token is sampled from the logits of the prefill. */
	for (int i = 0; i < 1 + MORE; i++) {
		struct step_out out;

		watch.asked = 0;
		CHECK_MSG(timeline_step(tl, &greedy, &out, &err) > 0, "%s", err.msg);
	}
	e->be->ops = watch.ops;
	CHECK_INT(watch.layers, MORE * LAYERS);
	timeline_close(tl);
	*lists = watch.lists / MORE;
	return watch.between;
}

TEST(cuda_layers_ask_nothing)
{
	/* lists: number of lists of slots that a token reads. There is one per layer, except that two layers have none
	 * under quest with raw bounds, h2o+ and predict. -1 = the number differs between tokens. */
	/* clang-format off */
	static const struct { const char *kv; int lists; } want[] = {
		{ "full", 0 }, { "sift:k=16", LAYERS }, { "refresh:k=16,qc=3", -1 }, { "refresh:k=16,qc=3,scan=kv", -1 },
		{ "recycled:k=16,stride=4", -1 }, { "streaming++:size=16,stride=8", 0 }, { "quest:k=32", LAYERS },
		{ "quest:k=32,bound=raw", LAYERS - 2 }, { "h2o:k=16", LAYERS }, { "h2o+:k=16", LAYERS - 2 },
		{ "snapkv:k=16,window=1", LAYERS }, { "sink:size=24,sinks=2,stride=8", 0 },
		{ "cascade:size=32,n=4,sinks=2,stride=8", 0 }, { "auto:k=16,sample=8", LAYERS },
		{ "predict:k=32,block=4,first=4,last=8", LAYERS - 2 },
	};
	/* clang-format on */
	struct engine *e;

	test_cuda_use_plugin();
	e = tiny_open(&tiny_families[0], 1, TRAINED, 10000);
	predictor_put_for(e);
	CHECK(!strncmp(engine_info(e)->device, "cuda", 4));
	for (size_t i = 0; i < LEN(want); i++) {
		int lists, asked = layers_asked(e, want[i].kv, &lists);

		CHECK_MSG(!asked, "%s: %d layers came after an answer of the device", want[i].kv, asked);
		CHECK_MSG(want[i].lists < 0 || lists == want[i].lists, "%s: %d lists of rows a token", want[i].kv,
		          lists);
	}
	engine_close(e);
}

/* ---- drafted tokens ---- */

static void extend(struct timeline *tl, const int32_t *id, int32_t n, int stepwise)
{
	struct err err = { 0 };

	CHECK_MSG(!timeline_extend(tl, id, (size_t)n, stepwise, NULL, NULL, &err), "%s", err.msg);
}

/* Check that two timelines have equal logits and equal snapshots. A snapshot has KV entries, attention mass, selected
 * sets and rings. */
static void check_same(struct timeline *a, struct timeline *b, int32_t n_vocab, const char *at)
{
	struct str x = { 0 }, y = { 0 };
	struct err err = { 0 };
	int32_t n = timeline_entries_ready(a);
	size_t bytes = (size_t)timeline_token_bytes(a, 1) * (size_t)n;
	uint8_t *rows = malloc(2 * bytes + 1);

	CHECK_MSG(timeline_logits(a) && timeline_logits(b) &&
	                  !memcmp(timeline_logits(a), timeline_logits(b), (size_t)n_vocab * sizeof(float)),
	          "%s: other logits", at);
	CHECK_INT(timeline_entries_ready(b), n);
	CHECK_MSG(!timeline_entries_save(a, 0, n, 1, rows, &err) &&
	                  !timeline_entries_save(b, 0, n, 1, rows + bytes, &err),
	          "%s: %s", at, err.msg);
	CHECK_MSG(!memcmp(rows, rows + bytes, bytes), "%s: other KV entries", at);
	CHECK_MSG(!timeline_head_save(a, &x, &err) && !timeline_head_save(b, &y, &err), "%s: %s", at, err.msg);
	CHECK_MSG(x.n == y.n && !memcmp(x.p, y.p, x.n), "%s: other heads of snapshots", at);
	free(rows);
	str_free(&x);
	str_free(&y);
}

/* A short form of tests/engine/t_rollback.c: verify DRAFT drafted tokens, accept the first keep[] of them, and check
 * that the other tokens leave no trace. Returns how many drafted tokens were verified. */
enum { DRAFT_POLICIES = 7 };
static int drafts_leave_no_trace(struct engine *e, int32_t policies_tried)
{
	enum { PROMPT = 44, AFTER = 30, DRAFT = 5 };
	/* The first cascade already evicts during the prompt, so a step can have only few drafted tokens. The second
	 * cascade evicts only after the last draft. */
	static const char *const kv[] = { "full",
		                          "sink:size=24,sinks=2,stride=8",
		                          "cascade:size=32,n=2,sinks=2,stride=16",
		                          "cascade:size=72,n=2,sinks=2,stride=16",
		                          "sift:k=16",
		                          "refresh:k=16,qc=3",
		                          "h2o:k=16" };
	static const int32_t keep[] = { 3, 0, 5, 1 };
	int32_t id[PROMPT + AFTER];
	int32_t n_vocab = engine_info(e)->n_vocab;
	int tried = 0;

	CHECK(!strncmp(engine_info(e)->device, "cuda", 4));
	fill(id, PROMPT + AFTER, n_vocab);
	_Static_assert(LEN(kv) == DRAFT_POLICIES, "the number of policies");
	for (int32_t k = 0; k < policies_tried; k++) {
		struct timeline *a = timeline_on(e, kv[k], "f16", 256), *b = timeline_on(e, kv[k], "f16", 256);
		struct err err = { 0 };
		char at[120];

		extend(a, id, PROMPT, 0);
		extend(b, id, PROMPT, 0);
		for (int round = 0; round < 4; round++) {
			/* the drafted tokens are tokens of the prompt, at another position */
			const int32_t *draft = id + DRAFT * round;
			const float *logits = NULL;
			int32_t got = timeline_verify(a, draft, DRAFT, &logits, &err), n = MIN(got, keep[round]);

			snprintf(at, sizeof at, "%s, round %d", kv[k], round);
			CHECK_MSG(got > 0 && got <= DRAFT, "%s: %d: %s", at, got, err.msg);
			for (int32_t i = 0; i < n; i++) {
				extend(b, draft + i, 1, 1);
				CHECK_MSG(!memcmp(logits + (size_t)((i + 1) * n_vocab), timeline_logits(b),
				                  (size_t)n_vocab * sizeof *logits),
				          "%s: logits after token %d of %d", at, i, got);
			}
			CHECK_MSG(!timeline_accept(a, n, &err), "%s: %s", at, err.msg);
			check_same(a, b, n_vocab, at);
			tried += got;
		}
		/* Decode, prefill, and decode again. */
		for (int32_t i = 0; i < AFTER; i += AFTER / 3) {
			extend(a, id + PROMPT + i, AFTER / 3, i != AFTER / 3);
			extend(b, id + PROMPT + i, AFTER / 3, i != AFTER / 3);
		}
		snprintf(at, sizeof at, "%s, %d tokens later", kv[k], AFTER);
		check_same(a, b, n_vocab, at);
		timeline_close(a);
		timeline_close(b);
	}
	engine_close(e);
	return tried;
}

TEST(cuda_drafted_tokens_leave_no_trace)
{
	test_cuda_use_plugin();
	test_note("%d tokens tried",
	          drafts_leave_no_trace(tiny_open(&tiny_families[0], 1, TRAINED, 10000), DRAFT_POLICIES));
}

/* The same test for a model whose layers differ in heads, widths and inputs, and in which some layers use the KV
 * entries of other layers. */
TEST(cuda_drafted_tokens_where_layers_differ)
{
	test_note("%d tokens tried", drafts_leave_no_trace(open_on("cuda", "gemma4"), 2));
}

/* ---- begun on one device, continued on the other ---- */

/* Load a snapshot of `from`, its KV entries and all other state, into `to`. */
static void carry(struct timeline *from, struct timeline *to)
{
	int32_t n = timeline_entries_ready(from);
	uint8_t *rows = malloc((size_t)timeline_token_bytes(from, 1) * (size_t)(n ? n : 1));
	struct str head = { 0 };
	struct err err = { 0 };

	CHECK_INT(timeline_token_bytes(from, 1), timeline_token_bytes(to, 1));
	CHECK_MSG(!timeline_entries_save(from, 0, n, 1, rows, &err), "%s", err.msg);
	CHECK_MSG(!timeline_head_save(from, &head, &err), "%s", err.msg);
	CHECK_MSG(!timeline_entries_load(to, 0, n, 1, rows, &err), "%s", err.msg);
	CHECK_MSG(!timeline_head_load(to, head.p, head.n, &err), "%s", err.msg);
	str_free(&head);
	free(rows);
}

static void go_on(struct timeline *tl, int32_t out[STEPS])
{
	struct sampling greedy = sampling_default;
	struct err err = { 0 };

	greedy.temperature = 0;
	for (int i = 0; i < STEPS; i++) {
		struct step_out step = { .id = -1 };

		CHECK_MSG(timeline_step(tl, &greedy, &step, &err) >= 0, "%s", err.msg);
		out[i] = step.id;
	}
}

TEST(cuda_continues_where_the_cpu_was_and_back)
{
	static const char *const kv[] = { "full", "sift:k=16", "cascade:size=32,n=4,sinks=2,stride=8",
		                          "refresh:k=16,qc=3", "auto" };
	struct engine *e[2] = { open_on("cpu", "llama-llama3"), open_on("cuda", "llama-llama3") };
	int32_t id[READ];

	fill(id, READ, engine_info(e[0])->n_vocab);
	for (size_t k = 0; k < LEN(kv); k++) {
		for (int from = 0; from < 2; from++) {
			struct timeline *a = timeline_on(e[from], kv[k], "f16", 128),
					*b = timeline_on(e[!from], kv[k], "f16", 128);
			struct timeline *same = timeline_on(e[from], kv[k], "f16", 128);
			int32_t here[STEPS], there[STEPS], again[STEPS];
			struct err err = { 0 };

			CHECK_MSG(timeline_sync(a, id, READ, NULL, NULL, &err) >= 0, "%s", err.msg);
			carry(a, b);
			carry(a, same);
			go_on(a, here);
			go_on(b, there);
			go_on(same, again);
			CHECK_MSG(!memcmp(here, there, sizeof here), "%s from %s: other tokens", kv[k],
			          from ? "cuda" : "cpu");
			/* On the same kind of device, the sequence continues with the same bits: compare 12 tokens and
			 * the last logits. */
			CHECK_MSG(!memcmp(here, again, sizeof here), "%s on %s: other tokens after coming back", kv[k],
			          from ? "cuda" : "cpu");
			if (timeline_logits(a) && timeline_logits(same))
				CHECK_MSG(!memcmp(timeline_logits(a), timeline_logits(same),
				                  (size_t)engine_info(e[0])->n_vocab * sizeof(float)),
				          "%s on %s: other bits after coming back", kv[k], from ? "cuda" : "cpu");
			timeline_close(a);
			timeline_close(b);
			timeline_close(same);
		}
	}
	engine_close(e[0]);
	engine_close(e[1]);
}

/* ---- does it fit ---- */

TEST(cuda_memory_decides)
{
	struct engine *e = open_on("cuda", "llama-llama3");
	struct timeline_need need;
	struct timeline *tl = NULL;
	struct err err = { 0 };

	CHECK_INT(timeline_need(e, &(struct timeline_options){ .ctx = 64, .kv = "full" }, &need, &err), 0);
	CHECK_INT(timeline_open(&tl, e, &(struct timeline_options){ .ctx = 64, .kv = "full", .kv_memory = 1 << 10 },
	                        &err),
	          -1);
	CHECK_MSG(strstr(err.msg, "'full' needs all entries in the GPU's memory, and --kv-memory allows fewer") != NULL,
	          "%s", err.msg);
	CHECK_INT(need.device_bytes, engine_info(e)->device_total);
	CHECK_INT(timeline_open(&tl, e, &(struct timeline_options){ .ctx = 64, .kv = "full", .read_share = 0.9f },
	                        &err),
	          -1);
	CHECK_MSG(strstr(err.msg, "a GPU reads prompts whole; use --device cpu") != NULL, "%s", err.msg);
	CHECK(need.free_bytes <= need.device_bytes && need.scratch_bytes > 100 << 20);
	/* A context far beyond the device's memory is refused. The error names the device's memory and a -c that fits,
	 * or says that none fits. */
	CHECK_INT(timeline_open(&tl, e, &(struct timeline_options){ .ctx = need.ctx_fits + (1 << 20), .kv = "full" },
	                        &err),
	          -1);
	CHECK_INT(err.code, ERR_FIT);
	CHECK_MSG(strstr(err.msg, "the GPU has") && strstr(err.msg, "fits"), "%s", err.msg);
	timeline_close(tl);
	engine_close(e);
}
