/* engine/model/arch.c - the table of model families.
 *
 * To add a family, add a row to archs[]. If some of its layers are not plain (arch.h), also add a function that changes
 * their specs. */
#include "engine/model/arch.h"

#include <math.h>

#include "engine/model/arch_families.h"
#include "engine/model/hparams.h"
#include "engine/model/tensor_sets.h"

/* SmolLM3: every fourth layer has no RoPE. The model file does not record this, so the number 4 is fixed here. */
static int smollm3_specs(struct hparams *hp, struct key_reader *r)
{
	(void)r;
	for (int32_t i = 3; i < hp->n_layer; i += 4)
		hp->spec[i].attn.rope = ROPE_NONE;
	return 0;
}

/* Granite: factors on embeddings, scores, residual stream and logits. For the logits the file stores the inverse of the
 * factor. */
static int granite_specs(struct hparams *hp, struct key_reader *r)
{
	double embd, logit, residual, score;

	if (key_real(r, "embedding_scale", 1e-6, 1e6, 1, &embd) || key_real(r, "logit_scale", 1e-6, 1e6, 1, &logit) ||
	    key_real(r, "residual_scale", 1e-6, 1e6, 1, &residual) ||
	    key_real(r, "attention.scale", 1e-6, 1e6, 1.0 / sqrt((double)hp->head_dim), &score))
		return -1;
	hp->embd_scale = (float)embd;
	hp->logit_scale = (float)(1 / logit);
	for (int32_t i = 0; i < hp->n_layer; i++) {
		hp->spec[i].residual_scale = (float)residual;
		hp->spec[i].attn.scale = (float)score;
	}
	return 0;
}

int arch_windowed(struct key_reader *r, int32_t layer, int32_t period)
{
	const struct gguf_value *v = gguf_find(r->g, key_name(r, "attention.sliding_window_pattern"));

	if (v && v->type == GGUF_ARRAY && (v->elem == GGUF_BOOL || v->elem == GGUF_I32 || v->elem == GGUF_U32) &&
	    v->n > (uint64_t)layer)
		return gguf_array_int(v, (uint64_t)layer) != 0;
	return period <= 1 || layer % period < period - 1;
}

int arch_windows(struct hparams *hp, struct key_reader *r, int32_t period, int32_t usual)
{
	int32_t window;

	if (key_int(r, "attention.sliding_window", 0, INT32_MAX, usual, &window))
		return -1;
	for (int32_t i = 0; i < hp->n_layer && window < hp->ctx_train; i++)
		if (arch_windowed(r, i, period))
			hp->spec[i].attn.window = window;
	return 0;
}

static int phi3_specs(struct hparams *hp, struct key_reader *r)
{
	return arch_windows(hp, r, 1, 0);
}

/* OLMo 2 has norms after attention and feed-forward, and its norms of queries and keys span all heads. In OLMo 3 three
 * of four layers also have a window, and their RoPE is unscaled. */
static int olmo2_specs(struct hparams *hp, struct key_reader *r)
{
	int32_t unscaled = 0;

	if (arch_windows(hp, r, 4, 0))
		return -1;
	if (layers_unwindowed(hp) < hp->n_layer)
		unscaled = rope_freqs_add(hp, hp->rope[0].dims, hp->rope[0].base);
	for (int32_t i = 0; i < hp->n_layer; i++) {
		hp->spec[i].attn.qk_norm_whole = 1;
		if (hp->spec[i].attn.window)
			hp->spec[i].attn.rope = unscaled;
	}
	return 0;
}

/* Mistral 3: if the model file has a temperature, queries are multiplied by a factor that grows with their position,
 * for long contexts. */
static int mistral3_specs(struct hparams *hp, struct key_reader *r)
{
	int32_t original;

	if (key_real(r, "attention.temperature_scale", 0, 100, 0, &hp->temperature) ||
	    key_int(r, "rope.scaling.original_context_length", 1, INT32_MAX, hp->ctx_train, &original) ||
	    key_int(r, "attention.temperature_length", 1, INT32_MAX, original, &hp->temperature_length))
		return -1;
	if (hp->temperature != 0 && hp->rope[0].dims != hp->head_dim)
		return key_bad(r, "rope.dimension_count", "is %d, and must be the size of a head, %d", hp->rope[0].dims,
		               hp->head_dim);
	return 0;
}

int arch_experts_check(const struct hparams *hp, struct key_reader *r)
{
	if (hp->n_expert < 1 || hp->n_expert > EXPERTS_MAX)
		return key_bad(r, "expert_count", "is %d, and must be 1 to %d", hp->n_expert, EXPERTS_MAX);
	if (hp->n_expert_used < 1 || hp->n_expert_used > hp->n_expert)
		return key_bad(r, "expert_used_count", "is %d, and must be 1 to %d", hp->n_expert_used, hp->n_expert);
	return 0;
}

/* Give all layers experts. Their width is the key expert_feed_forward_length, or the feed-forward's width if this key
 * is absent. */
static int experts_specs(struct hparams *hp, struct key_reader *r)
{
	int32_t width;

	if (key_int(r, "expert_feed_forward_length", 1, 1 << 20, hp->n_ff, &width) || arch_experts_check(hp, r))
		return -1;
	for (int32_t i = 0; i < hp->n_layer; i++) {
		struct layer_spec *s = &hp->spec[i];

		s->required = (s->required & ~(T(GATE) | T(UP) | T(DOWN))) | EXPERTS;
		s->ffn.kind = FFN_EXPERTS;
		s->ffn.width = width;
		s->ffn.n_expert = hp->n_expert;
		s->ffn.n_used = hp->n_expert_used;
	}
	return 0;
}

/* If the model has a shared expert (computed for every token), add it. If `scored` is 1, its output is multiplied by
 * the sigmoid of a score, which is computed by the matrix TENSOR_SHARED_ROUTER. */
static int shared_expert(struct hparams *hp, struct key_reader *r, int scored)
{
	int32_t width;

	if (key_int(r, "expert_shared_feed_forward_length", 0, 1 << 20, 0, &width))
		return -1;
	for (int32_t i = 0; i < hp->n_layer && width; i++) {
		hp->spec[i].ffn.shared = width;
		hp->spec[i].required |= scored ? SHARED : SHARED & ~T(SHARED_ROUTER);
	}
	return 0;
}

/* Llama and Mixtral. The architecture of Mixtral's files is also "llama", but these files have experts. */
static int llama_specs(struct hparams *hp, struct key_reader *r)
{
	return hp->n_expert ? experts_specs(hp, r) : 0;
}

/* Give all layers experts whose weights are a softmax over the scores of all experts. (The default is a softmax over
 * the chosen experts only.) */
static int whole_softmax(struct hparams *hp, struct key_reader *r)
{
	if (experts_specs(hp, r))
		return -1;
	for (int32_t i = 0; i < hp->n_layer; i++)
		hp->spec[i].ffn.whole = 1;
	return 0;
}

static int qwen2moe_specs(struct hparams *hp, struct key_reader *r)
{
	return whole_softmax(hp, r) || shared_expert(hp, r, 1) ? -1 : 0;
}

static int olmoe_specs(struct hparams *hp, struct key_reader *r)
{
	for (int32_t i = 0; i < hp->n_layer; i++)
		hp->spec[i].attn.qk_norm_whole = 1;
	return whole_softmax(hp, r);
}

static int granitemoe_specs(struct hparams *hp, struct key_reader *r)
{
	return granite_specs(hp, r) || experts_specs(hp, r) || shared_expert(hp, r, 0) ? -1 : 0;
}

/* GLM-4. Refuse multimodal models, whose RoPE is divided into sections. */
static int glm4_specs(struct hparams *hp, struct key_reader *r)
{
	return key_has(r, "rope.dimension_sections")
	               ? key_bad(r, "rope.dimension_sections", "is there: GLM-4 models that also see are not supported")
	               : 0;
}

/* EXAONE 4: norms after attention and feed-forward. In the larger models three of four layers have a window, and the
 * fourth has no RoPE. */
static int exaone4_specs(struct hparams *hp, struct key_reader *r)
{
	int any;

	if (arch_windows(hp, r, 4, hp->n_layer == 64 ? 4096 : 0))
		return -1;
	any = layers_unwindowed(hp) < hp->n_layer;
	for (int32_t i = 0; i < hp->n_layer; i++)
		if (any && !hp->spec[i].attn.window)
			hp->spec[i].attn.rope = ROPE_NONE;
	return 0;
}

/* gpt-oss: experts with biases, attention sinks, and a window in every other layer. */
static int gpt_oss_specs(struct hparams *hp, struct key_reader *r)
{
	if (experts_specs(hp, r) || arch_windows(hp, r, 2, 128))
		return -1;
	for (int32_t i = 0; i < hp->n_layer; i++) {
		hp->spec[i].attn.sinks = 1;
		hp->spec[i].ffn.act = ACT_SILU_CLAMPED;
	}
	return 0;
}

/* LFM2: a layer without KV heads is a gated short convolution. If the model file has a window, it applies to the other
 * layers. */
static int lfm2_specs(struct hparams *hp, struct key_reader *r)
{
	int32_t taps, causal;

	if (key_int(r, "shortconv.l_cache", 2, 64, 0, &taps) || key_flag(r, "attention.causal", 1, &causal) ||
	    arch_windows(hp, r, 1, 0))
		return -1;
	if (!causal)
		return key_bad(r, "attention.causal",
		               "is false: models whose tokens attend to later ones write no text");
	for (int32_t i = 0; i < hp->n_layer; i++)
		if (hp->spec[i].attn.kind == ATTN_CONV) {
			hp->spec[i].attn.window = 0;
			hp->spec[i].attn.taps = taps;
			hp->spec[i].required = (hp->spec[i].required & ~(ATTENTION | QK_NORMS)) | SHORT_CONV;
		}
	return 0;
}

/* LFM2-MoE: the first leading_dense_block_count layers are dense. The other layers have experts, which are chosen by
 * sigmoid(score) + bias. */
static int lfm2moe_specs(struct hparams *hp, struct key_reader *r)
{
	int32_t dense, gating;
	double scale;

	if (lfm2_specs(hp, r) || experts_specs(hp, r) ||
	    key_int(r, "leading_dense_block_count", 0, hp->n_layer, 0, &dense) ||
	    key_int(r, "expert_gating_func", 2, 2, 2, &gating) || key_real(r, "expert_weights_scale", 1, 1, 1, &scale))
		return -1;
	for (int32_t i = 0; i < hp->n_layer; i++) {
		struct layer_spec *s = &hp->spec[i];

		s->ffn.sigmoid = i >= dense;
		if (i < dense) {
			s->ffn = (struct ffn_spec){ .kind = FFN_DENSE, .act = ACT_SILU, .width = hp->n_ff };
			s->required = (s->required & ~(EXPERTS | T(PROBS_BIAS))) | T(GATE) | T(UP) | T(DOWN);
		}
	}
	return 0;
}

/* Qwen3.5: one of every full_attention_interval layers has gated attention. The other layers have the gated delta
 * rule. */
static int qwen35_specs(struct hparams *hp, struct key_reader *r)
{
	struct attn_spec a = { .kind = ATTN_DELTA };
	int32_t inner, every;

	if (key_int(r, "ssm.conv_kernel", 2, 64, 0, &a.taps) ||
	    key_int(r, "ssm.state_size", 1, DELTA_KEY, 0, &a.key_dim) ||
	    key_int(r, "ssm.group_count", 1, 4096, 0, &a.n_key_head) ||
	    key_int(r, "ssm.time_step_rank", 1, 4096, 0, &a.n_value_head) ||
	    key_int(r, "ssm.inner_size", 1, 1 << 20, 0, &inner) ||
	    key_int(r, "full_attention_interval", 2, 1024, 4, &every))
		return -1;
	if (key_has(r, "attention.recurrent_layers"))
		return key_bad(r, "attention.recurrent_layers",
		               "is not supported: only attention in each %d-th layer is", every);
	if (every > hp->n_layer)
		return key_bad(r, "full_attention_interval",
		               "is %d for %d layers: none has attention, which is not supported", every, hp->n_layer);
	if (a.n_value_head % a.n_key_head)
		return key_bad(r, "ssm.time_step_rank", "is %d, and must be a multiple of the ssm.group_count, %d",
		               a.n_value_head, a.n_key_head);
	if (inner % a.n_value_head)
		return key_bad(r, "ssm.inner_size", "is %d, and must be a multiple of the ssm.time_step_rank, %d",
		               inner, a.n_value_head);
	a.value_dim = inner / a.n_value_head;
	for (int32_t i = 0; i < hp->n_layer; i++) {
		struct layer_spec *s = &hp->spec[i];

		if ((i + 1) % every == 0) {
			s->attn.gated = 1;
			continue;
		}
		s->attn.kind = ATTN_DELTA;
		s->attn.taps = a.taps;
		s->attn.n_key_head = a.n_key_head;
		s->attn.n_value_head = a.n_value_head;
		s->attn.key_dim = a.key_dim;
		s->attn.value_dim = a.value_dim;
		s->required = (s->required & ~(ATTENTION | QK_NORMS)) | DELTA;
	}
	return 0;
}

/* Qwen3.5-MoE: Qwen3.5 with experts and a shared expert in all layers. */
static int qwen35moe_specs(struct hparams *hp, struct key_reader *r)
{
	int32_t shared;

	if (qwen35_specs(hp, r) || experts_specs(hp, r) ||
	    key_int(r, "expert_shared_feed_forward_length", 1, 1 << 20, 0, &shared))
		return -1;
	for (int32_t i = 0; i < hp->n_layer; i++)
		hp->spec[i].ffn.shared = shared;
	return 0;
}

/* Qwen3-Next: like Qwen3.5-MoE, except that the value heads have another order, and beta and alpha come from one
 * matrix. */
static int qwen3next_specs(struct hparams *hp, struct key_reader *r)
{
	if (qwen35moe_specs(hp, r))
		return -1;
	for (int32_t i = 0; i < hp->n_layer; i++)
		if (hp->spec[i].attn.kind == ATTN_DELTA) {
			hp->spec[i].attn.grouped = 1;
			hp->spec[i].required =
				(hp->spec[i].required & ~(T(DELTA_ALPHA) | T(DELTA_BETA))) | T(DELTA_BETA_ALPHA);
		}
	return 0;
}

/* Granite 4: a layer without KV heads is a state space (Mamba-2). If the key rope.scaling.finetuned is false, attention
 * has no RoPE. */
static int granitehybrid_specs(struct hparams *hp, struct key_reader *r)
{
	struct attn_spec a = { .kind = ATTN_SPACE };
	int32_t inner, shared, rotates;

	if (granite_specs(hp, r) || key_int(r, "ssm.conv_kernel", 2, 64, 0, &a.taps) ||
	    key_int(r, "ssm.state_size", 1, DELTA_KEY, 0, &a.key_dim) ||
	    key_int(r, "ssm.group_count", 1, 4096, 0, &a.n_key_head) ||
	    key_int(r, "ssm.time_step_rank", 1, 4096, 0, &a.n_value_head) ||
	    key_int(r, "ssm.inner_size", 1, 1 << 20, 0, &inner) ||
	    key_int(r, "expert_shared_feed_forward_length", 0, 1 << 20, 0, &shared) ||
	    key_flag(r, "rope.scaling.finetuned", 1, &rotates))
		return -1;
	if (inner % a.n_value_head)
		return key_bad(r, "ssm.inner_size", "is %d, and must be a multiple of the ssm.time_step_rank, %d",
		               inner, a.n_value_head);
	if (a.n_value_head % a.n_key_head)
		return key_bad(r, "ssm.time_step_rank", "is %d, and must be a multiple of the ssm.group_count, %d",
		               a.n_value_head, a.n_key_head);
	for (int32_t i = 0; i < hp->n_layer; i++) {
		struct layer_spec *s = &hp->spec[i];

		if (!rotates)
			s->attn.rope = ROPE_NONE;
		if (hp->n_expert) {
			s->ffn = (struct ffn_spec){ .kind = FFN_EXPERTS,
				                    .act = ACT_SILU,
				                    .width = hp->n_ff,
				                    .shared = shared,
				                    .n_expert = hp->n_expert,
				                    .n_used = hp->n_expert_used };
			s->required = (s->required & ~(T(GATE) | T(UP) | T(DOWN))) | EXPERTS |
			              (shared ? SHARED & ~T(SHARED_ROUTER) : 0);
		}
		if (s->attn.kind == ATTN_SOFTMAX)
			continue;
		s->attn.kind = ATTN_SPACE;
		s->attn.taps = a.taps;
		s->attn.n_key_head = a.n_key_head;
		s->attn.n_value_head = a.n_value_head;
		s->attn.key_dim = a.key_dim;
		s->attn.value_dim = inner / a.n_value_head;
		s->required = (s->required & ~ATTENTION) | SPACE;
		s->optional = T(SPACE_CONV_BIAS);
	}
	if (hp->n_expert)
		return arch_experts_check(hp, r);
	/* the file of a dense model may have a number of experts per token, which has no effect */
	hp->n_expert_used = 0;
	return 0;
}

/* clang-format off */
const struct arch archs[] = {
	/* Llama 1-3.x, Mistral, Mixtral, SmolLM2, TinyLlama */
	{ .name = "llama", .required = PRE_NORMS | MATRICES, .optional = QKV_BIASES | T(ATTN_OUT_BIAS) | QK_NORMS, .specs = llama_specs },
	{ .name = "qwen2", .neox = 1, .required = PRE_NORMS | MATRICES | QKV_BIASES, .optional = T(ATTN_OUT_BIAS) | QK_NORMS },
	{ .name = "qwen3", .neox = 1, .required = PRE_NORMS | MATRICES | QK_NORMS, .optional = QKV_BIASES | T(ATTN_OUT_BIAS) },
	/* Qwen2-VL and Qwen3-VL. Their RoPE has three positions per token. For text these are equal, so plain RoPE
	 * gives the same result. */
	{ .name = "qwen2vl", .neox = 1, .required = PRE_NORMS | MATRICES | QKV_BIASES, .optional = T(ATTN_OUT_BIAS) },
	{ .name = "qwen2moe", .neox = 1, .required = PRE_NORMS | ATTENTION | QKV_BIASES | EXPERTS, .specs = qwen2moe_specs },
	{ .name = "qwen3vl", .neox = 1, .required = PRE_NORMS | MATRICES | QK_NORMS, .optional = QKV_BIASES | T(ATTN_OUT_BIAS) },
	{ .name = "mistral3", .yarn_log_multiplier = 1,
	  .required = PRE_NORMS | MATRICES, .optional = QKV_BIASES | T(ATTN_OUT_BIAS), .specs = mistral3_specs },
	{ .name = "smollm3", .required = PRE_NORMS | MATRICES, .optional = QKV_BIASES | T(ATTN_OUT_BIAS), .specs = smollm3_specs },
	{ .name = "granite", .required = PRE_NORMS | MATRICES, .optional = QKV_BIASES | T(ATTN_OUT_BIAS), .specs = granite_specs },
	{ .name = "granitemoe", .required = PRE_NORMS | ATTENTION | EXPERTS, .specs = granitemoe_specs },
	{ .name = "olmoe", .neox = 1, .required = PRE_NORMS | ATTENTION | QK_NORMS | EXPERTS, .specs = olmoe_specs },
	{ .name = "olmo2", .neox = 1, .required = MATRICES | QK_NORMS | POST_NORMS, .specs = olmo2_specs },
	{ .name = "phi3", .neox = 1, .required = PRE_NORMS | T(QKV) | T(ATTN_OUT) | T(GATE_UP) | T(DOWN), .specs = phi3_specs },
	{ .name = "glm4", .required = PRE_NORMS | POST_NORMS | ATTENTION | T(GATE_UP) | T(DOWN), .optional = QKV_BIASES, .specs = glm4_specs },
	{ .name = "exaone4", .neox = 1, .required = MATRICES | QK_NORMS | POST_NORMS, .specs = exaone4_specs },
	{ .name = "ernie4_5", .required = PRE_NORMS | MATRICES, .optional = QKV_BIASES | T(ATTN_OUT_BIAS) },
	{ .name = "seed_oss", .neox = 1, .required = T(ATTN_NORM) | T(POST_ATTN_FFN_NORM) | MATRICES, .optional = QKV_BIASES | T(ATTN_OUT_BIAS) },
	{ .name = "gemma", .neox = 1, .required = PRE_NORMS | MATRICES, .specs = arch_gemma },
	{ .name = "gemma2", .neox = 1, .required = PRE_NORMS | POST_NORMS | MATRICES, .specs = arch_gemma2 },
	{ .name = "gemma3", .neox = 1, .required = PRE_NORMS | POST_NORMS | MATRICES | QK_NORMS, .specs = arch_gemma3 },
	{ .name = "gemma4", .neox = 1, .differ = 1, .required = PRE_NORMS | POST_NORMS | (MATRICES & ~T(V)) | QK_NORMS, .optional = T(V) | T(OUT_SCALE),
	  .specs = arch_gemma4 },
	{ .name = "qwen3moe", .neox = 1, .required = PRE_NORMS | ATTENTION | QK_NORMS | EXPERTS, .specs = experts_specs },
	{ .name = "qwen3vlmoe", .neox = 1, .required = PRE_NORMS | ATTENTION | QK_NORMS | EXPERTS, .specs = experts_specs },
	{ .name = "gpt-oss", .neox = 1, .yarn_exact = 1, .required = T(ATTN_NORM) | T(POST_ATTN_FFN_NORM) | ATTENTION | QKV_BIASES | T(ATTN_OUT_BIAS) | T(SINKS) |
	  EXPERTS | EXPERT_BIASES, .specs = gpt_oss_specs },
	{ .name = "lfm2", .neox = 1, .states = 1, .out_norm = "token_embd_norm.weight", .required = PRE_NORMS | MATRICES | QK_NORMS, .specs = lfm2_specs },
	{ .name = "lfm2moe", .neox = 1, .states = 1, .out_norm = "token_embd_norm.weight",
	  .required = PRE_NORMS | ATTENTION | QK_NORMS | EXPERTS | T(PROBS_BIAS), .specs = lfm2moe_specs },
	{ .name = "qwen35", .neox = 1, .states = 1, .required = T(ATTN_NORM) | T(POST_ATTN_FFN_NORM) | MATRICES | QK_NORMS, .specs = qwen35_specs },
	{ .name = "qwen35moe", .neox = 1, .states = 1, .required = T(ATTN_NORM) | T(POST_ATTN_FFN_NORM) | ATTENTION | QK_NORMS | EXPERTS | SHARED,
	  .specs = qwen35moe_specs },
	{ .name = "qwen3next", .neox = 1, .states = 1, .required = T(ATTN_NORM) | T(POST_ATTN_FFN_NORM) | ATTENTION | QK_NORMS | EXPERTS | SHARED,
	  .specs = qwen3next_specs },
	{ .name = "granitehybrid", .states = 1, .required = PRE_NORMS | MATRICES, .optional = QKV_BIASES | T(ATTN_OUT_BIAS), .specs = granitehybrid_specs },
	{ .name = NULL },
};
/* clang-format on */
