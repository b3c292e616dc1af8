/* engine/model/layer_spec.c - specs of layers: the plain layer, the check that the kernels can compute a layer, the
 * text by which snapshots recognise the model, and functions that answer questions about layers. */
#include <math.h>

#include "engine/model/hparams.h"
#include "engine/model/tensor_sets.h"

static struct layer_spec plain_layer(const struct hparams *hp)
{
	return (struct layer_spec){
		.attn = { .kind = ATTN_SOFTMAX,
		          .n_head = hp->n_head,
		          .n_kv_head = hp->n_kv_head,
		          .head_dim = hp->head_dim,
		          .rope = 0,
		          .scale = (float)(1.0 / sqrt((double)hp->head_dim)) },
		.ffn = { .kind = FFN_DENSE, .act = ACT_SILU, .width = hp->n_ff },
		.residual_scale = 1,
		.required = hp->arch->required,
		.optional = hp->arch->optional,
	};
}

void layer_specs_plain(struct hparams *hp)
{
	hp->embd_scale = hp->logit_scale = 1;
	hp->spec = xcalloc((size_t)hp->n_layer, sizeof *hp->spec);
	for (int32_t i = 0; i < hp->n_layer; i++)
		hp->spec[i] = plain_layer(hp);
}

const struct layer_spec *model_layer_spec(const struct hparams *hp, int32_t layer)
{
	return &hp->spec[layer];
}

const struct rope_freqs *model_rope(const struct hparams *hp, int32_t layer)
{
	int32_t id = hp->spec[layer].attn.rope;

	return id == ROPE_NONE ? NULL : &hp->rope[id];
}

/* Return the set of tensors that a layer must have. A fused matrix also counts as its parts: QKV, for example, counts
 * as Q, K and V. */
static uint64_t matrices_of(const struct layer_spec *s)
{
	return s->required | (s->required & T(QKV) ? T(Q) | T(K) | T(V) : 0) |
	       (s->required & T(GATE_UP) ? T(GATE) | T(UP) : 0) |
	       (s->required & T(GATE_UP_EXPS) ? T(GATE_EXPS) | T(UP_EXPS) : 0) |
	       (s->required & T(DELTA_BETA_ALPHA) ? T(DELTA_BETA) | T(DELTA_ALPHA) : 0);
}

/* 1 if layer s can read the KV entries of the earlier layer given by s->attn.borrows. The earlier layer must have
 * entries of its own, and the same heads, window and RoPE as s. All layers after s must read another layer's entries,
 * too. */
static int borrows_compatibly(const struct hparams *hp, const struct layer_spec *s)
{
	const struct attn_spec *a = &s->attn, *b;
	int32_t layer = (int32_t)(s - hp->spec);

	if (a->borrows < 0 || a->borrows > layer || (layer + 1 < hp->n_layer && !s[1].attn.borrows))
		return 0;
	b = &s[-a->borrows].attn;
	return b->kind == ATTN_SOFTMAX && !b->borrows && a->n_kv_head == b->n_kv_head && a->head_dim == b->head_dim &&
	       a->window == b->window && a->rope == b->rope;
}

/* Return the feature of a layer that the kernels cannot compute, as text to follow "asks for ". Return NULL if they can
 * compute all features. */
static const char *unsupported(const struct hparams *hp, const struct layer_spec *s)
{
	const struct attn_spec *a = &s->attn;

	uint64_t values = a->borrows ? T(K) | T(V) : a->v_from_k ? T(V) : 0;
	uint64_t attention = a->kind == ATTN_CONV    ? SHORT_CONV
	                     : a->kind == ATTN_DELTA ? DELTA
	                     : a->kind == ATTN_SPACE ? SPACE
	                                             : ATTENTION & ~values;

	if (a->kind == ATTN_NONE)
		return "no attention";
	if (a->n_head != hp->n_head || (!a->window && (a->n_kv_head != hp->n_kv_head || a->head_dim != hp->head_dim)))
		return "heads of its own number or size";
	if (a->n_kv_head < 1 || a->n_head % a->n_kv_head)
		return "KV heads that do not divide its heads";
	if (a->borrows && !borrows_compatibly(hp, s))
		return "the keys of a layer that has none like its own";
	if (a->rope != ROPE_NONE && (a->rope < 0 || a->rope >= hp->n_rope))
		return "a RoPE table that was not read";
	if ((s->ffn.kind == FFN_EXPERTS ? attention | EXPERTS : attention | T(GATE) | T(UP) | T(DOWN)) &
	            ~matrices_of(s) ||
	    (a->sinks && !(s->required & T(SINKS))) ||
	    (s->ffn.dense && (BESIDE_EXPERTS | T(GATE) | T(UP) | T(DOWN)) & ~s->required))
		return "attention or feed-forward without all of its tensors";
	return NULL;
}

int layer_spec_check(const struct hparams *hp, int32_t layer, struct err *err)
{
	const char *what = unsupported(hp, &hp->spec[layer]);

	return what ? err_set(err, ERR_MODEL, "layer %d asks for %s, which is not supported yet", layer, what) : 0;
}

const char *layer_specs_lacked(const struct hparams *hp, unsigned lacks)
{
	for (int32_t i = 0; i < hp->n_layer; i++) {
		const struct layer_spec *s = &hp->spec[i];

		if (s->attn.window && lacks & LACKS_WINDOW)
			return "sliding windows";
		if (s->attn.softcap != 0 && lacks & LACKS_SOFTCAP)
			return "soft caps on attention scores";
		if (s->attn.sinks && lacks & LACKS_SINKS)
			return "attention sinks";
		if ((s->ffn.act == ACT_SILU_CLAMPED || s->required & EXPERT_BIASES) && lacks & LACKS_CLAMPED)
			return "clamped SiLU activation and biases of experts";
	}
	return NULL;
}

int layer_attends(const struct hparams *hp, int32_t layer)
{
	return hp->spec[layer].attn.kind == ATTN_SOFTMAX;
}

int32_t layer_conv(const struct hparams *hp, int32_t layer)
{
	const struct attn_spec *a = &hp->spec[layer].attn;

	if (a->kind == ATTN_DELTA || a->kind == ATTN_SPACE)
		return 2 * a->n_key_head * a->key_dim + a->n_value_head * a->value_dim;
	return a->kind == ATTN_CONV ? hp->n_embd : 0;
}

int32_t layer_mixed(const struct hparams *hp, int32_t layer)
{
	const struct attn_spec *a = &hp->spec[layer].attn;

	if (a->kind == ATTN_DELTA || a->kind == ATTN_SPACE)
		return a->n_value_head * a->value_dim;
	return a->kind == ATTN_CONV ? hp->n_embd : a->n_head * a->head_dim;
}

const struct hparams *model_kv(const struct hparams *hp)
{
	return hp->kv ? hp->kv : hp;
}

int32_t layer_entries(const struct hparams *hp, int32_t layer)
{
	return layer - hp->spec[layer].attn.borrows;
}

int32_t layers_with_entries(const struct hparams *hp)
{
	int32_t n = hp->n_layer;

	while (n > 1 && hp->spec[n - 1].attn.borrows)
		n--;
	return n;
}

int32_t layers_retained(const struct hparams *hp)
{
	int32_t n = 0;

	for (int32_t i = 0; i < layers_with_entries(hp); i++)
		n += !hp->spec[i].attn.window;
	return n;
}

int32_t widest_queries(const struct hparams *hp)
{
	int32_t most = hp->n_head * hp->head_dim;

	for (int32_t i = 0; i < hp->n_layer; i++)
		if (hp->spec[i].attn.n_head * hp->spec[i].attn.head_dim > most)
			most = hp->spec[i].attn.n_head * hp->spec[i].attn.head_dim;
	return most;
}

int32_t widest_keys(const struct hparams *hp)
{
	int32_t most = hp->n_kv_head * hp->head_dim;

	for (int32_t i = 0; i < hp->n_layer; i++)
		if (hp->spec[i].attn.n_kv_head * hp->spec[i].attn.head_dim > most)
			most = hp->spec[i].attn.n_kv_head * hp->spec[i].attn.head_dim;
	return most;
}

int32_t most_kv_heads(const struct hparams *hp)
{
	int32_t most = hp->n_kv_head;

	for (int32_t i = 0; i < hp->n_layer; i++)
		most = hp->spec[i].attn.n_kv_head > most ? hp->spec[i].attn.n_kv_head : most;
	return most;
}

int32_t layer_window(const struct hparams *hp, int32_t layer)
{
	return hp->spec[layer].attn.window;
}

int32_t layers_unwindowed(const struct hparams *hp)
{
	int32_t n = 0;

	for (int32_t i = 0; i < hp->n_layer; i++)
		n += !hp->spec[i].attn.window;
	return n;
}

static void add_int(struct str *out, const char *name, int32_t v, int32_t plain)
{
	if (v != plain)
		str_addf(out, " %s %d", name, v);
}

static void add_real(struct str *out, const char *name, float v, float plain)
{
	if (v != plain)
		str_addf(out, " %s %a", name, (double)v);
}

/* Append every member that differs from the same member of the plain layer. Equal members are omitted, so that a new
 * member of the struct does not change the text of models without that feature. */
static void add_spec(struct str *out, const struct layer_spec *s, const struct layer_spec *plain)
{
	const struct attn_spec *a = &s->attn, *b = &plain->attn;

	add_int(out, "attention", (int32_t)a->kind, (int32_t)b->kind);
	add_int(out, "heads", a->n_head, b->n_head);
	add_int(out, "kv-heads", a->n_kv_head, b->n_kv_head);
	add_int(out, "head", a->head_dim, b->head_dim);
	add_int(out, "rotation", a->rope, b->rope);
	add_int(out, "window", a->window, b->window);
	add_real(out, "scale", a->scale, b->scale);
	add_real(out, "cap", a->softcap, b->softcap);
	add_int(out, "sinks", a->sinks, b->sinks);
	add_int(out, "borrows", a->borrows, b->borrows);
	add_int(out, "value-norms", a->v_norm, b->v_norm);
	add_int(out, "values-from-keys", a->v_from_k, b->v_from_k);
	add_int(out, "whole-norms", a->qk_norm_whole, b->qk_norm_whole);
	add_int(out, "gated", a->gated, b->gated);
	add_int(out, "taps", a->taps, b->taps);
	add_int(out, "delta-key-heads", a->n_key_head, b->n_key_head);
	add_int(out, "delta-value-heads", a->n_value_head, b->n_value_head);
	add_int(out, "delta-key", a->key_dim, b->key_dim);
	add_int(out, "delta-value", a->value_dim, b->value_dim);
	add_int(out, "grouped", a->grouped, b->grouped);
	add_int(out, "feed-forward", (int32_t)s->ffn.kind, (int32_t)plain->ffn.kind);
	add_int(out, "activation", (int32_t)s->ffn.act, (int32_t)plain->ffn.act);
	add_int(out, "width", s->ffn.width, plain->ffn.width);
	add_int(out, "shared", s->ffn.shared, plain->ffn.shared);
	add_int(out, "dense", s->ffn.dense, plain->ffn.dense);
	add_int(out, "experts", s->ffn.n_expert, plain->ffn.n_expert);
	add_int(out, "used", s->ffn.n_used, plain->ffn.n_used);
	add_int(out, "whole-softmax", s->ffn.whole, plain->ffn.whole);
	add_int(out, "sigmoid", s->ffn.sigmoid, plain->ffn.sigmoid);
	add_real(out, "residual", s->residual_scale, plain->residual_scale);
}

void layer_specs_identity(const struct hparams *hp, struct str *out)
{
	struct layer_spec plain = plain_layer(hp);
	struct str text = { 0 };

	if (hp->embd_scale != 1 || hp->logit_scale != 1)
		str_addf(out, "embeddings %a logits %a\n", (double)hp->embd_scale, (double)hp->logit_scale);
	if (hp->n_input)
		str_addf(out, "inputs %d\n", hp->n_input);
	if (hp->temperature != 0)
		str_addf(out, "temperature %a length %d\n", hp->temperature, hp->temperature_length);
	if (hp->logit_softcap != 0)
		str_addf(out, "logits capped %a\n", (double)hp->logit_softcap);
	for (int32_t i = 0; i < hp->n_layer; i++) {
		str_clear(&text);
		add_spec(&text, &hp->spec[i], &plain);
		if (text.n)
			str_addf(out, "layer %d%s\n", i, text.p);
	}
	str_free(&text);
}
