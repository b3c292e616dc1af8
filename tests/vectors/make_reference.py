#!/usr/bin/env python3
"""What the default model should say of a text: a plain forward pass in float32 over its de-quantised weights.

    pip install numpy gguf
    weir inspect tokens TEXT | tests/vectors/make_reference.py MODEL.gguf N

Prints the sum of -log p of tokens 2..N of the ids on standard input, and the perplexity.  The figure goes into smollm2.json.
"""
import sys

import numpy as np
from gguf import GGUFReader, dequantize

reader = GGUFReader(sys.argv[1])
n = int(sys.argv[2])
ids = np.array([int(line.split()[0]) for line in sys.stdin][:n])
W = {t.name: dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
key = {k: f.parts[f.data[0]][0] for k, f in reader.fields.items() if k.startswith("llama.")}
heads, kv_heads = int(key["llama.attention.head_count"]), int(key["llama.attention.head_count_kv"])
dim, eps = int(key["llama.rope.dimension_count"]), float(key["llama.attention.layer_norm_rms_epsilon"])

angle = np.arange(n)[:, None] / float(key["llama.rope.freq_base"]) ** (np.arange(0, dim, 2) / dim)
cos, sin = np.cos(angle).astype(np.float32)[:, None], np.sin(angle).astype(np.float32)[:, None]


def norm(x, weight):
    return x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + eps).astype(np.float32) * weight


def rope(x):   # pairs are neighbours
    a, b = x[..., 0::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = a * cos - b * sin, a * sin + b * cos
    return out


def attention(q, k, v):
    out = np.empty_like(q)
    for h in range(heads):
        kh, vh = k[:, h * kv_heads // heads], v[:, h * kv_heads // heads]
        for at in range(0, n, 500):   # queries at a time
            to = min(at + 500, n)
            s = q[at:to, h] @ kh[:to].T / np.sqrt(np.float32(dim))
            s[np.arange(to)[None] > np.arange(at, to)[:, None]] = -np.inf
            p = np.exp(s - s.max(-1, keepdims=True))
            out[at:to, h] = p @ vh[:to] / p.sum(-1, keepdims=True)
    return out


x = W["token_embd.weight"][ids]
for layer in range(int(key["llama.block_count"])):
    w = {name: W[f"blk.{layer}.{name}.weight"] for name in
         "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down".split()}
    h = norm(x, w["attn_norm"])
    q = rope((h @ w["attn_q"].T).reshape(n, heads, dim))
    k = rope((h @ w["attn_k"].T).reshape(n, kv_heads, dim))
    v = (h @ w["attn_v"].T).reshape(n, kv_heads, dim)
    x = x + attention(q, k, v).reshape(n, -1) @ w["attn_output"].T
    h = norm(x, w["ffn_norm"])
    gate = h @ w["ffn_gate"].T
    x = x + (gate / (1 + np.exp(-gate)) * (h @ w["ffn_up"].T)) @ w["ffn_down"].T
x = norm(x, W["output_norm.weight"])
out = W.get("output.weight", W["token_embd.weight"])
nll = 0.0
for at in range(0, n - 1, 100):
    to = min(at + 100, n - 1)
    logits = (x[at:to] @ out.T).astype(np.float64)
    top = logits.max(-1, keepdims=True)
    nll += (np.log(np.exp(logits - top).sum(-1)) + top[:, 0] - logits[np.arange(to - at), ids[at + 1:to + 1]]).sum()
print(f"tokens {n} scored {n - 1} nll_sum {nll:.6f} ppl {np.exp(nll / (n - 1)):.9f}")
