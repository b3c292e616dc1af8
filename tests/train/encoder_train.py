#!/usr/bin/env python3
"""encoder_train.py FOLDER ENCODER.gguf ADAPTER SQUAD.json [SEED]: train the text encoder's adapter on questions.jsonl.

FOLDER has the documents that texts.sh makes. SQUAD.json is ../shared/data/ruler/squad-open.json. ADAPTER is written for
tests/package/encoder.py. Every tenth question is left out of the training. Before and after it is printed how often the
passage of such a question is first, among three and among ten of a sample of its document's passages."""
import json
import math
import os
import random
import re
import sys

import numpy as np
import torch
import torch.nn.functional as F
from gguf import GGUFReader, dequantize
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

RANK, FIRST_CHANGED = 8, 6
MATRICES = ('attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_up', 'ffn_down')
EPOCHS, BATCH, RATE, WARMUP, TEMPERATURE, NEAREST, LONGEST = 2, 24, 6e-4, 8, 0.03, 12, 160
KEPT = 0.6  # part of the trained change that is written: own questions gain as much as by all of it, SQuAD's lose less
WORDS, WINDOWS = 90, 150  # words of a passage, passages of a document among which the nearest are sought
SQUAD_PARTS, SQUAD_BYTES = 40, 500  # questions of SQuAD for a hundred of our own; their answers are in these first bytes


class Encoder:
    """A BERT encoder with mean pooling, and an adapter A, B for each matrix of the last layers; B begins as zeros."""

    def __init__(self, path):
        reader = GGUFReader(path)
        self.weights = {}
        for t in reader.tensors:
            if t.name == 'token_embd.weight':
                self.embedding = t
            else:
                values = dequantize(t.data, t.tensor_type) if t.tensor_type > 1 else t.data
                self.weights[t.name] = torch.tensor(np.array(values, np.float32).reshape([int(n) for n in t.shape][::-1]))
        field = reader.fields['tokenizer.ggml.tokens']
        tokens = [bytes(field.parts[i]).decode() for i in field.data]
        scores = reader.fields['tokenizer.ggml.scores'].contents()
        self.tokenizer = Tokenizer(models.Unigram(list(zip(tokens, scores)), 3, False))
        charsmap = bytes(reader.fields['tokenizer.ggml.precompiled_charsmap'].contents())
        self.tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Replace(Regex(' {2,}'), ' ')])
        self.tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        self.layers = 1 + max(int(n.split('.')[1]) for n in self.weights if n.startswith('blk.'))
        self.adapter = {}
        for layer in range(FIRST_CHANGED, self.layers):
            for m in MATRICES:
                rows, cols = self.weights[f'blk.{layer}.{m}.weight'].shape
                self.adapter[f'blk.{layer}.{m}'] = ((torch.randn(RANK, cols) / math.sqrt(cols)).requires_grad_(),
                                                    torch.zeros(rows, RANK).requires_grad_())

    def tokens(self, text):
        return [0] + self.tokenizer.encode(text).ids[:LONGEST - 2] + [2]

    def linear(self, x, name):
        y = F.linear(x, self.weights[name + '.weight'], self.weights[name + '.bias'])
        if name in self.adapter:
            a, b = self.adapter[name]
            y = y + F.linear(F.linear(x, a), b)
        return y

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.weights[name + '.weight'], self.weights[name + '.bias'], 1e-12)

    def states(self, texts):
        """Return the last hidden states [len(texts)][longest][width] and which of them are of tokens, 1 or 0; a text is a list
        of token ids."""
        n = max(map(len, texts))
        ids, mask = np.ones((len(texts), n), np.int64), np.zeros((len(texts), n), np.float32)
        for i, t in enumerate(texts):
            ids[i, :len(t)], mask[i, :len(t)] = t, 1
        used, where = np.unique(ids, return_inverse=True)
        rows = dequantize(self.embedding.data[used], self.embedding.tensor_type).astype(np.float32)
        mask = torch.from_numpy(mask)
        x = torch.from_numpy(rows)[torch.from_numpy(where.reshape(ids.shape))]
        x = self.norm(x + self.weights['position_embd.weight'][:n] + self.weights['token_types.weight'][0], 'token_embd_norm')
        hidden = ((mask - 1) * 1e9)[:, None, None, :].expand(-1, 1, n, -1)
        for layer in range(self.layers):
            p = f'blk.{layer}.'
            q, k, v = (self.linear(x, p + m).view(len(texts), n, 12, -1).transpose(1, 2) for m in MATRICES[:3])
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=hidden).transpose(1, 2).flatten(2)
            x = self.norm(x + self.linear(y, p + 'attn_output'), p + 'attn_output_norm')
            x = self.norm(x + self.linear(F.gelu(self.linear(x, p + 'ffn_up')), p + 'ffn_down'), p + 'layer_output_norm')
        return x, mask

    def __call__(self, texts):
        """Return [len(texts)][width] unit vectors."""
        x, mask = self.states(texts)
        return F.normalize((x * mask[..., None]).sum(1) / mask.sum(1)[:, None], dim=1)

    def encode(self, texts):
        out, order = np.zeros((len(texts), 384), np.float32), sorted(range(len(texts)), key=lambda i: len(texts[i]))
        with torch.no_grad():
            for at in range(0, len(order), 64):
                part = order[at:at + 64]
                out[part] = self([texts[i] for i in part]).numpy()
        return out

    def write(self, path):
        with open(path, 'wb') as out:
            for a, b in self.adapter.values():
                out.write(a.detach().numpy().astype('<f2').tobytes() + (KEPT * b.detach().numpy()).astype('<f2').tobytes())


class Passage:
    def __init__(self, encoder, document, first, last, text):
        self.document, self.first, self.last = document, first, last
        self.tokens = encoder.tokens('passage: ' + text)

    def overlaps(self, other):
        return self.document == other.document and self.first <= other.last and other.first <= self.last


class Question:
    def __init__(self, encoder, text, passage):
        self.tokens, self.passage = encoder.tokens('query: ' + text), passage


def windows(encoder, texts, rng):
    """Return passages of 90 words from all over the documents."""
    out = []
    for name, text in texts.items():
        words = list(re.finditer(rb'\S+', text))
        starts = range(0, len(words) - WORDS, WORDS)
        for i in rng.sample(starts, min(WINDOWS, len(starts))):
            first, last = words[i].start(), words[i + WORDS].start()
            out.append(Passage(encoder, name, first, last, text[first:last].decode(errors='replace')))
    return out


def nearest(encoder, questions, among):
    """Set for each question the passages of the same document, without its own, the nearest first; and the rank of its own."""
    asked, own = encoder.encode([q.tokens for q in questions]), encoder.encode([q.passage.tokens for q in questions])
    vectors = encoder.encode([p.tokens for p in among])
    for i, q in enumerate(questions):
        others = [k for k, p in enumerate(among) if p.document == q.passage.document and not p.overlaps(q.passage)]
        score = vectors[others] @ asked[i]
        q.nearest = [among[others[k]] for k in np.argsort(-score)[:NEAREST]]
        q.rank = int((score >= own[i] @ asked[i]).sum())


def report(name, questions):
    print(name, *(f'in {n}: {sum(q.rank < n for q in questions)}' for n in (1, 3, 10)), f'of {len(questions)}', flush=True)


def train(encoder, questions, rng):
    parameters = [p for pair in encoder.adapter.values() for p in pair]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.01, betas=(.9, .98))
    steps, order = int(EPOCHS * len(questions) / BATCH), []
    for step in range(steps):
        if len(order) < BATCH:
            order += rng.sample(questions, len(questions))
        batch, order = order[:BATCH], order[BATCH:]
        passages = [q.passage for q in batch] + [rng.choice(q.nearest) for q in batch]
        for group in optimizer.param_groups:
            group['lr'] = RATE * min(1, (step + 1) / WARMUP) * (1 + math.cos(math.pi * step / steps)) / 2
        score = encoder([q.tokens for q in batch]) @ encoder([p.tokens for p in passages]).T / TEMPERATURE
        same = torch.tensor([[i != k and q.passage.overlaps(p) for k, p in enumerate(passages)] for i, q in enumerate(batch)])
        loss = F.cross_entropy(score.masked_fill(same, -1e9), torch.arange(BATCH))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1)
        optimizer.step()
        if step % 10 == 0:
            print(f'step {step} of {steps}, loss {loss.item():.3f}', flush=True)


def own_questions(encoder, folder):
    """Return the questions of questions.jsonl with passages, and the documents."""
    texts, out = {}, []
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'questions.jsonl'), encoding='utf-8') as lines:
        for q in map(json.loads, lines):
            name, first, last = q['document'], q['from'], q['to']
            if name not in texts:
                with open(os.path.join(folder, name + '.txt'), 'rb') as f:
                    texts[name] = f.read()
            if q['kind'] != 'none':
                passage = Passage(encoder, name, first, last, texts[name][first:last].decode(errors='replace'))
                out.append(Question(encoder, q['question'], passage))
    return out, texts


def squad_questions(encoder, path):
    """Return questions of SQuAD, half a (every other paragraph, as in tests/measure/sources_data.py), that the paragraph's
    beginning answers: without them the encoder forgets questions in the words of the text."""
    number, out = 0, []
    with open(path, encoding='utf-8') as f:
        for article in json.load(f)['data']:
            for paragraph in article['paragraphs']:
                number += 1
                passage = Passage(encoder, article['title'], number, number, paragraph['context'])
                out += [Question(encoder, q['question'], passage) for q in paragraph['qas']
                        if number % 2 == 0 and q['answers'] and q['answers'][0]['answer_start'] < SQUAD_BYTES]
    return out


def main():
    folder, path, out, squad = sys.argv[1:5]
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    rng = random.Random(seed)
    torch.manual_seed(seed)
    encoder = Encoder(path)
    own, texts = own_questions(encoder, folder)
    other = squad_questions(encoder, squad)
    test, rest = own[9::10], [q for i, q in enumerate(own) if i % 10 != 9]
    rest += rng.sample(other, min(len(other), len(rest) * SQUAD_PARTS // 100))
    among = [q.passage for q in rest] + windows(encoder, texts, rng)
    nearest(encoder, rest + test, among)
    report('before', test)
    train(encoder, rest, rng)
    encoder.write(out)
    nearest(encoder, test, among)
    report('after', test)


if __name__ == '__main__':
    main()
