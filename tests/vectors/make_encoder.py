#!/usr/bin/env python3
"""Make models/NAME.gguf, .ids and .vectors.f32 for bert, nomic-bert and jina-bert-v2: a tiny encoder with random weights, texts, and their
vectors [pooling][text][EMBD]; and bert-reader.gguf, .answers and .queries.f32: a reader with random weights, questions, passages, what it
says of them, and the vectors of the questions by its second adapter [question][EMBD]; and bert-reranker.gguf and .scores: a cross-encoder
with random weights and a tokenizer, and its scores of the same questions and passages; bert-pairs-reranker.gguf and .scores: the same with a
WordPiece tokenizer, so that the passage has token type 1; and deberta-reader.gguf and .answers: a reader with
weights of its own (deberta-v2), and what it says of them.

The vectors are computed here, in float64 and one text at a time, from the published description of BERT: post-layer-norm layers, attention
without a mask, GELU by erf, pooling, length 1. nomic-bert has RoPE (halves of a head are pairs) and down(silu(gate) * up) without biases;
jina-bert-v2 has ALiBi and down(gelu(gate) * up) with GELU by tanh. deberta-v2 adds to the products of queries and keys two more, with the keys
and queries of relative positions (He et al. 2021; buckets by logarithm: He et al. 2023), and its head has GELU. A layer of each has fused matrices, as newer converters write them.
Mutants lack one property each; their cosine with the right vectors is printed.

    pip install numpy gguf
    python3 tests/vectors/make_encoder.py [OUT_DIR]
    python3 tests/vectors/make_encoder.py --speed Q4_0 FILE     multilingual-e5-small's shape with random weights, for tests/measure/encode.c
"""
import math
import os
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, PoolingType, quants

LAYERS, EMBD, FF, HEADS, VOCAB, LONGEST, EPS = 2, 32, 64, 2, 60, 40, 1e-12
LENGTHS = [1, 2, 7, 16, 33, 40, 5]
POOLINGS = ("mean", "cls", "last")    # the file says mean; the numbers of the others follow it
PAIRS = [("who is it", "a whale"), ("who is it", "it is the captain of the ship"), ("a", "b"), ("where", "in the deep blue sea"),
         ("a question of more letters than are read", "and a passage of more letters than are read with it"), ("why not", "x")]
ROPE_BASE = 1000
BUCKETS, FAR = 8, 16    # relative positions of deberta-v2: up to 4 one by one, up to 15 by their logarithm
GATED = ("nomic-bert", "jina-bert-v2")
erf = np.vectorize(math.erf)


def shape(family):
    """Return width and heads; jina's heads are no power of two."""
    return (48, 3) if family == "jina-bert-v2" else (EMBD, HEADS)


def weights(rng, family="bert"):
    EMBD = shape(family)[0]
    w = {"token_embd.weight": rng.normal(size=(VOCAB, EMBD))}
    if family == "bert":
        w["position_embd.weight"] = rng.normal(size=(LONGEST, EMBD)) * 0.5
    if family == "deberta-v2":
        w["relative_embd.weight"] = rng.normal(size=(2 * BUCKETS, EMBD))
    else:
        w["token_types.weight"] = rng.normal(size=(2, EMBD)) * 0.5

    def norm(name):
        w[name + ".weight"], w[name + ".bias"] = 1 + 0.3 * rng.normal(size=EMBD), 0.3 * rng.normal(size=EMBD)

    def linear(name, rows, cols):
        w[name + ".weight"], w[name + ".bias"] = rng.normal(size=(rows, cols)) * 1.5 / cols ** .5, 0.3 * rng.normal(size=rows)
        if family == "nomic-bert" or name.endswith(("gate", "up")) and family in GATED:
            del w[name + ".bias"]

    norm("token_embd_norm")
    for i in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            linear(f"blk.{i}.{name}", EMBD, EMBD)
        linear(f"blk.{i}.ffn_up", FF, EMBD)
        if family in GATED:
            linear(f"blk.{i}.ffn_gate", FF, EMBD)
        linear(f"blk.{i}.ffn_down", EMBD, FF)
        norm(f"blk.{i}.attn_output_norm")
        norm(f"blk.{i}.layer_output_norm")
    half = family == "jina-bert-v2"    # its matrices are F16
    return {k: v.astype(np.float16 if half and k.startswith("blk.") and v.ndim == 2 else np.float32) for k, v in w.items()}


def rotated(x, base):
    """RoPE of x [heads][n][dim]."""
    half = x.shape[2] // 2
    angle = np.arange(x.shape[1])[:, None] * base ** (-np.arange(half) / half)
    a, b, cos, sin = x[..., :half], x[..., half:], np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], 2)


def distances(n, heads):
    """What ALiBi adds to the scores [heads][n][n]."""
    two = 1 << (heads.bit_length() - 1)
    slope = [2 ** (-8 / two * (h + 1)) if h < two else 2 ** (-4 / two * (2 * (h - two) + 1)) for h in range(heads)]
    return -np.array(slope)[:, None, None] * abs(np.arange(n)[:, None] - np.arange(n))


def bucket(d):
    """Return the row of relative_embd for a key that is d tokens before its query."""
    mid, far = BUCKETS // 2, abs(d)
    if far > mid:
        far = mid + math.ceil(math.log(far / mid) / math.log((FAR - 1) / mid) * (mid - 1))
    return min(max((far if d > 0 else -far) + BUCKETS, 0), 2 * BUCKETS - 1)


def states(w, ids, without="", family="bert", second=None):
    """Return the last hidden states [len(ids)][EMBD]. Tokens from index `second` on have type 1."""
    w = {k: v.astype(np.float64) for k, v in w.items()}
    EMBD, HEADS = shape(family)
    dim, n = EMBD // HEADS, len(ids)

    def linear(name, x):
        return x @ w[name + ".weight"].T + w.get(name + ".bias", 0)

    def norm(name, x):
        d = x - x.mean(1, keepdims=True)
        return d / np.sqrt((d * d).mean(1, keepdims=True) + EPS) * w[name + ".weight"] + w[name + ".bias"]

    x = w["token_embd.weight"][ids]
    if without != "type" and family != "deberta-v2":
        x = x + w["token_types.weight"][[int(second is not None and i >= second) for i in range(n)]]
    if family == "bert" and without != "positions":
        x = x + w["position_embd.weight"][:n]
    x = norm("token_embd_norm", x)
    for i in range(LAYERS):
        blk = f"blk.{i}."
        q, k, v = (linear(blk + name, x).reshape(n, HEADS, dim).swapaxes(0, 1) for name in ("attn_q", "attn_k", "attn_v"))
        if family == "nomic-bert" and without != "positions":
            base = 10000 if without == "its base" else ROPE_BASE
            q, k = rotated(q, base), rotated(k, base)
        s = q @ k.swapaxes(1, 2)
        if family == "deberta-v2":
            rows = np.array([[bucket(a - b) for b in range(n)] for a in range(n)])
            pk, pq = (linear(blk + name, w["relative_embd.weight"]).reshape(-1, HEADS, dim)[rows] for name in ("attn_k", "attn_q"))
            s = (s + np.einsum("had,abhd->hab", q, pk) + np.einsum("hbd,abhd->hab", k, pq)) / 3 ** .5
        s = s / dim ** .5
        if family == "jina-bert-v2" and without != "positions":
            s = s + distances(n, HEADS)
        if without == "both directions":
            s = np.where(np.tri(n) > 0, s, -np.inf)
        p = np.exp(s - s.max(2, keepdims=True))
        p /= p.sum(2, keepdims=True)
        x = norm(blk + "attn_output_norm", x + linear(blk + "attn_output", (p @ v).swapaxes(0, 1).reshape(n, EMBD)))
        up = linear(blk + "ffn_up", x)
        u = linear(blk + "ffn_gate", x) if family in GATED else up
        if without == "its gate":
            up, u = u, up
        tanh = np.tanh(0.7978845608028654 * (u + 0.044715 * u ** 3))
        by_tanh = (family == "jina-bert-v2") != (without == "its gelu")
        act = u / (1 + np.exp(-u)) if family == "nomic-bert" else u / 2 * (1 + (tanh if by_tanh else erf(u / 2 ** .5)))
        x = norm(blk + "layer_output_norm", x + linear(blk + "ffn_down", act * up if family in GATED else act))
    return x


def vector(w, ids, pooling, without="", family="bert"):
    x = states(w, ids, without, family)
    x = x.mean(0) if pooling == "mean" else x[0] if pooling == "cls" else x[-1]
    return x / np.sqrt((x * x).sum())


def adapter(g, w, rng, ranks, prefix=""):
    """Add an adapter to a reader's file; return the weights that it changes w to."""
    w = dict(w)
    for i in range(LAYERS):
        for k, name in enumerate(("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down")):
            if (i, name) == (0, "attn_k"):    # a matrix without change
                continue
            full = f"blk.{i}.{name}.weight"
            rows, cols = w[full].shape
            a, b = rng.normal(size=(ranks[k % 3], cols)) / cols ** .5, rng.normal(size=(rows, ranks[k % 3])) * 0.5
            a, b = a.astype(np.float16), b.astype(np.float16)
            g.add_tensor(prefix + full + ".lora_a", a)
            g.add_tensor(prefix + full + ".lora_b", b)
            w[full] = w[full] + b.astype(np.float64) @ a.astype(np.float64)
    return w


def letters(text):
    return [31 if c == ":" else 4 if c == " " else 5 + ord(c) - ord("a") for c in text]


def reader(w, path):
    """Write a reader and what it says: question, passage, log odds, first and last letter of the answer; and vectors."""
    rng = np.random.default_rng(7)
    rows, bias = rng.normal(size=(3, EMBD)).astype(np.float32), -0.75
    g = GGUFWriter(path + "-reader.gguf", "bert")
    g.add_string("general.type", "adapter")
    g.add_string("adapter.type", "lora")
    g.add_float32("reader.bias", bias)
    asking = adapter(g, w, np.random.default_rng(8), (2, 4, 1), "query.")
    w = adapter(g, w, rng, (3, 1, 5))
    finish(g, {"reader.weight": rows})
    queries = [[0, 4] + letters("query: " + question)[:LONGEST - 3] + [2] for question, _ in PAIRS]
    np.array([vector(asking, ids, "mean") for ids in queries]).astype("<f4").tofile(path + ".queries.f32")
    with open(path + ".answers", "w") as f:
        for question, passage in PAIRS:
            asked, told = pair(question, passage)
            x = states(w, [0] + asked + [2, 2] + told + [2])
            mean = x.mean(0)
            logits = x[3 + len(asked):-1] @ rows[1:].T.astype(np.float64)
            f.write(f"{question}|{passage}|{rows[0] @ mean / np.sqrt((mean * mean).sum()) + bias:.6f}|{answer(logits, passage)}\n")


def pair(question, passage, separators=4):
    """Return the tokens of a question and a passage, as they are read: at most LONGEST with their separators."""
    asked, told = ([4] + letters(text) for text in (question, passage))
    asked = asked[:LONGEST // 2 - 4]
    return asked, told[:LONGEST - separators - len(asked)]


def answer(logits, passage):
    """Return the words of the passage that are the most likely answer; logits [tokens][2]: that it begins, and ends, at a token."""
    first, last = max(((i, k) for i in range(len(logits)) for k in range(i, len(logits))), key=lambda r: logits[r[0], 0] + logits[r[1], 1])
    return passage[max(first - 1, 0):last].strip()


def tokenizer(g):
    """Add a vocabulary of special tokens, the space mark, letters, a colon and fillers."""
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "\u2581"] + [chr(ord("a") + i) for i in range(26)] + [":"]
    tokens += [f"#{i}" for i in range(len(tokens), VOCAB)]
    g.add_tokenizer_model("t5")
    g.add_token_list(tokens)
    g.add_token_scores([-1.0] * VOCAB)
    g.add_token_types([3, 3, 3, 2] + [1] * (VOCAB - 4))
    g.add_bos_token_id(0)
    g.add_eos_token_id(2)
    g.add_unk_token_id(3)


def wordpieces(text):
    return [(4 if i == 0 else 30) + ord(c) - ord("a") for word in text.split() for i, c in enumerate(word)]


def wordpiece_tokenizer(g):
    """Add a vocabulary of special tokens, the letters at the start of a word, those within a word, and fillers."""
    alphabet = [chr(ord("a") + i) for i in range(26)]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + ["\u2581" + c for c in alphabet] + alphabet
    tokens += [f"\u2581{i}" for i in range(len(tokens), VOCAB)]
    g.add_tokenizer_model("bert")
    g.add_token_list(tokens)
    g.add_token_types([3, 2, 3, 3] + [1] * (VOCAB - 4))
    g.add_bos_token_id(2)
    g.add_sep_token_id(3)
    g.add_unk_token_id(1)
    g.add_pad_token_id(0)


def reranker(path, wordpiece=False):
    """Write a reranker and its scores: out . tanh(dense x + bias) + bias, of the first token's hidden state x."""
    rng = np.random.default_rng(9)
    w = weights(rng)
    w["cls.weight"], w["cls.bias"] = rng.normal(size=(EMBD, EMBD)) / EMBD ** .5, rng.normal(size=EMBD)
    w["cls.output.weight"], w["cls.output.bias"] = rng.normal(size=(1, EMBD)), rng.normal(size=1)
    w = {k: v.astype(np.float32) for k, v in w.items()}
    g = head("bert", path)
    (wordpiece_tokenizer if wordpiece else tokenizer)(g)
    finish(g, w)
    w = {k: v.astype(np.float64) for k, v in w.items()}
    with open(path + ".scores", "w") as f:
        for question, passage in PAIRS:
            if wordpiece:
                asked = wordpieces(question)[:LONGEST // 2 - 4]
                told = wordpieces(passage)[:LONGEST - 3 - len(asked)]
                x = states(w, [2] + asked + [3] + told + [3], second=len(asked) + 2)[0]
            else:
                asked, told = pair(question, passage)
                x = states(w, [0] + asked + [2, 2] + told + [2])[0]
            f.write(f"{w['cls.output.weight'][0] @ np.tanh(w['cls.weight'] @ x + w['cls.bias']) + w['cls.output.bias'][0]:.6f}\n")


def deberta_reader(path):
    """Write a reader of deberta-v2 and what it says: out . gelu(dense x + bias) + bias, and the answer's place."""
    rng = np.random.default_rng(10)
    w = weights(rng, "deberta-v2")
    w["cls.weight"], w["cls.bias"] = rng.normal(size=(EMBD, EMBD)) / EMBD ** .5, rng.normal(size=EMBD)
    w["cls.output.weight"], w["cls.output.bias"] = rng.normal(size=(1, EMBD)), rng.normal(size=1)
    w["reader.weight"] = rng.normal(size=(2, EMBD))
    w = {k: v.astype(np.float32) for k, v in w.items()}
    g = head("deberta-v2", path)
    g.add_uint32("deberta-v2.attention.relative_buckets", BUCKETS)
    g.add_uint32("deberta-v2.attention.relative_positions", FAR)
    tokenizer(g)
    finish(g, w)
    w = {k: v.astype(np.float64) for k, v in w.items()}
    with open(path + ".answers", "w") as f:
        for question, passage in PAIRS:
            asked, told = pair(question, passage, 3)
            x = states(w, [0] + told + [2] + asked + [2], family="deberta-v2")
            u = w["cls.weight"] @ x[0] + w["cls.bias"]
            score = w["cls.output.weight"][0] @ (u / 2 * (1 + erf(u / 2 ** .5))) + w["cls.output.bias"][0]
            f.write(f"{question}|{passage}|{score:.6f}|{answer(x[1:1 + len(told)] @ w['reader.weight'].T, passage)}\n")


def speed(kind, path):
    layers, embd, ff, vocab, longest = 12, 384, 1536, 2000, 512
    rng = np.random.default_rng(1)
    g = GGUFWriter(path, "bert")
    g.add_block_count(layers)
    g.add_context_length(longest)
    g.add_embedding_length(embd)
    g.add_feed_forward_length(ff)
    g.add_head_count(12)
    g.add_layer_norm_eps(EPS)
    g.add_pooling_type(PoolingType.MEAN)

    def matrix(name, rows, cols):
        kind_of = GGMLQuantizationType[kind]
        value = (rng.normal(size=(rows, cols)) / cols ** .5).astype(np.float32)
        g.add_tensor(name, quants.quantize(value, kind_of), raw_dtype=kind_of)

    def vectors(name, weight):
        g.add_tensor(name + ".weight", np.full(embd, weight, np.float32))
        g.add_tensor(name + ".bias", np.zeros(embd, np.float32))

    matrix("token_embd.weight", vocab, embd)
    g.add_tensor("position_embd.weight", rng.normal(size=(longest, embd)).astype(np.float32))
    vectors("token_embd_norm", 1)
    for i in range(layers):
        for name, rows, cols in (("attn_q", embd, embd), ("attn_k", embd, embd), ("attn_v", embd, embd), ("attn_output", embd, embd),
                                 ("ffn_up", ff, embd), ("ffn_down", embd, ff)):
            matrix(f"blk.{i}.{name}.weight", rows, cols)
            g.add_tensor(f"blk.{i}.{name}.bias", np.zeros(rows, np.float32))
        vectors(f"blk.{i}.attn_output_norm", 1)
        vectors(f"blk.{i}.layer_output_norm", 1)
    g.write_header_to_file()
    g.write_kv_data_to_file()
    g.write_tensors_to_file()
    g.close()


def main():
    if len(sys.argv) > 3 and sys.argv[1] == "--speed":
        return speed(sys.argv[2], sys.argv[3])
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
    for family in ("bert", "nomic-bert", "jina-bert-v2"):
        encoder(family, os.path.join(folder, family))


def head(family, path):
    """Begin a file."""
    g = GGUFWriter(path + ".gguf", family)
    g.add_block_count(LAYERS)
    g.add_context_length(LONGEST)
    g.add_embedding_length(shape(family)[0])
    g.add_feed_forward_length(FF)
    g.add_head_count(shape(family)[1])
    g.add_layer_norm_eps(EPS)
    g.add_causal_attention(False)
    return g


def finish(g, w):
    for name, value in w.items():
        g.add_tensor(name, value)
    g.write_header_to_file()
    g.write_kv_data_to_file()
    g.write_tensors_to_file()
    g.close()


def encoder(family, path):
    rng = np.random.default_rng(42)
    w = weights(rng, family)
    g = head(family, path)
    g.add_pooling_type(PoolingType.MEAN)
    if family == "nomic-bert":
        g.add_rope_freq_base(ROPE_BASE)
    if family != "bert":    # the tests need a file without a tokenizer
        tokenizer(g)
    file = dict(w)
    for fused, parts in {"nomic-bert": [("blk.0.attn_qkv", ("blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v"))],
                         "jina-bert-v2": [("blk.1.ffn_up", ("blk.1.ffn_gate", "blk.1.ffn_up"))]}.get(family, ()):
        file[fused + ".weight"] = np.concatenate([file.pop(part + ".weight") for part in parts])
    finish(g, file)
    texts = [list(map(int, rng.integers(0, VOCAB, n))) for n in LENGTHS]
    want = np.array([[vector(w, ids, pooling, family=family) for ids in texts] for pooling in POOLINGS])
    want.astype("<f4").tofile(path + ".vectors.f32")
    with open(path + ".ids", "w") as f:
        f.writelines(" ".join(map(str, ids)) + "\n" for ids in texts)
    if family == "bert":
        reader(w, path)
        reranker(path + "-reranker")
        reranker(path + "-pairs-reranker", wordpiece=True)
        deberta_reader(os.path.join(os.path.dirname(path), "deberta-reader"))
    for without in ("positions", "type", "both directions", "its gelu", "its gate", "its base"):
        other = np.array([[vector(w, ids, pooling, without, family) for ids in texts] for pooling in POOLINGS])
        print(f"{family} without {without}: 1 - cosine, most {1 - (want * other).sum(2).min():.1e}")


if __name__ == "__main__":
    main()
