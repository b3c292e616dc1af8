#!/usr/bin/env python3
"""For tests/measure/passages.c.

    tests/measure/passages.py tables WEIR OUT
    tests/measure/passages.py sum LOG ...

tables: makes documents and tables of the questions in tests/measure/questions: OUT/N.txt, the plain text of each
document as WEIR imports it, and OUT/N.tsv, with the columns of tests/measure/sources_data.py; prints the names of these
files. Questions that follow another one are left out, and so are those whose quotation is not in the text.
sum: prints means over the questions in these logs, by plan, and of the differences to reading, with standard errors,
where questions whose passages have equally many tokens count as one group: they have the same passages."""
import json
import math
import pathlib
import re
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
BEFORE = 400  # bytes of a passage before the quotation that answers


def place(text, gold):
    """Return where the quotation is in the text: "FROM-TO", or "" if it is not there."""
    for quotation in gold:
        found = re.search(rb"\s+".join(re.escape(w) for w in quotation.encode().split()), text)
        if found:
            start = text.rfind(b"\n", 0, max(found.start() - BEFORE, 0)) + 1
            return "%d-%d" % (max(start, found.start() - 2 * BEFORE), found.end())
    return ""


def tables(weir, out):
    documents = {}
    for q in json.loads((here / "questions/questions.json").read_text()):
        documents.setdefault(q["document"], []).append(q)
    for i, (name, questions) in enumerate(documents.items()):
        path = here.parents[1] / "../shared/data" / name
        text = subprocess.run([weir, "inspect", "document", path], capture_output=True).stdout
        (out / f"{i}.txt").write_bytes(text)
        with open(out / f"{i}.tsv", "w", encoding="utf-8") as table:
            for k, q in enumerate(q for q in questions if "first" not in q):
                at, kind = place(text, q.get("gold", [])), "none" if q["kind"] == "none" else "one"
                if kind == "none" or at:
                    answers, question = "|".join(q.get("answers", [])), " ".join(q["question"].split())
                    table.write("\t".join(("ab"[k % 2], kind, at, answers, question)) + "\n")
        print(out / f"{i}.txt", out / f"{i}.tsv")


def mean(values):
    """The mean of (group, value) and its error; values of one group are not independent."""
    n, m, groups = len(values), sum(x for _, x in values) / max(len(values), 1), {}
    for group, x in values:
        groups[group] = groups.get(group, 0) + x - m
    g = len(groups)
    error = math.sqrt(sum(x * x for x in groups.values()) * g / (g - 1)) / n if g > 1 else 0
    return "%+.3f +- %.3f" % (m, error)


def summary(logs):
    asked = {}
    for line in "".join(pathlib.Path(log).read_text(errors="replace") for log in logs).splitlines():
        c = line.split("\t")
        if len(c) == 14:
            asked.setdefault(c[0], {})[c[2]] = dict(
                group=c[4], again=int(c[3]) / int(c[4]), seconds=float(c[5]), gold=float(c[6]), own=float(c[7]) / max(int(c[8]), 1),
                refusal=float(c[9]), right=int(c[10]), same=int(c[11]), divergence=float(c[12]), answerable=c[1] != "none")
    for plan in dict.fromkeys(plan for q in asked.values() for plan in q):
        pairs = [(q[plan], q["read"]) for q in asked.values() if plan in q]
        known = [(a, b) for a, b in pairs if a["answerable"]]
        share = lambda key, of: sum(a[key] for a, _ in of) / max(len(of), 1)
        difference = lambda key, of: mean([(a["group"], a[key] - b[key]) for a, b in of])
        print(f"{plan}: {len(pairs)} questions, recomputed {share('again', pairs):.1%}, {share('seconds', pairs):.3f} s;"
              f" right {share('right', known):.1%}, {difference('right', known)}; accepted answer {difference('gold', known)} nats;"
              f" reading's own answer {difference('own', pairs)} nats a token; refusal {difference('refusal', pairs)} nats;"
              f" the same answer {share('same', pairs):.1%}; divergence {share('divergence', pairs):.3f}")


if len(sys.argv) == 4 and sys.argv[1] == "tables":
    tables(sys.argv[2], pathlib.Path(sys.argv[3]))
elif len(sys.argv) > 2 and sys.argv[1] == "sum":
    summary(sys.argv[2:])
else:
    sys.exit(__doc__)
