#!/usr/bin/env python3
"""Make models/NAME.gguf, NAME.ids and NAME.logits.f32: tiny models with random weights and what they answer.

The logits are computed by PyTorch and Hugging Face transformers in float64 (their norms and rotary angles are
float32) from the same values the GGUF holds: quantised tensors are read back with the `gguf` package first.
README.md in this folder says what each model is for.

    pip install torch transformers gguf
    python3 tests/vectors/make_models.py [OUT_DIR]
"""
import math
import os
import sys

import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as T, GGML_QUANT_SIZES, GGUFWriter, TokenType
from gguf.quants import dequantize, quantize
from transformers import (LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)

N_IDS = 24          # tokens in the sequence
N_LAST = 5          # positions whose logits are kept, the last ones

# ---- vocabularies ----


def byte_level_chars():
    """The printable characters byte-level BPE writes bytes as."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars, extra = [], 0
    for b in range(256):
        if b in keep:
            chars.append(chr(b))
        else:
            chars.append(chr(256 + extra))
            extra += 1
    return chars


def add_bpe(w):
    c = byte_level_chars()
    merges = [("h", "e"), ("t", "he"), (c[32], "t"), ("i", "n"), (c[32], "the")]
    tokens = c + [a + b for a, b in merges] + ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    types = [TokenType.NORMAL] * (len(tokens) - 3) + [TokenType.CONTROL] * 3
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_merges([f"{a} {b}" for a, b in merges])
    w.add_bos_token_id(len(tokens) - 3)
    w.add_eos_token_id(len(tokens) - 1)
    w.add_add_bos_token(False)
    return len(tokens)


def add_spm(w):
    words = ["\u2581", "t", "h", "e", "th", "\u2581t", "\u2581the"]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + words
    types = [TokenType.UNKNOWN] + [TokenType.CONTROL] * 2 + [TokenType.BYTE] * 256 + [TokenType.NORMAL] * len(words)
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores([0.0] * 259 + [-float(i) for i in range(len(words))])
    w.add_token_types(types)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)
    return len(tokens)


N_VOCAB = {"llama": 266, "qwen2": 264, "qwen3": 264}

# ---- weights ----

HALF = {T.Q2_K: (80, 82), T.Q3_K: (108, None), T.Q4_K: (0, 2), T.Q5_K: (0, 2), T.Q6_K: (208, None),
        T.IQ4_NL: (0, None), T.IQ4_XS: (0, None)}
MEAN_Q = {T.Q2_K: 1.5, T.Q4_K: 7.5, T.Q5_K: 15.5}      # what the minimum has to take away


def random_blocks(t, rows, cols, std, rng):
    """Random bytes as weights of a type that has no simple quantiser, scaled to the wanted deviation."""
    size, bytes_ = GGML_QUANT_SIZES[t]
    b = rng.integers(0, 256, (rows * cols // size, bytes_)).astype(np.uint8)

    def set_scale(d):
        d_at, m_at = HALF[t]
        for at, v in ((d_at, d), (m_at, d * MEAN_Q.get(t, 0))):
            if at is not None:
                h = (v * (1 + 0.2 * rng.standard_normal(len(b)).clip(-3, 3))).astype("<f2")
                b[:, at:at + 2] = h.view(np.uint8).reshape(-1, 2)

    set_scale(np.ones(len(b)))
    set_scale(np.full(len(b), std / dequantize(b, t).std()))
    return b.reshape(rows, cols // size * bytes_)


def encode(t, w, rng):
    """(what the file holds, the values that stands for) of a weight, as type t."""
    if t == T.F32:
        return w.astype(np.float32), w.astype(np.float32)
    if t in HALF:
        raw = random_blocks(t, *w.shape, w.std(), rng)
    else:
        raw = quantize(np.ascontiguousarray(w, np.float32), t)
    return raw, dequantize(raw, t).reshape(w.shape)


def permute(w, n_head):
    """Hugging Face keeps rotary pairs half a head apart; llama GGUFs keep them side by side."""
    return w.reshape(n_head, 2, w.shape[0] // n_head // 2, -1).swapaxes(1, 2).reshape(w.shape)


def unpermute(w, n_head):
    return w.reshape(n_head, w.shape[0] // n_head // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)


GGUF_NAME = {
    "model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    if name in GGUF_NAME:
        return GGUF_NAME[name]
    _, _, layer, rest = name.split(".", 3)
    stem, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{GGUF_NAME[stem]}.{kind}"


def draw(name, shape, rng):
    """Weights that make every part matter: scores of attention spread over several units, norms differ from 1."""
    if "norm" in name:
        return 1 + 0.25 * rng.standard_normal(shape)
    if name.endswith(".bias"):
        return 0.7 * rng.standard_normal(shape)
    gain = 1.8 if ".q_proj" in name or ".k_proj" in name else 1.0
    if name == "model.embed_tokens.weight":
        return rng.standard_normal(shape)
    return gain * rng.standard_normal(shape) / math.sqrt(shape[1])


# ---- one model ----

CLASSES = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM),
           "qwen3": (Qwen3Config, Qwen3ForCausalLM)}


def build(arch, cfg, rope):
    config_of, model_of = CLASSES[arch]
    config = config_of(vocab_size=N_VOCAB[arch], rope_parameters=rope, attn_implementation="eager",
                       rms_norm_eps=1e-5 if arch == "llama" else 1e-6, **cfg)
    return model_of(config).eval().double()


def llama3_factors(rope, dims):
    """One divisor per rotary pair, as converters store them (Llama 3.1's rule on wavelengths)."""
    out = []
    for j in range(dims // 2):
        wave = 2 * math.pi * rope["rope_theta"] ** (2 * j / dims)
        turns = rope["original_max_position_embeddings"] / wave
        lo, hi = rope["low_freq_factor"], rope["high_freq_factor"]
        if turns > hi:
            out.append(1.0)
        elif turns < lo:
            out.append(rope["factor"])
        else:
            s = (turns - lo) / (hi - lo)
            out.append(1 / ((1 - s) / rope["factor"] + s))
    return np.array(out, np.float32)


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


def nmse(a, b):
    return ((a - b) ** 2).sum() / (b ** 2).sum()


def make(out_dir, seed, name, arch, cfg, rope, types):
    """types: function of the GGUF tensor name to its type."""
    rng = np.random.default_rng(seed)
    model = build(arch, cfg, rope)
    c = model.config
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    base = os.path.join(out_dir, name)

    w = GGUFWriter(base + ".gguf", arch)
    w.add_name(name)
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_rope_freq_base(rope["rope_theta"])
    w.add_rope_dimension_count(head_dim)
    w.add_vocab_size(c.vocab_size)
    if head_dim * c.num_attention_heads != c.hidden_size or arch == "qwen3":
        w.add_key_length(head_dim)
        w.add_value_length(head_dim)
    kind = rope["rope_type"]
    if kind in ("linear", "yarn"):
        w.add_string(f"{arch}.rope.scaling.type", kind)
        w.add_rope_scaling_factor(rope["factor"])
    if kind == "yarn":
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "beta_fast" in rope:
            w.add_float32(f"{arch}.rope.scaling.yarn_beta_fast", rope["beta_fast"])
            w.add_float32(f"{arch}.rope.scaling.yarn_beta_slow", rope["beta_slow"])
    assert (add_spm if arch == "llama" else add_bpe)(w) == c.vocab_size

    if kind == "llama3":
        w.add_tensor("rope_freqs.weight", llama3_factors(rope, head_dim))
    state = model.state_dict()
    for hf in state:
        if hf == "lm_head.weight" and c.tie_word_embeddings:
            continue
        weight = draw(hf, tuple(state[hf].shape), rng)
        heads = c.num_attention_heads if ".q_proj" in hf else c.num_key_value_heads
        pairs = arch == "llama" and (".q_proj" in hf or ".k_proj" in hf)
        if pairs:
            weight = permute(weight, heads)
        t = types(gguf_name(hf)) if weight.ndim == 2 else T.F32
        raw, value = encode(t, weight, rng)
        w.add_tensor(gguf_name(hf), raw, raw_dtype=None if t == T.F32 else t)
        value = value.astype(np.float64)
        state[hf].copy_(torch.from_numpy(unpermute(value, heads) if pairs else value))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()

    # Few different tokens, so that attention has something to recognise.
    ids = rng.choice(rng.integers(3, c.vocab_size, 10), N_IDS).tolist()
    if arch == "llama":
        ids[0] = 1
    logits = logits_of(model, ids)
    with open(base + ".ids", "w") as f:
        f.write(" ".join(map(str, ids)) + "\n")
    logits[-N_LAST:].astype("<f4").tofile(base + ".logits.f32")

    # Would a reader that ignores the model's special part be noticed?
    def without(rope_, edit=None):
        other = build(arch, cfg, rope_)
        other.load_state_dict(state)
        if edit:
            for k, v in other.state_dict().items():
                edit(k, v)
        return nmse(logits_of(other, ids)[-N_LAST:], logits[-N_LAST:])

    plain = {"rope_type": "default", "rope_theta": rope["rope_theta"]}
    note = []
    if kind != "default":
        note.append(f"scaling ignored {without(plain):.1e}")
    if kind == "yarn":
        note.append(f"attention factor ignored {without({**rope, 'attention_factor': 1.0}):.1e}")
        note.append(f"betas ignored {without({k: v for k, v in rope.items() if 'beta' not in k}):.1e}")
    if arch == "qwen2":
        for p in "qkv":
            note.append(f"{p} bias ignored "
                        f"{without(rope, lambda k, v: v.zero_() if k.endswith(p + '_proj.bias') else 0):.1e}")
    if arch == "qwen3":
        for p in "qk":
            note.append(f"{p} norm weight ignored "
                        f"{without(rope, lambda k, v: v.fill_(1) if p + '_norm' in k else 0):.1e}")
    note.append(f"rotary base 0.9 {without({**rope, 'rope_theta': 0.9 * rope['rope_theta']}):.1e}")
    size = os.path.getsize(base + ".gguf")
    margin = np.sort(logits[-N_LAST:], axis=1)
    print(f"{name}: {size} bytes, std {logits.std():.2f}, least margin "
          f"{(margin[:, -1] - margin[:, -2]).min() / logits.std():.3f} std; nmse with " + ", ".join(note))
    assert size < 150 * 1024


def small(layers=1, heads=2, kv=1, head_dim=16, ctx=256, tied=True, embd=32, ff=32):
    return dict(num_hidden_layers=layers, hidden_size=embd, intermediate_size=ff, num_attention_heads=heads,
                num_key_value_heads=kv, head_dim=head_dim, max_position_embeddings=ctx, tie_word_embeddings=tied)


def all_f32(name):
    return T.F32


def half_embd(name):
    return T.F16 if name in ("token_embd.weight", "output.weight") else T.F32


# Every type is the weight of a product at least once.
BLOCK32 = {"token_embd": T.Q5_1, "output": T.Q8_0, "attn_q": T.Q4_0, "attn_k": T.Q4_1, "attn_v": T.Q5_0,
           "attn_output": T.F16, "ffn_gate": T.Q5_1, "ffn_up": T.IQ4_NL, "ffn_down": T.BF16}
BLOCK256 = {"token_embd": T.Q4_K, "output": T.Q2_K, "attn_q": T.Q4_K, "attn_k": T.Q3_K, "attn_v": T.Q6_K,
            "attn_output": T.Q8_0, "ffn_gate": T.Q5_K, "ffn_up": T.IQ4_XS, "ffn_down": T.Q4_1}


def by_part(table):
    return lambda name: table[name.split(".")[-2]]


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else "tests/vectors/models"
    os.makedirs(out, exist_ok=True)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()

    def plain(base):
        return {"rope_type": "default", "rope_theta": base}

    make(out, 1, "qwen2-tied", "qwen2", small(2, 4, 2, 8), plain(1e4), all_f32)
    make(out, 2, "qwen2-untied", "qwen2", small(1, 4, 1, 8, tied=False), plain(1e6), half_embd)
    make(out, 3, "qwen3", "qwen3", small(2, 4, 1, 16), plain(1e6), half_embd)
    make(out, 4, "llama-llama3", "llama", small(ctx=1024),
         {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 128}, half_embd)
    make(out, 5, "llama-linear", "llama", small(ctx=1024),
         {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}, half_embd)
    make(out, 6, "qwen2-yarn", "qwen2", small(ctx=2048),
         {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
          "original_max_position_embeddings": 512}, half_embd)
    make(out, 7, "llama-yarn", "llama", small(ctx=2048),
         {"rope_type": "yarn", "rope_theta": 100.0, "factor": 8.0, "beta_fast": 16.0, "beta_slow": 2.0,
          "original_max_position_embeddings": 256}, half_embd)
    make(out, 8, "llama-block32", "llama", small(1, 4, 4, 16, tied=False, embd=64, ff=96), plain(1e4),
         by_part(BLOCK32))
    make(out, 9, "llama-block256", "llama", small(1, 2, 2, 32, tied=False, embd=256), plain(1e4),
         by_part(BLOCK256))


if __name__ == "__main__":
    main()
