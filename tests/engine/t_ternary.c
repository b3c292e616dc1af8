/* A model with ternary weights (TQ1_0, TQ2_0) gives the same bits as one with the same weights in Q2_K, both with
 * packed weights and with weights that the plain C kernels read in place. */
#include <stdlib.h>
#include <unistd.h>

#include "engine/engine.h"
#include "tests/lib/mkgguf.h"
#include "tests/lib/test.h"

enum { TOKENS = 288, N = 256, DEPTH = 2 };

/* Add a matrix of random ternary weights with small scales. as_q2_k: 1 = converted to Q2_K. */
static void put_matrix(struct mk *m, const char *name, int32_t rows, enum dtype type, int as_q2_k)
{
	const struct dtype_info *info = dtype_info(type);
	size_t n = (size_t)rows * (size_t)info->block_bytes;
	uint8_t *b = xcalloc(n, 1), *q2 = xcalloc((size_t)rows, (size_t)dtype_info(DT_Q2_K)->block_bytes);
	uint64_t x = 88172645463325252u;

	for (const char *c = name; *c; c++)
		x = (x ^ (unsigned char)*c) * 0x9e3779b97f4a7c15u;
	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		b[i] = (uint8_t)(x >> 40);
	}
	for (int32_t r = 0; r < rows; r++) {
		uint8_t *block = b + (size_t)r * (size_t)info->block_bytes;

		/* of the four 2-bit codes, avoid the one that is not used */
		for (int i = 0; type == DT_TQ2_0 && i < 64; i++)
			block[i] &= (uint8_t) ~(block[i] >> 1 & 0x55);
		block[info->block_bytes - 2] = (uint8_t)r;
		block[info->block_bytes - 1] = 0x28; /* high byte of the f16 scale: 0.03 to 0.04 */
	}
	dtype_ternary_to_q2_k(type, q2, b, (int64_t)rows * N);
	if (as_q2_k)
		mk_tensor(m, name, 2, (int64_t[]){ N, rows }, (uint32_t)dtype_info(DT_Q2_K)->ggml_id, q2,
		          (size_t)dtype_bytes(DT_Q2_K, (uint64_t)rows * N));
	else
		mk_tensor(m, name, 2, (int64_t[]){ N, rows }, (uint32_t)info->ggml_id, b, n);
	free(b);
	free(q2);
}

static void put_ones(struct mk *m, const char *name)
{
	float one[N];

	for (int i = 0; i < N; i++)
		one[i] = 1;
	mk_tensor(m, name, 1, (int64_t[]){ N }, 0, one, sizeof one);
}

/* token_embd, a table that is read row by row, is ternary, too. */
static struct engine *open_model(enum dtype type, int as_q2_k)
{
	static const char *const matrix[] = { "attn_q",   "attn_k", "attn_v",  "attn_output",
		                              "ffn_gate", "ffn_up", "ffn_down" };
	char path[] = "/tmp/weir-ternary-XXXXXX", name[64];
	int fd = mkstemp(path);
	struct engine *e = NULL;
	struct str file = { 0 };
	struct mk m = { 0 };
	struct err err = { 0 };

	mk_string(&m, "general.architecture", "llama");
	mk_u32(&m, "llama.block_count", DEPTH);
	mk_u32(&m, "llama.context_length", 128);
	mk_u32(&m, "llama.embedding_length", N);
	mk_u32(&m, "llama.feed_forward_length", N);
	mk_u32(&m, "llama.attention.head_count", 4);
	mk_u32(&m, "llama.attention.head_count_kv", 4);
	mk_f32(&m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
	mk_vocab(&m, TOKENS);
	put_matrix(&m, "token_embd.weight", TOKENS, type, as_q2_k);
	put_ones(&m, "output_norm.weight");
	for (int i = 0; i < DEPTH; i++) {
		for (size_t k = 0; k < LEN(matrix); k++) {
			snprintf(name, sizeof name, "blk.%d.%s.weight", i, matrix[k]);
			put_matrix(&m, name, N, type, as_q2_k);
		}
		snprintf(name, sizeof name, "blk.%d.attn_norm.weight", i);
		put_ones(&m, name);
		snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", i);
		put_ones(&m, name);
	}
	mk_finish(&m, &file);
	if (fd < 0 || write(fd, file.p, file.n) != (ssize_t)file.n)
		test_skip("no temporary file");
	close(fd);
	str_free(&file);
	if (engine_open(&e, &(struct engine_options){ .model_path = path, .threads = 2 }, &err))
		test_fail(__FILE__, __LINE__, "%s", err.msg);
	unlink(path);
	return e;
}

static void last_logits(int32_t pos, const float *logits, void *ud)
{
	if (pos == 4)
		memcpy(ud, logits, TOKENS * sizeof *logits);
}

static void compute(struct engine *e, float out[TOKENS])
{
	static const int32_t id[] = { 260, 261, 262, 99, 100 };
	struct timeline *tl = NULL;
	struct err err = { 0 };

	if (!e || timeline_open(&tl, e, &(struct timeline_options){ .ctx = 16 }, &err) ||
	    timeline_extend(tl, id, 5, 0, last_logits, out, &err))
		test_fail(__FILE__, __LINE__, "%s", err.msg);
	timeline_close(tl);
}

static void compare(enum dtype type)
{
	struct engine *ternary = open_model(type, 0), *q2 = open_model(type, 1);
	float got[TOKENS] = { 0 }, want[TOKENS] = { 1 };

	compute(ternary, got);
	compute(q2, want);
	CHECK(!memcmp(got, want, sizeof got));
	CHECK(got[0] != got[1]);
	CHECK_STR(engine_info(ternary)->quant, dtype_info(type)->name);
	CHECK_INT(engine_info(ternary)->weight_bytes, engine_info(q2)->weight_bytes); /* both are Q2_K once loaded */
	engine_close(ternary);
	engine_close(q2);
}

TEST(packed)
{
	compare(DT_TQ1_0);
	compare(DT_TQ2_0);
}

TEST(read_in_place)
{
	setenv("WEIR_CPU", "c", 1);
	compare(DT_TQ1_0);
	compare(DT_TQ2_0);
	unsetenv("WEIR_CPU");
}
