/* engine/model/arch_gemma.c - layer specs of Gemma 1 to 4. */
#include <math.h>
#include <stdio.h>

#include "engine/model/arch_families.h"
#include "engine/model/hparams.h"
#include "engine/model/tensor_sets.h"

/* Set the properties that Gemma 1 to 3 have in common: GELU, embeddings times sqrt(n_embd), soft caps. Scores are
 * divided by sqrt(head_dim), but in the 27B models by sqrt(n_embd / n_head). The divisor is not in the file, so a 27B
 * model is recognised by its number of layers. */
static int gemma_specs(struct hparams *hp, struct key_reader *r, int32_t layers_of_27b, double logit_cap,
                       double score_cap)
{
	double width = hp->n_layer == layers_of_27b ? (double)hp->n_embd / hp->n_head : hp->head_dim, logit, score;

	if (key_real(r, "final_logit_softcapping", 0, 1e6, logit_cap, &logit) ||
	    key_real(r, "attn_logit_softcapping", 0, 1e6, score_cap, &score))
		return -1;
	hp->embd_scale = (float)sqrt((double)hp->n_embd);
	hp->logit_softcap = (float)logit;
	for (int32_t i = 0; i < hp->n_layer; i++) {
		hp->spec[i].ffn.act = ACT_GELU;
		hp->spec[i].attn.softcap = (float)score;
		hp->spec[i].attn.scale = (float)(1 / sqrt(width));
	}
	return 0;
}

int arch_gemma(struct hparams *hp, struct key_reader *r)
{
	return gemma_specs(hp, r, 0, 0, 0);
}

int arch_gemma2(struct hparams *hp, struct key_reader *r)
{
	return gemma_specs(hp, r, 46, 30, 50) || arch_windows(hp, r, 2, 4096) ? -1 : 0;
}

/* Gemma 3: in layers with a window, RoPE has another base and is not scaled. */
int arch_gemma3(struct hparams *hp, struct key_reader *r)
{
	int32_t table;
	double base;

	if (gemma_specs(hp, r, 62, 0, 0) || arch_windows(hp, r, 6, 1024) ||
	    key_real(r, "rope.freq_base_swa", 2, 1e12, 10000, &base))
		return -1;
	table = rope_freqs_add(hp, hp->rope[0].dims, base);
	for (int32_t i = 0; i < hp->n_layer; i++)
		if (arch_windowed(r, i, 6))
			hp->spec[i].attn.rope = table;
	return 0;
}

/* Set the tensors and the experts of a layer of Gemma 4. The experts' matrices gate and up may be one tensor. */
static void gemma4_tensors(struct hparams *hp, struct key_reader *r, int32_t layer, int32_t width)
{
	struct layer_spec *s = &hp->spec[layer];
	char fused[64];

	s->ffn.act = ACT_GELU;
	if (s->attn.borrows) {
		/* The layer reads another layer's keys and values, so it needs no tensors for its own. If the file has
		 * such tensors anyway, is_redundant() (weights.c) skips them. */
		s->required &= ~(T(K) | T(K_NORM));
		s->optional &= ~T(V);
	}
	if (hp->n_input)
		s->required |= INPUTS;
	if (!hp->n_expert)
		return;
	snprintf(fused, sizeof fused, "blk.%d.ffn_gate_up_exps.weight", layer);
	s->ffn.kind = FFN_EXPERTS;
	s->ffn.dense = s->ffn.width;
	s->ffn.width = width;
	s->ffn.n_expert = hp->n_expert;
	s->ffn.n_used = hp->n_expert_used;
	s->required |=
		BESIDE_EXPERTS | T(ROUTER_SCALE) |
		(gguf_tensor_find(r->g, fused) ? (EXPERTS & ~(T(GATE_EXPS) | T(UP_EXPS))) | T(GATE_UP_EXPS) : EXPERTS);
	s->optional |= T(EXPERT_SCALES);
}

/* Gemma 4. Layers with a window have their own head size, number of KV heads and RoPE. The last shared_kv_layers layers
 * have no keys and values of their own. Such a layer reads the keys and values of the last earlier layer of its kind
 * (with or without a window) that has keys and values of its own. Layers may have per-layer inputs, and experts beside
 * the dense feed-forward. */
int arch_gemma4(struct hparams *hp, struct key_reader *r)
{
	int32_t window, shared, dim, value, dims, width = 0, last[2] = { -1, -1 }, table;
	double logit, base;

	if (arch_windowed(r, hp->n_layer - 1, 6))
		return key_bad(r, "attention.sliding_window_pattern",
		               "gives the last layer, %d, a window, which is not supported", hp->n_layer - 1);
	if (key_int(r, "attention.sliding_window", 1, INT32_MAX, 0, &window) ||
	    key_int(r, "attention.shared_kv_layers", 0, hp->n_layer - 1, 0, &shared) ||
	    key_int(r, "attention.key_length_swa", 2, hp->head_dim, 0, &dim) ||
	    key_int(r, "attention.value_length_swa", 2, hp->head_dim, dim, &value) ||
	    key_int(r, "rope.dimension_count_swa", 2, dim, dim, &dims) ||
	    key_real(r, "rope.freq_base_swa", 2, 1e12, 10000, &base) ||
	    key_int(r, "embedding_length_per_layer_input", 0, 1 << 16, 0, &hp->n_input) ||
	    key_real(r, "final_logit_softcapping", 0, 1e6, 0, &logit) ||
	    (hp->n_expert && key_int(r, "expert_feed_forward_length", 1, 1 << 20, 0, &width)))
		return -1;
	if (dim % 2 || value != dim || dims % 2)
		return key_bad(
			r, "attention.key_length_swa",
			"is %d: it must be even and equal the value_length_swa, %d; the rope.dimension_count_swa must be even, too",
			dim, value);
	if (hp->n_expert && arch_experts_check(hp, r))
		return -1;
	table = rope_freqs_add(hp, dims, base);
	hp->rope[0].scaling = "proportional";
	hp->embd_scale = (float)sqrt((double)hp->n_embd);
	hp->logit_softcap = (float)logit;
	for (int32_t i = 0; i < hp->n_layer; i++) {
		struct layer_spec *s = &hp->spec[i];
		int local = arch_windowed(r, i, 6);

		s->attn.scale = 1;
		s->attn.v_norm = s->attn.v_from_k = 1;
		if (local) {
			s->attn.window = MIN(window, hp->ctx_train);
			s->attn.head_dim = dim;
			s->attn.rope = table;
		}
		if (key_int_of(r, "attention.head_count_kv", i, 1, hp->n_head, hp->n_head, &s->attn.n_kv_head) ||
		    key_int_of(r, "feed_forward_length", i, 1, 1 << 20, 0, &s->ffn.width))
			return -1;
		if (!local)
			hp->n_kv_head = s->attn.n_kv_head;
		s->attn.borrows = i < hp->n_layer - shared ? 0 : i - last[local];
		if (i < hp->n_layer - shared)
			last[local] = i;
		else if (last[local] < 0)
			return key_bad(r, "attention.shared_kv_layers",
			               "is %d, and layer %d has no layer to share with", shared, i);
		gemma4_tensors(hp, r, i, width);
	}
	return 0;
}
