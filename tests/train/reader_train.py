#!/usr/bin/env python3
"""reader_train.py FOLDER ENCODER.gguf READER.gguf STORIES SQUAD.json SQUAD2.json [STEPS]: train the text encoder's reader.

FOLDER has the documents that texts.sh makes, STORIES is a checkout of github.com/uci-soe/FairytaleQAData, SQUAD.json is
../shared/data/ruler/squad-open.json, SQUAD2.json is train-v2.0.json of SQuAD 2.0 (its first ten articles are used). Passages
are cut as weir cuts them and encoded by weir: build build/tests/measure/cut and embed first. Run from the root of the source.

A step trains on 8 questions, each with the passage that answers it and two of the twelve others of its document whose vectors
are nearest. Loss: which of the three passages it is (softmax), whether each passage answers (log odds), and where the answer
begins and ends in the right one (softmax over tokens, half weight). For two of three questions the passages are shortened to
one to three sentences, because documents have short passages, too. Written is the best approximation of rank 8."""
import collections
import csv
import glob
import json
import lzma
import math
import os
import random
import re
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from gguf import GGUFWriter

import encoder_train

STEPS, QUESTIONS, OTHERS, RATE, WARMUP, RANK, RANK_KEPT, NEAREST = 1400, 8, 2, 1e-3, 30, 16, 8, 12
QUESTION_MOST, PAIR_MOST = 48, 230  # tokens, as in engine/encoder/encoder_reader.c
SQUAD2_ARTICLES = 10
ANSWER_MOST = 300  # bytes; longer answers have no place
# Share of the questions of a step, by origin, answerable and not
SHARES = {('own', 1): 36, ('own', 0): 20, ('stories', 1): 22, ('squad2', 1): 8, ('squad2', 0): 5, ('squad', 1): 4, ('squad', 0): 5}


def embedded(path, texts, *options):
    """Return weir's vectors [len(texts)][384] of texts, which are bytes; option -q: of questions."""
    raw = b''.join((text.replace(b'\0', b' ') or b' ') + b'\0' for text in texts)
    out = subprocess.run(['build/tests/measure/embed', *options, path, '2'], input=raw, stdout=subprocess.PIPE, check=True).stdout
    return np.frombuffer(out, np.float32).reshape(-1, 384)


class Document:
    """A text and its passages: bytes, ranges, vectors."""

    def __init__(self, text):
        self.text = text

    def cut(self, path, centred=True):
        with tempfile.NamedTemporaryFile() as f:
            f.write(self.text)
            f.flush()
            out = subprocess.run(['build/tests/measure/cut', f.name], stdout=subprocess.PIPE, check=True).stdout
        self.passages = [tuple(map(int, line.split())) for line in out.splitlines()]
        vectors = embedded(path, [self.text[a:b] for a, b in self.passages])
        if centred:
            vectors = vectors - vectors.mean(0)
        self.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def meeting(self, first, last):
        return [i for i, (a, b) in enumerate(self.passages) if a < last and b > first]


class Question:
    """origin: key of SHARES; place: bytes first and last + 1 of the passage that it was asked for; answer: bytes of the answer or None."""

    def __init__(self, origin, text, document, place, answer, answerable=True):
        self.origin, self.text, self.document, self.place, self.answer = (origin, int(answerable)), text, document, place, answer


def words(text):
    return [w for w in re.sub(r'[^a-z0-9 ]', ' ', text.lower()).split() if w not in ('a', 'an', 'the')]


def answer_place(text, answer):
    """Return the characters of `text` that are most like the answer, and how much: the F1 of their words."""
    at = text.lower().find(answer.lower().strip(' .'))
    want = collections.Counter(words(answer))
    if at >= 0 and want:
        return at, at + len(answer.strip(' .')), 1.0
    there, n, best = list(re.finditer(r'\S+', text)), sum(want.values()), (0, 0, 0.0)
    for size in {n, max(1, n - 1), n + 1, n + 3}:
        for first in range(max(1, len(there) - size + 1)) if want and there else ():
            last = min(first + size, len(there)) - 1
            got = collections.Counter(words(text[there[first].start():there[last].end()]))
            common = sum((got & want).values())
            f1 = 2 * common / (sum(got.values()) + n) if common else 0
            if f1 > best[2]:
                best = there[first].start(), there[last].end(), f1
    return best


def written(name):
    """Return the lines of a file of this folder."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with (lzma.open if name.endswith('.xz') else open)(path, 'rt', encoding='utf-8') as lines:
        return [json.loads(line) for line in lines]


def nine_of_ten():
    """Return the lines of questions.jsonl without every tenth, which is left out to be measured."""
    return [row for number, row in enumerate(written('questions.jsonl')) if number % 10 != 9]


def own_questions(folder, rows):
    documents, out = {}, []
    for q in rows:
        if q['document'] not in documents:
            with open(os.path.join(folder, q['document'] + '.txt'), 'rb') as f:
                documents[q['document']] = Document(f.read())
        d, place = documents[q['document']], (q['from'], q['to'])
        a, b, f1 = answer_place(d.text[place[0]:place[1]].decode('latin-1'), q.get('answer') or '')
        answer = (place[0] + a, place[0] + b) if f1 >= .6 and b - a < ANSWER_MOST else None
        out.append(Question('own', q['question'], d, place, answer, q['kind'] != 'none'))
    return out


def story_questions(folder):
    out = []
    for path in sorted(glob.glob(os.path.join(folder, 'data-by-train-split/questions/train/*.csv'))):
        section, text = {}, ''
        with open(path.replace('/questions/', '/section-stories/').replace('-questions', '-story'), encoding='utf-8') as f:
            for row in csv.DictReader(f):
                part = re.sub(r'\s+', ' ', row['text']).strip()
                section[row['section']] = len(text), len(text) + len(part)
                text += part + '\n'
        document = Document(text.encode())
        bytes_to = lambda at, text=text: len(text[:at].encode())
        with open(path, encoding='utf-8') as f:
            for row in csv.DictReader(f):
                parts = [section[k] for k in re.split(r'[,\s]+', row['cor_section']) if k in section]
                if not parts:
                    continue
                first, last = min(p[0] for p in parts), max(p[1] for p in parts)
                a, b, f1 = answer_place(text[first:last], row['answer1'] or '')
                if f1 >= (.6 if row['ex-or-im1'] == 'explicit' else .75) and b - a < ANSWER_MOST:
                    answer = bytes_to(first + a), bytes_to(first + b)
                    out.append(Question('stories', row['question'], document, answer, answer))
                elif len(text[first:last].split()) <= 130:
                    out.append(Question('stories', row['question'], document, (bytes_to(first), bytes_to(last)), None))
    return out


def squad_articles(path):
    with open(path, encoding='utf-8') as f:
        return json.load(f)['data']


def squad_titles(path):
    return {article['title'] for article in squad_articles(path)}


def squad_questions(path, origin, articles, step, without=()):
    """Return the questions of every step-th paragraph of the first `articles` articles; not of those whose titles are in `without`."""
    number, out = 0, []
    for article in squad_articles(path)[:articles]:
        if article['title'] in without:
            continue
        document, text = Document(b''), b''
        for paragraph in article['paragraphs']:
            number += 1
            start, context = len(text), paragraph['context'].replace('\n', ' ')
            text += context.encode() + b'\n'
            for q in paragraph['qas'] if number % step == 0 else ():
                if not q['answers'] or q.get('is_impossible'):
                    out.append(Question(origin, q['question'], document, (start, len(text) - 1), None, False))
                    continue
                first = start + len(context[:q['answers'][0]['answer_start']].encode())
                answer = first, first + len(q['answers'][0]['text'].encode())
                out.append(Question(origin, q['question'], document, answer, answer))
        document.text = text
    return out


def approximated(a, b, rank):
    """Return matrices of this rank whose product is nearest to b a."""
    (q1, r1), (q2, r2) = torch.linalg.qr(b.detach()), torch.linalg.qr(a.detach().T)
    u, s, v = torch.linalg.svd(r1 @ r2.T)
    root = s[:rank].sqrt()
    return (root[:, None] * v[:rank]) @ q2.T, q1 @ u[:, :rank] * root


class Reader(encoder_train.Encoder):
    """The encoder with an adapter for all layers, and the head."""

    def __init__(self, path):
        encoder_train.RANK, encoder_train.FIRST_CHANGED = RANK, 0
        super().__init__(path)
        self.answers, self.bias, self.scale = torch.zeros(384).requires_grad_(), torch.zeros(1).requires_grad_(), torch.tensor([10.]).requires_grad_()
        self.place = (torch.randn(384, 2) * .02).requires_grad_()

    def pair(self, q, passage, sentences, rng):
        """Return the tokens of a question with a passage, the tokens of the answer (or None), the passage's first token.
        sentences: shorten the passage to so many; 0: to none."""
        first, last = shortened(q, passage, sentences, rng) if sentences else q.document.passages[passage]
        raw = q.document.text[first:last]
        asked, told = self.tokenizer.encode(q.text).ids[:QUESTION_MOST], self.tokenizer.encode(raw.decode(errors='replace'))
        n, begin = PAIR_MOST - len(asked) - 4, len(asked) + 3
        ids, answer = [0] + asked + [2, 2] + told.ids[:n] + [2], None
        if q.right == passage and q.answer:
            a, b = (len(raw[:max(0, at - first)].decode(errors='replace')) for at in q.answer)
            inside = [i for i, (x, y) in enumerate(told.offsets[:n]) if x < b and y > a]
            answer = (begin + inside[0], begin + inside[-1]) if inside else None
        return ids, answer, begin

    def __call__(self, pairs):
        """Return log odds [len(pairs)], and logits of the answer's first and last token [len(pairs)][tokens][2]."""
        order, longest = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0])), max(len(p[0]) for p in pairs)
        odds, places = [None] * len(pairs), [None] * len(pairs)
        for at in range(0, len(order), 12):
            part = order[at:at + 12]
            states, mask = self.states([pairs[i][0] for i in part])
            pooled = F.normalize((states * mask[..., None]).sum(1) / mask.sum(1)[:, None], dim=1)
            logits = states @ self.place
            for row, i in enumerate(part):
                odds[i] = pooled[row] @ self.answers * self.scale[0] + self.bias[0]
                n = len(pairs[i][0])
                outside = torch.full((longest, 1), -1e4)
                outside[pairs[i][2]:n - 1] = 0
                places[i] = F.pad(logits[row, :n], (0, 0, 0, longest - n)) + outside
        return torch.stack(odds), torch.stack(places)

    def write(self, path):
        out = GGUFWriter(path, 'bert')
        out.add_string('general.type', 'adapter')
        out.add_string('adapter.type', 'lora')
        out.add_float32('reader.bias', float(self.bias.detach()))
        for name, (a, b) in self.adapter.items():
            a, b = approximated(a, b, RANK_KEPT)
            out.add_tensor(name + '.weight.lora_a', a.numpy().astype(np.float16))
            out.add_tensor(name + '.weight.lora_b', b.numpy().astype(np.float16))
        head = torch.stack([self.answers * self.scale, self.place[:, 0], self.place[:, 1]])
        out.add_tensor('reader.weight', head.detach().numpy().astype(np.float32))
        out.write_header_to_file()
        out.write_kv_data_to_file()
        out.write_tensors_to_file()
        out.close()


def choose(q, score, most):
    """Set the passage that answers a question (right), or else the one that it was asked for (own), and the best of the others;
    score: [passages]."""
    meeting, (first, last) = q.document.meeting(*q.place), q.answer or q.place
    q.own = int(np.argmax([min(b, last) - max(a, first) for a, b in q.document.passages]))
    q.right = q.own if q.origin[1] else None
    q.others = [int(i) for i in np.argsort(-score) if i not in meeting and i != q.own and
                not (q.origin[1] and not q.answer and abs(int(i) - q.own) == 1)][:most]


def nearest(reader, questions):
    """Set for each question the passage that answers it, or else the one that it was asked for, and the nearest others."""
    encoder_train.FIRST_CHANGED = reader.layers
    encoder = encoder_train.Encoder(sys.argv[2])
    vectors = encoder.encode([encoder.tokens('query: ' + q.text) for q in questions])
    vectors -= vectors.mean(0)
    for q, v in zip(questions, vectors):
        choose(q, q.document.vectors @ v, NEAREST)
    return [q for q in questions if q.others]


def shortened(q, passage, sentences, rng):
    """Return the bytes of some sentences of a passage, around the answer if it has it."""
    first, last = q.document.passages[passage]
    raw = q.document.text[first:last]
    cut = sorted({0, len(raw)} | {m.end() for m in re.finditer(rb'[.!?;:]["\')]*\s+|\n+', raw)})
    parts = list(zip(cut, cut[1:]))
    if q.right == passage and q.answer:
        inside = [i for i, (a, b) in enumerate(parts) if first + a < q.answer[1] and first + b > q.answer[0]] or [0]
        begin = max(0, inside[0] - rng.randrange(sentences))
        end = max(inside[-1] + 1, begin + sentences)
    else:
        begin = rng.randrange(len(parts))
        end = begin + sentences
    return first + parts[begin][0], first + parts[min(end, len(parts)) - 1][1]


def batch(questions, rng):
    """Return rows of question, passage, sentences."""
    rows = []
    for q in questions:
        sentences = rng.choice((0, 0, 1, 1, 2, 3)) if q.right is None or q.answer else 0
        rows += [(q, p, sentences) for p in [q.own] + rng.sample(q.others, min(OTHERS, len(q.others)))]
    return rows


def loss_of(reader, rows, rng):
    pairs = [reader.pair(q, p, sentences, rng) for q, p, sentences in rows]
    right = torch.tensor([float(q.right == p) for q, p, _ in rows])
    odds, places = reader(pairs)
    answers, which, where = F.binary_cross_entropy_with_logits(odds, right), [], []
    for q in {id(row[0]): row[0] for row in rows}.values():
        mine = [i for i, row in enumerate(rows) if row[0] is q]
        if q.right is not None:
            which.append(F.cross_entropy(odds[mine][None], right[mine].argmax()[None]))
    for i, (_, answer, _) in enumerate(pairs):
        if answer:
            where += [F.cross_entropy(places[i, :, side][None], torch.tensor([answer[side]])) for side in (0, 1)]
    return answers + (sum(which) / max(len(which), 1)) + .5 * (sum(where) / max(len(where), 1))


def train(reader, questions, steps, rng):
    by_origin, waiting = {key: [q for q in questions if q.origin == key] for key in SHARES}, {key: [] for key in SHARES}
    parameters = [p for pair in reader.adapter.values() for p in pair] + [reader.answers, reader.bias, reader.place]
    optimizer = torch.optim.AdamW([{'params': parameters, 'rate': RATE}, {'params': [reader.scale], 'rate': 10 * RATE}],
                                  weight_decay=.01, betas=(.9, .98))
    for step in range(steps):
        for group in optimizer.param_groups:
            group['lr'] = group['rate'] * min(1, (step + 1) / WARMUP) * (.05 + .475 * (1 + math.cos(math.pi * step / steps)))
        chosen = []
        for key in rng.choices(list(SHARES), list(SHARES.values()), k=QUESTIONS):
            waiting[key] = waiting[key] or rng.sample(by_origin[key], len(by_origin[key]))
            chosen.append(waiting[key].pop())
        loss = loss_of(reader, batch(chosen, rng), rng)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1)
        optimizer.step()
        if step % 20 == 0:
            print(f'step {step} of {steps}, loss {loss.item():.3f}', flush=True)


def main():
    folder, path, out, stories, squad, squad2 = sys.argv[1:7]
    rng = random.Random(1)
    torch.manual_seed(1)
    questions = (own_questions(folder, nine_of_ten()) + story_questions(stories) + squad_questions(squad, 'squad', None, 2) +
                 squad_questions(squad2, 'squad2', SQUAD2_ARTICLES, 1))
    for document in {id(q.document): q.document for q in questions}.values():
        document.cut(path)
    reader = Reader(path)
    train(reader, nearest(reader, questions), int(sys.argv[7]) if len(sys.argv) > 7 else STEPS, rng)
    reader.write(out)


if __name__ == '__main__':
    main()
