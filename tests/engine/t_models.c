/* tests/engine/t_models.c - compares the logits of tiny models, of every family and with every rotary scaling, with
 * those that another implementation computed (tests/vectors/README.md says how each was made), at every CPU level. */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "kernels/cpu/fns.h"

enum { MAX_IDS = 64 };

struct want {
	int32_t id[MAX_IDS];
	size_t n_id, n_last; /* logits of the last n_last positions */
	float *logits;       /* [n_last][n_vocab] */
};

struct got {
	float *logits;
	int32_t n_vocab;
	size_t n;
	int ordered;
};

static char *vector_path(const char *name, const char *suffix)
{
	char rel[128];
	snprintf(rel, sizeof rel, "tests/vectors/models/%s%s", name, suffix);
	return strdup(test_file(rel));
}

static int want_read(struct want *w, const char *name, int32_t n_vocab)
{
	char *path = vector_path(name, ".ids"), *text = test_read(path, NULL), *end = text;
	size_t bytes = 0, row = (size_t)n_vocab * sizeof(float);

	memset(w, 0, sizeof *w);
	for (char *p = text; p; p = end) {
		long id = strtol(p, &end, 10);
		if (end == p || w->n_id == MAX_IDS)
			break;
		w->id[w->n_id++] = (int32_t)id;
	}
	free(path);
	free(text);
	path = vector_path(name, ".logits.f32");
	w->logits = (float *)(void *)test_read(path, &bytes);
	free(path);
	w->n_last = bytes / row;
	CHECK(w->logits && w->n_id > 0 && bytes % row == 0 && w->n_last > 0 && w->n_last <= w->n_id);
	return w->logits && w->n_id && w->n_last && w->n_last <= w->n_id ? 0 : -1;
}

static void keep(int32_t pos, const float *logits, void *ud)
{
	struct got *g = ud;
	g->ordered &= (size_t)pos == g->n;
	memcpy(g->logits + g->n * (size_t)g->n_vocab, logits, (size_t)g->n_vocab * sizeof *logits);
	g->n++;
}

/* Return all logits of the sequence, prefilled in calls of `step` tokens, which compute at most `batch` tokens per
 * step. */
static float *logits_of(struct engine *e, const struct want *w, size_t step, int32_t batch)
{
	struct err err = { 0 };
	struct timeline *tl = NULL;
	struct timeline_options opt = { .ctx = (int32_t)w->n_id, .kv_type = "f32", .batch = batch };
	struct got g = { .n_vocab = engine_info(e)->n_vocab, .ordered = 1 };

	g.logits = calloc(w->n_id, (size_t)g.n_vocab * sizeof *g.logits);
	if (timeline_open(&tl, e, &opt, &err)) {
		test_fail(__FILE__, __LINE__, "timeline_open: %s", err.msg);
		return g.logits;
	}
	for (size_t at = 0; at < w->n_id; at += step)
		if (timeline_extend(tl, w->id + at, w->n_id - at < step ? w->n_id - at : step, 0, keep, &g, &err)) {
			test_fail(__FILE__, __LINE__, "timeline_extend: %s", err.msg);
			break;
		}
	CHECK_INT(g.n, w->n_id);
	CHECK(g.ordered);
	timeline_close(tl);
	return g.logits;
}

/* If the reference's best token leads by more than 1/20 of the logits' standard deviation, it must be the best token
 * here, too. */
static void check_winner(const char *name, const float *got, const float *want, int32_t n)
{
	double sum = 0, sum2 = 0;
	int32_t top = 0, second = -1, mine = 0;

	for (int32_t i = 0; i < n; i++) {
		sum += want[i];
		sum2 += (double)want[i] * want[i];
		if (want[i] > want[top])
			top = i;
		if (got[i] > got[mine])
			mine = i;
	}
	for (int32_t i = 0; i < n; i++)
		if (i != top && (second < 0 || want[i] > want[second]))
			second = i;
	double std = sqrt(sum2 / n - sum / n * (sum / n));
	if (want[top] - want[second] > 0.05 * std)
		CHECK_MSG(mine == top, "%s: token %d wins, expected %d by %.3f deviations", name, mine, top,
		          (want[top] - want[second]) / std);
}

struct model_case {
	const char *name, *arch, *scaling;
	int tied, qkv_bias, qk_norm;
	int32_t head_dim;
	double limit; /* normalised squared error */
};

/* Bounds of the normalised squared error. EXACT: float weights differ by rounding only (measured: 2e-13; a rotary base
 * that is wrong by 10 % gives 6e-6 or more). ROUNDED: quantised weights, with activations rounded to 8 bits. */
#define EXACT   1e-9
#define ROUNDED 2e-3

static void check_model(const struct model_case *c)
{
	char *path = vector_path(c->name, ".gguf");
	double worst = 0;

	/* If the processor lacks a level, the level's name selects the best level of the processor. */
	for (size_t l = 0; l < CPU_LEVELS; l++) {
		struct err err = { 0 };
		struct engine *e = NULL;
		struct want w;

		setenv("WEIR_CPU", cpu_level_name[l], 1);
		struct engine_options opt = { .model_path = path, .device = "cpu", .threads = 2 };
		if (engine_open(&e, &opt, &err)) {
			test_fail(__FILE__, __LINE__, "%s: %s", c->name, err.msg);
			break;
		}
		const struct engine_info *info = engine_info(e);
		CHECK_STR(info->arch, c->arch);
		CHECK_STR(info->rope_scaling, c->scaling);
		CHECK_INT(info->tied_output, c->tied);
		CHECK_INT(info->qkv_bias, c->qkv_bias);
		CHECK_INT(info->qk_norm, c->qk_norm);
		CHECK_INT(info->head_dim, c->head_dim);
		if (!want_read(&w, c->name, info->n_vocab)) {
			size_t n = (size_t)info->n_vocab, first = w.n_id - w.n_last;
			float *got = logits_of(e, &w, w.n_id, 0), *parts = logits_of(e, &w, 5, 3);
			double nmse = test_nmse(got + first * n, w.logits, w.n_last * n);
			worst = fmax(worst, nmse);
			CHECK_MSG(nmse < c->limit, "%s at level %s: error %.3g, limit %.3g", c->name, cpu_level_name[l],
			          nmse, c->limit);
			for (size_t i = 0; i < w.n_last; i++)
				check_winner(c->name, got + (first + i) * n, w.logits + i * n, info->n_vocab);
			/* The bits do not depend on how the sequence is cut into calls. */
			CHECK_MSG(!memcmp(got, parts, w.n_id * n * sizeof *got), "%s at level %s: depends on chunks",
			          c->name, cpu_level_name[l]);
			free(got);
			free(parts);
		}
		free(w.logits);
		engine_close(e);
	}
	unsetenv("WEIR_CPU");
	free(path);
	test_note("%s: normalised squared error %.2g", c->name, worst);
}

#define MODEL(fn, ...)                                                                                                 \
	TEST(fn)                                                                                                       \
	{                                                                                                              \
		check_model(&(struct model_case){ __VA_ARGS__ });                                                      \
	}

MODEL(qwen2_tied, "qwen2-tied", "qwen2", "none", 1, 1, 0, 8, EXACT)
MODEL(qwen2_untied, "qwen2-untied", "qwen2", "none", 0, 1, 0, 8, EXACT)
MODEL(qwen3, "qwen3", "qwen3", "none", 1, 0, 1, 16, EXACT)
MODEL(llama_llama3, "llama-llama3", "llama", "llama3", 1, 0, 0, 16, EXACT)
MODEL(llama_linear, "llama-linear", "llama", "linear", 1, 0, 0, 16, EXACT)
MODEL(qwen2_yarn, "qwen2-yarn", "qwen2", "yarn", 1, 1, 0, 16, EXACT)
MODEL(llama_yarn, "llama-yarn", "llama", "yarn", 1, 0, 0, 16, EXACT)
MODEL(llama_block32, "llama-block32", "llama", "none", 0, 0, 0, 16, ROUNDED)
MODEL(llama_block256, "llama-block256", "llama", "none", 0, 0, 0, 32, ROUNDED)
MODEL(smollm3, "smollm3", "smollm3", "none", 1, 0, 0, 8, EXACT)
MODEL(granite, "granite", "granite", "none", 1, 0, 0, 8, EXACT)
MODEL(olmo2, "olmo2", "olmo2", "none", 1, 0, 1, 8, EXACT)
MODEL(phi3, "phi3", "phi3", "longrope", 1, 0, 0, 8, EXACT)
MODEL(gemma2, "gemma2", "gemma2", "none", 1, 0, 0, 8, EXACT)
MODEL(gemma3, "gemma3", "gemma3", "linear", 1, 0, 1, 8, EXACT)
MODEL(gemma4, "gemma4", "gemma4", "proportional", 1, 0, 1, 16, EXACT)
MODEL(gemma4moe, "gemma4moe", "gemma4", "proportional", 1, 0, 1, 16, EXACT)
MODEL(gemma, "gemma", "gemma", "none", 1, 0, 0, 8, EXACT)
MODEL(qwen3vl, "qwen3vl", "qwen3vl", "none", 1, 0, 1, 8, EXACT)
MODEL(qwen3vlmoe, "qwen3vlmoe", "qwen3vlmoe", "none", 1, 0, 1, 8, EXACT)
MODEL(qwen2vl, "qwen2vl", "qwen2vl", "none", 1, 1, 0, 8, EXACT)
MODEL(qwen2moe, "qwen2moe", "qwen2moe", "none", 1, 1, 0, 8, EXACT)
MODEL(mixtral, "mixtral", "llama", "none", 1, 0, 0, 8, EXACT)
MODEL(granitemoe, "granitemoe", "granitemoe", "none", 1, 0, 0, 8, EXACT)
MODEL(olmoe, "olmoe", "olmoe", "none", 1, 0, 1, 8, EXACT)
MODEL(glm4, "glm4", "glm4", "none", 1, 1, 0, 8, EXACT)
MODEL(exaone4, "exaone4", "exaone4", "none", 1, 0, 1, 8, EXACT)
MODEL(ernie4_5, "ernie4_5", "ernie4_5", "none", 1, 0, 0, 8, EXACT)
MODEL(seed_oss, "seed_oss", "seed_oss", "none", 1, 1, 0, 8, EXACT)
MODEL(granitehybrid_groups, "granitehybrid-groups", "granitehybrid", "none", 1, 0, 0, 8, EXACT)
MODEL(phi3_long, "phi3-long", "phi3", "longrope", 1, 0, 0, 8, EXACT)
MODEL(olmo3, "olmo3", "olmo2", "yarn", 1, 0, 1, 8, EXACT)
MODEL(qwen3moe, "qwen3moe", "qwen3moe", "none", 1, 0, 1, 8, EXACT)
MODEL(gpt_oss, "gpt-oss", "gpt-oss", "yarn", 1, 1, 0, 16, EXACT)
MODEL(gpt_oss_mxfp4, "gpt-oss-mxfp4", "gpt-oss", "yarn", 1, 1, 0, 16, ROUNDED)
MODEL(mistral3, "mistral3", "mistral3", "yarn", 1, 0, 0, 8, EXACT)
MODEL(lfm2, "lfm2", "lfm2", "none", 1, 0, 1, 8, EXACT)
MODEL(lfm2moe, "lfm2moe", "lfm2moe", "none", 1, 0, 1, 8, EXACT)
MODEL(qwen35, "qwen35", "qwen35", "none", 1, 0, 1, 8, EXACT)
MODEL(qwen35moe, "qwen35moe", "qwen35moe", "none", 1, 0, 1, 8, EXACT)
MODEL(qwen3next, "qwen3next", "qwen3next", "none", 1, 0, 1, 8, EXACT)
MODEL(granitehybrid, "granitehybrid", "granitehybrid", "none", 1, 0, 0, 8, EXACT)
MODEL(granitehybridmoe, "granitehybridmoe", "granitehybrid", "none", 1, 0, 0, 8, EXACT)
