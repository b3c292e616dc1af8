#!/usr/bin/env python3
"""Write tests/vectors/tokenizers/gemma4.json: a small vocabulary of Gemma 4's kind (BPE over characters with a space mark, a list of merges, bytes
for other characters), and what the `tokenizers` package makes of random strings.

    pip install tokenizers==0.23.3
    python3 tests/vectors/make_gemma4_tokens.py > tests/vectors/tokenizers/gemma4.json
"""
import json
import random

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

rnd = random.Random(7)
SYLLABLES = ["the", "er", "in", "on", "ba", "ka", "st", "\u00e9t", "\u4f60", "\u597d", "9", "12", ".", ",", "\n", "\n\n", "  ", "    ", "A"]


def text(n, bits):
    return "".join(rnd.choice(bits) + (" " if rnd.random() < 0.3 else "") for _ in range(n))


def tokenizer(model):
    t = Tokenizer(model)
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return t


train = tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
# Words are trained apart, so that no token spans two: as in the published vocabularies.
words = [w.replace(" ", "\u2581") for line in range(400) for w in text(12, SYLLABLES).replace(" ", "\t ").split("\t") if w]
trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)])
train.train_from_iterator(words, trainer)
state = json.loads(train.to_str())["model"]
merges = [m if isinstance(m, str) else " ".join(m) for m in state["merges"]]
vocab = sorted(state["vocab"], key=state["vocab"].get)
t = tokenizer(models.BPE(vocab=state["vocab"], merges=[tuple(m.split(" ")) for m in merges], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
BITS = SYLLABLES + ["q", "\U0001f680", "\u0928", "\u2581", "\t", "\r\n", "Z\u0301", "x"]
cases = [{"text": s, "ids": t.encode(s).ids} for s in (text(rnd.randrange(1, 30), BITS) for _ in range(80))]
print(json.dumps({"tokens": vocab, "merges": merges, "cases": cases}, separators=(",", ":"), ensure_ascii=True))
