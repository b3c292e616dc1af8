/* tests/measure/mkmodel.c - writes a GGUF model with random weights, for benchmarks: speed depends on shapes and types,
 * not on the values of weights.
 *
 *     mkmodel SHAPE TYPE FILE      SHAPE: see shapes[]    TYPE: Q4_0, Q4_K, F16 ...
 *
 * Norms are F32. The embedding, which is also the output head, is Q8_0 in the 32-block types, Q6_K in the K types and
 * the type itself in float types, as in published files. wide-256m has the default model's depth, with rows divisible
 * by 256, which the K types need. The file is written row by row, so that memory holds one row only. The exception is
 * llama-3.1-8b, whose file of 16 GB would take minutes: its rows are taken from a pool of 64 MB, in an order that does
 * not repeat. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/common/quant.h"

struct shape {
	const char *name, *arch;
	/* n_ff: of one expert in models with experts */
	int32_t n_layer, n_embd, n_ff, n_head, n_kv_head, head_dim, n_vocab, ctx;
	float rope_base;
	int untied, stored;
	int32_t n_expert, n_used, window;
};
static const struct shape shapes[] = {
	{ "smollm2-135m", "llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 100000, 0, 0, 0, 0, 0 },
	{ "wide-256m", "llama", 30, 768, 2048, 12, 4, 64, 49152, 8192, 100000, 0, 0, 0, 0, 0 },
	{ "llama-3.2-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256, 131072, 500000, 0, 0, 0, 0, 0 },
	{ "llama-3.1-8b", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 131072, 500000, 1, 1, 0, 0, 0 },
	/* a quarter of the layers of Qwen3 4B */
	{ "qwen3-4b-quarter", "qwen3", 9, 2560, 9728, 32, 8, 128, 151936, 40960, 1e6f, 0, 1, 0, 0, 0 },
	/* half the layers of Qwen3 30B-A3B */
	{ "qwen3-15b-a2b", "qwen3moe", 24, 2048, 768, 32, 4, 128, 151936, 32768, 1e6f, 1, 1, 128, 8, 0 },
	{ "gemma3-4b", "gemma3", 34, 2560, 10240, 8, 4, 256, 262144, 131072, 1e6f, 0, 1, 0, 0, 1024 },
	{ "lfm2-1.2b", "lfm2", 16, 2048, 8192, 32, 8, 64, 65536, 128000, 1e6f, 0, 1, 0, 0, 0 },
	/* the delta rule has 16 key and value heads of 128 */
	{ "qwen3.5-0.8b", "qwen35", 24, 1024, 3584, 8, 2, 256, 248320, 262144, 1e7f, 0, 1, 0, 0, 0 },
};
static int is(const struct shape *s, const char *arch)
{
	return !strcmp(s->arch, arch);
}
/* 1 if layer l has attention; in lfm2 and qwen35 only some layers have it. */
static int attends(const struct shape *s, int32_t l)
{
	return is(s, "qwen35") ? l % 4 == 3
	                       : !is(s, "lfm2") || l == 2 || l == 5 || l == 8 || l == 10 || l == 12 || l == 14;
}

enum { STORE = 64 << 20, DELTA = 2048 };
static FILE *out;
static uint64_t written, rng = 88172645463325252u;

static uint64_t rand64(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	return rng ^= rng << 17;
}

static void put(const void *p, size_t n)
{
	if (fwrite(p, 1, n, out) != n) {
		perror("mkmodel");
		exit(1);
	}
	written += n;
}
static void put32(uint32_t v)
{
	put(&v, 4);
}
static void put64(uint64_t v)
{
	put(&v, 8);
}
static void put_str(const char *s)
{
	put64(strlen(s));
	put(s, strlen(s));
}
static void kv_u32(const char *key, uint32_t v)
{
	put_str(key);
	put32(4);
	put32(v);
}
static void kv_f32(const char *key, float v)
{
	put_str(key);
	put32(6);
	put(&v, 4);
}
static void kv_str(const char *key, const char *v)
{
	put_str(key);
	put32(8);
	put_str(v);
}

static void pad(void)
{
	static const char zero[32];
	put(zero, (32 - written % 32) % 32);
}

/* Write the text of token i: <unk>, <s>, </s>, the 256 bytes, then fillers. */
static void put_token(int32_t i)
{
	char t[32];

	if (i < 3)
		snprintf(t, sizeof t, "%s", (const char *[]){ "<unk>", "<s>", "</s>" }[i]);
	else if (i < 259)
		snprintf(t, sizeof t, "<0x%02X>", i - 3);
	else
		snprintf(t, sizeof t, "w%d", i);
	put_str(t);
}

static void put_vocabulary(int32_t n)
{
	kv_str("tokenizer.ggml.model", "llama");
	kv_u32("tokenizer.ggml.bos_token_id", 1);
	kv_u32("tokenizer.ggml.eos_token_id", 2);
	put_str("tokenizer.ggml.tokens");
	put32(9), put32(8), put64((uint64_t)n);
	for (int32_t i = 0; i < n; i++)
		put_token(i);
	put_str("tokenizer.ggml.scores");
	put32(9), put32(6), put64((uint64_t)n);
	for (int32_t i = 0; i < n; i++) {
		float score = -(float)i;
		put(&score, 4);
	}
	put_str("tokenizer.ggml.token_type");
	put32(9), put32(5), put64((uint64_t)n);
	for (int32_t i = 0; i < n; i++)
		put32(i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1);
}

/* Write one block of random bits. Its scales are F16 numbers near `scale`, so that values are small and finite. */
static void random_block(enum dtype type, uint8_t *b, float scale)
{
	size_t n = (size_t)dtype_info(type)->block_bytes;
	uint16_t d = f32_to_f16(scale * (0.5f + (float)(rand64() >> 40) / (1 << 24)));
	uint16_t m = f32_to_f16(-scale * 7);

	for (size_t i = 0; i < n; i += 8) {
		uint64_t r = rand64();
		memcpy(b + i, &r, n - i < 8 ? n - i : 8);
	}
	switch (type) {
	case DT_Q4_1:
	case DT_Q5_1:
		memcpy(b + 2, &m, 2);
		memcpy(b, &d, 2);
		break;
	case DT_Q4_K:
	case DT_Q5_K:
		d = f32_to_f16(scale / 32);
		memcpy(b, &d, 2);
		memcpy(b + 2, &d, 2);
		break;
	case DT_Q6_K:
		d = f32_to_f16(scale / 64);
		memcpy(b + n - 2, &d, 2);
		break;
	default: memcpy(b, &d, 2);
	}
}

static void random_row(enum dtype type, int32_t cols, float scale, uint8_t *row)
{
	size_t n = dtype_bytes(type, (uint64_t)cols);

	if (type == DT_F32 || type == DT_F16 || type == DT_BF16) {
		static float x[1 << 16];
		for (int32_t i = 0; i < cols; i++)
			x[i] = scale * 16 * ((float)(rand64() >> 40) / (1 << 24) - 0.5f);
		dtype_from_f32(type, row, x, cols);
	} else {
		for (size_t i = 0; i < n; i += (size_t)dtype_info(type)->block_bytes)
			random_block(type, row + i, scale);
	}
}

/* Write `rows` random rows. */
static void put_rows(enum dtype type, int32_t cols, int32_t rows, float scale, int stored)
{
	static uint8_t row[1 << 18], *store;
	static enum dtype store_type;
	static int32_t store_cols;
	size_t n = dtype_bytes(type, (uint64_t)cols), in_store = STORE / n;

	if (stored && !store && !(store = malloc(STORE)))
		exit(1);
	if (stored && (store_type != type || store_cols != cols)) {
		for (size_t i = 0; i < in_store; i++)
			random_row(type, cols, scale, store + i * n);
		store_type = type;
		store_cols = cols;
	}
	for (int32_t r = 0; r < rows; r++) {
		if (!stored)
			random_row(type, cols, scale, row);
		put(stored ? store + rand64() % in_store * n : row, n);
	}
}

struct tensor_plan {
	char name[64];
	enum dtype type;
	int32_t cols, rows, planes;
};

static int32_t plan(const struct shape *s, enum dtype type, struct tensor_plan *t)
{
	int32_t kv = s->head_dim * s->n_kv_head, q = s->head_dim * s->n_head, e = s->n_expert, n = 0;
	int is_float = type == DT_F32 || type == DT_F16 || type == DT_BF16;
	enum dtype head = is_float ? type : dtype_info(type)->block == 256 ? DT_Q6_K : DT_Q8_0;
	int post = is(s, "gemma3"), norms = !is(s, "llama");
	int delta = is(s, "qwen35"), conv = is(s, "lfm2");
	/* clang-format off */
	const struct { const char *name; int32_t cols, rows, planes; enum { ALL, ATTENDS, CONVOLVES } where; int have; } layer[] = {
		{ "attn_norm", s->n_embd, 1, 0, ALL, 1 }, { "attn_q", s->n_embd, delta ? 2 * q : q, 0, ATTENDS, 1 }, { "attn_k", s->n_embd, kv, 0, ATTENDS, 1 },
		{ "attn_v", s->n_embd, kv, 0, ATTENDS, 1 }, { "attn_output", q, s->n_embd, 0, ATTENDS, 1 }, { "attn_q_norm", s->head_dim, 1, 0, ATTENDS, norms },
		{ "attn_k_norm", s->head_dim, 1, 0, ATTENDS, norms }, { "shortconv.in_proj", s->n_embd, 3 * s->n_embd, 0, CONVOLVES, conv },
		{ "shortconv.conv", 3, s->n_embd, 0, CONVOLVES, conv }, { "shortconv.out_proj", s->n_embd, s->n_embd, 0, CONVOLVES, conv },
		{ "attn_qkv", s->n_embd, 3 * DELTA, 0, CONVOLVES, delta }, { "attn_gate", s->n_embd, DELTA, 0, CONVOLVES, delta },
		{ "ssm_conv1d", 4, 3 * DELTA, 0, CONVOLVES, delta }, { "ssm_alpha", s->n_embd, DELTA / 128, 0, CONVOLVES, delta },
		{ "ssm_beta", s->n_embd, DELTA / 128, 0, CONVOLVES, delta }, { "ssm_norm", 128, 1, 0, CONVOLVES, delta },
		{ "ssm_out", DELTA, s->n_embd, 0, CONVOLVES, delta }, { "ssm_dt.bias", DELTA / 128, 1, 0, CONVOLVES, delta },
		{ "ssm_a", DELTA / 128, 1, 0, CONVOLVES, delta },
		{ "post_attention_norm", s->n_embd, 1, 0, ALL, post || delta }, { "ffn_norm", s->n_embd, 1, 0, ALL, !delta }, { "post_ffw_norm", s->n_embd, 1, 0, ALL, post },
		{ "ffn_gate_inp", s->n_embd, e, 0, ALL, e > 0 },
		{ e ? "ffn_gate_exps" : "ffn_gate", s->n_embd, s->n_ff, e, ALL, 1 }, { e ? "ffn_up_exps" : "ffn_up", s->n_embd, s->n_ff, e, ALL, 1 },
		{ e ? "ffn_down_exps" : "ffn_down", s->n_ff, s->n_embd, e, ALL, 1 },
	};
	/* clang-format on */

	t[n++] = (struct tensor_plan){ "token_embd.weight", head, s->n_embd, s->n_vocab, 0 };
	t[n++] = (struct tensor_plan){ "output_norm.weight", DT_F32, s->n_embd, 1, 0 };
	if (is(s, "lfm2"))
		snprintf(t[n - 1].name, sizeof t[n - 1].name, "token_embd_norm.weight");
	if (s->untied)
		t[n++] = (struct tensor_plan){ "output.weight", head, s->n_embd, s->n_vocab, 0 };
	for (int32_t l = 0; l < s->n_layer; l++)
		for (size_t i = 0; i < LEN(layer); i++) {
			int plain = layer[i].rows == 1 || layer[i].cols <= 4 || !strcmp(layer[i].name, "ffn_gate_inp");

			if (!layer[i].have || layer[i].where == (attends(s, l) ? CONVOLVES : ATTENDS))
				continue;
			t[n] = (struct tensor_plan){ "", plain ? DT_F32 : type, layer[i].cols, layer[i].rows,
				                     layer[i].planes };
			snprintf(t[n].name, sizeof t[n].name, "blk.%d.%s%s", l, layer[i].name,
			         !strcmp(layer[i].name, "ssm_a") || strstr(layer[i].name, ".bias") ? "" : ".weight");
			n++;
		}
	return n;
}

static const char *key(const struct shape *s, const char *suffix)
{
	static char text[80];

	snprintf(text, sizeof text, "%s.%s", s->arch, suffix);
	return text;
}

/* Write the number of KV heads: one number, or a number per layer if some layers have no KV heads. */
static void put_kv_heads(const struct shape *s)
{
	if (!is(s, "lfm2")) {
		kv_u32(key(s, "attention.head_count_kv"), (uint32_t)s->n_kv_head);
		return;
	}
	put_str(key(s, "attention.head_count_kv"));
	put32(9), put32(5), put64((uint64_t)s->n_layer);
	for (int32_t l = 0; l < s->n_layer; l++)
		put32(attends(s, l) ? (uint32_t)s->n_kv_head : 0);
}

int main(int argc, char **argv)
{
	static struct tensor_plan t[2048];
	const struct shape *s = NULL;
	enum dtype type = DT_COUNT;
	uint64_t offset = 0;
	int32_t n;

	for (size_t i = 0; argc == 4 && i < LEN(shapes); i++)
		if (!strcmp(argv[1], shapes[i].name))
			s = &shapes[i];
	for (int i = 0; argc == 4 && i < DT_COUNT; i++)
		if (!strcmp(argv[2], dtype_info(i)->name))
			type = i;
	if (!s || type == DT_COUNT || s->n_embd % dtype_info(type)->block || s->n_ff % dtype_info(type)->block) {
		fprintf(stderr, "usage: mkmodel SHAPE TYPE FILE (rows must be whole blocks), SHAPE one of");
		for (size_t i = 0; i < LEN(shapes); i++)
			fprintf(stderr, " %s", shapes[i].name);
		fprintf(stderr, "\n");
		return 2;
	}
	if (!(out = fopen(argv[3], "wb"))) {
		perror(argv[3]);
		return 1;
	}
	n = plan(s, type, t);
	put("GGUF", 4), put32(3), put64((uint64_t)n),
		put64(16 + 2 + (s->n_expert ? 3 : 0) + (s->window ? 1 : 0) + is(s, "lfm2") + 8 * is(s, "qwen35"));
	kv_str("general.architecture", s->arch);
	kv_str("general.name", s->name);
	kv_u32(key(s, "block_count"), (uint32_t)s->n_layer);
	kv_u32(key(s, "context_length"), (uint32_t)s->ctx);
	kv_u32(key(s, "embedding_length"), (uint32_t)s->n_embd);
	kv_u32(key(s, "feed_forward_length"), (uint32_t)s->n_ff);
	kv_u32(key(s, "attention.head_count"), (uint32_t)s->n_head);
	put_kv_heads(s);
	kv_u32(key(s, "attention.key_length"), (uint32_t)s->head_dim);
	kv_u32(key(s, "attention.value_length"), (uint32_t)s->head_dim);
	kv_f32(key(s, "attention.layer_norm_rms_epsilon"), 1e-5f);
	kv_f32(key(s, "rope.freq_base"), s->rope_base);
	if (s->n_expert) {
		kv_u32(key(s, "expert_count"), (uint32_t)s->n_expert);
		kv_u32(key(s, "expert_used_count"), (uint32_t)s->n_used);
		kv_u32(key(s, "expert_feed_forward_length"), (uint32_t)s->n_ff);
	}
	if (s->window)
		kv_u32(key(s, "attention.sliding_window"), (uint32_t)s->window);
	if (is(s, "lfm2"))
		kv_u32(key(s, "shortconv.l_cache"), 3);
	if (is(s, "qwen35")) {
		/* only pictures use this key, but other programs require it */
		put_str(key(s, "rope.dimension_sections"));
		put32(9), put32(5), put64(4);
		put32(11), put32(11), put32(10), put32(0);
		kv_u32(key(s, "ssm.conv_kernel"), 4);
		kv_u32(key(s, "ssm.state_size"), 128);
		kv_u32(key(s, "ssm.group_count"), DELTA / 128);
		kv_u32(key(s, "ssm.time_step_rank"), DELTA / 128);
		kv_u32(key(s, "ssm.inner_size"), DELTA);
		kv_u32(key(s, "full_attention_interval"), 4);
		kv_u32(key(s, "rope.dimension_count"), (uint32_t)s->head_dim / 4);
	}
	put_vocabulary(s->n_vocab);
	for (int32_t i = 0; i < n; i++) {
		put_str(t[i].name);
		put32(t[i].rows == 1 ? 1 : t[i].planes ? 3 : 2);
		put64((uint64_t)t[i].cols);
		if (t[i].rows > 1)
			put64((uint64_t)t[i].rows);
		if (t[i].planes)
			put64((uint64_t)t[i].planes);
		put32((uint32_t)dtype_info(t[i].type)->ggml_id);
		put64(offset);
		offset += (dtype_bytes(t[i].type, (uint64_t)t[i].cols) * (uint64_t)t[i].rows *
		                   (uint64_t)(t[i].planes ? t[i].planes : 1) +
		           31) /
		          32 * 32;
	}
	pad();
	for (int32_t i = 0; i < n; i++) {
		/* As in a trained matrix, outputs are about as large as inputs. */
		float scale = t[i].rows == 1 ? 0 : 0.2f / sqrtf((float)t[i].cols);
		if (t[i].rows == 1) {
			for (int32_t j = 0; j < t[i].cols; j++)
				put(&(float){ strstr(t[i].name, "ssm_a") ? -1 : 1 }, 4);
		} else {
			put_rows(t[i].type, t[i].cols, t[i].rows * (t[i].planes ? t[i].planes : 1), scale,
			         s->stored && t[i].type != DT_F32);
		}
		pad();
	}
	return fclose(out) ? 1 : 0;
}
