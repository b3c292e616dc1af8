/* tests/lib/tiny.h - complete models of some families, small enough to be made and run quickly. Their weights are
 * pseudo-random, the same every time. */
#ifndef WEIR_TEST_TINY_H
#define WEIR_TEST_TINY_H

#include <stdlib.h>
#include <unistd.h>

#include "engine/engine.h"
#include "tests/lib/mkgguf.h"

enum { N_VOCAB = 288, WIDTH = 64, FF = 96, LAYERS = 3, HEADS = 4, KV_HEADS = 2, HEAD = 32, TRAINED = 2048 };

static const struct tiny_family {
	const char *arch;
	int bias, norms, tied, post;
	uint32_t window;
} tiny_families[] = {
	{ "llama", 0, 0, 1, 0, 0 },
	{ "qwen2", 1, 0, 0, 0, 0 },
	{ "qwen3", 0, 1, 1, 0, 0 },
	{ "gemma2", 0, 0, 1, 1, 40 }, /* two of three layers have a window */
};
enum { FAMILIES = 4, WINDOWED = 3 };
static int tiny_layers = LAYERS, tiny_vocab = N_VOCAB; /* layers and vocabulary of models that are made later */
/* if not NULL, *tiny_fd is set to the descriptor of each model's file; the file has no name any more */
static int *tiny_fd;

static inline void tiny_weights(struct mk *m, const char *name, int32_t rows, int32_t cols)
{
	size_t n = (size_t)rows * (size_t)cols;
	float *v = xcalloc(n, sizeof *v);
	uint64_t x = 88172645463325252u;

	for (const char *c = name; *c; c++)
		x = (x ^ (unsigned char)*c) * 0x9e3779b97f4a7c15u;
	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		v[i] = strstr(name, "norm") ? 1 : ((float)(x >> 40) / (float)(1 << 23) - 1) * 0.4f;
	}
	mk_tensor(m, name, rows == 1 ? 1 : 2, (int64_t[]){ cols, rows }, 0, v, n * sizeof *v);
	free(v);
}

static inline void tiny_layer(struct mk *m, const struct tiny_family *f, int layer)
{
	/* clang-format off */
	const struct { const char *name; int32_t rows, cols; int want; } all[] = {
		{ "attn_norm.weight", 1, WIDTH, 1 }, { "attn_q.weight", HEADS * HEAD, WIDTH, 1 },
		{ "attn_k.weight", KV_HEADS * HEAD, WIDTH, 1 }, { "attn_v.weight", KV_HEADS * HEAD, WIDTH, 1 },
		{ "attn_q.bias", 1, HEADS * HEAD, f->bias }, { "attn_k.bias", 1, KV_HEADS * HEAD, f->bias },
		{ "attn_v.bias", 1, KV_HEADS * HEAD, f->bias }, { "attn_q_norm.weight", 1, HEAD, f->norms },
		{ "attn_k_norm.weight", 1, HEAD, f->norms }, { "attn_output.weight", WIDTH, HEADS * HEAD, 1 },
		{ "post_attention_norm.weight", 1, WIDTH, f->post }, { "post_ffw_norm.weight", 1, WIDTH, f->post },
		{ "ffn_norm.weight", 1, WIDTH, 1 }, { "ffn_gate.weight", FF, WIDTH, 1 }, { "ffn_up.weight", FF, WIDTH, 1 },
		{ "ffn_down.weight", WIDTH, FF, 1 },
	};
	/* clang-format on */

	for (size_t i = 0; i < LEN(all); i++) {
		char name[64];

		snprintf(name, sizeof name, "blk.%d.%s", layer, all[i].name);
		if (all[i].want)
			tiny_weights(m, name, all[i].rows, all[i].cols);
	}
}

static inline void tiny_int(struct mk *m, const char *arch, const char *suffix, uint32_t v)
{
	char key[80];

	snprintf(key, sizeof key, "%s.%s", arch, suffix);
	mk_u32(m, key, v);
}

static inline struct engine *tiny_open(const struct tiny_family *f, int threads, uint32_t trained, float base)
{
	char path[] = "/tmp/weir-tiny-XXXXXX", key[80];
	struct engine *e = NULL;
	struct str file = { 0 };
	struct mk m = { 0 };
	struct err err = { 0 };
	int fd = mkstemp(path);

	mk_string(&m, "general.architecture", f->arch);
	tiny_int(&m, f->arch, "block_count", (uint32_t)tiny_layers);
	tiny_int(&m, f->arch, "context_length", trained);
	tiny_int(&m, f->arch, "embedding_length", WIDTH);
	tiny_int(&m, f->arch, "feed_forward_length", FF);
	tiny_int(&m, f->arch, "attention.head_count", HEADS);
	tiny_int(&m, f->arch, "attention.head_count_kv", KV_HEADS);
	tiny_int(&m, f->arch, "attention.key_length", HEAD);
	tiny_int(&m, f->arch, "attention.value_length", HEAD);
	snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", f->arch);
	mk_f32(&m, key, 1e-5f);
	snprintf(key, sizeof key, "%s.rope.freq_base", f->arch);
	mk_f32(&m, key, base);
	if (f->window)
		tiny_int(&m, f->arch, "attention.sliding_window", f->window);
	mk_vocab(&m, tiny_vocab);
	tiny_weights(&m, "token_embd.weight", tiny_vocab, WIDTH);
	tiny_weights(&m, "output_norm.weight", 1, WIDTH);
	if (!f->tied)
		tiny_weights(&m, "output.weight", tiny_vocab, WIDTH);
	for (int i = 0; i < tiny_layers; i++)
		tiny_layer(&m, f, i);
	mk_finish(&m, &file);
	if (fd < 0 || write(fd, file.p, file.n) != (ssize_t)file.n)
		abort();
	if (tiny_fd)
		*tiny_fd = fd;
	else
		close(fd);
	str_free(&file);
	if (engine_open(&e, &(struct engine_options){ .model_path = path, .threads = threads }, &err))
		abort();
	unlink(path);
	return e;
}

#endif
