/* tests/engine/t_model.c - hyper-parameters and weights of a model file: which files are refused, with which error, and
 * which are loaded.
 *
 * Every file is a tiny model built here, changed in one place. Tests named row_N belong to row N of the checklist that
 * t_gguf.c mentions: 31 to 41 are keys, 52 is the tensors. */
#include "tests/lib/test.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine.h"
#include "tests/lib/mkgguf.h"

enum { N_VOCAB = 288 };

/* One change of a key of the good model. */
struct change {
	const char *key; /* the key after "ARCH.", for example "block_count"; or a '.' and a whole key */
	enum gguf_type type;
	int64_t n; /* value of integers */
	double real;
	const char *text;
	int drop;      /* the key is left out */
	int32_t count; /* GGUF_ARRAY: number of u32 values, which are n, n + step, ... */
	int64_t step;
};

struct shape {
	const char *name;
	int32_t rows, cols;
	uint32_t type;
	int drop, per_layer;
};

struct recipe {
	const char *arch;
	int32_t n_layer, n_embd, n_head, n_kv, head_dim, n_ff;
	int bias, norms, tied;
	int32_t factors;    /* values of rope_freqs.weight; 0 = none */
	float factor;       /* the value of each of these factors */
	struct shape shape; /* one tensor that has another shape or type, or is dropped or added */
	struct change change[4];
};

/* clang-format off */
static const struct recipe llama = {
	.arch = "llama", .n_layer = 2, .n_embd = 32, .n_head = 4, .n_kv = 2, .head_dim = 8, .n_ff = 48, .tied = 1, .factor = 1,
};
/* clang-format on */

/* ---- building ---- */

static int same_key(const char *arch, const char *key, const struct change *c)
{
	char full[80];
	if (!c->key)
		return 0;
	if (c->key[0] == '.')
		return !strcmp(key, c->key + 1);
	snprintf(full, sizeof full, "%s.%s", arch, c->key);
	return !strcmp(key, full);
}

static int changed(const struct recipe *r, const char *key)
{
	for (size_t i = 0; i < 4; i++)
		if (same_key(r->arch, key, &r->change[i]))
			return 1;
	return 0;
}

static void put_int(struct mk *m, const struct recipe *r, const char *suffix, int32_t v)
{
	char key[80];
	snprintf(key, sizeof key, "%s.%s", r->arch, suffix);
	if (!changed(r, key))
		mk_u32(m, key, (uint32_t)v);
}

static void put_change(struct mk *m, const char *arch, const struct change *c)
{
	char key[80];

	snprintf(key, sizeof key, "%s%s%s", c->key[0] == '.' ? "" : arch, c->key[0] == '.' ? "" : ".",
	         c->key + (c->key[0] == '.'));
	if (c->drop)
		return;
	if (c->count || c->type == GGUF_ARRAY) {
		mk_array(m, key, GGUF_U32, (uint64_t)c->count);
		for (int32_t i = 0; i < c->count; i++)
			put_u32(&m->kv, (uint64_t)(c->n + i * c->step));
		return;
	}
	mk_key(m, key, c->type);
	switch (c->type) {
	case GGUF_F32: put_f32(&m->kv, (float)c->real); break;
	case GGUF_F64: put_f64(&m->kv, c->real); break;
	case GGUF_STRING: put_string(&m->kv, c->text); break;
	case GGUF_I64:
	case GGUF_U64: put_u64(&m->kv, (uint64_t)c->n); break;
	default: put_u32(&m->kv, (uint64_t)c->n);
	}
}

/* Return a pseudo-random weight that depends only on the tensor's name and the index. */
static float weight_at(const char *name, size_t i)
{
	uint64_t h = i + 1;
	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 0x9e3779b97f4a7c15u;
	return (float)(h >> 40) / (float)(1 << 23) * 0.2f - 0.2f;
}

/* Add a tensor: norms are 1, all other weights are small and random. */
static void put_weights(struct mk *m, const struct recipe *r, const char *name, int32_t rows, int32_t cols, int vector)
{
	const struct shape *s = &r->shape;
	uint32_t type = 0;
	size_t n;
	float *v;

	if (s->name && (!strcmp(s->name, name) || !strcmp(s->name, "*"))) {
		if (s->drop)
			return;
		rows = s->rows ? s->rows : rows;
		cols = s->cols ? s->cols : cols;
		type = s->type;
	}
	n = (size_t)rows * (size_t)cols;
	v = calloc(n, sizeof *v);
	for (size_t i = 0; i < n && !type; i++)
		v[i] = strstr(name, "norm") ? 1 : weight_at(name, i);
	/* Data of other types than F32 is zeros; no type takes more bytes than a float. */
	mk_tensor(m, name, vector && rows == 1 ? 1 : 2, (int64_t[]){ cols, rows }, type, v, n * sizeof *v);
	free(v);
}

static void put_layer(struct mk *m, const struct recipe *r, int32_t layer)
{
	int32_t q = r->n_head * r->head_dim, kv = r->n_kv * r->head_dim;
	/* clang-format off */
	const struct { const char *name; int32_t rows, cols; int vector, want; } all[] = {
		{ "attn_norm.weight", 1, r->n_embd, 1, 1 }, { "attn_q.weight", q, r->n_embd, 0, 1 },
		{ "attn_k.weight", kv, r->n_embd, 0, 1 }, { "attn_v.weight", kv, r->n_embd, 0, 1 },
		{ "attn_q.bias", 1, q, 1, r->bias }, { "attn_k.bias", 1, kv, 1, r->bias },
		{ "attn_v.bias", 1, kv, 1, r->bias }, { "attn_output.bias", 1, r->n_embd, 1, r->bias },
		{ "attn_q_norm.weight", 1, r->head_dim, 1, r->norms }, { "attn_k_norm.weight", 1, r->head_dim, 1, r->norms },
		{ "attn_output.weight", r->n_embd, q, 0, 1 }, { "ffn_norm.weight", 1, r->n_embd, 1, 1 },
		{ "ffn_gate.weight", r->n_ff, r->n_embd, 0, 1 }, { "ffn_up.weight", r->n_ff, r->n_embd, 0, 1 },
		{ "ffn_down.weight", r->n_embd, r->n_ff, 0, 1 },
	};
	/* clang-format on */
	for (size_t i = 0; i < LEN(all); i++) {
		char name[64];
		snprintf(name, sizeof name, "blk.%d.%s", layer, all[i].name);
		if (all[i].want)
			put_weights(m, r, name, all[i].rows, all[i].cols, all[i].vector);
	}
}

static void build(const struct recipe *r, struct str *out)
{
	struct mk m = { 0 };
	char key[80];

	if (!changed(r, "general.architecture"))
		mk_string(&m, "general.architecture", r->arch);
	put_int(&m, r, "block_count", r->n_layer);
	put_int(&m, r, "context_length", 128);
	put_int(&m, r, "embedding_length", r->n_embd);
	put_int(&m, r, "feed_forward_length", r->n_ff);
	put_int(&m, r, "attention.head_count", r->n_head);
	put_int(&m, r, "attention.head_count_kv", r->n_kv);
	snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", r->arch);
	if (!changed(r, key))
		mk_f32(&m, key, 1e-5f);
	for (size_t i = 0; i < 4; i++)
		if (r->change[i].key)
			put_change(&m, r->arch, &r->change[i]);
	mk_vocab(&m, N_VOCAB);
	put_weights(&m, r, "token_embd.weight", N_VOCAB, r->n_embd, 0);
	put_weights(&m, r, "output_norm.weight", 1, r->n_embd, 1);
	if (!r->tied)
		put_weights(&m, r, "output.weight", N_VOCAB, r->n_embd, 0);
	for (int32_t i = 0; i < r->n_layer; i++)
		put_layer(&m, r, i);
	if (r->factors) {
		float *f = calloc((size_t)r->factors, sizeof *f);
		for (int32_t i = 0; i < r->factors; i++)
			f[i] = r->factor;
		mk_tensor(&m, "rope_freqs.weight", 1, (int64_t[]){ r->factors }, 0, f, (size_t)r->factors * sizeof *f);
		free(f);
	}
	if (r->shape.name && r->shape.per_layer) /* an added tensor */
		put_weights(&m, r, r->shape.name, r->shape.rows, r->shape.cols, 0);
	mk_finish(&m, out);
}

/* ---- opening ---- */

static char *save(const struct recipe *r)
{
	char *path = strdup("/tmp/weir-t_model-XXXXXX");
	int fd = mkstemp(path);
	struct str file = { 0 };

	build(r, &file);
	if (fd < 0 || write(fd, file.p, file.n) != (ssize_t)file.n)
		test_skip("no temporary file: %s", strerror(errno));
	close(fd);
	str_free(&file);
	return path;
}

static int open_recipe(const struct recipe *r, struct engine **e, struct err *err)
{
	char *path = save(r);
	int rc = engine_open(e, &(struct engine_options){ .model_path = path, .threads = 1 }, err);

	unlink(path);
	free(path);
	return rc;
}

static int n_refused;

/* Check that a model is refused with one printable line that contains the file's name and each of the words (separated
 * by '|'). */
static void refused_at(int line, const struct recipe *r, const char *words)
{
	struct engine *e = NULL;
	struct err err = { 0 };
	char *copy = strdup(words), *rest = copy, *word;

	if (!open_recipe(r, &e, &err)) {
		test_fail(__FILE__, line, "a file was accepted that should be refused for: %s", words);
		engine_close(e);
		free(copy);
		return;
	}
	if (err.code != ERR_MODEL)
		test_fail(__FILE__, line, "code %d: %s", err.code, err.msg);
	if (strncmp(err.msg, "file '/tmp/weir-t_model-", 24))
		test_fail(__FILE__, line, "no file in: %s", err.msg);
	while ((word = strsep(&rest, "|")))
		if (!strstr(err.msg, word))
			test_fail(__FILE__, line, "no \"%s\" in: %s", word, err.msg);
	for (const char *p = err.msg; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			test_fail(__FILE__, line, "a control character in: %s", err.msg);
	if (getenv("WEIR_TEST_SHOW"))
		test_note("%s", err.msg);
	free(copy);
	n_refused++;
}
#define REFUSED(recipe, words) refused_at(__LINE__, &(recipe), words)

static struct recipe with(struct change c)
{
	struct recipe r = llama;
	r.change[0] = c;
	return r;
}
static void refused_with(int line, struct change c, const char *words)
{
	struct recipe r = with(c);
	refused_at(line, &r, words);
}
#define REFUSED_WITH(words, ...) refused_with(__LINE__, (struct change){ __VA_ARGS__ }, words)
/* REFUSED_*: the error names the key. MISFIT: the value is valid, but does not fit the tensors, so the error names a
 * tensor. */
#define REFUSED_INT(k, v, words) REFUSED_WITH("llama." k "|" words, .key = k, .type = GGUF_I64, .n = v)
#define MISFIT(k, v, words)      REFUSED_WITH(words, .key = k, .type = GGUF_I64, .n = v)
#define MISSING(k)               REFUSED_WITH("llama." k "' is missing", .key = k, .drop = 1)
#define REFUSED_REAL(k, v, words)                                                                                      \
	do {                                                                                                           \
		REFUSED_WITH("llama." k "|" words, .key = k, .type = GGUF_F32, .real = v);                             \
		REFUSED_WITH("llama." k "|" words, .key = k, .type = GGUF_F64, .real = v);                             \
	} while (0)

/* works_at() checks that a model loads and gives finite logits after the last of three tokens. */
static void last_logits(int32_t pos, const float *logits, void *ud)
{
	if (pos == 2)
		memcpy(ud, logits, N_VOCAB * sizeof *logits);
}

static struct engine *works_at(int line, const struct recipe *r, float logits[N_VOCAB])
{
	static const int32_t id[] = { 260, 261, 262 };
	struct engine *e = NULL;
	struct timeline *tl = NULL;
	struct err err = { 0 };
	float own[N_VOCAB];

	logits = logits ? logits : own;
	if (open_recipe(r, &e, &err) || timeline_open(&tl, e, &(struct timeline_options){ .ctx = 16 }, &err) ||
	    timeline_extend(tl, id, 3, 0, last_logits, logits, &err)) {
		test_fail(__FILE__, line, "%s", err.msg);
		test_skip("nothing to look at");
	}
	for (int i = 0; i < N_VOCAB; i++)
		if (!isfinite(logits[i])) {
			test_fail(__FILE__, line, "logit %d is %g", i, (double)logits[i]);
			break;
		}
	timeline_close(tl);
	return e;
}
#define WORKS(...) engine_close(works_at(__LINE__, __VA_ARGS__))

/* ---- what must be refused ---- */

TEST(the_good_model_loads)
{
	struct engine *e = works_at(__LINE__, &llama, NULL);
	const struct engine_info *i = engine_info(e);

	CHECK_STR(i->arch, "llama");
	CHECK_INT(i->n_layer, 2);
	CHECK_INT(i->n_embd, 32);
	CHECK_INT(i->n_ff, 48);
	CHECK_INT(i->n_head, 4);
	CHECK_INT(i->n_kv_head, 2);
	CHECK_INT(i->head_dim, 8);
	CHECK_INT(i->n_vocab, N_VOCAB);
	CHECK_INT(i->ctx_train, 128);
	CHECK_INT(i->tied_output, 1);
	CHECK_INT(i->qkv_bias, 0);
	CHECK_INT(i->qk_norm, 0);
	CHECK_STR(i->rope_scaling, "none");
	CHECK(i->rope_base == 10000);
	engine_close(e);
}

TEST(row_16_architectures)
{
	struct recipe r = with((struct change){ .key = ".general.architecture", .type = GGUF_STRING, .text = "mamba" });
	size_t n = 0;

	REFUSED(r, "'mamba'|not supported|llama, qwen2, qwen3");
	r.change[0].text = "llama2";
	REFUSED(r, "'llama2'|not supported");
	r.change[0].text = "Llama";
	REFUSED(r, "'Llama'|not supported");
	r.change[0].drop = 1;
	REFUSED(r, "general.architecture|missing");
	/* An unsupported architecture is reported first, whatever else is wrong in the file. */
	r = with((struct change){ .key = ".general.architecture", .type = GGUF_STRING, .text = "bert" });
	r.change[1] = (struct change){ .key = "block_count", .type = GGUF_I64, .n = 0 };
	REFUSED(r, "'bert'");
	while (engine_arch_name(n))
		n++;
	CHECK_INT(n, 30);
}

TEST(row_31_block_count)
{
	REFUSED_INT("block_count", 0, "byte|is 0|1 to 1024");
	REFUSED_INT("block_count", -1, "is -1");
	REFUSED_INT("block_count", 1025, "is 1025");
	REFUSED_INT("block_count", 4294967295, "is 4294967295");
	REFUSED_INT("block_count", INT64_MIN, "is -9223372036854775808");
	/* More layers than there are tensors for, and fewer. */
	MISFIT("block_count", 3, "blk.2.attn_norm.weight|missing");
	MISFIT("block_count", 513, "blk.2.attn_norm.weight|missing");
	MISFIT("block_count", 1, "byte|blk.1.|not part of a llama model of 1 layers");
	MISSING("block_count");
	REFUSED_WITH("llama.block_count|string|integer", .key = "block_count", .type = GGUF_STRING, .text = "2");
}

TEST(row_32_embedding_length)
{
	REFUSED_INT("embedding_length", 0, "is 0");
	REFUSED_INT("embedding_length", 2147483648, "is 2147483648");
	REFUSED_INT("embedding_length", 131073, "is 131073|1 to 131072");
	MISFIT("embedding_length", 64, "byte|token_embd.weight|32 x 288|64 x 288");
	MISSING("embedding_length");
}

TEST(row_33_head_count)
{
	REFUSED_INT("attention.head_count", 0, "byte|is 0");
	REFUSED_INT("attention.head_count", -4, "is -4");
	REFUSED_INT("attention.head_count", 4097, "is 4097");
	REFUSED_INT("attention.head_count", 6, "byte|is 6|divide|32");
	MISFIT("attention.head_count", 2, "attn_k.weight|32 x 16|32 x 32"); /* heads of 16 */
	REFUSED_INT("attention.head_count", 32, "heads of 1");
	REFUSED_INT("attention.head_count", 64, "divide"); /* more heads than columns */
	MISSING("attention.head_count");
}

TEST(row_34_head_count_kv)
{
	REFUSED_INT("attention.head_count_kv", 0, "byte|is 0");
	REFUSED_INT("attention.head_count_kv", 8, "byte|is 8|divide|4");
	REFUSED_INT("attention.head_count_kv", 3, "is 3|divide");
	REFUSED_INT("attention.head_count_kv", 4294967295, "is 4294967295");
	MISFIT("attention.head_count_kv", 4, "attn_k.weight|32 x 16");
	REFUSED_WITH("attn_k.weight", .key = "attention.head_count_kv", .drop = 1);
}

TEST(row_35_head_counts_per_layer)
{
	struct recipe r =
		with((struct change){ .key = "attention.head_count", .type = GGUF_ARRAY, .count = 2, .n = 4 });

	WORKS(&r, NULL);
	r.change[0].count = 3;
	REFUSED(r, "byte|attention.head_count|3 values|2 layers");
	r.change[0].count = 1;
	REFUSED(r, "attention.head_count|1 values|2 layers");
	r.change[0].count = 0;
	REFUSED(r, "attention.head_count|0 values");
	r.change[0].count = 2;
	r.change[0].step = 4;
	REFUSED(r, "attention.head_count|4 for one layer and 8");
	r.change[0].step = -4;
	REFUSED(r, "attention.head_count|holds 0");
	r.change[0] = (struct change){ .key = "attention.head_count_kv", .type = GGUF_ARRAY, .count = 2, .n = 2 };
	WORKS(&r, NULL);
	r.change[0].step = -1;
	REFUSED(r, "attention.head_count_kv|2 for one layer and 1");
	r.change[0] = (struct change){ .key = "feed_forward_length", .type = GGUF_ARRAY, .count = 2, .n = 48 };
	REFUSED(r, "feed_forward_length|array");
}

TEST(row_36_head_sizes_and_rotary_dimensions)
{
	struct recipe r = llama;

	REFUSED_INT("attention.key_length", 0, "byte|is 0");
	REFUSED_INT("attention.key_length", 7, "byte|is 7|even");
	REFUSED_INT("attention.key_length", 1026, "is 1026");
	MISFIT("attention.key_length", 16, "attn_q.weight");
	REFUSED_INT("attention.value_length", 4, "byte|is 4|8");
	REFUSED_INT("attention.value_length", 0, "is 0");
	REFUSED_INT("rope.dimension_count", 0, "byte|is 0");
	REFUSED_INT("rope.dimension_count", 7, "byte|is 7|even");
	REFUSED_INT("rope.dimension_count", 10, "byte|is 10|2 to 8");
	REFUSED_INT("rope.dimension_count", 4294967295, "is 4294967295");
	/* 30 / 6 = 5 */
	r.n_embd = 30, r.n_head = 6, r.n_kv = 2, r.head_dim = 5;
	REFUSED(r, "byte|attention.head_count|heads of 5|even");
}

TEST(row_37_context_length)
{
	REFUSED_INT("context_length", 0, "byte|is 0");
	REFUSED_INT("context_length", -1, "is -1");
	REFUSED_INT("context_length", 4294967295, "is 4294967295");
	MISSING("context_length");
}

/* A huge context length is accepted; the available memory limits the cache. */
TEST(row_37_a_huge_context_is_not_taken)
{
	struct recipe r = with((struct change){ .key = "context_length", .type = GGUF_I64, .n = INT32_MAX });
	struct engine *e = works_at(__LINE__, &r, NULL);
	struct timeline_need need;
	struct err err = { 0 };

	CHECK_INT(engine_info(e)->ctx_train, 1 << 26);
	CHECK_INT(timeline_need(e, &(struct timeline_options){ 0 }, &need, &err), 0);
	CHECK(need.ctx > 0 && need.ctx <= 32768);
	CHECK_INT(timeline_need(e, &(struct timeline_options){ .ctx = INT32_MAX, .kv = "full", .batch = INT32_MAX },
	                        &need, &err),
	          0);
	CHECK_INT(need.ctx, INT32_MAX);
	/* Keys and values in f16: 2 layers, 2 KV heads of 8 values. Also a RoPE table with a row of 8 floats for each
	 * token of the context. */
	CHECK_INT(need.kv_bytes, (uint64_t)INT32_MAX * (2 * 2 * 2 * 8 * 2 + 8 * 8));
	/* A chunk is never longer than the context, so a larger batch takes no more memory. */
	uint64_t scratch;
	CHECK_INT(timeline_need(e, &(struct timeline_options){ .ctx = 64, .kv = "full", .batch = 64 }, &need, &err), 0);
	scratch = need.scratch_bytes;
	CHECK_INT(timeline_need(e, &(struct timeline_options){ .ctx = 64, .kv = "full", .batch = INT32_MAX }, &need,
	                        &err),
	          0);
	CHECK_INT(need.scratch_bytes, scratch);
	engine_close(e);
}

TEST(row_38_feed_forward_length)
{
	REFUSED_INT("feed_forward_length", 0, "byte|is 0");
	REFUSED_INT("feed_forward_length", 1048577, "is 1048577");
	MISFIT("feed_forward_length", 64, "ffn_gate.weight|32 x 48|32 x 64");
	MISSING("feed_forward_length");
}

TEST(row_39_numbers_with_a_fraction)
{
	const double none[] = { (double)NAN, (double)INFINITY, -(double)INFINITY, 0, -1, 1e30 };

	for (size_t i = 0; i < LEN(none); i++) {
		struct recipe r;
		REFUSED_REAL("attention.layer_norm_rms_epsilon", none[i], "byte|and must be");
		REFUSED_REAL("rope.freq_base", none[i], "byte|and must be");
		REFUSED_REAL("rope.scaling.factor", none[i], "byte|and must be");
		REFUSED_REAL("rope.scale_linear", none[i], "byte|and must be");
		for (int k = 0; k < 3; k++) {
			static const char *const key[] = { "attn_factor", "yarn_beta_fast", "yarn_beta_slow" };
			char full[40];
			snprintf(full, sizeof full, "rope.scaling.%s", key[k]);
			r = with((struct change){ .key = "rope.scaling.type", .type = GGUF_STRING, .text = "yarn" });
			r.change[1] = (struct change){ .key = full, .type = GGUF_F32, .real = none[i] };
			REFUSED(r, key[k]);
		}
	}
	/* Positive values with which the arithmetic would overflow or underflow. */
	REFUSED_REAL("attention.layer_norm_rms_epsilon", 0.5, "is 0.5|0.1");
	REFUSED_REAL("attention.layer_norm_rms_epsilon", 1e-30, "e-30");
	REFUSED_REAL("rope.freq_base", 1, "is 1");
	REFUSED_REAL("rope.scaling.factor", 1e-30, "e-30");
	REFUSED_WITH("layer_norm_rms_epsilon|1e-300", .key = "attention.layer_norm_rms_epsilon", .type = GGUF_F64,
	             .real = 1e-300);
	MISSING("attention.layer_norm_rms_epsilon");
	REFUSED_WITH("rope.freq_base|u32|f32 or f64", .key = "rope.freq_base", .type = GGUF_U32, .n = 10000);
}

TEST(row_40_experts)
{
	struct recipe r = with((struct change){ .key = "expert_count", .type = GGUF_I64, .n = 0 });

	r.change[1] = (struct change){ .key = "expert_used_count", .type = GGUF_I64, .n = 0 };
	WORKS(&r, NULL); /* some converters write these keys as 0 */
	r = with((struct change){ .key = "expert_count", .type = GGUF_I64, .n = 8 });
	REFUSED(r, "'llama.expert_used_count' is 0, and must be 1 to 8");
	r.change[1] = (struct change){ .key = "expert_used_count", .type = GGUF_I64, .n = 2 };
	REFUSED(r, "tensor 'blk.0.ffn_gate_inp.weight' is missing");
	r.arch = "qwen3";
	REFUSED(r, "byte|'qwen3.expert_count' is 8|mixture-of-experts");
	REFUSED_INT("expert_count", 1025, "is 1025");
	REFUSED_INT("expert_count", -1, "is -1");
	REFUSED_INT("expert_count", 4294967295, "is 4294967295");
	REFUSED_INT("expert_used_count", 2, "byte|is 2|mixture-of-experts");
}

TEST(row_41_vocab_size)
{
	struct recipe r = with((struct change){ .key = "vocab_size", .type = GGUF_I64, .n = N_VOCAB });

	WORKS(&r, NULL);
	REFUSED_INT("vocab_size", N_VOCAB + 1, "is 289|288 tokens");
	REFUSED_INT("vocab_size", 0, "is 0");
	REFUSED_INT("vocab_size", (1 << 24) + 1, "is 16777217");
	r = llama;
	r.shape = (struct shape){ .name = "token_embd.weight", .rows = N_VOCAB - 1 };
	REFUSED(r, "token_embd.weight|32 x 287|32 x 288");
	r.tied = 0;
	r.shape = (struct shape){ .name = "output.weight", .rows = N_VOCAB - 1 };
	REFUSED(r, "output.weight|32 x 287|32 x 288");
}

TEST(row_52_tensors)
{
	static const char *const needed[] = {
		"token_embd.weight",     "output_norm.weight",  "blk.0.attn_norm.weight",   "blk.1.attn_q.weight",
		"blk.0.attn_k.weight",   "blk.1.attn_v.weight", "blk.0.attn_output.weight", "blk.1.ffn_norm.weight",
		"blk.0.ffn_gate.weight", "blk.1.ffn_up.weight", "blk.0.ffn_down.weight",
	};
	char words[80];
	struct recipe r = llama;

	/* no tensors, as in llama.cpp's files of vocabularies for tests */
	r.shape = (struct shape){ .name = "*", .drop = 1 };
	REFUSED(r, "a vocabulary and no weights");
	r.shape = (struct shape){ .name = NULL };
	r.change[0] = (struct change){ .key = ".general.type", .type = GGUF_STRING, .text = "adapter" };
	REFUSED(r, "this is a LoRA adapter|--lora FILE");
	r.change[0] = (struct change){ .key = NULL };
	for (size_t i = 0; i < LEN(needed); i++) {
		snprintf(words, sizeof words, "tensor '%s' is missing", needed[i]);
		r.shape = (struct shape){ .name = needed[i], .drop = 1 };
		REFUSED(r, words);
		snprintf(words, sizeof words, "byte|tensor '%s' has the shape 16 x |must have ", needed[i]);
		r.shape = (struct shape){ .name = needed[i], .cols = 16 };
		REFUSED(r, words);
		snprintf(words, sizeof words, "tensor '%s' has the shape ", needed[i]);
		r.shape = (struct shape){ .name = needed[i], .rows = 7 };
		REFUSED(r, words);
		/* I32, F64, IQ2_XXS */
		r.shape = (struct shape){ .name = needed[i], .type = 26 };
		REFUSED(r, needed[i]);
	}
	/* Tensors that are too large are refused, except for a padded vocabulary. */
	r.shape = (struct shape){ .name = "blk.0.attn_q.weight", .rows = 40 };
	REFUSED(r, "blk.0.attn_q.weight|32 x 40|32 x 32");
	r.shape = (struct shape){ .name = "token_embd.weight", .rows = N_VOCAB + 32 };
	WORKS(&r, NULL);
	static const char *const extra[] = {
		"blk.0.attn_sinks.weight", "blk.2.attn_norm.weight", "output.bias",       "x",
		"blk.0.ffn_gate.bias",     "rope_freqs.weight.b",    "xrope_freqs.weight"
	};
	for (size_t i = 0; i < LEN(extra); i++) {
		snprintf(words, sizeof words, "byte|tensor '%s' is not part of", extra[i]);
		r.shape = (struct shape){ .name = extra[i], .rows = 1, .cols = 32, .per_layer = 1 };
		REFUSED(r, words);
	}
	/* Tables of old converters, which are ignored. */
	r.shape = (struct shape){ .name = "blk.0.attn_rot_embd.weight", .rows = 1, .cols = 4, .per_layer = 1 };
	WORKS(&r, NULL);
}

TEST(parts_that_a_family_needs)
{
	struct recipe r = llama;

	r.arch = "qwen2";
	REFUSED(r, "blk.0.attn_q.bias|missing");
	r.bias = 1;
	WORKS(&r, NULL);
	r.shape = (struct shape){ .name = "blk.1.attn_v.bias", .drop = 1 };
	REFUSED(r, "blk.1.attn_v.bias|missing");
	r.shape = (struct shape){ .name = "blk.1.attn_v.bias", .cols = 32 };
	REFUSED(r, "blk.1.attn_v.bias|32 x 1|16 x 1");
	r = llama;
	r.arch = "qwen3";
	REFUSED(r, "blk.0.attn_q_norm.weight|missing");
	r.norms = 1;
	WORKS(&r, NULL);
	r.shape = (struct shape){ .name = "blk.0.attn_k_norm.weight", .cols = 16 };
	REFUSED(r, "blk.0.attn_k_norm.weight|16 x 1|8 x 1");
}

TEST(rotary_factors_and_scaling_types)
{
	const float none[] = { 0, -1, NAN, INFINITY, 1e-30f, 1e10f };
	struct recipe r = llama;

	r.factors = 4;
	WORKS(&r, NULL);
	for (size_t i = 0; i < LEN(none); i++) {
		r.factor = none[i];
		REFUSED(r, "byte|rope_freqs.weight|must hold");
	}
	r.factor = 1e30f; /* a factor so large that the pair is not rotated */
	WORKS(&r, NULL);
	r.factor = 1;
	r.factors = 3;
	REFUSED(r, "byte|rope_freqs.weight|3 values|4 of F32");
	r.factors = 8;
	REFUSED(r, "rope_freqs.weight|8 values|4 of F32");
	r = with((struct change){ .key = "rope.scaling.type", .type = GGUF_STRING, .text = "longrope" });
	REFUSED(r, "byte|rope.scaling.type|'longrope'|none, linear or yarn");
	r.change[0].text = "";
	REFUSED(r, "rope.scaling.type|''");
	r.change[0].text = "none";
	WORKS(&r, NULL);
	r.change[0] = (struct change){ .key = "rope.scaling.type", .type = GGUF_U32, .n = 1 };
	REFUSED(r, "rope.scaling.type|u32|string");
	r = with((struct change){ .key = "rope.scaling.type", .type = GGUF_STRING, .text = "yarn" });
	r.change[1] = (struct change){ .key = "rope.scaling.original_context_length", .type = GGUF_I64, .n = 0 };
	REFUSED(r, "original_context_length|is 0");
}

/* ---- optional parts that must load, and change the result ---- */

static int equal(const float *a, const float *b)
{
	return !memcmp(a, b, N_VOCAB * sizeof *a);
}

TEST(scaling_is_applied_under_each_of_its_names)
{
	float plain[N_VOCAB], one[N_VOCAB], four[N_VOCAB], other[N_VOCAB];
	static const char *const key[] = { "rope.scaling.factor", "rope.scale_linear" };
	struct recipe r = llama;
	struct engine *e;

	WORKS(&r, plain);
	r.factors = 4;
	r.factor = 4;
	WORKS(&r, four);
	CHECK(!equal(plain, four));
	r = llama;
	for (int typed = 0; typed < 2; typed++)
		for (int k = 0; k < 2; k++) {
			r.change[0] = (struct change){ .key = key[k], .type = GGUF_F32, .real = 4 };
			if (typed)
				r.change[1] = (struct change){ .key = "rope.scaling.type",
					                       .type = GGUF_STRING,
					                       .text = "linear" };
			e = works_at(__LINE__, &r, other);
			CHECK_STR(engine_info(e)->rope_scaling, "linear");
			CHECK_MSG(equal(four, other), "%s, type %s", key[k], typed ? "linear" : "left out");
			engine_close(e);
			r.change[0].real = 1;
			WORKS(&r, one);
			CHECK(equal(plain, one));
		}
	r.change[1].text = "none";
	r.change[0].real = 4;
	WORKS(&r, other);
	CHECK(equal(plain, other));
}

TEST(optional_parts_load)
{
	float plain[N_VOCAB], other[N_VOCAB];
	struct recipe r = llama;
	struct engine *e;

	WORKS(&r, plain);
	r.bias = 1; /* attention biases in a family that need not have them */
	e = works_at(__LINE__, &r, other);
	CHECK_INT(engine_info(e)->qkv_bias, 1);
	CHECK(!equal(plain, other));
	engine_close(e);
	r = llama;
	r.norms = 1;
	e = works_at(__LINE__, &r, other);
	CHECK_INT(engine_info(e)->qk_norm, 1);
	CHECK(!equal(plain, other));
	engine_close(e);
	r = llama;
	r.tied = 0;
	e = works_at(__LINE__, &r, other);
	CHECK_INT(engine_info(e)->tied_output, 0);
	CHECK(!equal(plain, other));
	engine_close(e);
	r = llama; /* heads whose size is not width / heads: 4 heads of 16 in 32 columns, then 3 heads of 8 */
	r.head_dim = 16;
	r.change[0] = (struct change){ .key = "attention.key_length", .type = GGUF_U32, .n = 16 };
	e = works_at(__LINE__, &r, NULL);
	CHECK_INT(engine_info(e)->head_dim, 16);
	engine_close(e);
	r.change[1] = (struct change){ .key = "attention.value_length", .type = GGUF_U32, .n = 16 };
	r.change[2] = (struct change){ .key = "rope.dimension_count", .type = GGUF_U32, .n = 8 };
	WORKS(&r, NULL);
	r = llama;
	r.n_head = r.n_kv = 3;
	r.change[0] = (struct change){ .key = "attention.key_length", .type = GGUF_U32, .n = 8 };
	WORKS(&r, NULL);
	r = llama; /* as many KV heads as query heads: stated by the key, then by leaving the key out */
	r.n_kv = 4;
	WORKS(&r, plain);
	r.change[0] = (struct change){ .key = "attention.head_count_kv", .drop = 1 };
	WORKS(&r, NULL);
	r = llama;
	r.change[0] = (struct change){ .key = "rope.freq_base", .type = GGUF_F64, .real = 1e6 };
	e = works_at(__LINE__, &r, NULL);
	CHECK(engine_info(e)->rope_base == 1e6);
	engine_close(e);
	r = llama; /* norms in half precision */
	r.shape = (struct shape){ .name = "output_norm.weight", .type = 1 };
	WORKS(&r, NULL);
}

/* A model that is opened without its weights is checked as strictly as one with weights. */
TEST(inspecting_checks_everything)
{
	struct recipe r = llama;
	struct engine *e = NULL;
	struct err err = { 0 };
	char *path = save(&r);

	CHECK_INT(engine_open(&e, &(struct engine_options){ .model_path = path, .inspect_only = 1 }, &err), 0);
	CHECK_INT(engine_info(e)->n_layer, 2);
	CHECK(engine_info(e)->n_params > 0);
	CHECK_INT(timeline_need(e, &(struct timeline_options){ 0 }, &(struct timeline_need){ 0 }, &err), -1);
	CHECK_INT(err.code, ERR_USAGE);
	engine_close(e);
	unlink(path);
	free(path);
	r.shape = (struct shape){ .name = "blk.1.ffn_up.weight", .drop = 1 };
	path = save(&r);
	CHECK_INT(engine_open(&e, &(struct engine_options){ .model_path = path, .inspect_only = 1 }, &err), -1);
	CHECK_INT(err.code, ERR_MODEL);
	CHECK(strstr(err.msg, "blk.1.ffn_up.weight") != NULL);
	/* Opening only the vocabulary needs no tensors. */
	CHECK_INT(engine_open(&e, &(struct engine_options){ .model_path = path, .vocab_only = 1 }, &err), 0);
	CHECK_INT(engine_info(e)->n_vocab, N_VOCAB);
	engine_close(e);
	unlink(path);
	free(path);
	test_note("%d files refused, each by name", n_refused);
}

/* A sparse file with only the header is enough to compute the memory that the model needs. */
TEST(planning_needs_no_weights)
{
	struct recipe r = llama;
	struct engine *whole = NULL, *plan = NULL;
	struct timeline *tl = NULL;
	struct timeline_need a = { 0 }, b = { 0 };
	struct timeline_options to = { .ctx = 64 };
	struct err err = { 0 };
	char *path = save(&r);
	char bytes[1 << 16];
	FILE *f = fopen(path, "rb");
	size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
	long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : 0;

	if (f)
		fclose(f);
	CHECK_INT(engine_open(&whole, &(struct engine_options){ .model_path = path, .device = "cpu", .threads = 1 },
	                      &err),
	          0);
	CHECK_INT(timeline_need(whole, &to, &a, &err), 0);
	n = engine_head_bytes(bytes, n);
	CHECK(n > 0 && (long)n < size);
	f = fopen(path, "wb");
	CHECK(f && fwrite(bytes, 1, n, f) == n && !fclose(f) && !truncate(path, size));
	CHECK_INT(engine_open(&plan,
	                      &(struct engine_options){
				      .model_path = path, .device = "cpu", .threads = 1, .plan_only = 1 },
	                      &err),
	          0);
	CHECK_INT(timeline_need(plan, &to, &b, &err), 0);
	CHECK(a.kv_bytes > 0 && a.kv_bytes == b.kv_bytes && a.scratch_bytes == b.scratch_bytes && a.ctx == b.ctx);
	CHECK(engine_info(whole)->weight_bytes == engine_info(plan)->weight_bytes &&
	      engine_info(whole)->bytes_per_token == engine_info(plan)->bytes_per_token);
	CHECK_INT(timeline_open(&tl, plan, &to, &err), -1);
	CHECK_INT(err.code, ERR_USAGE);
	engine_close(plan);
	engine_close(whole);
	unlink(path);
	free(path);
}

/* ---- memory ---- */

/* The address space is limited: first enough to map the file but not to load it, then enough for both. */
TEST(weights_that_do_not_fit_are_refused_first)
{
	const char *path = test_model();
	struct engine *e = NULL;
	struct timeline *tl = NULL;
	struct err err = { 0 };
	struct rlimit was, now;
	unsigned long long pages = 0;
	struct stat st;
	FILE *f = fopen("/proc/self/statm", "r");
	double start = cpu_seconds();

	if (!f || fscanf(f, "%llu", &pages) != 1 || stat(path, &st) || getrlimit(RLIMIT_AS, &was))
		SKIP("the address space in use is not known");
	fclose(f);
	if (pages * (unsigned long long)sysconf(_SC_PAGESIZE) > 1ull << 40)
		SKIP("a sanitizer takes all of the address space");
	now = was;
	now.rlim_cur = pages * (unsigned long long)sysconf(_SC_PAGESIZE) + (rlim_t)st.st_size + (64u << 20);
	CHECK(!setrlimit(RLIMIT_AS, &now));
	CHECK_INT(engine_open(&e, &(struct engine_options){ .model_path = path, .threads = 1 }, &err), -1);
	CHECK_INT(err.code, ERR_FIT);
	CHECK_MSG(strstr(err.msg, "the weights need") != NULL, "%s", err.msg);
	CHECK(cpu_seconds() - start < 5 * test_patience());
	now.rlim_cur += (rlim_t)st.st_size + (256u << 20);
	CHECK(!setrlimit(RLIMIT_AS, &now));
	CHECK_MSG(!engine_open(&e, &(struct engine_options){ .model_path = path, .threads = 1 }, &err), "%s", err.msg);
	if (e) {
		/* A cache that does not fit is refused; the error names a -c that fits, and that context can be
		 * opened. */
		struct timeline_need need;
		CHECK_INT(timeline_open(&tl, e, &(struct timeline_options){ .ctx = 1 << 20, .kv = "full" }, &err), -1);
		CHECK_INT(err.code, ERR_FIT);
		CHECK_INT(timeline_need(e, &(struct timeline_options){ .ctx = 512, .kv = "full" }, &need, &err), 0);
		CHECK(need.ctx_fits > 512 && need.ctx_fits < 1 << 20);
		CHECK_MSG(!timeline_open(&tl, e, &(struct timeline_options){ .ctx = 512, .kv = "full" }, &err), "%s",
		          err.msg);
		timeline_close(tl);
	}
	CHECK(!setrlimit(RLIMIT_AS, &was));
	engine_close(e);
}
