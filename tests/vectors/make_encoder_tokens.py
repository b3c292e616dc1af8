#!/usr/bin/env python3
"""Write tests/vectors/tokenizers/encoder.json: small vocabularies of the two kinds that encoders have, Unigram (without and with byte tokens, with
a charsmap) and WordPiece (uncased and cased), and the ids of random strings.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3 protobuf
    python3 tests/vectors/make_encoder_tokens.py > tests/vectors/tokenizers/encoder.json

Unigram's ids are those of `sentencepiece`. `tokenizers` must agree: it normalises user-perceived characters one by one instead of the longest
source at each place, so strings that the two normalise differently are drawn again (their number goes to stderr). WordPiece's ids are those of
`tokenizers`.
"""
import json
import os
import random
import sys
import tempfile
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

rnd = random.Random(11)
WORDS = ("the of und caf\u00e9 na\u00efve Stra\u00dfe M\u00fcnchen \u043f\u0440\u0438\u0432\u0435\u0442 \u0447\u0430\u0439 \u4f60\u597d \u6771\u4eac\u30bf\u30ef\u30fc "
         "\u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \ud55c\uad6d\uc5b4 unbelievable running don't 3.14 A-B x=y "
         "\ufb01n \u2167 x\u00b2 \u2026 \u201cq\u201d \u0391\u0398\u0397\u039d\u0391\u03a3 \u0130stanbul").split()
RANGES = [(0x20, 0x7F), (0x20, 0x7F), (0xA0, 0x250), (0x300, 0x330), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE00), (0x1100, 0x1200), (0x1E00, 0x2100),
          (0x2500, 0x2700), (0x3000, 0x3100), (0x4E00, 0x4F00), (0xAC00, 0xAD00), (0xF900, 0xFA00), (0xFB00, 0xFE00), (0xFF00, 0xFFF0), (0, 0x20),
          (0x1D400, 0x1D500), (0x1F300, 0x1F700), (0x2F800, 0x2F900), (0xE000, 0xE010)]
BLANKS = [" ", " ", " ", "  ", "\n", "\t", "\u00a0", "\u3000", "\u200b", ", ", ". ", "-"]


SYLLABLES = "ing er un ka ba sto ly the re \u00e9t \u043d\u043e \u4f60 \u30bf 12 st".split()


def line():
    return " ".join(rnd.choice(WORDS) if rnd.random() < 0.3 else "".join(rnd.choice(SYLLABLES) for _ in range(rnd.randrange(1, 4))) for _ in range(12))


def string():
    out = rnd.choice(["", "", " ", "\n "])
    for _ in range(rnd.randrange(1, 14)):
        if rnd.random() < 0.6:
            out += (rnd.choice(WORDS) if rnd.random() < 0.5 else line().split(" ")[0]) + rnd.choice(BLANKS)
        else:
            lo, hi = rnd.choice(RANGES)
            out += "".join(chr(rnd.randrange(lo, hi)) for _ in range(rnd.randrange(1, 4)))
    return out


def rules():
    """A small part of NFKC: compatibility characters, composed Latin letters from their decompositions, spaces, characters to remove."""
    points = [0xA0, 0xB2, 0x130, 0x2026, 0x2167, 0x3000, 0xFB01, 0xFDFA, *range(0xFF01, 0xFF20), *range(0xC0, 0xC8), *range(0xE8, 0xEC), *range(0xAC00, 0xAC04)]
    rows = {}
    for cp in points:
        for source in (chr(cp), unicodedata.normalize("NFD", chr(cp))):
            if unicodedata.normalize("NFKC", chr(cp)) != source:
                rows[source] = unicodedata.normalize("NFKC", chr(cp))
    rows.update({"\n": " ", "\t": " ", "\u200b": "", "\x01": "", "\r": " "})
    return "".join("%s\t%s\n" % (" ".join("%X" % ord(c) for c in k), " ".join("%X" % ord(c) for c in v)) for k, v in rows.items())


def unigram(folder, byte_fallback):
    with open(folder + "/rules.tsv", "w") as f:
        f.write(rules())
    with open(folder + "/text", "w") as f:
        f.write("\n".join(line() for _ in range(400)))
    sentencepiece.SentencePieceTrainer.train(input=folder + "/text", model_prefix=folder + "/m", vocab_size=520 if byte_fallback else 220, model_type="unigram",
                                             normalization_rule_tsv=folder + "/rules.tsv", byte_fallback=byte_fallback, hard_vocab_limit=False,
                                             minloglevel=2, num_threads=1)
    proto = sentencepiece_model_pb2.ModelProto()
    with open(folder + "/m.model", "rb") as f:
        proto.ParseFromString(f.read())
    spm = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    charsmap = proto.normalizer_spec.precompiled_charsmap
    own = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], 0, byte_fallback))
    own.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Replace(Regex(" {2,}"), " ")])
    own.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("\u2581", "always")])
    cases, again = [], 0
    while len(cases) < 90:
        s = string()
        ids = spm.encode(s)
        if own.encode(s, add_special_tokens=False).ids != ids:
            again += 1
            continue
        cases.append({"text": s, "ids": ids})
    print("unigram, bytes %d: %d strings drawn again" % (byte_fallback, again), file=sys.stderr)
    return {"model": "t5", "tokens": [p.piece for p in proto.pieces], "types": [p.type for p in proto.pieces], "scores": [p.score for p in proto.pieces],
            "charsmap": charsmap.hex(), "cases": cases}


def wordpiece(uncased):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=uncased)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator([line() for _ in range(400)], trainers.WordPieceTrainer(vocab_size=260, special_tokens=special))
    vocab = t.get_vocab()
    tokens = sorted(vocab, key=vocab.get)
    t.model = models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100)
    strings = [string() for _ in range(90)] + ["run" * 33, "run" * 33 + "n", "run" * 33 + "nn"]
    # As GGUF stores them: U+2581 before the beginning of a word, nothing before its continuation.
    stored = [w if i < len(special) else w[2:] if w.startswith("##") else "\u2581" + w for i, w in enumerate(tokens)]
    return {"model": "bert", "tokens": stored, "types": [3] * len(special) + [1] * (len(tokens) - len(special)),
            "cases": [{"text": s, "ids": t.encode(s, add_special_tokens=False).ids} for s in strings]}


with tempfile.TemporaryDirectory() as folder:
    out = {"unigram": unigram(folder, False), "unigram_bytes": unigram(folder, True), "uncased": wordpiece(True), "cased": wordpiece(False)}
print(json.dumps(out, separators=(",", ":"), ensure_ascii=True))
