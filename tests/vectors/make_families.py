#!/usr/bin/env python3
"""Make models/NAME.gguf, NAME.ids and NAME.logits.f32 of the families that are not plain, as make_models.py does for the plain ones.

For each property of a family a mutant is computed, too: the same weights in a model without that property.  What is printed is how far its
logits are from the right ones; the tests' limit is far below.

    pip install torch transformers gguf
    python3 tests/vectors/make_families.py [OUT_DIR [NAME]]
"""
import os
import sys

import numpy as np
import torch
import transformers
from gguf import ExpertGatingFuncType, GGMLQuantizationType as T, GGUFWriter

from make_models import GGUF_NAME, N_LAST, add_bpe, add_spm, draw, encode, logits_of, nmse, permute, unpermute

N_IDS = 40
ROUTER = {"mlp.gate": "ffn_gate_inp"}
OSS = {"mlp.router": "ffn_gate_inp", "post_attention_layernorm": "post_attention_norm"}
AFTER = {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm", "pre_feedforward_layernorm": "ffn_norm"}
LFM = {"model.embedding_norm.weight": "token_embd_norm.weight", "operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "self_attn.out_proj": "attn_output",
       "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm", "conv.conv": "shortconv.conv", "conv.in_proj": "shortconv.in_proj",
       "conv.out_proj": "shortconv.out_proj", "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up", "feed_forward.w2": "ffn_down",
       "feed_forward.gate": "ffn_gate_inp"}
QWEN35 = {"mlp.gate": "ffn_gate_inp", "post_attention_layernorm": "post_attention_norm", "linear_attn.in_proj_qkv": "attn_qkv",
          "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.in_proj_qkvz": "",
          "linear_attn.in_proj_b": "ssm_beta", "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.conv1d": "ssm_conv1d",
          "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
          "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp"}
HYBRID = {"mamba.in_proj": "ssm_in", "mamba.conv1d": "ssm_conv1d", "mamba.norm": "ssm_norm", "mamba.out_proj": "ssm_out",
          "block_sparse_moe.router": "ffn_gate_inp", "shared_mlp.input_linear": "", "shared_mlp.output_linear": "ffn_down_shexp"}
GEMMA4 = {"model.embed_tokens_per_layer.weight": "per_layer_token_embd.weight", "model.per_layer_model_projection.weight": "per_layer_model_proj.weight",
          "model.per_layer_projection_norm.weight": "per_layer_proj_norm.weight", "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj",
          "post_per_layer_input_norm": "post_norm", "router.proj": "ffn_gate_inp", "post_feedforward_layernorm_1": "post_ffw_norm_1",
          "pre_feedforward_layernorm_2": "pre_ffw_norm_2", "post_feedforward_layernorm_2": "post_ffw_norm_2"}
FUSED = {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}


class TextLogits(torch.nn.Module):
    """The text part of a model that also sees, with logits."""

    def __init__(self, config, kind):
        super().__init__()
        self.config, self.model = config, getattr(transformers, kind + "Model")(config)

    def forward(self, ids):
        hidden = self.model(ids).last_hidden_state
        return transformers.modeling_outputs.CausalLMOutput(logits=hidden @ self.model.embed_tokens.weight.T)


class Family:
    def __init__(self, arch, kind, spm=False, pairs=False, plus_one=False, names=None, keys=None):
        self.arch, self.kind, self.spm, self.pairs, self.plus_one = arch, kind, spm, pairs, plus_one
        self.names, self.keys = {**GGUF_NAME, **(names or {})}, keys

    @property
    def delta(self):
        return sys.modules.get(getattr(transformers, self.kind + "Config").__module__.replace("configuration", "modeling")) if self.arch in ("qwen35", "qwen35moe", "qwen3next") else None

    def build(self, cfg):
        config = getattr(transformers, self.kind + "Config")
        model = getattr(transformers, self.kind.replace("Text", "") + "ForCausalLM", None)
        base = dict(vocab_size=266 if self.spm else 264, attn_implementation="eager", experts_implementation="eager", pad_token_id=0, bos_token_id=1, eos_token_id=2)
        c = config(**{**base, **cfg})
        if self.arch == "gemma4":
            c.allow_global_per_layer_attribute_access = True    # of layers with a window
        return (TextLogits(c, self.kind) if "VL" in self.kind else model(c)).eval().double()

    def name(self, hf):
        if hf in self.names:
            return self.names[hf]
        _, _, layer, rest = hf.split(".", 3)
        if rest == "self_attn.sinks":
            return f"blk.{layer}.attn_sinks.weight"
        special = {"feed_forward.expert_bias": "exp_probs_b.bias", "linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias",
                   "router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale", "layer_scalar": "layer_output_scale.weight",
                   "mamba.A_log": "ssm_a", "mamba.dt_bias": "ssm_dt.bias", "mamba.D": "ssm_d"}
        if rest in special:
            return f"blk.{layer}.{special[rest]}"
        stem, kind = rest.rsplit(".", 1)
        return f"blk.{layer}.{self.names[stem]}.{kind}"


def write_keys(w, f, c, cfg):
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    each = [c.per_layer_config[i] for i in range(c.num_hidden_layers)] if f.arch == "gemma4" else []
    if each:
        head_dim = each[-1].head_dim
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    first = c.num_hidden_layers - getattr(c, "num_kv_shared_layers", 0)
    w.add_feed_forward_length([c.intermediate_size * (1 if i < first else 2) for i in range(c.num_hidden_layers)]
                              if getattr(c, "use_double_wide_mlp", False) else c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    kinds = getattr(c, "layer_types", None) or []
    w.add_head_count_kv([c.num_key_value_heads * (k == "full_attention") for k in kinds] if "conv" in kinds or w.arch == "granitehybrid" else
                        [e.num_key_value_heads for e in each] if each else c.num_key_value_heads)
    w.add_layer_norm_rms_eps(getattr(c, "rms_norm_eps", None) or c.norm_eps)
    w.add_key_length(head_dim)
    w.add_value_length(head_dim)
    w.add_vocab_size(c.vocab_size)
    if f.keys:
        f.keys(w, c, head_dim)


def experts(hf, shape, rng, oss, fused):
    """What the model holds for all experts, and what the file does: names and values, [n_expert][rows][cols] each."""
    layer = hf.split(".")[2]
    if oss:             # products of rows; gate and up alternate
        value = rng.standard_normal(shape) * (0.7 if "bias" in hf else shape[1] ** -.5 * (2 if "gate_up" in hf else 1))
        kind = "bias" if hf.endswith("bias") else "weight"
        rows = value if kind == "bias" else value.swapaxes(1, 2)
        if "gate_up" in hf:
            return value, {f"blk.{layer}.ffn_gate_exps.{kind}": rows[:, ::2], f"blk.{layer}.ffn_up_exps.{kind}": rows[:, 1::2]}
        return value, {f"blk.{layer}.ffn_down_exps.{kind}": rows}
    value = rng.standard_normal(shape) / np.sqrt(shape[-1])
    if hf.endswith("gate_up_proj") and fused:
        return value, {f"blk.{layer}.ffn_gate_up_exps.weight": value}
    if hf.endswith("gate_up_proj"):
        rows = shape[1] // 2
        return value, {f"blk.{layer}.ffn_gate_exps.weight": value[:, :rows], f"blk.{layer}.ffn_up_exps.weight": value[:, rows:]}
    return value, {f"blk.{layer}.ffn_down_exps.weight": value}


def tiled(hf, x, c):
    """Value heads in the order of the file: heads of the same key head lie together in the model, and apart in the file."""
    groups, per, size = c.linear_num_key_heads, c.linear_num_value_heads // c.linear_num_key_heads, c.linear_value_head_dim
    order = np.arange(groups * per).reshape(groups, per).T.reshape(-1)
    rows = (order[:, None] * size + np.arange(size)).reshape(-1)
    keys = 2 * groups * c.linear_key_head_dim
    if "in_proj_qkv" in hf or "conv1d" in hf:
        return np.concatenate([x[:keys], x[keys:][rows]])
    if "in_proj_z" in hf:
        return x[rows]
    if "out_proj" in hf:
        return np.ascontiguousarray(x[:, rows])
    return x if ".norm." in hf else x[order]


def apart(x, c):
    """Rows of queries, keys, values and gates, which lie together for each key head in the model, and apart in the file."""
    groups, key, values = c.linear_num_key_heads, c.linear_key_head_dim, c.linear_num_value_heads // c.linear_num_key_heads * c.linear_value_head_dim
    heads = x.reshape(groups, -1, x.shape[1])
    q, k, v, z = np.split(heads, [key, 2 * key, 2 * key + values], axis=1)
    rows = [np.ascontiguousarray(part.reshape(-1, x.shape[1])) for part in (q, k, v, z)]
    return {"in_proj_qkv": np.concatenate(rows[:3]), "in_proj_z": rows[3]}


def delta_rule_of(module, change=None):
    """The gated delta rule token by token in float64, in the place of the module's, which rounds to float32."""
    def rule(query, key, value, g, beta, **rest):
        per = value.shape[2] // key.shape[2]
        unit = lambda x: x / (x.pow(2).sum(-1, keepdim=True) + 1e-6).sqrt()
        q, k = (x.repeat_interleave(per, dim=2) if change != "pairing" else x.repeat(1, 1, per, 1) for x in (query, key))
        if change != "lengths":
            q, k = unit(q), unit(k)
        q = q / q.shape[-1] ** 0.5
        state, out = value.new_zeros(*k.shape[::2], k.shape[-1], value.shape[-1]), torch.zeros_like(value)
        for i in range(value.shape[1]):
            if change != "decay":
                state = state * g[:, i].exp()[..., None, None]
            read = (state * k[:, i, :, :, None]).sum(-2) if change != "correction" else 0
            state = state + k[:, i, :, :, None] * (beta[:, i, :, None] * (value[:, i] - read))[..., None, :]
            out[:, i] = (state * q[:, i, :, :, None]).sum(-2)
        return out, state
    module.torch_chunk_gated_delta_rule = rule


def make(out, seed, name, f, cfg, mutants, types=lambda n: T.F32, *, extra=None):
    rng = np.random.default_rng(seed)
    model = f.build(cfg)
    if f.delta:
        delta_rule_of(f.delta)
    c, state = model.config, model.state_dict()
    base = os.path.join(out, name)
    w = GGUFWriter(base + ".gguf", f.arch)
    w.add_name(name)
    write_keys(w, f, c, cfg)
    (add_spm if f.spm else add_bpe)(w)
    for n, v in (extra or {}).items():
        w.add_tensor(n, np.array(v, np.float32))
    for hf in state:
        if hf == "lm_head.weight" and c.tie_word_embeddings:
            continue
        shape = tuple(state[hf].shape)
        if ".experts." in hf:
            value, parts = experts(hf, shape, rng, f.kind == "GptOss", f.arch == "gemma4")
            value = value.astype(np.float32)
            for n, part in parts.items():
                t = types(n) if n.endswith("weight") and types is mxfp4 else T.F32
                raw, held = encode(t, np.ascontiguousarray(part, np.float32), rng)
                w.add_tensor(n, raw, raw_dtype=None if t == T.F32 else t)
                if f.kind == "GptOss" and n.endswith("weight"):
                    rows = value.swapaxes(1, 2)         # a view
                    rows[:, 0 if "gate" in n else 1 if "_up_" in n else 0:: 1 if "down" in n else 2] = held
            state[hf].copy_(torch.from_numpy(value.astype(np.float64)))
            continue
        plain = {"embed_tokens_per_layer.weight": 1, "sinks": 1, "conv.conv.weight": 0.6, "conv1d.weight": 0.6, "expert_bias": 0.3, "A_log": 1, "dt_bias": 1, "mamba.D": 1, "in_proj_a.weight": 0.5,
                 "in_proj_b.weight": 0.5, "in_proj_ba.weight": 0.5}
        deviation = next((v for k, v in plain.items() if hf.endswith(k)), None)
        weight = rng.standard_normal(shape) * deviation if deviation else draw("norm" if hf.endswith(("scale", "layer_scalar")) else hf, shape, rng)
        if hf.endswith("qkv_proj.weight"):
            weight *= 1.5
        heads = c.num_attention_heads if ".q_proj" in hf else c.num_key_value_heads
        pairs = f.pairs and (".q_proj" in hf or ".k_proj" in hf)
        if pairs:
            weight = permute(weight, heads)
        t = types(f.name(hf)) if weight.ndim == 2 else T.F32
        raw, value = encode(t, weight, rng)
        if "conv.conv" in hf or "conv1d.weight" in hf:
            raw = raw.reshape(shape[0], shape[2])
        if "shared_mlp.input_linear" in hf:
            of = "shexp." if c.num_local_experts else ""
            for part, rows in zip(("gate", "up"), np.split(raw, 2)):
                w.add_tensor(f"blk.{hf.split('.')[2]}.ffn_{part}{'_' + of if of else '.'}weight", rows, raw_dtype=None if t == T.F32 else t)
            state[hf].copy_(torch.from_numpy(value.astype(np.float64)))
            continue
        if ".mamba." in hf and hf.endswith(("A_log", "D")):
            raw = (-np.exp(raw) if hf.endswith("A_log") else raw).reshape(-1, 1)
        if "in_proj_qkvz" in hf:
            for part, rows in apart(raw, c).items():
                w.add_tensor(f.name(hf.replace("in_proj_qkvz", part)), rows, raw_dtype=None if t == T.F32 else t)
            state[hf].copy_(torch.from_numpy(value.astype(np.float64)))
            continue
        if f.arch == "qwen3next" and hf.endswith("A_log"):
            raw = -np.exp(raw)
        elif "linear_attn" in hf and f.arch != "qwen3next":
            raw = tiled(hf, -np.exp(raw) if hf.endswith("A_log") else raw, c)
        if hf.endswith("shared_expert_gate.weight"):
            raw = raw.reshape(-1)
        w.add_tensor(f.name(hf), raw, raw_dtype=None if t == T.F32 else t)
        value = value.astype(np.float64)
        if f.plus_one and "norm" in hf and "linear_attn" not in hf:
            value = value - 1
        state[hf].copy_(torch.from_numpy(unpermute(value, heads) if pairs else value))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    ids = rng.choice(rng.integers(3, c.vocab_size - 3, 10), N_IDS).tolist()
    if f.spm:
        ids[0] = 1
    logits = logits_of(model, ids)
    with open(base + ".ids", "w") as out_ids:
        out_ids.write(" ".join(map(str, ids)) + "\n")
    logits[-N_LAST:].astype("<f4").tofile(base + ".logits.f32")
    notes = []
    for what, change in mutants.items():
        other = f.build(cfg if callable(change) or isinstance(change, str) else {**cfg, **change})
        if f.delta:
            delta_rule_of(f.delta, change)
        if change == "groups":
            for layer in other.model.layers:
                if hasattr(layer, "mamba") and layer.mamba is not None:
                    layer.mamba.norm.group_size *= 2
        if change == "v_norm":
            for layer in other.model.layers:
                layer.self_attn.v_norm = torch.nn.Identity()
        other.load_state_dict(state)
        if callable(change):
            with torch.no_grad():
                for k, v in other.state_dict().items():
                    change(k, v)
        notes.append(f"{what} {nmse(logits_of(other, ids)[-N_LAST:], logits[-N_LAST:]):.1e}")
    print(f"{name}: {os.path.getsize(base + '.gguf')} bytes, std {logits.std():.2f}; nmse without " + ", ".join(notes))


def rope_keys(w, c, head_dim):
    rope = c.rope_parameters
    w.add_rope_freq_base(rope["rope_theta"])
    w.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1)))


def granite_keys(w, c, head_dim):
    rope_keys(w, c, head_dim)
    w.add_attention_scale(c.attention_multiplier)
    w.add_embedding_scale(c.embedding_multiplier)
    w.add_residual_scale(c.residual_multiplier)
    w.add_logit_scale(c.logits_scaling)


def hybrid_keys(w, c, head_dim):
    granite_keys(w, c, head_dim)
    w.add_rope_scaling_finetuned(False)
    w.add_ssm_conv_kernel(c.mamba_d_conv)
    w.add_ssm_state_size(c.mamba_d_state)
    w.add_ssm_group_count(c.mamba_n_groups)
    w.add_ssm_time_step_rank(c.mamba_n_heads)
    w.add_ssm_inner_size(c.mamba_n_heads * c.mamba_d_head)
    if c.num_local_experts:
        w.add_expert_count(c.num_local_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_shared_feed_forward_length(c.shared_intermediate_size)


def phi3_keys(w, c, head_dim):
    rope_keys(w, c, head_dim)
    rope = c.rope_parameters
    w.add_rope_scaling_orig_ctx_len(c.original_max_position_embeddings)
    if "short_factor" in rope:
        scale = c.max_position_embeddings / c.original_max_position_embeddings
        w.add_rope_scaling_attn_factors(np.sqrt(1 + np.log(scale) / np.log(c.original_max_position_embeddings)))
    if c.sliding_window:
        w.add_sliding_window(c.sliding_window)


def gemma_keys(w, c, head_dim):
    rope = c.rope_parameters
    full = rope.get("full_attention", rope)
    w.add_rope_freq_base(full["rope_theta"])
    w.add_rope_dimension_count(head_dim)
    w.add_sliding_window(c.sliding_window)
    if "sliding_attention" in rope:
        w.add_float32("gemma3.rope.freq_base_swa", rope["sliding_attention"]["rope_theta"])
        w.add_string("gemma3.rope.scaling.type", "linear")
        w.add_rope_scaling_factor(full["factor"])
    if c.attn_logit_softcapping:
        w.add_attn_logit_softcapping(c.attn_logit_softcapping)
    if c.final_logit_softcapping:
        w.add_final_logit_softcapping(c.final_logit_softcapping)


def gemma4_keys(w, c, head_dim):
    rope = c.rope_parameters
    w.add_rope_freq_base(rope["full_attention"]["rope_theta"])
    w.add_rope_dimension_count(head_dim)
    w.add_float32("gemma4.rope.freq_base_swa", rope["sliding_attention"]["rope_theta"])
    w.add_uint32("gemma4.rope.dimension_count_swa", c.head_dim)
    w.add_uint32("gemma4.attention.key_length_swa", c.head_dim)
    w.add_uint32("gemma4.attention.value_length_swa", c.head_dim)
    w.add_sliding_window(c.sliding_window)
    w.add_array("gemma4.attention.sliding_window_pattern", [k == "sliding_attention" for k in c.layer_types])
    w.add_uint32("gemma4.attention.shared_kv_layers", c.num_kv_shared_layers)
    w.add_uint32("gemma4.embedding_length_per_layer_input", c.hidden_size_per_layer_input or 0)
    w.add_final_logit_softcapping(c.final_logit_softcapping)
    if c.enable_moe_block:
        w.add_expert_count(c.num_experts)
        w.add_expert_used_count(c.top_k_experts)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
    rotated = int(rope["full_attention"]["partial_rotary_factor"] * head_dim / 2)
    w.add_tensor("rope_freqs.weight", np.array([1.0] * rotated + [1e30] * (head_dim // 2 - rotated), np.float32))


def window_keys(w, c, head_dim):
    rope = c.rope_parameters.get("full_attention", c.rope_parameters)
    w.add_rope_freq_base(rope["rope_theta"])
    w.add_rope_dimension_count(head_dim)
    w.add_sliding_window(c.sliding_window)
    if rope["rope_type"] != "default":
        w.add_string(f"{w.arch}.rope.scaling.type", rope["rope_type"])
        w.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])


def moe_keys(w, c, head_dim):
    rope_keys(w, c, head_dim)
    w.add_expert_count(c.num_experts)
    w.add_expert_used_count(c.num_experts_per_tok)
    w.add_expert_feed_forward_length(c.moe_intermediate_size)


def gpt_oss_keys(w, c, head_dim):
    window_keys(w, c, head_dim)
    w.add_expert_count(c.num_local_experts)
    w.add_expert_used_count(c.num_experts_per_tok)
    w.add_expert_feed_forward_length(c.intermediate_size)


def mistral3_keys(w, c, head_dim):
    rope = c.rope_parameters
    rope_keys(w, c, head_dim)
    w.add_string("mistral3.rope.scaling.type", "yarn")
    w.add_rope_scaling_factor(rope["factor"])
    w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    w.add_float32("mistral3.rope.scaling.yarn_log_multiplier", rope["mscale_all_dim"])
    w.add_float32("mistral3.attention.temperature_scale", rope["llama_4_scaling_beta"])


def qwen35_keys(w, c, head_dim):
    rope_keys(w, c, head_dim)
    if w.arch != "qwen3next":
        w.add_rope_dimension_sections([1, 1, 0, 0])
    w.add_ssm_conv_kernel(c.linear_conv_kernel_dim)
    w.add_ssm_state_size(c.linear_key_head_dim)
    w.add_ssm_group_count(c.linear_num_key_heads)
    w.add_ssm_time_step_rank(c.linear_num_value_heads)
    w.add_ssm_inner_size(c.linear_value_head_dim * c.linear_num_value_heads)
    w.add_full_attention_interval(c.layer_types.index("full_attention") + 1)
    if hasattr(c, "num_experts"):
        w.add_expert_count(c.num_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
        w.add_expert_shared_feed_forward_length(c.shared_expert_intermediate_size)


def lfm2_keys(w, c, head_dim):
    rope_keys(w, c, head_dim)
    w.add_shortconv_l_cache(c.conv_L_cache)
    if hasattr(c, "num_experts"):
        w.add_expert_count(c.num_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
        w.add_leading_dense_block_count(c.num_dense_layers)
        w.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)


def qwen2moe_keys(w, c, head_dim):
    moe_keys(w, c, head_dim)
    w.add_expert_shared_feed_forward_length(c.shared_expert_intermediate_size)


def local_keys(w, c, head_dim):
    rope_keys(w, c, head_dim)
    w.add_expert_count(c.num_local_experts)
    w.add_expert_used_count(c.num_experts_per_tok)


def granitemoe_keys(w, c, head_dim):
    granite_keys(w, c, head_dim)
    w.add_expert_count(c.num_local_experts)
    w.add_expert_used_count(c.num_experts_per_tok)
    w.add_expert_shared_feed_forward_length(c.shared_intermediate_size)


def exaone4_keys(w, c, head_dim):
    rope_keys(w, c, head_dim)
    w.add_sliding_window(c.sliding_window)
    w.add_array("exaone4.attention.sliding_window_pattern", [k == "sliding_attention" for k in c.layer_types])


def vl_keys(w, c, head_dim):
    rope_keys(w, c, head_dim)
    w.add_rope_dimension_sections([2, 1, 1, 0])
    if w.arch != "qwen2vl":
        w.add_uint32(f"{w.arch}.n_deepstack_layers", 3)
    if hasattr(c, "num_experts"):
        w.add_expert_count(c.num_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)


def fill(part, value):
    return lambda name, v: v.fill_(value) if part in name else None


def half(name):
    return T.F16


def mxfp4(name):
    return T.MXFP4 if "_exps" in name else T.F16


def small(layers=2, heads=4, kv=2, head_dim=8, ctx=128, embd=32, ff=48, **more):
    return dict(num_hidden_layers=layers, hidden_size=embd, intermediate_size=ff, num_attention_heads=heads, num_key_value_heads=kv,
                head_dim=head_dim, max_position_embeddings=ctx, rms_norm_eps=1e-6, tie_word_embeddings=True, **more)


def theta(base, **more):
    return {"rope_type": "default", "rope_theta": base, **more}


def all_models():
    smollm3 = Family("smollm3", "SmolLM3", pairs=True, keys=rope_keys)
    yield 21, "smollm3", smollm3, small(4, rope_parameters=theta(1e4), no_rope_layers=[1, 1, 1, 0]), {
        "the layer without RoPE": dict(no_rope_layers=[1, 1, 1, 1]), "its place": dict(no_rope_layers=[0, 1, 1, 1])}, {}
    granite = Family("granite", "Granite", pairs=True, keys=granite_keys)
    g = small(rope_parameters=theta(1e4), attention_multiplier=0.21, embedding_multiplier=3.0, residual_multiplier=0.6, logits_scaling=2.5)
    yield 22, "granite", granite, g, {"attention's": dict(attention_multiplier=8 ** -.5), "the embeddings'": dict(embedding_multiplier=1.0),
                                      "the residual's": dict(residual_multiplier=1.0), "the logits' multiplier": dict(logits_scaling=1.0)}, {}
    olmo2 = Family("olmo2", "Olmo2", names=AFTER, keys=rope_keys)
    yield 23, "olmo2", olmo2, small(rope_parameters=theta(5e5)), {"the right base": dict(rope_parameters=theta(4e5))}, {}
    phi3 = Family("phi3", "Phi3", names=FUSED, keys=phi3_keys)
    short, long = [1.0, 1.1, 1.3, 1.7], [1.5, 2.0, 4.0, 9.0]
    scaled = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": short, "long_factor": long, "original_max_position_embeddings": 64}
    p = {k: v for k, v in small(ctx=256).items() if k != "head_dim"}
    p.update(original_max_position_embeddings=64, rope_parameters=scaled, sliding_window=None)
    yield 24, "phi3", phi3, p, {"the short factors": dict(rope_parameters={**scaled, "short_factor": [1.0] * 4}),
                                "the attention factor": dict(rope_parameters={**scaled, "attention_factor": 1.0})}, {
        "rope_factors_short.weight": short, "rope_factors_long.weight": long}
    beyond = {**scaled, "original_max_position_embeddings": 32}
    p = {**p, "original_max_position_embeddings": 32, "rope_parameters": beyond, "sliding_window": 13}
    yield 27, "phi3-long", phi3, p, {"the long factors": dict(rope_parameters={**beyond, "long_factor": short}),
                                     "the window": dict(sliding_window=None), "its length": dict(sliding_window=12)}, {
        "rope_factors_short.weight": short, "rope_factors_long.weight": long}
    moe = Family("qwen3moe", "Qwen3Moe", names=ROUTER, keys=moe_keys)
    m = small(rope_parameters=theta(1e6), num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True)
    yield 28, "qwen3moe", moe, m, {"the renormalisation": dict(norm_topk_prob=False), "the second expert": dict(num_experts_per_tok=1),
                                   "the choice": dict(num_experts_per_tok=6), "norms of Q": fill("q_norm", 1)}, {}
    oss = Family("gpt-oss", "GptOss", names=OSS, keys=gpt_oss_keys)
    yarn = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
            "original_max_position_embeddings": 256}
    o = small(ctx=2048, ff=32, head_dim=16, heads=2, kv=1, rope_parameters=yarn, num_local_experts=4, num_experts_per_tok=2, sliding_window=7)
    yield 29, "gpt-oss", oss, o, {
        "the sinks": fill("sinks", -1e9), "the window": dict(sliding_window=128), "its place": dict(layer_types=["full_attention", "sliding_attention"]),
        "the limit": dict(swiglu_limit=1e9), "the slope": dict(swiglu_alpha=1.0), "the router's bias": fill("router.bias", 0),
        "biases of gate and up": fill("gate_up_proj_bias", 0), "of down": fill("down_proj_bias", 0), "of V": fill("v_proj.bias", 0),
        "the ends of YaRN's ramp": dict(rope_parameters={**yarn, "truncate": True})}, {}, half
    yield 33, "gpt-oss-mxfp4", oss, o, {"the experts": fill("experts.down_proj", 0)}, {}, mxfp4
    mistral3 = Family("mistral3", "Ministral3", pairs=True, keys=mistral3_keys)
    rope = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.4, "original_max_position_embeddings": 12}
    m = small(ctx=96, rope_parameters=rope)
    yield 34, "mistral3", mistral3, m, {"the temperature": dict(rope_parameters={**rope, "llama_4_scaling_beta": 0.0}),
                                        "the multiplier": dict(rope_parameters={**rope, "mscale_all_dim": 0.0})}, {}
    olmo3 = Family("olmo2", "Olmo3", names=AFTER, keys=window_keys)
    far = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "original_max_position_embeddings": 256}
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    o = small(4, ctx=2048, ff=32, rope_parameters={"sliding_attention": theta(100.0), "full_attention": far}, sliding_window=11, layer_types=kinds)
    yield 30, "olmo3", olmo3, o, {
        "the window": dict(sliding_window=128), "its place": dict(layer_types=kinds[1:] + kinds[:1]),
        "YaRN": dict(rope_parameters={"sliding_attention": theta(100.0), "full_attention": theta(100.0)}),
        "the unscaled layers": dict(rope_parameters={"sliding_attention": far, "full_attention": far})}, {}, half
    lfm2 = Family("lfm2", "Lfm2", names=LFM, keys=lfm2_keys)
    kinds = ["conv", "full_attention", "conv"]
    o = small(3, ctx=1024, rope_parameters=theta(1e4), conv_L_cache=3, conv_bias=False, layer_types=kinds, block_auto_adjust_ff_dim=False)
    o["norm_eps"] = o.pop("rms_norm_eps")
    o.pop("head_dim")
    yield 35, "lfm2", lfm2, o, {"the convolution": lambda k, v: v[:, :, :-1].zero_() if "conv.conv" in k else None,
                                "its oldest token": lambda k, v: v[:, :, 0].zero_() if "conv.conv" in k else None,
                                "norms of Q": fill("q_layernorm", 1)}, {}
    lfm2moe = Family("lfm2moe", "Lfm2Moe", names=LFM, keys=lfm2_keys)
    m = {**{k: v for k, v in o.items() if "adjust" not in k}, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
         "num_dense_layers": 1, "use_expert_bias": True, "norm_topk_prob": True, "routed_scaling_factor": 1.0}
    yield 36, "lfm2moe", lfm2moe, m, {"the biases": fill("expert_bias", 0), "the second expert": dict(num_experts_per_tok=1),
                                      "the renormalisation": dict(norm_topk_prob=False)}, {}
    # Qwen 3.5: the file's norms are those of transformers plus one, but not the delta rule's.
    delta = dict(linear_conv_kernel_dim=4, linear_key_head_dim=6, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4,
                 layer_types=["linear_attention", "full_attention", "linear_attention"])
    q = small(3, ctx=1024, ff=32, rope_parameters=theta(1e4, partial_rotary_factor=0.5), **delta)
    rules = {"the decay": "decay", "the correction": "correction", "keys of length 1": "lengths", "the pairs of heads": "pairing",
             "the convolution": lambda k, v: v[:, :, :-1].zero_() if "conv1d" in k else None,
             "its oldest token": lambda k, v: v[:, :, 0].zero_() if "conv1d" in k else None, "the bias of the decay": fill("dt_bias", 0),
             "the strength": fill("in_proj_b", 0), "the gate": fill("in_proj_z", 0.3), "partial rotation": dict(rope_parameters=theta(1e4))}
    yield 37, "qwen35", Family("qwen35", "Qwen3_5Text", plus_one=True, names=QWEN35, keys=qwen35_keys), q, rules, {}, half
    moe = {**q, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 12}
    yield 38, "qwen35moe", Family("qwen35moe", "Qwen3_5MoeText", plus_one=True, names=QWEN35, keys=qwen35_keys), moe, {
        "the shared expert": fill("shared_expert.down_proj", 0), "its weight": fill("shared_expert_gate", 0), "the decay": "decay",
        "the second expert": dict(num_experts_per_tok=1)}, {}, half
    yield 39, "qwen3next", Family("qwen3next", "Qwen3Next", plus_one=True, names=QWEN35, keys=qwen35_keys), {**moe, "norm_topk_prob": True}, {
        "the pairs of heads": "pairing", "the strength and the decay": fill("in_proj_ba", 0), "the renormalisation": dict(norm_topk_prob=False)}, {}, half
    hybrid = dict(rope_parameters=theta(1e4), attention_multiplier=0.21, embedding_multiplier=3.0, residual_multiplier=0.6, logits_scaling=2.5,
                  layer_types=["linear_attention", "full_attention", "linear_attention"], mamba_n_heads=8, mamba_d_state=6, mamba_d_head=8, mamba_expand=2,
                  num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=32)
    g = {k: v for k, v in small(3, ctx=1024, ff=32).items() if k != "head_dim"}
    spaces = {"the skip": fill("mamba.D", 0), "the convolution": lambda k, v: v[:, :, :-1].zero_() if "conv1d.weight" in k else None,
              "its bias": fill("conv1d.bias", 0), "the bias of the step": fill("mamba.dt_bias", 0), "the decay": fill("A_log", -20),
              "rotation": dict(position_embedding_type="rope")}
    yield 40, "granitehybrid", Family("granitehybrid", "GraniteMoeHybrid", names={**HYBRID, "shared_mlp.output_linear": "ffn_down"}, keys=hybrid_keys), {
        **g, **hybrid}, spaces, {}, half
    yield 41, "granitehybridmoe", Family("granitehybrid", "GraniteMoeHybrid", names=HYBRID, keys=hybrid_keys), {
        **g, **hybrid, "intermediate_size": 4, "num_local_experts": 3, "num_experts_per_tok": 2}, {
        "the shared expert": fill("shared_mlp.output", 0), "the second expert": dict(num_experts_per_tok=1), "the skip": fill("mamba.D", 0)}, {}, half
    # Gemma: the file's norms are those of transformers plus one.
    gemma2 = Family("gemma2", "Gemma2", spm=True, plus_one=True, names=AFTER, keys=gemma_keys)
    g = small(4, rope_parameters=theta(1e4), query_pre_attn_scalar=8, sliding_window=16, attn_logit_softcapping=6.0, final_logit_softcapping=9.0,
              hidden_activation="gelu_pytorch_tanh")
    yield 25, "gemma2", gemma2, g, {"the window": dict(sliding_window=64), "its last token": dict(sliding_window=15),
                                    "the cap on scores": dict(attn_logit_softcapping=None), "the cap on logits": dict(final_logit_softcapping=None),
                                    "GELU": dict(hidden_activation="silu")}, {}
    gemma3 = Family("gemma3", "Gemma3Text", spm=True, plus_one=True, names=AFTER, keys=gemma_keys)
    rope = {"full_attention": {"rope_type": "linear", "rope_theta": 1e5, "factor": 4.0}, "sliding_attention": theta(1e3)}
    g = small(7, rope_parameters=rope, query_pre_attn_scalar=8, sliding_window=16, hidden_activation="gelu_pytorch_tanh")
    same = {"full_attention": rope["full_attention"], "sliding_attention": rope["full_attention"]}
    unscaled = {"full_attention": theta(1e5), "sliding_attention": theta(1e3)}
    yield 26, "gemma3", gemma3, g, {"the window": dict(sliding_window=64), "its last token": dict(sliding_window=15),
                                    "the second base": dict(rope_parameters=same), "its scaling": dict(rope_parameters=unscaled)}, {}


    # Gemma 4: heads, KV heads and RoPE differ between layers; the last ones borrow keys and values.
    rope = {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e3}, "sliding_attention": theta(1e2)}
    whole = {**rope, "full_attention": {**rope["full_attention"], "partial_rotary_factor": 1.0}}
    kinds = ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"]
    g = small(5, ctx=1024, ff=32, rope_parameters=rope, sliding_window=9, final_logit_softcapping=9.0, hidden_activation="gelu_pytorch_tanh",
              global_head_dim=16, layer_types=kinds, hidden_size_per_layer_input=4, vocab_size_per_layer_input=266, num_kv_shared_layers=2,
              use_double_wide_mlp=True)
    yield 42, "gemma4", Family("gemma4", "Gemma4Text", spm=True, names={**AFTER, **GEMMA4}, keys=gemma4_keys), g, {
        "the window": dict(sliding_window=64), "the second base": dict(rope_parameters={**rope, "sliding_attention": theta(1e3)}),
        "partial rotation": dict(rope_parameters=whole), "the cap on logits": dict(final_logit_softcapping=None),
        "inputs of layers": fill("per_layer_projection.weight", 0), "their embeddings": fill("embed_tokens_per_layer", 0),
        "their products": fill("per_layer_model_projection", 0), "factors of layers": fill("layer_scalar", 1), "norms of values": "v_norm",
        "GELU": dict(hidden_activation="silu")}, {}, half
    m = {**g, "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"], "num_kv_shared_layers": 0,
         "hidden_size_per_layer_input": 0, "use_double_wide_mlp": False, "attention_k_eq_v": True, "num_global_key_value_heads": 1, "enable_moe_block": True,
         "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 8}
    yield 43, "gemma4moe", Family("gemma4", "Gemma4Text", spm=True, names={**AFTER, **GEMMA4}, keys=gemma4_keys), m, {
        "the experts": fill("experts.down_proj", 0), "the dense part": fill("mlp.down_proj", 0), "their scales": fill("per_expert_scale", 1),
        "the router's scale": fill("router.scale", 1), "the second expert": dict(top_k_experts=1), "norms of values": "v_norm"}, {}, half


    plain = small(ff=32, rope_parameters=theta(1e4))
    norms = {"norms of Q": fill("q_norm", 1), "norms of K": fill("k_norm", 1)}
    yield 44, "gemma", Family("gemma", "Gemma", spm=True, plus_one=True, keys=rope_keys), {**plain, "hidden_act": "gelu_pytorch_tanh"}, {
        "GELU": dict(hidden_act="silu"), "the right base": dict(rope_parameters=theta(8e3))}, {}, half
    vl = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
    yield 45, "qwen3vl", Family("qwen3vl", "Qwen3VLText", keys=vl_keys), {**plain, "rope_parameters": {**vl, "mrope_interleaved": True}}, {
        **norms, "the right base": dict(rope_parameters={**vl, "rope_theta": 8e3})}, {}, half
    e = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8)
    yield 46, "qwen3vlmoe", Family("qwen3vlmoe", "Qwen3VLMoeText", names=ROUTER, keys=vl_keys), {**plain, **e, "rope_parameters": vl}, {
        **norms, "the second expert": dict(num_experts_per_tok=1)}, {}, half
    yield 47, "qwen2vl", Family("qwen2vl", "Qwen2VLText", keys=vl_keys), {**{k: v for k, v in plain.items() if k != "head_dim"}, "rope_parameters": vl}, {
        "biases of Q": fill("q_proj.bias", 0), "of V": fill("v_proj.bias", 0)}, {}, half
    shared = {"mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp",
              "mlp.shared_expert_gate": "ffn_gate_inp_shexp"}
    yield 48, "qwen2moe", Family("qwen2moe", "Qwen2Moe", names={**ROUTER, **shared}, keys=qwen2moe_keys), {
        **{k: v for k, v in plain.items() if k != "head_dim"}, **e, "shared_expert_intermediate_size": 12}, {
        "the shared expert": fill("shared_expert.down_proj", 0), "its weight": fill("shared_expert_gate", 0), "weights below 1": dict(norm_topk_prob=True),
        "the second expert": dict(num_experts_per_tok=1), "biases of V": fill("v_proj.bias", 0)}, {}, half
    local = dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=8)
    yield 49, "mixtral", Family("llama", "Mixtral", pairs=True, names=ROUTER, keys=local_keys), {**plain, **local, "sliding_window": None}, {
        "the second expert": dict(num_experts_per_tok=1), "the choice": dict(num_experts_per_tok=4)}, {}, half
    yield 50, "granitemoe", Family("granitemoe", "GraniteMoeShared", pairs=True, names=HYBRID, keys=granitemoe_keys), {
        **{k: v for k, v in plain.items() if k != "head_dim"}, **local, "shared_intermediate_size": 12, "attention_multiplier": 0.21,
        "embedding_multiplier": 3.0, "residual_multiplier": 0.6, "logits_scaling": 2.5}, {
        "the shared expert": fill("shared_mlp.output", 0), "the second expert": dict(num_experts_per_tok=1), "the residual's": dict(residual_multiplier=1.0)}, {}, half
    yield 51, "olmoe", Family("olmoe", "Olmoe", names=ROUTER, keys=local_keys), {
        **{k: v for k, v in plain.items() if k != "head_dim"}, "num_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 8, "norm_topk_prob": False}, {
        "weights below 1": dict(norm_topk_prob=True), "the second expert": dict(num_experts_per_tok=1), **norms}, {}, half
    glm = {"mlp.gate_up_proj": "ffn_up", "post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"}
    yield 52, "glm4", Family("glm4", "Glm4", names=glm, keys=rope_keys), {
        **plain, "rope_parameters": theta(1e4, partial_rotary_factor=0.5), "attention_bias": True}, {
        "partial rotation": dict(rope_parameters=theta(1e4, partial_rotary_factor=1.0)), "norms after attention": fill("post_self_attn", 1),
        "after the feed-forward": fill("post_mlp", 1), "biases of V": fill("v_proj.bias", 0)}, {}, half
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    x = {**{k: v for k, v in small(4, ctx=1024, ff=32).items() if k != "head_dim"}, "rope_parameters": theta(1e2), "sliding_window": 9, "layer_types": kinds}
    yield 53, "exaone4", Family("exaone4", "Exaone4", names=AFTER, keys=exaone4_keys), x, {
        **norms, "the window": dict(sliding_window=64), "its place": dict(layer_types=kinds[1:] + kinds[:1])}, {}, half
    yield 54, "ernie4_5", Family("ernie4_5", "Ernie4_5", keys=rope_keys), plain, {"the right base": dict(rope_parameters=theta(8e3))}, {}, half
    seed = {"post_attention_layernorm": "post_attention_norm"}
    yield 55, "seed_oss", Family("seed_oss", "SeedOss", names=seed, keys=rope_keys), {**plain, "attention_bias": True}, {
        "biases of K": fill("k_proj.bias", 0), "of V": fill("v_proj.bias", 0)}, {}, half
    yield 56, "granitehybrid-groups", Family("granitehybrid", "GraniteMoeHybrid", names={**HYBRID, "shared_mlp.output_linear": "ffn_down"}, keys=hybrid_keys), {
        **{k: v for k, v in small(3, ctx=1024, ff=32).items() if k != "head_dim"}, **hybrid, "mamba_n_groups": 2}, {
        "groups of their own": "groups", **spaces}, {}, half


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else "tests/vectors/models"
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for seed, name, f, cfg, mutants, extra, *types in all_models():
        if len(sys.argv) < 3 or sys.argv[2] == name:
            make(out, seed, name, f, cfg, mutants, *types, extra=extra)


if __name__ == "__main__":
    main()
