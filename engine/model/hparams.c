/* engine/model/hparams.c - reads the hyper-parameters of a model and checks the range of every number. */
#include "engine/model/hparams.h"

#include <stdlib.h>
#include <string.h>

enum { HEADS_MAX = 4096, HEAD_DIM_MAX = 1024 };

/* ---- heads ---- */

/* Read a number of heads. The value of the key is one number, or an array with one number per layer. If `differ` is 0,
 * the numbers must be equal. If `differ` is 1, they may differ, and the first number is read. If `none` is 1, layers
 * with 0 heads are skipped. */
static int read_heads(struct key_reader *r, const char *suffix, int32_t n_layer, int64_t fallback, int none, int differ,
                      int32_t *out)
{
	const struct gguf_value *v = gguf_find(r->g, key_name(r, suffix));

	if (!v || v->type != GGUF_ARRAY)
		return key_int(r, suffix, 1, HEADS_MAX, fallback, out);
	if (v->elem != GGUF_I32 && v->elem != GGUF_U32)
		return key_bad(r, suffix, "is an array of %s, and must be one of u32 or i32", gguf_type_name(v->elem));
	if (v->n != (uint64_t)n_layer)
		return key_bad(r, suffix, "has %llu values for %d layers", (unsigned long long)v->n, n_layer);
	*out = 0;
	for (uint64_t i = 0; i < v->n; i++) {
		long long h = gguf_array_int(v, i), first = *out ? *out : h;

		if (none && !h)
			continue;
		if (h < 1 || h > HEADS_MAX)
			return key_bad(r, suffix, "holds %lld, and must hold 1 to %d", h, HEADS_MAX);
		if (h != first && differ)
			continue;
		if (h != first)
			return key_bad(r, suffix, "is %lld for one layer and %lld for another, which is not supported",
			               first, h);
		*out = (int32_t)h;
	}
	return *out ? 0 : key_bad(r, suffix, "gives no layer any heads, which is not supported");
}

/* In a family with recurrent layers, a layer without KV heads is recurrent. Mark each such layer as a short
 * convolution. The family's own function may later change the kind of the layer. */
static void mark_states(struct key_reader *r, struct hparams *hp)
{
	const struct gguf_value *v = gguf_find(r->g, key_name(r, "attention.head_count_kv"));

	for (int32_t i = 0; hp->arch->states && v && v->type == GGUF_ARRAY && i < hp->n_layer; i++)
		if (!gguf_array_int(v, (uint64_t)i))
			hp->spec[i].attn.kind = ATTN_CONV;
}

/* Read the size of a head. The default is n_embd / n_head. Keys and values must have the same size. */
static int read_head_dim(struct key_reader *r, struct hparams *hp)
{
	int32_t dim = hp->n_embd / hp->n_head, value;

	if (!key_has(r, "attention.key_length")) {
		if (hp->n_embd % hp->n_head)
			return key_bad(r, "attention.head_count", "is %d, and must divide the embedding_length, %d",
			               hp->n_head, hp->n_embd);
		if (dim < 2 || dim > HEAD_DIM_MAX || dim % 2)
			return key_bad(
				r, "attention.head_count",
				"is %d for an embedding_length of %d: heads of %d, and they must be even, 2 to %d",
				hp->n_head, hp->n_embd, dim, HEAD_DIM_MAX);
	} else if (key_int(r, "attention.key_length", 2, HEAD_DIM_MAX, 0, &dim)) {
		return -1;
	} else if (dim % 2) {
		return key_bad(r, "attention.key_length", "is %d, and must be even", dim);
	}
	if (key_int(r, "attention.value_length", 2, HEAD_DIM_MAX, dim, &value))
		return -1;
	if (value != dim)
		return key_bad(r, "attention.value_length", "is %d, and must equal the size of the keys, %d", value,
		               dim);
	hp->head_dim = dim;
	return 0;
}

/* ---- the whole model ---- */

/* Return the family whose name is general.architecture, or NULL with an error. */
static const struct arch *arch_find(const struct gguf *g, struct err *err)
{
	struct view name, type = { "", 0 };
	struct str list = { 0 };
	int got = gguf_string(g, "general.architecture", &name, err);

	if (got < 0 || gguf_string(g, "general.type", &type, err) < 0)
		return NULL;
	if (view_is(type, "adapter")) {
		gguf_err(g, err, "this is a LoRA adapter, which changes a model; --lora FILE loads it beside that");
		return NULL;
	}
	if (!got) {
		gguf_err(g, err, "'general.architecture' is missing");
		return NULL;
	}
	for (const struct arch *a = archs; a->name; a++)
		if (view_is(name, a->name))
			return a;
	for (const struct arch *a = archs; a->name; a++)
		str_addf(&list, "%s%s", list.n ? ", " : "", a->name);
	gguf_err(g, err, "architecture '%.*s' is not supported (supported: %s)", (int)(MIN(name.n, 40)), name.p,
	         list.p);
	str_free(&list);
	return NULL;
}

/* If some layers have recurrent states, fill hp->kv (the model without these layers) and hp->kv_layer. */
static void split_states(struct hparams *hp)
{
	int32_t n = 0;

	for (int32_t i = 0; i < hp->n_layer; i++)
		n += layer_attends(hp, i);
	if (n == hp->n_layer)
		return;
	hp->kv_layer = xcalloc((size_t)hp->n_layer, sizeof *hp->kv_layer);
	hp->kv = xcalloc(1, sizeof *hp->kv);
	*hp->kv = *hp;
	hp->kv->kv = NULL;
	hp->kv->kv_layer = NULL;
	hp->kv->spec = xcalloc((size_t)n, sizeof *hp->spec);
	hp->kv->n_layer = 0;
	for (int32_t i = 0; i < hp->n_layer; i++) {
		hp->kv_layer[i] = layer_attends(hp, i) ? hp->kv->n_layer : -1;
		if (layer_attends(hp, i))
			hp->kv->spec[hp->kv->n_layer++] = hp->spec[i];
	}
}

/* Fill hp->spec. Refuse the model if the kernels cannot compute a layer. */
static int read_specs(struct key_reader *r, struct hparams *hp)
{
	struct err why = { 0 };
	int has_experts = 0;

	layer_specs_plain(hp);
	mark_states(r, hp);
	if (hp->arch->specs && hp->arch->specs(hp, r))
		return -1;
	for (int32_t i = 0; i < hp->n_layer; i++) {
		if (layer_spec_check(hp, i, &why))
			return gguf_err(r->g, r->err, "%s", why.msg);
		has_experts |= hp->spec[i].ffn.kind == FFN_EXPERTS;
	}
	if (!has_experts && (hp->n_expert || hp->n_expert_used))
		return key_bad(r, hp->n_expert ? "expert_count" : "expert_used_count",
		               "is %d: mixture-of-experts models are not supported",
		               hp->n_expert ? hp->n_expert : hp->n_expert_used);
	split_states(hp);
	return 0;
}

/* Set n_ff to the width of the widest feed-forward. */
static int read_width(struct key_reader *r, struct hparams *hp)
{
	int32_t layers = hp->arch->differ ? hp->n_layer : 1, width;

	for (int32_t i = 0; i < layers; i++) {
		if (hp->arch->differ ? key_int_of(r, "feed_forward_length", i, 1, 1 << 20, 0, &width)
		                     : key_int(r, "feed_forward_length", 1, 1 << 20, 0, &width))
			return -1;
		hp->n_ff = MAX(width, hp->n_ff);
	}
	return 0;
}

int hparams_read_as(struct hparams *hp, const struct arch *arch, const struct gguf *g, struct err *err)
{
	struct key_reader r = { .g = g, .arch = arch, .err = err };
	double eps;

	*hp = (struct hparams){ .arch = arch };
	/* Exclude the last nextn_predict_layers layers: they predict further tokens, which is not supported. */
	if (key_int(&r, "block_count", 1, 1024, 0, &hp->n_layer) ||
	    key_int(&r, "nextn_predict_layers", 0, hp->n_layer - 1, 0, &hp->n_unused))
		return -1;
	hp->n_layer -= hp->n_unused;
	if (key_int(&r, "context_length", 1, INT32_MAX, 0, &hp->ctx_train) ||
	    key_int(&r, "embedding_length", 1, 1 << 17, 0, &hp->n_embd) || read_width(&r, hp) ||
	    read_heads(&r, "attention.head_count", hp->n_layer, 0, 0, 0, &hp->n_head) ||
	    read_heads(&r, "attention.head_count_kv", hp->n_layer, hp->n_head, arch->states, arch->differ,
	               &hp->n_kv_head) ||
	    key_int(&r, "expert_count", 0, INT32_MAX, 0, &hp->n_expert) ||
	    key_int(&r, "expert_used_count", 0, INT32_MAX, 0, &hp->n_expert_used) ||
	    key_real(&r, "attention.layer_norm_rms_epsilon", 1e-12, 0.1, 0, &eps))
		return -1;
	if (hp->n_head % hp->n_kv_head)
		return key_bad(&r, "attention.head_count_kv", "is %d, and must divide the head_count, %d",
		               hp->n_kv_head, hp->n_head);
	hp->eps = (float)eps;
	/* The file may claim any context length, so limit it. */
	if (hp->ctx_train > CTX_MAX)
		hp->ctx_train = CTX_MAX;
	if (read_head_dim(&r, hp) || rope_freqs_read(&r, hp) || read_specs(&r, hp)) {
		hparams_free(hp);
		return -1;
	}
	return 0;
}

int hparams_read(struct hparams *hp, const struct gguf *g, struct err *err)
{
	const struct arch *arch = arch_find(g, err);

	*hp = (struct hparams){ .arch = arch };
	return arch ? hparams_read_as(hp, arch, g, err) : -1;
}

void hparams_free(struct hparams *hp)
{
	for (int32_t i = 0; i < hp->n_rope; i++) {
		free(hp->rope[i].freq);
		free(hp->rope[i].freq_long);
	}
	if (hp->kv)
		free(hp->kv->spec); /* hp->kv shares the RoPE tables of hp */
	free(hp->kv);
	free(hp->kv_layer);
	free(hp->spec);
	hp->n_rope = 0;
	hp->spec = NULL;
	hp->kv = NULL;
	hp->kv_layer = NULL;
}
