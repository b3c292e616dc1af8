/* tests/engine/t_lora.c - LoRA adapters: a model with an adapter gives the results of a model into whose weights the
 * adapter was merged. */
#include "tests/lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine_snapshot.h"
#include "kernels/common/quant.h"
#include "tests/lib/mkgguf.h"

enum { N_ID = 24, RANK = 3 };
static const float alpha = 6;

static const char *const changed[] = { ".attn_q.weight",   ".attn_k.weight",   ".attn_v.weight", ".attn_output.weight",
	                               ".attn_qkv.weight", ".ffn_gate.weight", ".ffn_up.weight", ".ffn_down.weight" };

static uint32_t seed;
static float noise(void)
{
	seed = seed * 1664525 + 1013904223;
	return (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
}

static char *written(const char *name, const struct str *file)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof path, "/tmp/t_lora_%d_%s.gguf", (int)getpid(), name);
	f = fopen(path, "wb");
	CHECK(f && fwrite(file->p, 1, file->n, f) == file->n && !fclose(f));
	return strdup(path);
}

static int is_changed(const struct gguf_tensor *t)
{
	for (size_t i = 0; i < LEN(changed); i++) {
		size_t n = strlen(changed[i]);

		if ((t->type == DT_F32 || t->type == DT_F16) && t->n_dims == 2 && t->name.n > n &&
		    !memcmp(t->name.p, "blk.", 4) && !memcmp(t->name.p + t->name.n - n, changed[i], n))
			return 1;
	}
	return 0;
}

/* Write a random adapter for a model, and the model with the adapter merged into its weights. half: 1 = the adapter is
 * in F16. Returns 1 if all changed weights are F32, so that merging does not round them. */
static int make(const char *model, int half, char **adapter, char **baked)
{
	struct mk m = { .alignment = 0 };
	struct gguf *g = NULL;
	struct str file = { 0 }, out = { 0 };
	struct view arch = { "", 0 };
	struct err err = { 0 };
	char text[128];
	size_t n;
	char *bytes = test_read(model, &n);
	int count = 0, exact = 1;

	str_add(&file, bytes, n);
	free(bytes);
	if (gguf_parse(&g, model, file.p, file.n, &err) || gguf_string(g, "general.architecture", &arch, &err) <= 0)
		test_fail(__FILE__, __LINE__, "%s", err.msg);
	snprintf(text, sizeof text, "%.*s", (int)arch.n, arch.p);
	mk_string(&m, "general.architecture", text);
	mk_string(&m, "general.type", "adapter");
	mk_string(&m, "adapter.type", "lora");
	mk_f32(&m, "adapter.lora.alpha", alpha);
	for (uint64_t i = 0; g && i < g->n_tensor; i++) {
		const struct gguf_tensor *t = &g->tensor[i];
		int32_t rows = (int32_t)t->ne[1], cols = (int32_t)t->ne[0];
		char *w = file.p + t->at;
		float *a, *b;

		/* skip tensors that the adapter does not change, and attn_qkv of the delta rule */
		if (!is_changed(t) || (!view_is(arch, "phi3") && memmem(t->name.p, t->name.n, "attn_qkv", 8)))
			continue;
		count++;
		a = malloc((size_t)(RANK * cols) * sizeof *a);
		b = malloc((size_t)(rows * RANK) * sizeof *b);
		for (int32_t k = 0; k < RANK * cols; k++)
			a[k] = roundf(noise() * 256) / 256; /* exact in F16 */
		for (int32_t k = 0; k < rows * RANK; k++)
			b[k] = roundf(noise() * 256) / 256 / 4;
		for (int32_t r = 0; r < rows; r++)
			for (int32_t c = 0; c < cols; c++) {
				double sum = 0;

				for (int k = 0; k < RANK; k++)
					sum += (double)b[r * RANK + k] * (double)a[k * cols + c];
				if (t->type == DT_F32) {
					float x;

					memcpy(&x, w + 4 * ((int64_t)r * cols + c), 4);
					x += (float)(sum * (double)alpha / RANK);
					memcpy(w + 4 * ((int64_t)r * cols + c), &x, 4);
				} else {
					uint16_t x;

					memcpy(&x, w + 2 * ((int64_t)r * cols + c), 2);
					x = f32_to_f16((float)((double)f16_to_f32(x) + sum * (double)alpha / RANK));
					memcpy(w + 2 * ((int64_t)r * cols + c), &x, 2);
					exact = 0;
				}
			}
		snprintf(text, sizeof text, "%.*s.lora_a", (int)t->name.n, t->name.p);
		if (half) {
			uint16_t *h = malloc((size_t)(RANK * cols) * sizeof *h);
			for (int32_t k = 0; k < RANK * cols; k++)
				h[k] = f32_to_f16(a[k]);
			mk_tensor(&m, text, 2, (int64_t[]){ cols, RANK }, 1, h, (size_t)(RANK * cols) * 2);
			free(h);
		} else {
			mk_tensor(&m, text, 2, (int64_t[]){ cols, RANK }, 0, a, (size_t)(RANK * cols) * 4);
		}
		snprintf(text, sizeof text, "%.*s.lora_b", (int)t->name.n, t->name.p);
		mk_tensor(&m, text, 2, (int64_t[]){ RANK, rows }, 0, b, (size_t)(rows * RANK) * 4);
		free(a);
		free(b);
	}
	CHECK_MSG(count > 0, "%s has no matrix that an adapter changes", model);
	gguf_close(g);
	mk_finish(&m, &out);
	*adapter = written("adapter", &out);
	*baked = written("baked", &file);
	str_free(&out);
	str_free(&file);
	return exact;
}

static struct engine *open_with(const char *model, const char *lora, double scale, int threads)
{
	struct engine *e = NULL;
	struct err err = { 0 };

	if (engine_open(&e,
	                &(struct engine_options){ .model_path = model,
	                                          .device = "cpu",
	                                          .threads = threads,
	                                          .lora = lora,
	                                          .lora_scale = scale },
	                &err))
		test_fail(__FILE__, __LINE__, "%s: %s", model, err.msg);
	return e;
}

struct got {
	float *v;
	int32_t n_vocab;
};
static void keep(int32_t pos, const float *logits, void *ud)
{
	struct got *g = ud;

	memcpy(g->v + (size_t)pos * (size_t)g->n_vocab, logits, (size_t)g->n_vocab * sizeof *logits);
}

/* Return the logits after each of N_ID tokens, prefilled `step` at a time, or decoded one by one. */
static float *logits_of(struct engine *e, size_t step, int stepwise, size_t *n)
{
	struct timeline *tl = NULL;
	struct got g = { .n_vocab = engine_info(e)->n_vocab };
	struct err err = { 0 };
	int32_t id[N_ID];

	for (int i = 0; i < N_ID; i++)
		id[i] = (i * 37 + 11) % (g.n_vocab - 3) + 3;
	*n = (size_t)N_ID * (size_t)g.n_vocab;
	g.v = calloc(*n, sizeof *g.v);
	if (timeline_open(&tl, e, &(struct timeline_options){ .ctx = 64, .kv = "full", .kv_type = "f32" }, &err))
		test_fail(__FILE__, __LINE__, "%s", err.msg);
	for (size_t at = 0; tl && at < N_ID; at += step)
		CHECK_MSG(!timeline_extend(tl, id + at, N_ID - at < step ? N_ID - at : step, stepwise, keep, &g, &err),
		          "%s", err.msg);
	timeline_close(tl);
	return g.v;
}

static double nmse(const float *a, const float *b, size_t n)
{
	double d = 0, s = 0;

	for (size_t i = 0; i < n; i++) {
		d += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
		s += (double)b[i] * (double)b[i];
	}
	return d / s;
}

static void compare(const char *name, int half)
{
	char rel[96], *adapter, *baked, *model;
	struct engine *with, *one, *other, *plain, *none;
	float *a, *b, *c, *d, *f, *g;
	struct str id[2] = { { 0 }, { 0 } };
	size_t n;
	int exact;

	snprintf(rel, sizeof rel, "tests/vectors/models/%s.gguf", name);
	model = strdup(test_file(rel));
	exact = make(model, half, &adapter, &baked);
	with = open_with(model, adapter, 1, 2);
	one = open_with(model, adapter, 1, 1);
	other = open_with(baked, NULL, 1, 2);
	plain = open_with(model, NULL, 1, 2);
	none = open_with(model, adapter, 0, 2);
	a = logits_of(with, N_ID, 0, &n);
	b = logits_of(other, N_ID, 0, &n);
	c = logits_of(plain, N_ID, 0, &n);
	d = logits_of(one, 7, 0, &n);
	f = logits_of(with, 1, 1, &n);
	g = logits_of(none, N_ID, 0, &n);
	CHECK_MSG(nmse(a, b, n) < (exact ? 1e-9 : 1e-5), "%s: error %g against changed weights", name, nmse(a, b, n));
	CHECK_MSG(nmse(a, c, n) > 1e-4, "%s: the adapter changes too little to be seen: %g", name, nmse(a, c, n));
	CHECK_MSG(!memcmp(a, d, n * sizeof *a), "%s: other bits with one thread and other chunks", name);
	CHECK_MSG(nmse(f, a, n) < 1e-9, "%s: decoded one by one: error %g", name, nmse(f, a, n));
	CHECK_MSG(nmse(g, c, n) < 1e-9, "%s: error %g with a scale of 0", name, nmse(g, c, n));
	engine_identity(with, &id[0]);
	engine_identity(plain, &id[1]);
	CHECK(id[0].n != id[1].n);
	str_free(&id[0]);
	str_free(&id[1]);
	engine_close(with);
	engine_close(one);
	engine_close(other);
	engine_close(plain);
	engine_close(none);
	free(a), free(b), free(c), free(d), free(f), free(g);
	remove(adapter);
	remove(baked);
	free(adapter);
	free(baked);
	free(model);
}

TEST(adapters_change_weights)
{
	static const char *const name[] = { "llama-yarn", "qwen2-untied", "qwen3",   "granite", "gemma3",
		                            "phi3",       "olmo2",        "smollm3", "lfm2",    "exaone4",
		                            "qwen3moe",   "qwen3next",    "glm4",    "qwen35",  "granitehybrid" };

	for (size_t i = 0; i < LEN(name); i++)
		compare(name[i], i % 2 == 1);
}

static void refused(struct mk *m, const char *words)
{
	char *model = strdup(test_file("tests/vectors/models/qwen3.gguf")), *path;
	struct engine *e = NULL;
	struct str file = { 0 };
	struct err err = { 0 };

	mk_finish(m, &file);
	path = written("bad", &file);
	CHECK_MSG(
		engine_open(&e,
	                    &(struct engine_options){
				    .model_path = model, .device = "cpu", .threads = 1, .lora = path, .lora_scale = 1 },
	                    &err) < 0 &&
			strstr(err.msg, words),
		"no \"%s\" in: %s", words, err.msg);
	engine_close(e);
	str_free(&file);
	remove(path);
	free(path);
	free(model);
}

static struct mk begun(const char *type, const char *kind, const char *arch)
{
	struct mk m = { .alignment = 0 };

	mk_string(&m, "general.architecture", arch);
	mk_string(&m, "general.type", type);
	mk_string(&m, "adapter.type", kind);
	mk_f32(&m, "adapter.lora.alpha", 8);
	return m;
}

static struct mk with(const char *name, int64_t cols, int64_t rows, float value)
{
	struct mk m = begun("adapter", "lora", "qwen3");
	float v[8192];

	for (size_t i = 0; i < LEN(v); i++)
		v[i] = value;
	mk_tensor(&m, name, 2, (int64_t[]){ cols, rows }, 0, v, (size_t)(cols * rows) * 4);
	return m;
}

TEST(what_is_no_adapter_of_the_model_is_refused)
{
	struct engine *e = open_with(test_file("tests/vectors/models/qwen3.gguf"), NULL, 1, 1);
	int32_t width = engine_info(e)->n_embd;
	struct mk m;

	m = begun("model", "lora", "qwen3");
	refused(&m, "is no LoRA adapter; -m opens models");
	m = begun("adapter", "other", "qwen3");
	refused(&m, "is no LoRA adapter");
	m = begun("adapter", "lora", "llama");
	refused(&m, "for a model of the family 'llama', this one is 'qwen3'");
	m = begun("adapter", "lora", "qwen3");
	refused(&m, "changes nothing");
	m = with("blk.0.attn_q.weight.lora_a", width, 2, 1);
	refused(&m, "has no second half");
	m = with("blk.0.attn_q.weight.lora_a", width + 1, 2, 1);
	mk_tensor(&m, "blk.0.attn_q.weight.lora_b", 2, (int64_t[]){ 2, 4 }, 0, NULL, 32);
	refused(&m, "is of another shape");
	m = with("blk.0.attn_q.weight.lora_a", width, 2, 1);
	mk_tensor(&m, "blk.0.attn_q.weight.lora_b", 2, (int64_t[]){ 2, 4 }, 0, NULL, 32);
	refused(&m, "is of another shape");
	m = with("blk.0.attn_q.weight.lora_a", width, 2, NAN);
	refused(&m, "NaN");
	m = with("blk.900.attn_q.weight.lora_a", width, 2, 1);
	refused(&m, "changes what is no matrix");
	m = with("blk.0.attn_q_norm.weight.lora_a", width, 2, 1);
	refused(&m, "changes what is no matrix");
	m = with("token_embd.weight.lora_a", width, 2, 1);
	refused(&m, "changes what is no matrix");
	m = with("blk.0.attn_q.weight", width, 2, 1);
	refused(&m, "is no part of a LoRA adapter");
	engine_close(e);
}
