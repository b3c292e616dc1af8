/* tests/engine/t_families.c - families with sliding windows, experts, sinks or two sets of RoPE factors, under every
 * cache policy.
 *
 * The guarantees of plain families hold for these families, too. A saved and loaded sequence continues bit for bit.
 * Drafted tokens have the bits of tokens decoded one by one. Results depend neither on the number of threads nor on
 * observers. Their logits are compared in t_models, single layers in t_arch. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/cache/cache.h"
#include "engine/engine_view.h"
#include "tests/lib/predictor.h"
#include "engine/engine_snapshot.h"
#include "engine/timeline/timeline.h"

enum { PROMPT = 50, STEPS = 60, CTX = 130 };

static const char *const models[] = { "gemma2",
	                              "gemma3",
	                              "gemma4",
	                              "gemma4moe",
	                              "phi3-long",
	                              "olmo3",
	                              "qwen3moe",
	                              "gpt-oss",
	                              "gpt-oss-mxfp4",
	                              "mistral3",
	                              "lfm2",
	                              "lfm2moe",
	                              "qwen35",
	                              "qwen35moe",
	                              "qwen3next",
	                              "granitehybrid",
	                              "granitehybridmoe",
	                              "granitehybrid-groups",
	                              "qwen2moe",
	                              "exaone4" };
static const struct {
	const char *kv;
	int32_t pin;
} policies_all[] = {
	{ "full", 0 },
	{ "auto", 0 },
	{ "auto:k=8,sample=4", 40 },
	{ "auto:prefix=refresh,k=8,size=32", 40 },
	{ "sink:size=24,stride=8", 0 },
	{ "cascade:size=32,stride=8", 0 },
	{ "cascade:size=32,n=4,heads=layer,stride=4", 0 },
	{ "cascade:size=32,select=0,stride=8", 0 },
	{ "sift:k=12", 0 },
	{ "sift:k=12,sample=8", 0 },
	{ "sift:k=12,split=even", 0 },
	{ "refresh:k=12", 0 },
	{ "recycled:k=12,stride=5", 0 },
	{ "streaming++:size=20,stride=6", 0 },
	{ "quest:k=32", 0 },
	{ "h2o:k=12", 0 },
	{ "h2o+:k=12,dense=1", 0 },
	{ "snapkv:k=40,window=32", 0 },
	{ "kvzip:k=1/8", 0 },
	{ "predict:k=24,block=4,first=4,last=8,dense=0,by=mixed", 0 },
	{ "predict:k=12,block=1,first=2,last=4,dense=1,by=net,rows=16", 0 },
};
enum { N_MODELS = LEN(models), N_POLICIES = LEN(policies_all) };

static struct engine *open_model(const char *name, int threads)
{
	struct engine *e = NULL;
	struct err err = { 0 };
	char rel[96];

	snprintf(rel, sizeof rel, "tests/vectors/models/%s.gguf", name);
	if (engine_open(&e,
	                &(struct engine_options){ .model_path = test_file(rel), .device = "cpu", .threads = threads },
	                &err))
		test_skip("%s", err.msg);
	predictor_put_for(e);
	return e;
}

static struct timeline *open_line(struct engine *e, size_t policy, int32_t ctx)
{
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (timeline_open(&tl, e,
	                  &(struct timeline_options){
				  .ctx = ctx, .batch = 16, .kv = policies_all[policy].kv, .kv_type = "f32" },
	                  &err))
		test_fail(__FILE__, __LINE__, "%s: %s", policies_all[policy].kv, err.msg);
	else if (policies_all[policy].pin && timeline_pin(tl, policies_all[policy].pin, &err))
		test_fail(__FILE__, __LINE__, "%s: %s", policies_all[policy].kv, err.msg);
	return tl;
}

static int32_t id_at(int32_t i)
{
	return 3 + (i * 37 + i * i % 11) % 240;
}

static int read_prompt(struct timeline *tl)
{
	struct err err = { 0 };
	int32_t id[PROMPT];

	for (int32_t i = 0; i < PROMPT; i++)
		id[i] = id_at(i);
	if (timeline_sync(tl, id, PROMPT, NULL, NULL, &err) >= 0)
		return 0;
	test_fail(__FILE__, __LINE__, "%s", err.msg);
	return -1;
}

/* Decode the token for index i, as if it had been sampled. */
static int step(struct timeline *tl, int32_t i)
{
	struct err err = { 0 };
	int32_t id = id_at(i);

	if (!timeline_extend(tl, &id, 1, 1, NULL, NULL, &err))
		return 0;
	test_fail(__FILE__, __LINE__, "%s", err.msg);
	return -1;
}

static int same_logits(struct engine *e, struct timeline *a, struct timeline *b)
{
	return !memcmp(timeline_logits(a), timeline_logits(b), (size_t)engine_info(e)->n_vocab * sizeof(float));
}

/* ---- saving ---- */

static struct timeline *saved_and_loaded(struct engine *e, size_t policy, struct timeline *tl)
{
	struct timeline *u = open_line(e, policy, CTX);
	int32_t ready = timeline_entries_ready(tl);
	char *entries = malloc(timeline_token_bytes(tl, 1) * (size_t)(ready + 1));
	struct str head = { 0 };
	struct err err = { 0 };

	if ((ready && timeline_entries_save(tl, 0, ready, 1, entries, &err)) || timeline_head_save(tl, &head, &err) ||
	    (ready && timeline_entries_load(u, 0, ready, 1, entries, &err)) ||
	    timeline_head_load(u, head.p, head.n, &err))
		test_fail(__FILE__, __LINE__, "%s: %s", policies_all[policy].kv, err.msg);
	free(entries);
	str_free(&head);
	return u;
}

static int save_points;

/* Save and load a sequence after some of its tokens, or with WEIR_SOAK after every token. */
static void saves(struct engine *e, const char *model, size_t policy)
{
	struct timeline *tl = open_line(e, policy, CTX), *u = NULL;

	if (!tl || read_prompt(tl))
		return;
	for (int32_t i = PROMPT; i < PROMPT + STEPS; i++) {
		if (i == PROMPT || i == PROMPT + 7 || i == PROMPT + 40 || getenv("WEIR_SOAK")) {
			save_points++;
			if (u)
				timeline_close(u);
			u = saved_and_loaded(e, policy, tl);
		}
		if (step(tl, i) || step(u, i))
			break;
		if (!same_logits(e, tl, u)) {
			test_fail(__FILE__, __LINE__, "%s, %s: token %d after loading has other logits", model,
			          policies_all[policy].kv, i);
			break;
		}
	}
	timeline_close(tl);
	timeline_close(u);
}

TEST(what_was_loaded_goes_on_bit_for_bit)
{
	for (size_t m = 0; m < N_MODELS; m++) {
		struct engine *e = open_model(models[m], 2);

		for (size_t p = 0; p < N_POLICIES; p++)
			saves(e, models[m], p);
		engine_close(e);
	}
	test_note("%d save points", save_points);
}

/* ---- drafted tokens ---- */

static void drafts(struct engine *e, const char *model, size_t policy)
{
	struct timeline *tl = open_line(e, policy, CTX), *u = open_line(e, policy, CTX);
	size_t row = (size_t)engine_info(e)->n_vocab * sizeof(float);
	struct err err = { 0 };

	if (!tl || !u || read_prompt(tl) || read_prompt(u))
		return;
	for (int32_t at = PROMPT, tried, keep; at < PROMPT + STEPS; at += keep) {
		int32_t id[VERIFY_MOST], n = 2 + at % (VERIFY_MOST - 1);
		const float *logits;

		for (int32_t i = 0; i < n; i++)
			id[i] = id_at(at + i);
		if ((tried = timeline_verify(u, id, n, &logits, &err)) < 0) {
			test_fail(__FILE__, __LINE__, "%s", err.msg);
			break;
		}
		CHECK_MSG(tried == n || policy, "%s: %d of %d drafted tokens were tried", model, tried, n);
		keep = tried > 2 && at % 3 == 0 ? tried - 1 : tried;
		for (int32_t i = 0; i < keep; i++) {
			CHECK_MSG(!memcmp(logits + (size_t)i * row / sizeof(float), timeline_logits(tl), row),
			          "%s, %s: drafted token %d has other logits", model, policies_all[policy].kv, at + i);
			step(tl, at + i);
		}
		if (!keep) {
			step(tl, at);
			step(u, at);
			keep = 1;
		} else if (timeline_accept(u, keep, &err)) {
			test_fail(__FILE__, __LINE__, "%s", err.msg);
			break;
		}
		if (!same_logits(e, tl, u)) {
			test_fail(__FILE__, __LINE__, "%s, %s: %d tokens accepted, other logits", model,
			          policies_all[policy].kv, keep);
			break;
		}
	}
	timeline_close(tl);
	timeline_close(u);
}

TEST(drafted_tokens_have_the_bits_of_decoded_ones)
{
	for (size_t m = 0; m < N_MODELS; m++) {
		struct engine *e = open_model(models[m], 2);

		for (size_t p = 0; p < N_POLICIES; p++)
			drafts(e, models[m], p);
		engine_close(e);
	}
}

/* ---- threads, observers, rollback ---- */

TEST(threads_and_observers_change_nothing)
{
	for (size_t m = 0; m < N_MODELS; m++) {
		struct engine *one = open_model(models[m], 1), *three = open_model(models[m], 3);
		struct cache_view *view = calloc(1, sizeof *view);
		float sums[PROMPT];

		for (size_t p = 0; p < N_POLICIES; p++) {
			struct timeline *tl = open_line(one, p, CTX), *u = open_line(three, p, CTX);
			struct err err = { 0 };

			if (!tl || !u || timeline_evidence_begin(u, &err) || read_prompt(tl) || read_prompt(u))
				continue;
			for (int32_t i = PROMPT; i < PROMPT + STEPS; i++) {
				timeline_view(u, 16, view);
				if (step(tl, i) || step(u, i) || !same_logits(one, tl, u)) {
					test_fail(__FILE__, __LINE__, "%s, %s: token %d has other logits", models[m],
					          policies_all[p].kv, i);
					break;
				}
			}
			timeline_evidence(u, 0, PROMPT, sums);
			for (int32_t i = 0; i < PROMPT; i++)
				CHECK(sums[i] >= 0);
			timeline_close(tl);
			timeline_close(u);
		}
		free(view);
		engine_close(one);
		engine_close(three);
	}
}

/* Tokens that are rolled back leave no trace. Results are not compared after an eviction, because the remaining tokens
 * are then prefilled in other steps, which gives other rounding errors. */
TEST(rolled_back_tokens_leave_no_trace)
{
	for (size_t m = 0; m < N_MODELS; m++) {
		struct engine *e = open_model(models[m], 2);

		for (size_t p = 0; p < N_POLICIES; p++) {
			struct timeline *tl = open_line(e, p, CTX), *u = open_line(e, p, CTX);
			struct timeline_stats st = { 0 };

			if (!tl || !u || read_prompt(tl) || read_prompt(u))
				continue;
			timeline_stats(tl, &st);
			for (int32_t i = PROMPT; i < PROMPT + 4; i++)
				step(u, i + 100);
			if (!read_prompt(u) && !st.rings.evicted && !st.rings.evicted_in_part)
				CHECK_MSG(same_logits(e, tl, u), "%s, %s", models[m], policies_all[p].kv);
			timeline_close(tl);
			timeline_close(u);
		}
		engine_close(e);
	}
}

/* ---- the cache's size ---- */

/* A cache with more positions than the original context of the model uses the long RoPE factors, and the cache's
 * identity names them. */
TEST(long_factors_are_told_apart)
{
	struct engine *e = open_model("phi3-long", 1);
	struct str name[2] = { { 0 }, { 0 } };
	float *logits[2];

	for (int i = 0; i < 2; i++) {
		struct timeline *tl = open_line(e, 0, i ? 33 : 32);
		struct err err = { 0 };
		int32_t id[20];

		for (int32_t k = 0; k < 20; k++)
			id[k] = id_at(k);
		CHECK_MSG(timeline_sync(tl, id, 20, NULL, NULL, &err) >= 0, "%s", err.msg);
		logits[i] = malloc((size_t)engine_info(e)->n_vocab * sizeof(float));
		memcpy(logits[i], timeline_logits(tl), (size_t)engine_info(e)->n_vocab * sizeof(float));
		timeline_entries_identity(tl, &name[i]);
		str_add(&name[i], "", 1);
		timeline_close(tl);
	}
	CHECK(!strstr(name[0].p, "rotation long") && strstr(name[1].p, "rotation long"));
	CHECK(test_nmse(logits[0], logits[1], (size_t)engine_info(e)->n_vocab) > 1e-4);
	for (int i = 0; i < 2; i++) {
		str_free(&name[i]);
		free(logits[i]);
	}
	engine_close(e);
}
