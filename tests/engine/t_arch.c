/* tests/engine/t_arch.c - model families (rows of archs[]) and layer specs: how specs are filled in, which specs are
 * refused, and that the forward pass computes each feature of a spec.
 *
 * This file also defines families of its own, which are read from tiny files by hparams_read_as(). Their results are
 * compared with those of a second forward pass in double, written from the definitions. */
#include "tests/lib/test.h"
#include "engine/policies/policy.h"

#include <math.h>
#include <stdlib.h>

#include "engine/forward/forward.h"
#include "tests/lib/mkgguf.h"

enum {
	LAYERS = 2,
	WIDTH = 32,
	HEADS = 4,
	KV_HEADS = 2,
	DIM = 8,
	FF = 24,
	VOCAB = 16,
	CTX = 128,
	IDS = 120,
	SECOND = 100
};

#define T(name)       TENSOR_BIT(TENSOR_##name)
#define MATRICES      (T(Q) | T(K) | T(V) | T(ATTN_OUT) | T(GATE) | T(UP) | T(DOWN))
#define BEFORE        (T(ATTN_NORM) | T(FFN_NORM))
#define AFTER         (T(ATTN_POST_NORM) | T(FFN_POST_NORM))
#define QK_NORMS      (T(Q_NORM) | T(K_NORM))
#define ATTENTION     (T(Q) | T(K) | T(V) | T(ATTN_OUT))
#define EXPERTS       (T(ROUTER) | T(GATE_EXPS) | T(UP_EXPS) | T(DOWN_EXPS))
#define EXPERT_BIASES (T(ROUTER_BIAS) | T(GATE_EXPS_BIAS) | T(UP_EXPS_BIAS) | T(DOWN_EXPS_BIAS))

/* ---- specs without a file ---- */

static struct hparams sizes(const struct arch *arch)
{
	struct hparams hp = { .arch = arch,
		              .n_layer = 3,
		              .n_embd = 64,
		              .n_ff = 96,
		              .n_head = 4,
		              .n_kv_head = 2,
		              .head_dim = 16,
		              .n_rope = 1,
		              .rope = { { .dims = 16, .neox = arch->neox } } };

	layer_specs_plain(&hp);
	return hp;
}

static const struct arch *family(const char *name)
{
	for (const struct arch *a = archs; a->name; a++)
		if (!strcmp(a->name, name))
			return a;
	test_skip("no family %s", name);
}

TEST(plain_layers_of_the_families)
{
	for (const struct arch *a = archs; a->name; a++) {
		struct hparams hp = sizes(a);
		struct str text = { 0 };
		struct err err = { 0 };

		CHECK(!(a->required & a->optional));
		for (int32_t i = 0; i < hp.n_layer; i++) {
			const struct layer_spec *s = model_layer_spec(&hp, i);

			CHECK(s->attn.kind == ATTN_SOFTMAX && s->ffn.kind == FFN_DENSE && s->ffn.act == ACT_SILU);
			CHECK_INT(s->attn.n_head, 4);
			CHECK_INT(s->attn.n_kv_head, 2);
			CHECK_INT(s->attn.head_dim, 16);
			CHECK_INT(s->ffn.width, 96);
			CHECK(s->attn.scale == 0.25f && s->residual_scale == 1);
			CHECK(s->required == a->required && s->optional == a->optional);
			CHECK(model_rope(&hp, i) == &hp.rope[0]);
			/* A spec may fail this check only if the family's specs() fills in experts, sinks or differing
			 * layers later. */
			CHECK_MSG(!layer_spec_check(&hp, i, &err) || a->required & (T(ROUTER) | T(SINKS)) || a->differ,
			          "%s", err.msg);
		}
		CHECK(hp.embd_scale == 1 && hp.logit_scale == 1);
		/* the identity that old sessions of these families store has no such lines */
		layer_specs_identity(&hp, &text);
		CHECK_INT(text.n, 0);
		free(hp.spec);
	}
}

TEST(tensors_of_the_families)
{
	const uint32_t biases = T(Q_BIAS) | T(K_BIAS) | T(V_BIAS);

	CHECK_INT(family("llama")->required, MATRICES | BEFORE);
	CHECK_INT(family("llama")->optional, biases | T(ATTN_OUT_BIAS) | QK_NORMS);
	CHECK_INT(family("llama")->neox, 0);
	CHECK_INT(family("qwen2")->required, MATRICES | BEFORE | biases);
	CHECK_INT(family("qwen2")->optional, T(ATTN_OUT_BIAS) | QK_NORMS);
	CHECK_INT(family("qwen2")->neox, 1);
	CHECK_INT(family("qwen3")->required, MATRICES | BEFORE | QK_NORMS);
	CHECK_INT(family("qwen3")->optional, biases | T(ATTN_OUT_BIAS));
	CHECK_INT(family("qwen3")->neox, 1);
}

static void ask_conv(struct layer_spec *s)
{
	s->attn.kind = ATTN_CONV;
}
static void ask_no_attention(struct layer_spec *s)
{
	s->attn.kind = ATTN_NONE;
}
static void ask_heads(struct layer_spec *s)
{
	s->attn.n_head = 8;
}
static void ask_kv_heads(struct layer_spec *s)
{
	s->attn.n_kv_head = 4;
}
static void ask_dim(struct layer_spec *s)
{
	s->attn.head_dim = 32;
}
static void ask_rope(struct layer_spec *s)
{
	s->attn.rope = 1;
}
static void ask_sinks(struct layer_spec *s)
{
	s->attn.sinks = 1;
}
static void ask_experts(struct layer_spec *s)
{
	s->ffn.kind = FFN_EXPERTS;
}
static void ask_borrowed(struct layer_spec *s)
{
	s->attn.borrows = 3;
}
static void ask_other_keys(struct layer_spec *s)
{
	s->attn.borrows = 1;
	s->attn.window = 5;
}
static void ask_odd_heads(struct layer_spec *s)
{
	s->attn.window = 5;
	s->attn.n_kv_head = 3;
}
static void ask_fewer(struct layer_spec *s)
{
	s->required &= ~T(GATE);
}

TEST(what_no_kernel_computes_is_refused)
{
	static const struct {
		void (*ask)(struct layer_spec *);
		const char *what;
	} all[] = {
		{ ask_conv, "attention or feed-forward without all of its tensors" },
		{ ask_no_attention, "no attention" },
		{ ask_heads, "heads of its own number or size" },
		{ ask_kv_heads, "heads of its own number or size" },
		{ ask_dim, "heads of its own number or size" },
		{ ask_rope, "a RoPE table that was not read" },
		{ ask_sinks, "attention or feed-forward without all of its tensors" },
		{ ask_experts, "attention or feed-forward without all of its tensors" },
		{ ask_borrowed, "the keys of a layer that has none like its own" },
		{ ask_other_keys, "the keys of a layer that has none like its own" },
		{ ask_odd_heads, "KV heads that do not divide its heads" },
		{ ask_fewer, "attention or feed-forward without all of its tensors" },
	};

	for (size_t i = 0; i < LEN(all); i++) {
		struct hparams hp = sizes(family("llama"));
		struct err err = { 0 };
		struct str text = { 0 };
		char want[120];

		snprintf(want, sizeof want, "layer 2 asks for %s, which is not supported yet", all[i].what);
		all[i].ask(&hp.spec[2]);
		CHECK_INT(layer_spec_check(&hp, 1, &err), 0);
		CHECK_INT(layer_spec_check(&hp, 2, &err), -1);
		CHECK_INT(err.code, ERR_MODEL);
		CHECK_STR(err.msg, want);
		if (all[i].ask == ask_fewer) { /* the identity of a session contains these tensors in another place */
			free(hp.spec);
			continue;
		}
		/* The changed spec also changes the identity that a session stores. */
		layer_specs_identity(&hp, &text);
		CHECK_MSG(text.n && !strncmp(text.p, "layer 2 ", 8) && strchr(text.p, '\n') == text.p + text.n - 1,
		          "%s: %s", all[i].what, text.n ? text.p : "no line");
		str_free(&text);
		free(hp.spec);
	}
}

static void set_scale(struct hparams *hp)
{
	hp->spec[0].attn.scale = 0.5f;
}
static void set_residual(struct hparams *hp)
{
	hp->spec[1].residual_scale = 0.22f;
}
static void set_width(struct hparams *hp)
{
	hp->spec[2].ffn.width = 64;
}
static void set_norms(struct hparams *hp)
{
	hp->spec[0].attn.qk_norm_whole = 1;
}
static void set_no_rope(struct hparams *hp)
{
	hp->spec[1].attn.rope = ROPE_NONE;
}
static void set_window(struct hparams *hp)
{
	hp->spec[2].attn.window = 512;
}
static void set_cap(struct hparams *hp)
{
	hp->spec[2].attn.softcap = 50;
}
static void set_gelu(struct hparams *hp)
{
	hp->spec[2].ffn.act = ACT_GELU;
}
static void set_clamped(struct hparams *hp)
{
	hp->spec[2].ffn.act = ACT_SILU_CLAMPED;
}
static void set_logit_cap(struct hparams *hp)
{
	hp->logit_softcap = 30;
}
static void set_borrowed(struct hparams *hp)
{
	hp->spec[2].attn.borrows = 2;
}
static void set_v_norm(struct hparams *hp)
{
	hp->spec[2].attn.v_norm = 1;
}
static void set_own_heads(struct hparams *hp)
{
	hp->spec[1].attn.window = 9;
	hp->spec[1].attn.head_dim = 8;
	hp->spec[1].attn.n_kv_head = 4;
}
static void set_whole(struct hparams *hp)
{
	hp->spec[2].ffn.whole = 1;
}
static void set_inputs(struct hparams *hp)
{
	hp->n_input = 4;
}
static void set_embd(struct hparams *hp)
{
	hp->embd_scale = 12;
}
static void set_logit(struct hparams *hp)
{
	hp->logit_scale = 0.125f;
}

TEST(what_changes_results_is_in_the_identity)
{
	static void (*const set[])(
		struct hparams *) = { set_scale,    set_residual, set_width,     set_norms, set_no_rope, set_embd,
		                      set_logit,    set_window,   set_cap,       set_gelu,  set_clamped, set_logit_cap,
		                      set_borrowed, set_v_norm,   set_own_heads, set_whole, set_inputs };
	struct str seen[17] = { { 0 } };

	_Static_assert(LEN(set) == LEN(seen), "one text for each");
	for (size_t i = 0; i < LEN(set); i++) {
		struct hparams hp = sizes(family("qwen2"));
		struct err err = { 0 };

		set[i](&hp);
		for (int32_t l = 0; l < hp.n_layer; l++)
			CHECK_MSG(!layer_spec_check(&hp, l, &err), "%s", err.msg);
		layer_specs_identity(&hp, &seen[i]);
		CHECK(seen[i].n > 0);
		for (size_t k = 0; k < i && seen[i].n; k++)
			CHECK(strcmp(seen[k].p, seen[i].p));
		free(hp.spec);
	}
	for (size_t i = 0; i < LEN(set); i++)
		str_free(&seen[i]);
}

TEST(what_a_backend_lacks_has_a_name)
{
	static const struct {
		void (*set)(struct hparams *);
		unsigned bit;
		const char *name;
	} all[] = {
		{ set_window, LACKS_WINDOW, "sliding windows" },
		{ set_cap, LACKS_SOFTCAP, "soft caps on attention scores" },
		{ set_clamped, LACKS_CLAMPED, "clamped SiLU activation and biases of experts" },
	};

	for (size_t i = 0; i < LEN(all); i++) {
		struct hparams hp = sizes(family("qwen2"));

		CHECK(!layer_specs_lacked(&hp, ~0u));
		all[i].set(&hp);
		CHECK(!layer_specs_lacked(&hp, ~all[i].bit));
		CHECK_STR(layer_specs_lacked(&hp, all[i].bit), all[i].name);
		free(hp.spec);
	}
}

/* ---- tiny files ---- */

static float weight(const char *name, size_t i)
{
	uint64_t h = i + 1;

	for (const char *c = name; *c; c++)
		h = (h ^ (unsigned char)*c) * 0x9e3779b97f4a7c15u;
	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9u;
	/* Weights of norms are near 1, all other weights near 0. */
	return (strstr(name, "norm") ? 1 : 0) + ((float)(h >> 40) / (float)(1 << 23) - 1) * 0.4f;
}

struct recipe {
	struct arch arch;
	int whole_norms;       /* 1 = the norms of Q and K are over all heads together */
	int32_t width[LAYERS]; /* width of the feed-forward network; 0 = FF */
	double key[4];         /* values of the keys toy_keys[]; 0 = the key is left out */
	float q_times;         /* factor on the weights of Q; 0 = 1 */
	/* RoPE of each layer: 0 = the first table; 1 = a second table with base SECOND; or ROPE_NONE */
	int rope[LAYERS];
	int32_t window[LAYERS];
	double cap, logit_cap; /* soft caps */
	enum activation act;
	int32_t n_expert, n_used;
	int whole_softmax; /* 1 = softmax over all experts, not only the used ones */
	const char *extra; /* one more tensor */
	int32_t unused;    /* number of additional layers at the end, which predict further tokens and are not used */
};
static const char *const toy_keys[4] = { "attention.scale", "residual_scale", "embedding_scale", "logit_scale" };

static int32_t ff_of(const struct recipe *r, int32_t layer)
{
	return r->width[layer] ? r->width[layer] : FF;
}

static void put_tensor_of(struct mk *m, const char *name, int32_t rows, int32_t cols, float times)
{
	size_t n = (size_t)rows * (size_t)cols;
	float *v = xcalloc(n, sizeof *v);

	for (size_t i = 0; i < n; i++)
		v[i] = weight(name, i) * times;
	mk_tensor(m, name, rows == 1 ? 1 : 2, (int64_t[]){ cols, rows }, 0, v, n * sizeof *v);
	free(v);
}

/* Add a tensor that has one matrix for each expert, or one bias for each expert. */
static void put_stacked(struct mk *m, const char *name, int32_t n_expert, int32_t rows, int32_t cols)
{
	size_t n = (size_t)n_expert * (size_t)rows * (size_t)cols;
	float *v = xcalloc(n, sizeof *v);

	for (size_t i = 0; i < n; i++)
		v[i] = weight(name, i);
	mk_tensor(m, name, rows == 1 ? 2 : 3,
	          rows == 1 ? (int64_t[]){ cols, n_expert } : (int64_t[]){ cols, rows, n_expert }, 0, v, n * sizeof *v);
	free(v);
}

/* Add several matrices, one below the other, as one tensor. */
static void put_fused(struct mk *m, int32_t layer, const char *name, const char *const part[3], const int32_t rows[3])
{
	size_t n = 0, all = (size_t)(rows[0] + rows[1] + rows[2]) * WIDTH;
	float *v = xcalloc(all, sizeof *v);
	char full[64];

	for (int p = 0; p < 3 && part[p]; p++) {
		snprintf(full, sizeof full, "blk.%d.%s", layer, part[p]);
		for (size_t i = 0; i < (size_t)rows[p] * WIDTH; i++)
			v[n++] = weight(full, i);
	}
	snprintf(full, sizeof full, "blk.%d.%s", layer, name);
	mk_tensor(m, full, 2, (int64_t[]){ WIDTH, rows[0] + rows[1] + rows[2] }, 0, v, all * sizeof *v);
	free(v);
}

static void put_layer(struct mk *m, const struct recipe *r, int32_t layer)
{
	int32_t q = HEADS * DIM, kv = KV_HEADS * DIM, ff = ff_of(r, layer);
	/* clang-format off */
	const struct { enum layer_tensor t; const char *name; int32_t rows, cols; } all[] = {
		{ TENSOR_ATTN_NORM, "attn_norm.weight", 1, WIDTH }, { TENSOR_Q, "attn_q.weight", q, WIDTH }, { TENSOR_K, "attn_k.weight", kv, WIDTH },
		{ TENSOR_V, "attn_v.weight", kv, WIDTH }, { TENSOR_Q_BIAS, "attn_q.bias", 1, q }, { TENSOR_K_BIAS, "attn_k.bias", 1, kv },
		{ TENSOR_V_BIAS, "attn_v.bias", 1, kv }, { TENSOR_Q_NORM, "attn_q_norm.weight", 1, r->whole_norms ? q : DIM },
		{ TENSOR_K_NORM, "attn_k_norm.weight", 1, r->whole_norms ? kv : DIM }, { TENSOR_ATTN_OUT, "attn_output.weight", WIDTH, q },
		{ TENSOR_ATTN_OUT_BIAS, "attn_output.bias", 1, WIDTH }, { TENSOR_ATTN_POST_NORM, "post_attention_norm.weight", 1, WIDTH },
		{ TENSOR_FFN_NORM, "ffn_norm.weight", 1, WIDTH }, { TENSOR_GATE, "ffn_gate.weight", ff, WIDTH }, { TENSOR_UP, "ffn_up.weight", ff, WIDTH },
		{ TENSOR_DOWN, "ffn_down.weight", WIDTH, ff }, { TENSOR_FFN_POST_NORM, "post_ffw_norm.weight", 1, WIDTH },
		{ TENSOR_SINKS, "attn_sinks.weight", 1, HEADS }, { TENSOR_POST_ATTN_FFN_NORM, "post_attention_norm.weight", 1, WIDTH },
		{ TENSOR_ROUTER, "ffn_gate_inp.weight", r->n_expert, WIDTH }, { TENSOR_ROUTER_BIAS, "ffn_gate_inp.bias", 1, r->n_expert },
		{ TENSOR_GATE_EXPS, "ffn_gate_exps.weight", ff, WIDTH }, { TENSOR_GATE_EXPS_BIAS, "ffn_gate_exps.bias", 1, ff },
		{ TENSOR_UP_EXPS, "ffn_up_exps.weight", ff, WIDTH }, { TENSOR_UP_EXPS_BIAS, "ffn_up_exps.bias", 1, ff },
		{ TENSOR_DOWN_EXPS, "ffn_down_exps.weight", WIDTH, ff }, { TENSOR_DOWN_EXPS_BIAS, "ffn_down_exps.bias", 1, WIDTH },
	};
	/* clang-format on */
	/* all[] lacks the fused matrices and the tensors that only certain families have (tested in t_models). */
	_Static_assert(LEN(all) + 2 + 4 + 10 + 5 + 4 + 10 == LAYER_TENSORS, "a tensor is missing here");

	if (r->arch.required & T(QKV))
		put_fused(m, layer, "attn_qkv.weight",
		          (const char *[3]){ "attn_q.weight", "attn_k.weight", "attn_v.weight" },
		          (int32_t[3]){ q, kv, kv });
	if (r->arch.required & T(GATE_UP))
		put_fused(m, layer, "ffn_up.weight", (const char *[3]){ "ffn_gate.weight", "ffn_up.weight" },
		          (int32_t[3]){ ff, ff });
	for (size_t i = 0; i < LEN(all); i++) {
		char name[64];

		snprintf(name, sizeof name, "blk.%d.%s", layer, all[i].name);
		if (r->arch.required & TENSOR_BIT(all[i].t) && strstr(name, "_exps"))
			put_stacked(m, name, r->n_expert, all[i].rows, all[i].cols);
		else if (r->arch.required & TENSOR_BIT(all[i].t))
			put_tensor_of(m, name, all[i].rows, all[i].cols,
			              all[i].t == TENSOR_Q && r->q_times != 0 ? r->q_times : 1);
	}
}

static void put_number(struct mk *m, const struct recipe *r, const char *suffix, double v, int whole)
{
	char key[80];

	snprintf(key, sizeof key, "%s.%s", r->arch.name, suffix);
	if (whole)
		mk_u32(m, key, (uint32_t)v);
	else
		mk_f32(m, key, (float)v);
}

static void build(const struct recipe *r, struct str *out)
{
	/* clang-format off */
	const struct { const char *suffix; double v; } whole[] = {
		{ "block_count", LAYERS + r->unused }, { "nextn_predict_layers", r->unused }, { "context_length", 512 }, { "embedding_length", WIDTH }, { "feed_forward_length", FF },
		{ "attention.head_count", HEADS }, { "attention.head_count_kv", KV_HEADS },
	};
	/* clang-format on */
	struct mk m = { 0 };

	for (size_t i = 0; i < LEN(whole); i++)
		put_number(&m, r, whole[i].suffix, whole[i].v, 1);
	put_number(&m, r, "attention.layer_norm_rms_epsilon", 1e-5, 0);
	for (int i = 0; i < 4; i++)
		if (r->key[i] != 0)
			put_number(&m, r, toy_keys[i], r->key[i], 0);
	if (r->n_expert) {
		put_number(&m, r, "expert_count", r->n_expert, 1);
		put_number(&m, r, "expert_used_count", r->n_used, 1);
		put_number(&m, r, "expert_feed_forward_length", FF, 1);
	}
	if (r->window[0])
		put_number(&m, r, "attention.sliding_window", r->window[0], 1);
	put_tensor_of(&m, "token_embd.weight", VOCAB, WIDTH, 1);
	put_tensor_of(&m, "output_norm.weight", 1, WIDTH, 1);
	for (int32_t i = 0; i < LAYERS; i++)
		put_layer(&m, r, i);
	if (r->extra)
		put_tensor_of(&m, r->extra, 1, WIDTH, 1);
	mk_finish(&m, out);
}

/* specs() of the toy family. It reads multipliers from keys, as in Granite, and sets widths and norms that differ from
 * layer to layer. */
static const struct recipe *reading;
static int toy_specs(struct hparams *hp, struct key_reader *r)
{
	double scale, residual, embd, logit;

	if (key_real(r, "attention.scale", 1e-6, 1e3, (double)hp->spec[0].attn.scale, &scale) ||
	    key_real(r, "residual_scale", 1e-6, 1e3, 1, &residual) ||
	    key_real(r, "embedding_scale", 1e-6, 1e3, 1, &embd) || key_real(r, "logit_scale", 1e-6, 1e3, 1, &logit))
		return -1;
	rope_freqs_add(hp, hp->rope[0].dims, SECOND);
	hp->embd_scale = (float)embd;
	hp->logit_scale = (float)(1 / logit);
	hp->logit_softcap = (float)reading->logit_cap;
	for (int32_t i = 0; i < hp->n_layer; i++) {
		hp->spec[i].attn.scale = (float)scale;
		hp->spec[i].residual_scale = (float)residual;
		hp->spec[i].attn.qk_norm_whole = reading->whole_norms;
		hp->spec[i].ffn.width = ff_of(reading, i);
		hp->spec[i].attn.rope = reading->rope[i];
		hp->spec[i].attn.window = reading->window[i];
		hp->spec[i].attn.softcap = (float)reading->cap;
		hp->spec[i].attn.sinks = (reading->arch.required & T(SINKS)) != 0;
		hp->spec[i].ffn.act = reading->act;
		if (reading->n_expert)
			hp->spec[i].ffn = (struct ffn_spec){ .kind = FFN_EXPERTS,
				                             .act = reading->act,
				                             .width = ff_of(reading, i),
				                             .n_expert = reading->n_expert,
				                             .n_used = reading->n_used };
	}
	return 0;
}

struct toy {
	struct str file;
	struct gguf *g;
	struct model m;
	struct backend *be;
};

static void toy_close(struct toy *t)
{
	model_release(&t->m);
	hparams_free(&t->m.hp);
	gguf_close(t->g);
	if (t->be)
		t->be->ops->close(t->be);
	str_free(&t->file);
}

static int toy_open(struct toy *t, const struct recipe *r, struct err *err)
{
	char why[160];

	memset(t, 0, sizeof *t);
	reading = r;
	build(r, &t->file);
	if (backend_open(&t->be, "cpu", &(struct backend_options){ .threads = 1 }, why))
		test_skip("%s", why);
	if (!gguf_parse(&t->g, "toy", t->file.p, t->file.n, err) && !hparams_read_as(&t->m.hp, &r->arch, t->g, err)) {
		t->m.hp.n_vocab = VOCAB;
		if (!model_bind(&t->m, t->g, t->be, NULL, err))
			return 0;
	}
	toy_close(t);
	return -1;
}

static int32_t id_at(int32_t i)
{
	return (i * 7 + i * i % 5) % VOCAB;
}

/* Return the logits [IDS][VOCAB] under a policy. The first `prompt` tokens are prefilled in calls of `chunk` tokens;
 * all later tokens are decoded one by one. */
static float *toy_run(struct toy *t, const char *kv, int32_t prompt, int32_t chunk)
{
	float *out = xcalloc((size_t)IDS * VOCAB, sizeof *out);
	struct forward f = { .m = NULL };
	struct err err = { 0 };
	struct cache p = { .hp = &t->m.hp, .be = t->be, .types = { DT_F32, DT_F32 }, .batch = IDS, .ctx = CTX };
	int32_t id[IDS];

	for (int32_t i = 0; i < IDS; i++)
		id[i] = id_at(i);
	if (policy_parse(&p.policy, kv, &err) || cache_open(&p, &err) ||
	    forward_init(&f, &t->m, &p, p.chunk, IDS, &err))
		test_skip("%s: %s", kv, err.msg);
	for (int32_t at = 0, n; at < IDS; at += n) {
		n = at >= prompt ? 1 : prompt - at < chunk ? prompt - at : chunk;
		struct step st = {
			.kind = at >= prompt ? STEP_GENERATE : STEP_READ, .pos = at, .n = n, .last = at + n == prompt
		};

		forward_run(&f, id + at, &st, n);
		forward_logits(&f, 0, n, out + (size_t)at * VOCAB);
		CHECK_MSG(!t->be->ops->sync(t->be), "%s", t->be->err);
		cache_commit(&p, n, NULL);
	}
	forward_release(&f);
	cache_close(&p);
	return out;
}

/* ---- the same in double ---- */

struct ref {
	const struct recipe *r;
	double x[IDS][WIDTH];
	double k[LAYERS][IDS][KV_HEADS * DIM], v[LAYERS][IDS][KV_HEADS * DIM];
};

static int has(const struct ref *f, enum layer_tensor t)
{
	return (f->r->arch.required & TENSOR_BIT(t)) != 0;
}

static double w_at(const struct ref *f, int32_t layer, const char *suffix, int32_t i)
{
	char name[64];

	snprintf(name, sizeof name, "blk.%d.%s", layer, suffix);
	return (double)(weight(name, (size_t)i) *
	                (f->r->q_times != 0 && !strcmp(suffix, "attn_q.weight") ? f->r->q_times : 1));
}

/* Normalise x in groups of n values, and multiply by the weights blk.LAYER.suffix (layer -1: suffix alone). */
static void ref_norm(const struct ref *f, int32_t layer, const char *suffix, double *x, int32_t all, int32_t n)
{
	for (int32_t g = 0; g < all; g += n) {
		double sum = 0;

		for (int32_t i = 0; i < n; i++)
			sum += x[g + i] * x[g + i];
		for (int32_t i = 0; i < n; i++)
			x[g + i] *= (layer < 0 ? (double)weight(suffix, (size_t)i) : w_at(f, layer, suffix, i)) /
			            sqrt(sum / n + (double)1e-5f);
	}
}

static void ref_product(const struct ref *f, int32_t layer, const char *suffix, const char *bias, const double *x,
                        int32_t cols, double *out, int32_t rows)
{
	for (int32_t o = 0; o < rows; o++) {
		out[o] = bias ? w_at(f, layer, bias, o) : 0;
		for (int32_t i = 0; i < cols; i++)
			out[o] += w_at(f, layer, suffix, o * cols + i) * x[i];
	}
}

static void ref_rope(const struct ref *f, int32_t layer, double *x, int32_t heads, int32_t pos)
{
	for (int32_t h = 0; h < heads && f->r->rope[layer] != ROPE_NONE; h++)
		for (int32_t j = 0; j < DIM / 2; j++) {
			double angle = pos * pow(f->r->rope[layer] ? SECOND : 10000, -2.0 * j / DIM);
			double *a = &x[h * DIM + (f->r->arch.neox ? j : 2 * j)],
			       *b = &x[h * DIM + (f->r->arch.neox ? j + DIM / 2 : 2 * j + 1)];
			double u = *a * cos(angle) - *b * sin(angle);

			*b = *a * sin(angle) + *b * cos(angle);
			*a = u;
		}
}

static void ref_attention(struct ref *f, int32_t layer, int32_t pos, double scale, double *out)
{
	double in[WIDTH], q[HEADS * DIM], *k = f->k[layer][pos], got[HEADS * DIM] = { 0 };
	int32_t group_q = f->r->whole_norms ? HEADS * DIM : DIM, group_k = f->r->whole_norms ? KV_HEADS * DIM : DIM;
	int bias = has(f, TENSOR_Q_BIAS);

	memcpy(in, f->x[pos], sizeof in);
	if (has(f, TENSOR_ATTN_NORM))
		ref_norm(f, layer, "attn_norm.weight", in, WIDTH, WIDTH);
	ref_product(f, layer, "attn_q.weight", bias ? "attn_q.bias" : NULL, in, WIDTH, q, HEADS * DIM);
	ref_product(f, layer, "attn_k.weight", bias ? "attn_k.bias" : NULL, in, WIDTH, k, KV_HEADS * DIM);
	ref_product(f, layer, "attn_v.weight", bias ? "attn_v.bias" : NULL, in, WIDTH, f->v[layer][pos],
	            KV_HEADS * DIM);
	if (has(f, TENSOR_Q_NORM)) {
		ref_norm(f, layer, "attn_q_norm.weight", q, HEADS * DIM, group_q);
		ref_norm(f, layer, "attn_k_norm.weight", k, KV_HEADS * DIM, group_k);
	}
	ref_rope(f, layer, q, HEADS, pos);
	ref_rope(f, layer, k, KV_HEADS, pos);
	for (int32_t h = 0; h < HEADS; h++) {
		int32_t from = h / (HEADS / KV_HEADS) * DIM;
		int32_t first = f->r->window[layer] && pos >= f->r->window[layer] ? pos - f->r->window[layer] + 1 : 0;
		double p[IDS], sum = has(f, TENSOR_SINKS) ? exp(w_at(f, layer, "attn_sinks.weight", h)) : 0;

		for (int32_t t = first; t <= pos; t++) {
			p[t] = 0;
			for (int32_t i = 0; i < DIM; i++)
				p[t] += scale * q[h * DIM + i] * f->k[layer][t][from + i];
			sum += p[t] = exp(f->r->cap != 0 ? f->r->cap * tanh(p[t] / f->r->cap) : p[t]);
		}
		for (int32_t t = first; t <= pos; t++)
			for (int32_t i = 0; i < DIM; i++)
				got[h * DIM + i] += p[t] / sum * f->v[layer][t][from + i];
	}
	ref_product(f, layer, "attn_output.weight", has(f, TENSOR_ATTN_OUT_BIAS) ? "attn_output.bias" : NULL, got,
	            HEADS * DIM, out, WIDTH);
	if (has(f, TENSOR_ATTN_POST_NORM))
		ref_norm(f, layer, "post_attention_norm.weight", out, WIDTH, WIDTH);
}

static double ref_glu(const struct ref *f, double g, double u)
{
	if (f->r->act == ACT_GELU)
		return g * 0.5 * (1 + tanh(sqrt(2 / acos(-1)) * (g + 0.044715 * g * g * g))) * u;
	if (f->r->act == ACT_SILU)
		return g / (1 + exp(-g)) * u;
	g = fmin(g, 7);
	return g / (1 + exp(-1.702 * g)) * (fmax(-7, fmin(7, u)) + 1);
}

/* Multiply x by expert e's matrix, and add its bias. */
static void ref_expert(const struct ref *f, int32_t layer, const char *suffix, const char *bias, int32_t e,
                       const double *x, int32_t cols, double *out, int32_t rows)
{
	for (int32_t o = 0; o < rows; o++) {
		out[o] = has(f, TENSOR_GATE_EXPS_BIAS) ? w_at(f, layer, bias, e * rows + o) : 0;
		for (int32_t i = 0; i < cols; i++)
			out[o] += w_at(f, layer, suffix, (e * rows + o) * cols + i) * x[i];
	}
}

static void ref_experts(const struct ref *f, int32_t layer, const double *in, double *out)
{
	int32_t ff = ff_of(f->r, layer), best[8];
	double score[8], gate[2 * FF], up[2 * FF], one[WIDTH], sum = 0;

	ref_product(f, layer, "ffn_gate_inp.weight", has(f, TENSOR_ROUTER_BIAS) ? "ffn_gate_inp.bias" : NULL, in, WIDTH,
	            score, f->r->n_expert);
	for (int32_t k = 0; k < f->r->n_used; k++) {
		best[k] = -1;
		for (int32_t e = 0; e < f->r->n_expert; e++) {
			int taken = 0;

			for (int32_t i = 0; i < k; i++)
				taken |= best[i] == e;
			if (!taken && (best[k] < 0 || score[e] > score[best[k]]))
				best[k] = e;
		}
		sum += f->r->whole_softmax ? 0 : exp(score[best[k]]);
	}
	for (int32_t e = 0; f->r->whole_softmax && e < f->r->n_expert; e++)
		sum += exp(score[e]);
	memset(out, 0, WIDTH * sizeof *out);
	for (int32_t k = 0; k < f->r->n_used; k++) {
		ref_expert(f, layer, "ffn_gate_exps.weight", "ffn_gate_exps.bias", best[k], in, WIDTH, gate, ff);
		ref_expert(f, layer, "ffn_up_exps.weight", "ffn_up_exps.bias", best[k], in, WIDTH, up, ff);
		for (int32_t i = 0; i < ff; i++)
			gate[i] = ref_glu(f, gate[i], up[i]);
		ref_expert(f, layer, "ffn_down_exps.weight", "ffn_down_exps.bias", best[k], gate, ff, one, WIDTH);
		for (int32_t i = 0; i < WIDTH; i++)
			out[i] += exp(score[best[k]]) / sum * one[i];
	}
}

static void ref_feed_forward(struct ref *f, int32_t layer, int32_t pos, double *out)
{
	int32_t ff = ff_of(f->r, layer);
	double in[WIDTH], gate[2 * FF], up[2 * FF];

	memcpy(in, f->x[pos], sizeof in);
	if (has(f, TENSOR_FFN_NORM))
		ref_norm(f, layer, "ffn_norm.weight", in, WIDTH, WIDTH);
	if (has(f, TENSOR_POST_ATTN_FFN_NORM))
		ref_norm(f, layer, "post_attention_norm.weight", in, WIDTH, WIDTH);
	if (f->r->n_expert) {
		ref_experts(f, layer, in, out);
	} else {
		ref_product(f, layer, "ffn_gate.weight", NULL, in, WIDTH, gate, ff);
		ref_product(f, layer, "ffn_up.weight", NULL, in, WIDTH, up, ff);
		for (int32_t i = 0; i < ff; i++)
			gate[i] = ref_glu(f, gate[i], up[i]);
		ref_product(f, layer, "ffn_down.weight", NULL, gate, ff, out, WIDTH);
	}
	if (has(f, TENSOR_FFN_POST_NORM))
		ref_norm(f, layer, "post_ffw_norm.weight", out, WIDTH, WIDTH);
}

static float *ref_run(const struct recipe *r)
{
	struct ref *f = xcalloc(1, sizeof *f);
	float *out = xcalloc((size_t)IDS * VOCAB, sizeof *out);
	double scale = r->key[0] != 0 ? r->key[0] : 1 / sqrt(DIM), residual = r->key[1] != 0 ? r->key[1] : 1,
	       add[WIDTH];

	f->r = r;
	for (int32_t pos = 0; pos < IDS; pos++) {
		double *x = f->x[pos];

		for (int32_t i = 0; i < WIDTH; i++)
			x[i] = (double)weight("token_embd.weight", (size_t)(id_at(pos) * WIDTH + i)) *
			       (r->key[2] != 0 ? r->key[2] : 1);
		for (int32_t layer = 0; layer < LAYERS; layer++) {
			ref_attention(f, layer, pos, scale, add);
			for (int32_t i = 0; i < WIDTH; i++)
				x[i] += residual * add[i];
			ref_feed_forward(f, layer, pos, add);
			for (int32_t i = 0; i < WIDTH; i++)
				x[i] += residual * add[i];
		}
		ref_norm(f, -1, "output_norm.weight", x, WIDTH, WIDTH);
		for (int32_t o = 0; o < VOCAB; o++) {
			double sum = 0;

			for (int32_t i = 0; i < WIDTH; i++)
				sum += (double)weight("token_embd.weight", (size_t)(o * WIDTH + i)) * x[i];
			sum /= r->key[3] != 0 ? r->key[3] : 1;
			out[pos * VOCAB + o] =
				(float)(r->logit_cap != 0 ? r->logit_cap * tanh(sum / r->logit_cap) : sum);
		}
	}
	free(f);
	return out;
}

/* ---- what is computed ---- */

static void computes(const char *what, const struct recipe *r)
{
	struct err err = { 0 };
	struct toy t;
	float *want, *whole, *parts;
	double nmse;

	if (toy_open(&t, r, &err)) {
		test_fail(__FILE__, __LINE__, "%s: %s", what, err.msg);
		return;
	}
	want = ref_run(r);
	whole = toy_run(&t, "full", IDS, IDS);
	parts = toy_run(&t, "full", 100, 7);
	nmse = test_nmse(whole, want, (size_t)IDS * VOCAB);
	CHECK_MSG(nmse < 1e-9, "%s: error %.3g", what, nmse);
	CHECK_MSG(!memcmp(whole, parts, (size_t)IDS * VOCAB * sizeof *whole),
	          "%s depends on how the tokens are cut into calls", what);
	test_note("%-24s normalised squared error %.2g", what, nmse);
	free(want);
	free(whole);
	free(parts);
	toy_close(&t);
}

#define TOY(neox_, tensors) .arch = { .name = "toy", .neox = (neox_), .required = (tensors), .specs = toy_specs }

TEST(layers_compute_what_their_specs_say)
{
	const uint32_t biases = T(Q_BIAS) | T(K_BIAS) | T(V_BIAS) | T(ATTN_OUT_BIAS);

	for (const struct arch *a = archs; a->name; a++) {
		struct recipe r = { .arch = *a, .whole_norms = !strncmp(a->name, "olmo", 4) };

		if (a->states || a->differ)
			continue; /* tested in t_models */

		if (a->required & T(ROUTER)) {
			r.n_expert = 5;
			r.n_used = 2;
			r.whole_softmax = !strcmp(a->name, "qwen2moe") || !strcmp(a->name, "olmoe");
		}
		if (!strncmp(a->name, "gemma", 5)) {
			r.act = ACT_GELU;
			r.key[2] = (double)(float)sqrt(WIDTH);
			r.cap = a->name[5] == '2' ? 50 : 0;
			r.logit_cap = a->name[5] == '2' ? 30 : 0;
		}
		if (!strcmp(a->name, "gpt-oss"))
			r.act = ACT_SILU_CLAMPED;
		computes(a->name, &r);
	}
	computes("norms before", &(struct recipe){ TOY(0, MATRICES | BEFORE) });
	computes("norms after", &(struct recipe){ TOY(0, MATRICES | AFTER) });
	computes("norms before and after", &(struct recipe){ TOY(1, MATRICES | BEFORE | AFTER) });
	computes("biases, norms after", &(struct recipe){ TOY(0, MATRICES | AFTER | biases) });
	computes("one norm after", &(struct recipe){ TOY(0, MATRICES | BEFORE | T(FFN_POST_NORM)) });
	computes("norms of each head", &(struct recipe){ TOY(1, MATRICES | BEFORE | QK_NORMS) });
	computes("norms of all heads", &(struct recipe){ TOY(0, MATRICES | AFTER | QK_NORMS), .whole_norms = 1 });
	computes("scale of attention", &(struct recipe){ TOY(0, MATRICES | BEFORE), .key = { 0.015625 } });
	computes("scale of the residual", &(struct recipe){ TOY(0, MATRICES | BEFORE | biases), .key = { 0, 0.22f } });
	computes("four multipliers", &(struct recipe){ TOY(0, MATRICES | BEFORE), .key = { 0.5, 0.22f, 12, 8 } });
	computes("multipliers, norms after",
	         &(struct recipe){ TOY(1, MATRICES | AFTER), .key = { 0.5, 0.75, 0.5, 2 } });
	computes("fused matrices",
	         &(struct recipe){ TOY(1, T(QKV) | T(ATTN_OUT) | T(GATE_UP) | T(DOWN) | BEFORE), .width = { 40, 16 } });
	computes("widths of its own", &(struct recipe){ TOY(0, MATRICES | BEFORE), .width = { 40, 16 } });
	computes("no RoPE in one layer", &(struct recipe){ TOY(0, MATRICES | BEFORE), .rope = { 0, ROPE_NONE } });
	computes("no RoPE at all", &(struct recipe){ TOY(1, MATRICES | BEFORE), .rope = { ROPE_NONE, ROPE_NONE } });
	computes("two RoPE tables", &(struct recipe){ TOY(1, MATRICES | BEFORE), .rope = { 1, 0 } });
	computes("a window", &(struct recipe){ TOY(0, MATRICES | BEFORE), .window = { 17, 0 } });
	computes("windows of two lengths", &(struct recipe){ TOY(1, MATRICES | BEFORE), .window = { 1, 64 } });
	computes("soft caps",
	         &(struct recipe){ TOY(0, MATRICES | BEFORE), .cap = 0.7, .logit_cap = 0.9, .q_times = 3 });
	computes("sinks", &(struct recipe){ TOY(0, MATRICES | BEFORE | T(SINKS)) });
	computes("sinks, a window, a cap",
	         &(struct recipe){ TOY(0, MATRICES | BEFORE | T(SINKS)), .window = { 9, 5 }, .cap = 2 });
	computes("GELU", &(struct recipe){ TOY(0, MATRICES | BEFORE), .act = ACT_GELU });
	computes("clamped SiLU", &(struct recipe){ TOY(0, MATRICES | BEFORE), .act = ACT_SILU_CLAMPED });
	computes("layers not used",
	         &(struct recipe){ TOY(0, MATRICES | BEFORE), .unused = 1, .extra = "blk.2.nextn.enorm.weight" });
	computes("experts", &(struct recipe){ TOY(0, ATTENTION | EXPERTS | BEFORE), .n_expert = 7, .n_used = 3 });
	computes("one expert of many",
	         &(struct recipe){ TOY(0, ATTENTION | EXPERTS | BEFORE), .n_expert = 8, .n_used = 1 });
	computes("all experts, biases",
	         &(struct recipe){ TOY(0, ATTENTION | EXPERTS | EXPERT_BIASES | AFTER), .n_expert = 3, .n_used = 3,
	                           .act = ACT_SILU_CLAMPED, .key = { 0, 0.5 } });
}

/* clang-format off */
static const char *const policies_here[] = {
	"full", "sift:k=8", "refresh:k=8", "recycled:k=8", "quest:k=16", "h2o:k=8", "snapkv:k=8", "kvzip", "sink:size=16", "cascade:size=64",
	"predict:k=8,block=1,first=1,last=2,dense=0,by=mixed",
};
/* clang-format on */
enum { POLICIES = 11 };

/* Doubling the attention scale or the query weights must give the same bits. */
TEST(every_policy_takes_the_scale_of_the_spec)
{
	struct recipe scaled = { TOY(0, MATRICES | BEFORE), .key = { 2 * (double)(float)(1 / sqrt(DIM)) } };
	struct recipe doubled = { TOY(0, MATRICES | BEFORE), .q_times = 2 }, plain = { TOY(0, MATRICES | BEFORE) };
	struct toy a, b, c;
	struct err err = { 0 };

	if (toy_open(&a, &scaled, &err) || toy_open(&b, &doubled, &err) || toy_open(&c, &plain, &err))
		test_skip("%s", err.msg);
	for (size_t i = 0; i < POLICIES; i++) {
		float *x = toy_run(&a, policies_here[i], 100, 32), *y = toy_run(&b, policies_here[i], 100, 32),
		      *z = toy_run(&c, policies_here[i], 100, 32);

		CHECK_MSG(!memcmp(x, y, (size_t)IDS * VOCAB * sizeof *x), "%s", policies_here[i]);
		CHECK_MSG(memcmp(x, z, (size_t)IDS * VOCAB * sizeof *x), "%s takes no notice of the scale",
		          policies_here[i]);
		free(x);
		free(y);
		free(z);
	}
	toy_close(&a);
	toy_close(&b);
	toy_close(&c);
}

/* Layers without RoPE must give the same bits as layers with a table whose angles are 0. A second table with the
 * frequencies of the first table must give the same bits as the first. Both must hold when keys move to another ring,
 * too. */
TEST(every_policy_takes_the_rope_of_the_spec)
{
	struct recipe none = { TOY(0, MATRICES | BEFORE), .rope = { 0, ROPE_NONE } },
		      other = { TOY(0, MATRICES | BEFORE), .rope = { 0, 1 } };
	struct recipe plain = { TOY(0, MATRICES | BEFORE) };
	struct toy a, b, c, d;
	struct err err = { 0 };

	if (toy_open(&a, &none, &err) || toy_open(&b, &other, &err) || toy_open(&c, &other, &err) ||
	    toy_open(&d, &plain, &err))
		test_skip("%s", err.msg);
	for (int j = 0; j < DIM / 2; j++) {
		b.m.hp.rope[1].freq[j] = 0;
		c.m.hp.rope[1].freq[j] = c.m.hp.rope[0].freq[j];
	}
	for (size_t i = 0; i < POLICIES; i++) {
		float *w = toy_run(&a, policies_here[i], 100, 32), *x = toy_run(&b, policies_here[i], 100, 32);
		float *y = toy_run(&c, policies_here[i], 100, 32), *z = toy_run(&d, policies_here[i], 100, 32);

		CHECK_MSG(!memcmp(w, x, (size_t)IDS * VOCAB * sizeof *x), "%s: none", policies_here[i]);
		CHECK_MSG(!memcmp(y, z, (size_t)IDS * VOCAB * sizeof *x), "%s: the same frequencies", policies_here[i]);
		CHECK_MSG(memcmp(x, z, (size_t)IDS * VOCAB * sizeof *x), "%s takes no notice of the table",
		          policies_here[i]);
		free(w);
		free(x);
		free(y);
		free(z);
	}
	toy_close(&a);
	toy_close(&b);
	toy_close(&c);
	toy_close(&d);
}

/* If the windows of all layers are not longer than the newest ring, every policy gives the results of full
 * attention. */
TEST(every_policy_keeps_to_the_window)
{
	struct recipe r = { TOY(0, MATRICES | BEFORE), .window = { 5, 9 } };
	struct toy t;
	struct err err = { 0 };
	float *full;

	if (toy_open(&t, &r, &err))
		test_skip("%s", err.msg);
	full = toy_run(&t, "full", 100, 32);
	for (size_t i = 1; i < POLICIES; i++) {
		float *x = toy_run(&t, policies_here[i], 100, 32);
		int bounded = !strncmp(policies_here[i], "sink", 4) || !strncmp(policies_here[i], "cascade", 7);
		double nmse = test_nmse(x, full, (size_t)IDS * VOCAB);

		/* A bounded cache rotates keys by other positions with the same distances, so the bits may differ. */
		CHECK_MSG(bounded ? nmse < 1e-9 : !memcmp(x, full, (size_t)IDS * VOCAB * sizeof *x), "%s: error %.3g",
		          policies_here[i], nmse);
		free(x);
	}
	free(full);
	toy_close(&t);
}

/* ---- what is refused ---- */

static void refused_at(int line, const struct recipe *r, const char *words)
{
	struct toy t;
	struct err err = { 0 };
	char *copy = strdup(words), *rest = copy, *word;

	if (!toy_open(&t, r, &err)) {
		test_fail(__FILE__, line, "a file was accepted that should be refused for: %s", words);
		toy_close(&t);
	} else {
		CHECK_INT(err.code, ERR_MODEL);
		while ((word = strsep(&rest, "|")))
			if (!strstr(err.msg, word))
				test_fail(__FILE__, line, "no \"%s\" in: %s", word, err.msg);
	}
	free(copy);
}
#define REFUSED(r, words) refused_at(__LINE__, r, words)

static int conv_specs(struct hparams *hp, struct key_reader *r)
{
	(void)r;
	hp->spec[1].attn.kind = ATTN_CONV;
	return 0;
}

TEST(files_are_refused_with_what_they_lack)
{
	struct recipe r = { TOY(0, MATRICES | BEFORE) };

	/* A tensor that the family does not have. */
	r.extra = "blk.0.post_attention_norm.weight";
	REFUSED(&r, "file 'toy'|byte|'blk.0.post_attention_norm.weight' is not part of a toy model of 2 layers");
	r.extra = NULL;
	/* With an additional unused layer, the file has layers 0 to 2: a tensor of layer 3 is refused. */
	r.unused = 1;
	r.extra = "blk.3.nextn.eh_proj.weight";
	REFUSED(&r, "'blk.3.nextn.eh_proj.weight' is not part of a toy model of 2 layers");
	r.unused = 0;
	r.extra = NULL;
	r.arch.required |= T(QKV);
	r.arch.required &= ~(T(Q) | T(K) | T(V));
	r.extra = "blk.0.attn_q.weight";
	REFUSED(&r, "'blk.0.attn_q.weight' is not part of a toy model");
	r.extra = NULL;
	r.arch.required = MATRICES | BEFORE;
	/* A key with a bad value; the family's specs() reads it. */
	r.key[1] = -0.5;
	REFUSED(&r, "file 'toy'|byte|'toy.residual_scale' is -0.5, and must be 1e-06 to 1000");
	r.key[1] = 0;
	/* A layer spec that needs tensors which the file does not have. */
	r.arch.specs = conv_specs;
	REFUSED(&r, "file 'toy'|layer 1 asks for attention or feed-forward without all of its tensors");
}

TEST(more_rope_tables)
{
	struct hparams hp = sizes(family("qwen3"));

	hp.rope[0].base = 1e6;
	CHECK_INT(rope_freqs_add(&hp, 16, 10000), 1);
	CHECK_INT(hp.n_rope, 2);
	CHECK(hp.rope[1].dims == 16 && hp.rope[1].neox == 1 && hp.rope[1].base == 10000 && hp.rope[1].mscale == 1);
	CHECK(hp.rope[1].freq[0] == 1 && fabs(hp.rope[1].freq[4] - 0.01) < 1e-15);
	hp.spec[1].attn.rope = 1;
	hp.spec[2].attn.rope = ROPE_NONE;
	CHECK(model_rope(&hp, 0) == &hp.rope[0]);
	CHECK(model_rope(&hp, 1) == &hp.rope[1]);
	CHECK(model_rope(&hp, 2) == NULL);
	hparams_free(&hp);
}
