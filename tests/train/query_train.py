#!/usr/bin/env python3
"""query_train.py FOLDER ENCODER.gguf READER.gguf STORIES SQUAD.json SQUAD2.json [STEPS]: train the adapter with which the text
encoder computes the vectors of questions, and write it into READER.gguf, beside the reader that reader_train.py has made.

The arguments are those of reader_train.py. The passages are encoded once, without an adapter, as weir stores them. Loss:
softmax over cosines / 0.03 of a question with all passages of its document; right are those that meet the answer's place.
Words of a question are left out at random, and two of three questions of others than our own are written without capitals
and question mark, as people type. Written is the best approximation of rank RANK_KEPT."""
import math
import random
import sys

import numpy as np
import torch
import torch.nn.functional as F
from gguf import GGUFReader, GGUFWriter

import encoder_train
import reader_train

STEPS, QUESTIONS, RATE, WARMUP, RANK, RANK_KEPT, TEMPERATURE = 450, 64, 5e-4, 10, 8, 4, 0.03
KEPT = .7  # part of the trained change that is written: questions to other documents lose less by it
MEETING_MOST = 4  # passages that an answer's place meets; questions with more are left out
WORDS_LEFT_OUT, AS_TYPED = .08, .6
SHARES = {'own': 50, 'stories': 30, 'squad2': 10, 'squad': 10}  # of a step's questions, by origin


def as_typed(q, rng):
    text = q.text
    if q.origin[0] != 'own' and rng.random() < AS_TYPED:
        text = text.lower().replace('?', '')
    words = text.split()
    return ' '.join([w for w in words if rng.random() > WORDS_LEFT_OUT] or words)


def loss_of(encoder, questions, rng):
    vectors = encoder([encoder.tokens('query: ' + as_typed(q, rng)) for q in questions])
    loss = 0
    for q, v in zip(questions, vectors):
        score = torch.from_numpy(q.document.vectors) @ v / TEMPERATURE
        loss = loss + torch.logsumexp(score, 0) - torch.logsumexp(score[q.meeting], 0)
    return loss / len(questions)


def train(encoder, questions, steps, rng):
    by_origin = {key: [q for q in questions if q.origin[0] == key] for key in SHARES}
    parameters = [p for pair in encoder.adapter.values() for p in pair]
    optimizer = torch.optim.AdamW(parameters, weight_decay=.01, betas=(.9, .98))
    for step in range(steps):
        for group in optimizer.param_groups:
            group['lr'] = RATE * min(1, (step + 1) / WARMUP) * (1 + math.cos(math.pi * step / steps)) / 2
        chosen = [q for key, share in SHARES.items() for q in rng.sample(by_origin[key], round(QUESTIONS * share / 100))]
        loss = loss_of(encoder, chosen, rng)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1)
        optimizer.step()
        if step % 20 == 0:
            print(f'step {step} of {steps}, loss {loss.item():.3f}', flush=True)


def write(encoder, path):
    """Add the adapter to the reader's file, in the place of one that it has."""
    old = GGUFReader(path)
    tensors = [(t.name, np.array(t.data)) for t in old.tensors if not t.name.startswith('query.')]
    bias = float(old.fields['reader.bias'].contents())
    out = GGUFWriter(path, 'bert')
    out.add_string('general.type', 'adapter')
    out.add_string('adapter.type', 'lora')
    out.add_float32('reader.bias', bias)
    for name, (a, b) in encoder.adapter.items():
        for side, matrix in zip('ab', reader_train.approximated(a, KEPT * b, RANK_KEPT)):
            tensors.append((f'query.{name}.weight.lora_{side}', matrix.numpy().astype(np.float16)))
    for name, data in tensors:
        out.add_tensor(name, data)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main():
    folder, path, out, stories, squad, squad2 = sys.argv[1:7]
    rng = random.Random(1)
    torch.manual_seed(1)
    questions = (reader_train.own_questions(folder, reader_train.nine_of_ten()) + reader_train.story_questions(stories) +
                 reader_train.squad_questions(squad, 'squad', None, 2) +
                 reader_train.squad_questions(squad2, 'squad2', reader_train.SQUAD2_ARTICLES, 1))
    questions = [q for q in questions if q.origin[1]]
    for document in {id(q.document): q.document for q in questions}.values():
        document.cut(path, centred=False)
    for q in questions:
        q.meeting = q.document.meeting(*(q.answer or q.place))
    encoder_train.RANK, encoder_train.FIRST_CHANGED = RANK, 0
    encoder = encoder_train.Encoder(path)
    train(encoder, [q for q in questions if 0 < len(q.meeting) <= MEETING_MOST],
          int(sys.argv[7]) if len(sys.argv) > 7 else STEPS, rng)
    write(encoder, out)


if __name__ == '__main__':
    main()
