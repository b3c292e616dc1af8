#!/usr/bin/env python3
"""Write tests/vectors/pretok.json: where the reference tokenizers cut random strings into words.

    pip install tokenizers==0.23.3
    python3 tests/vectors/make_pretok.py > tests/vectors/pretok.json

Each rule is the regular expression (or the sequence of steps) of its models' tokenizer.json, run by the
`tokenizers` package itself.  A case is the text and the byte offsets at which its words end.
"""
import json
import random
import unicodedata

from tokenizers import Regex, pre_tokenizers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTR = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|")
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def split(*patterns):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in patterns])


RULES = {
    "gpt-2": split(GPT2),
    "smollm": split(r"\p{N}", GPT2),
    "llama-bpe": split(LLAMA3),
    "qwen2": split(QWEN2),
    "qwen35": split(QWEN35),
    "seed-coder": split(QWEN2.replace(r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}\r\n]+")),
    "tekken": split(CASED % ("", "") + r"\p{N}" + TAIL),
    "gpt-4o": split(CASED % (CONTR, CONTR) + r"\p{N}{1,3}" + TAIL),
}

rnd = random.Random(20)
by_cat = {}
for cp in range(0x20000):
    by_cat.setdefault(unicodedata.category(chr(cp)), []).append(chr(cp))
for cat in ("Cn", "Cs", "Co"):
    by_cat.pop(cat)
CATS = sorted(by_cat)
BITS = ["'s", "'S", "'re", "'RE", "'ll", "'Ve", "'m", "'D", "'T", "'\u017f", "\u2019s", "''", "'", "'r", " ", " ", "  ", "   ",
        "\n", "\r\n", "\n\n", " \n", "\t", "\u3000", "\x85", "\xa0", "\u2028", "1", "12", "345", "67890", "\u0663", "\u2163",
        "\xbd", "a", "Word", "WORD", "iPhone", "HTTPServer", "x", "\u01c5", "\xaa\xba", "\u02b0", "\u0301", "e\u0301",
        "A\u0301B", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e44\u0e17\u0e22", "\u6211\u60f3", "\uc548\ub155",
        "\u043f\u0440\u0438\u0412\u0415\u0442", "\U0001f680", "\U0001f469\u200d\U0001f467", "!", "...", "/", "//\n", "(", "$%^", "_"]

cases = []
for _ in range(150):
    text = "".join(rnd.choice(BITS) if rnd.random() < 0.8 else rnd.choice(by_cat[rnd.choice(CATS)])
                   for _ in range(rnd.randrange(1, 12)))
    row = {"text": text}
    for name, rule in RULES.items():
        row[name] = [len(text[:end].encode()) for _, (_, end) in rule.pre_tokenize_str(text)]
    cases.append(row)
print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")
