/* tests/cuda/t_cuda_waits.c - how often the host waits for the device while tokens are generated, and how many kernels
 * are launched and how many nodes of replayed graphs get new arguments, by cache policy and by family of models.
 *
 * The emulated device counts (gpu_host_stats()). A wait costs 10 to 20 microseconds on a GPU, in which it idles. One
 * wait a token, for the logits, cannot be avoided. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_private.h"
#include "engine/engine_view.h"
#include "engine/timeline/timeline.h"
#include "tests/cuda/cuda_test.h"
#include "tests/cuda/emulator/gpu_host.h"
#include "tests/lib/predictor.h"
#include "tests/lib/tiny.h"

int plugin_cuda_open(struct backend **out, const struct backend_options *, char err[160]);

/* In place of kernels/plugin.c: the emulated device that is linked into this test, whose counts can be read. */
int plugin_cuda_open(struct backend **out, const struct backend_options *opt, char err[160])
{
	return weir_cuda_open(out, opt, BACKEND_ABI, err);
}

enum { TEXT = 64, WARM = 4, MORE = 24 };

struct per_token {
	double waits, launches, updated;
};

static struct timeline *timeline_of(struct engine *e, const char *kv)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = 128, .kv = kv, .kv_type = "f16", .batch = 64 },
	                  &err)) {
		test_fail(__FILE__, __LINE__, "timeline_open under %s: %s", kv, err.msg);
		abort();
	}
	return tl;
}

static void generate(struct timeline *tl, int32_t n)
{
	struct err err = { 0 };
	const float *logits;

	for (int32_t i = 0; i < n; i++) {
		int32_t id = 0, n_vocab = tl->e->model.hp.n_vocab;

		logits = timeline_logits(tl);
		for (int32_t k = 1; logits && k < n_vocab; k++)
			id = logits[k] > logits[id] ? k : id;
		CHECK_MSG(!timeline_extend(tl, &id, 1, 1, NULL, NULL, &err), "%s", err.msg);
	}
}

/* Generate tokens after a text, and count. evidence 1: the attention to earlier tokens is summed, as for every answer
 * about documents; the sums go to *sums [TEXT], if sums is not NULL. */
static struct per_token count(struct engine *e, const char *kv, int evidence, float *sums)
{
	struct timeline *tl = timeline_of(e, kv);
	struct gpu_host_counts before, after;
	struct err err = { 0 };
	int32_t id[TEXT], n_vocab = e->model.hp.n_vocab;

	for (int32_t i = 0; i < TEXT; i++)
		id[i] = (int32_t)((uint32_t)i * 2654435761u >> 16) % n_vocab;
	CHECK_MSG(timeline_sync(tl, id, TEXT, NULL, NULL, &err) >= 0, "%s", err.msg);
	CHECK_MSG(!timeline_pin(tl, TEXT, &err), "%s", err.msg);
	if (evidence)
		CHECK_MSG(!timeline_evidence_begin(tl, &err), "%s", err.msg);
	generate(tl, WARM);
	gpu_host_stats(&before);
	generate(tl, MORE);
	gpu_host_stats(&after);
	if (evidence) {
		if (sums)
			timeline_evidence(tl, 0, TEXT, sums);
		timeline_evidence_end(tl);
	}
	timeline_close(tl);
	return (struct per_token){ (double)(after.waits - before.waits) / MORE,
		                   (double)(after.launches - before.launches) / MORE,
		                   (double)(after.updated - before.updated) / MORE };
}

static void row(const char *what, struct per_token got, double most)
{
	test_note("%-46s %5.2f waits, %6.1f launches, %6.1f nodes with new arguments", what, got.waits, got.launches,
	          got.updated);
	CHECK_MSG(got.waits <= most + 1e-9, "%s: the host waits %.2f times a token, not %.2f", what, got.waits, most);
}

TEST(waits_of_policies)
{
	/* most, with: waits a token without and with evidence. With these short rings, tokens join them often. */
	/* clang-format off */
	static const struct { const char *kv; double most, with; } want[] = {
		{ "full", 1, 1 }, { "sift:k=16", 1, 1 }, { "refresh:k=16,qc=3", 1, 1 },
		{ "refresh:k=16,qc=3,scan=kv,s=0.99", 1, 1 }, { "recycled:k=16,stride=4", 1, 1 }, { "streaming++:size=16,stride=8", 1, 1 }, { "quest:k=32", 1, 1 },
		{ "h2o:k=16", 1, 1 }, { "h2o+:k=16", 1, 1 }, { "snapkv:k=16,window=1", 1, 1 }, { "snapkv:k=48,window=32", 1, 1 },
		{ "sink:size=24,sinks=2,stride=8", 1, 1 }, { "cascade:size=32,n=4,sinks=2,stride=8", 1, 1 },
		{ "auto:k=16,sample=8", 1, 1 }, { "predict:k=32,block=4,first=4,last=8", 1, 1 },
	};
	/* clang-format on */
	struct engine *e;

	CUDA_HOST_ONLY();
	tiny_layers = 5;
	e = tiny_open(&tiny_families[0], 1, TRAINED, 10000);
	tiny_layers = LAYERS;
	predictor_put_for(e);
	CHECK(e->be->device);
	for (size_t i = 0; i < LEN(want); i++) {
		char name[96];

		row(want[i].kv, count(e, want[i].kv, 0, NULL), want[i].most);
		snprintf(name, sizeof name, "%s, with evidence", want[i].kv);
		row(name, count(e, want[i].kv, 1, NULL), want[i].with);
	}
	engine_close(e);
}

/* Evidence that is summed after the step has the bits of evidence that is read after each layer. */
TEST(evidence_has_the_same_bits)
{
	static const char *const kv[] = { "full", "sift:k=16", "auto:k=16,sample=8", "refresh:k=16,qc=3,s=0.99",
		                          "cascade:size=32,n=4,sinks=2,stride=8" };
	struct engine *e;

	CUDA_HOST_ONLY();
	e = tiny_open(&tiny_families[0], 1, TRAINED, 10000);
	for (size_t i = 0; i < LEN(kv); i++) {
		float late[TEXT], at_once[TEXT];
		double sum = 0;

		count(e, kv[i], 1, late);
		e->be->device = 0; /* the way of the CPU */
		count(e, kv[i], 1, at_once);
		e->be->device = 1;
		CHECK_MSG(!memcmp(late, at_once, sizeof late), "%s: other evidence", kv[i]);
		for (int k = 0; k < TEXT; k++)
			sum += (double)late[k];
		CHECK_MSG(sum > 0, "%s: no evidence", kv[i]);
	}
	engine_close(e);
}

TEST(waits_of_families)
{
	static const char *const name[] = { "llama-block32", "qwen3",     "gemma3",          "gemma4",    "lfm2",
		                            "qwen35",        "qwen3next", "granitehybrid",   "mixtral",   "qwen2moe",
		                            "qwen3moe",      "gpt-oss",   "lfm2moe",         "gemma4moe", "granitemoe",
		                            "olmoe",         "qwen35moe", "granitehybridmoe" };

	CUDA_HOST_ONLY();
	for (size_t i = 0; i < LEN(name); i++) {
		struct engine *e = NULL;
		struct err err = { 0 };
		char rel[128];

		snprintf(rel, sizeof rel, "tests/vectors/models/%s.gguf", name[i]);
		if (engine_open(&e, &(struct engine_options){ .model_path = test_file(rel), .device = "cuda" }, &err)) {
			test_fail(__FILE__, __LINE__, "%s: %s", name[i], err.msg);
			continue;
		}
		row(name[i], count(e, "full", 0, NULL), 1);
		engine_close(e);
	}
}

/* ---- the logits that sampling reads ---- */

enum { SAMPLED = 36, GIVEN = 24, WORDS = 1500 };
struct sampled {
	int32_t id[SAMPLED];
	double bytes, waits; /* a token */
	int64_t drafted;
	struct str head; /* snapshot at the end */
	float logits[WORDS];
};

/* Generate tokens with each of n_s settings in turn, `each` tokens with one. With drafts, the first tokens are given, so
 * that guesses are right. */
static struct sampled *generate_sampled(struct engine *e, const struct sampling *s, int n_s, int each, int drafts)
{
	struct timeline *tl = timeline_of(e, "full");
	struct sampled *out = xcalloc(1, sizeof *out);
	struct gpu_host_counts before = { 0 }, after;
	struct sampling now[4];
	struct err err = { 0 };
	const float *logits;
	int32_t id[TEXT + GIVEN];

	for (int32_t i = 0; i < TEXT + GIVEN; i++)
		id[i] = 7 + i % 9;
	for (int k = 0; k < n_s; k++) {
		now[k] = s[k];
		now[k].answer = TEXT;
		now[k].given = id + TEXT;
		now[k].n_given = drafts ? GIVEN : 0;
	}
	CHECK_MSG(timeline_sync(tl, id, TEXT, NULL, NULL, &err) >= 0, "%s", err.msg);
	timeline_speculate(tl, drafts);
	for (int i = 0; i < SAMPLED; i++) {
		struct step_out got;

		CHECK_MSG(timeline_step(tl, &now[i / each % n_s], &got, &err) >= 0, "%s", err.msg);
		out->id[i] = got.id;
		if (!i)
			gpu_host_stats(&before); /* the first token is sampled from the logits of the text */
	}
	gpu_host_stats(&after);
	out->bytes = (double)(after.bytes_read - before.bytes_read) / (SAMPLED - 1);
	out->waits = (double)(after.waits - before.waits) / (SAMPLED - 1);
	out->drafted = tl->stats.drafted;
	CHECK_MSG(!timeline_head_save(tl, &out->head, &err), "%s", err.msg);
	CHECK_MSG(!timeline_extend(tl, NULL, 0, 1, NULL, NULL, &err), "%s", err.msg);
	logits = timeline_logits(tl);
	CHECK(logits != NULL);
	if (logits)
		memcpy(out->logits, logits, sizeof out->logits);
	timeline_close(tl);
	return out;
}

/* Of a token's logits the device gives those that sampling needs. The tokens, and the snapshots, are those of all logits:
 * with drafts, too, and with settings that change between tokens. */
TEST(sampling_reads_few_logits)
{
	const struct sampling greedy = { .temperature = 0, .repeat_penalty = 1 }, usual = sampling_default,
			      all = { .temperature = 0.8f, .top_p = 0.9f, .repeat_penalty = 1 },
			      penalty = { .temperature = 0.5f, .top_k = 20, .top_p = 1, .repeat_penalty = 1.1f };
	const struct {
		const char *what;
		struct sampling s[4];
		int n, each, drafts;
		double bytes; /* a token; 0: not known */
	} want[] = {
		{ "greedy", { greedy }, 1, 1, 0, 8 },
		{ "default settings, top-k 40", { usual }, 1, 1, 0, 320 },
		{ "without top-k", { all }, 1, 1, 0, WORDS * 4 },
		{ "a penalty", { penalty }, 1, 1, 0, WORDS * 4 },
		{ "greedy, drafts", { greedy }, 1, 1, 1, 0 },
		{ "default settings, drafts", { usual }, 1, 1, 1, 0 },
		{ "changing settings", { greedy, usual, penalty, all }, 4, 3, 0, 0 },
		{ "changing settings, drafts", { greedy, usual, greedy, penalty }, 4, 4, 1, 0 },
	};
	struct engine *e;

	CUDA_HOST_ONLY();
	tiny_vocab = WORDS;
	e = tiny_open(&tiny_families[0], 1, TRAINED, 10000);
	tiny_vocab = N_VOCAB;
	for (size_t i = 0; i < LEN(want); i++) {
		struct sampled *few, *whole;

		few = generate_sampled(e, want[i].s, want[i].n, want[i].each, want[i].drafts);
		e->be->device = 0; /* the way of the CPU */
		whole = generate_sampled(e, want[i].s, want[i].n, want[i].each, want[i].drafts);
		e->be->device = 1;
		test_note("%-30s %8.0f bytes read a token, %8.0f with all logits; %.2f waits, %.2f; %d drafted",
		          want[i].what, few->bytes, whole->bytes, few->waits, whole->waits, (int)few->drafted);
		CHECK_MSG(!memcmp(few->id, whole->id, sizeof few->id), "%s: other tokens", want[i].what);
		CHECK_MSG(!memcmp(few->logits, whole->logits, sizeof few->logits), "%s: other logits", want[i].what);
		CHECK_MSG(few->head.n == whole->head.n && !memcmp(few->head.p, whole->head.p, few->head.n),
		          "%s: another snapshot", want[i].what);
		if (want[i].bytes > 0)
			CHECK_MSG(few->bytes <= want[i].bytes && few->waits <= 1,
			          "%s: %.0f bytes and %.2f waits a token, not %.0f", want[i].what, few->bytes,
			          few->waits, want[i].bytes);
		else if (want[i].n == 1)
			CHECK_MSG(few->bytes <= 4096 && few->drafted > 8, "%s: %.0f bytes a token, %d drafted",
			          want[i].what, few->bytes, (int)few->drafted);
		str_free(&few->head);
		str_free(&whole->head);
		free(few);
		free(whole);
	}
	engine_close(e);
}
