#!/usr/bin/env python3
"""tests/measure/causal.py SQUAD.json ESSAYS.json FOLDER [WEIR OPTIONS...] - tests whether an answer rests on the source
that is named first.

Each question of SQuAD is asked three times, greedily, with WEIR (default ./weir): about a text of six paragraphs of
different articles, one of which answers the question; about the same text with the bytes of source [1] replaced by
other prose; and about the same text with as many bytes at source [2] replaced.
For each of the two replacements are counted: the answers that have less than half of their words in common with the
first answer; and, of the first answers that hold an accepted answer, those that no longer hold one.
The environment sets the number of questions, N (default 120), and SEED.
"""
import json, os, random, re, subprocess, sys

squad, essays, folder, options = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
weir = os.environ.get("WEIR", "./weir")
count, rand = int(os.environ.get("N", 120)), random.Random(int(os.environ.get("SEED", 1)))
os.makedirs(folder, exist_ok=True)

articles = [a["paragraphs"] for a in json.load(open(squad, encoding="utf-8"))["data"]]
prose = re.sub(r"\s+", " ", json.load(open(essays, encoding="utf-8"))["text"]).encode("ascii", "ignore")
ASKED = [(i, p, q) for i, a in enumerate(articles) for p in a for q in p["qas"] if q["answers"] and not q["is_impossible"]]


def words(text):
    return re.findall(r"\w+", text.lower())


def same(a, b):
    """Tell whether two answers have at least half of their words in common (F1)."""
    a, b = words(a), words(b)
    common = sum(min(a.count(w), b.count(w)) for w in set(a))
    return a == b or 4 * common >= len(a) + len(b)


def holds(text, answers):
    have = " " + " ".join(words(text)) + " "
    return any(" " + " ".join(words(a)) + " " in have for a in answers)


def text_for(article, paragraph):
    part = [rand.choice(articles[i])["context"] for i in rand.sample([i for i in range(len(articles)) if i != article], 5)] + [paragraph["context"]]
    rand.shuffle(part)
    return "\n\n".join(part).encode() + b"\n"


def masked(text, a, b):
    """Replace the bytes from a to b by prose of the same length. Ends of paragraphs are kept."""
    at = rand.randrange(len(prose) - (b - a))
    other = bytearray(prose[at:at + b - a])
    for i in range(a, b):
        if text[i] == 10:
            other[i - a] = 10
    return text[:a] + bytes(other) + text[b:]


def ask(question, text):
    path = os.path.join(folder, "text.txt")
    open(path, "wb").write(text)
    r = subprocess.run([weir, "--private", "-q", "-p", question, path, "--json", "-n", "48", "--temp", "0", *options], stdin=subprocess.DEVNULL,
                       capture_output=True)
    if not r.stdout:
        sys.exit(r.stderr.decode())
    return json.loads(r.stdout)


def mend(text, a, b):
    """Extend the region from a to b so that it cuts no character."""
    while b < len(text) and text[b] & 0xc0 == 0x80:
        b += 1
    while a > 0 and text[a] & 0xc0 == 0x80:
        a -= 1
    return a, b


def main():
    n = other = tops = 0
    changed, lost, right = [0, 0], [0, 0], 0
    for article, paragraph, q in rand.sample(ASKED, len(ASKED)):
        if n == count:
            break
        text = text_for(article, paragraph)
        d = ask(q["question"], text)
        if len(d["passages"]) < 2 or not d["text"].strip():
            other += 1   # fewer than two sources are named
            continue
        n += 1
        a, b = mend(text, *d["passages"][0]["bytes"])
        c = d["passages"][1]["bytes"][0]
        # A region of as many bytes as the first source: it begins where the second source begins, or ends where that ends, or
        # lies at the beginning or the end of the text. The first of these that is inside the text and does not overlap the
        # first source is used.
        regions = [mend(text, x, x + b - a) for x in (c, d["passages"][1]["bytes"][1] - (b - a), 0, len(text) - (b - a))
                   if 0 <= x and x + b - a <= len(text) and (x >= b or x + b - a <= a)]
        if not regions:
            n, other = n - 1, other + 1
            continue
        answers = [x["text"] for x in q["answers"]]
        good = holds(d["text"], answers)
        right += good
        evidence = max(d["evidence"], key=lambda x: x["share"], default={"bytes": [0, 0]})["bytes"]
        tops += evidence[0] < b and a < evidence[1]
        for i, (x, y) in enumerate(((a, b), regions[0])):
            again = ask(q["question"], masked(text, x, y))["text"]
            changed[i] += not same(d["text"], again)
            lost[i] += good and not holds(again, answers)
        if n % 10 == 0:
            print(f"# {n}: {changed} {lost} of {right}", file=sys.stderr, flush=True)
    print(f"{n} questions, {other} without two sources; {right} answers hold an accepted one; attention is highest on source [1]: {tops}")
    for i, what in enumerate(("source [1] masked", "as many bytes at source [2]")):
        print(f"{what}: another answer {changed[i]} of {n}, the accepted answer is lost {lost[i]} of {right}")


main()
