#!/usr/bin/env python3
"""Questions as people ask them, with the settings that a user gets.

  tests/measure/rows.py easy [--weir PATH] [--seeds N] [-- OPTIONS of weir]
      questions/easy: 40 questions about short notes, each answered by one sentence of one note; each in a process
      of its own with seeds 1 to N (5). Prints the share of right answers by seed and the wrong ones. An answer is right
      when it holds one of `answers` as whole words.
  tests/measure/rows.py rows [--weir PATH] [--answers] [-- OPTIONS of weir]
      questions/rows: ten sessions of ten questions about ten documents of ../shared/data. Each question is asked
      alone (a process of its own) and in its row (one process, --each-line). Prints how many are found (not refused, with
      passages) and how many have a gold quotation in the first, the first three and the first ten passages; then each
      question that is found alone but not in the row. Questions that need the turn before ("follows") are counted apart.
      --answers: 96 tokens an answer instead of 12, and right answers are counted too.

It needs the default model. A document that fits the context whole has no passages: it counts as found, and as gold."""
import argparse, json, os, pathlib, re, subprocess, sys, tempfile

here = pathlib.Path(__file__).resolve().parent
root = here.parents[1]


def run(weir, options, questions=None):
    """Standard output of one run that keeps nothing and reads no settings of the user."""
    with tempfile.TemporaryDirectory() as home:
        env = dict(os.environ, **{f"XDG_{kind}_HOME": home for kind in ("DATA", "STATE", "CONFIG")})
        done = subprocess.run([weir, "-q", "--private", *options], env=env, input=(questions or "").encode(), capture_output=True, timeout=3600)
    return done.stdout.decode(errors="replace")


def right(text, answers):
    return any(re.search(r"(?<!\w)" + re.escape(a) + r"(?!\w)", text, re.I) for a in answers)


NUMBER = {w: str(i) for i, w in enumerate("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
                                         "seventeen eighteen nineteen twenty".split())}


def numbers(text):
    """The numbers of a text, as digits without separators; marks of list items ("2. ") are none."""
    text = re.sub(r"(?m)^\s*\d+[.)]\s", " ", text)
    found = re.findall(r"\d+(?:[.,:]\d+)*", text) + [NUMBER[w] for w in re.findall(r"[a-z]+", text.lower()) if w in NUMBER]
    return {re.sub(r"[.,:]", "", n) for n in found}


def easy(args):
    folder = here / "questions/easy"
    questions = json.loads((folder / "easy.json").read_text())
    total = invented = endless = 0
    wrong = []
    for seed in range(1, args.seeds + 1):
        count = 0
        for q in questions:
            documents = [folder / d for d in q["documents"]]
            out = run(args.weir, ["--json", "--seed", str(seed), "-n", "96", *args.options, "-p", q["question"], *map(str, documents)])
            reply = json.loads(out.splitlines()[-1])
            text = reply["text"] or ""
            new = numbers(text) - numbers(q["question"]) - set().union(*(numbers(d.read_text()) for d in documents)) - {"1"}
            invented += bool(new)
            endless += reply["stop"] in ("length", "loop")
            if new:
                wrong.append(f"{q['id']} seed {seed}: invents {', '.join(new)}: {' '.join(text.split())[:300]!r}")
            if right(text, q["answers"]):
                count += 1
            else:
                wrong.append(f"{q['id']} seed {seed}: {q['question']} -> {' '.join(text.split())[:150]!r}")
        total += count
        print(f"seed {seed}: {count} of {len(questions)} right", flush=True)
    print(f"all seeds: of {args.seeds * len(questions)}: {total} right ({100 * total / (args.seeds * len(questions)):.1f} %), "
          f"{invented} with a number that stands in no document, {endless} without an end of their own")
    print(*wrong, sep="\n")


def score(q, reply, gold):
    """What one reply found: found, gold in the first, three and ten passages, right answer."""
    refused = reply.get("stop") == "not found" or reply.get("answered") is False
    passages = reply.get("passages") or []
    whole = not refused and not passages and bool(reply.get("text"))
    hit = [any(p["bytes"][0] < end and p["bytes"][1] > begin for begin, end in gold) for p in passages]
    marks = {"found": whole or bool(passages) and not refused}
    marks.update({f"gold in {n}": whole or any(hit[:n]) for n in (1, 3, 10)})
    if "answers" in q:
        marks["right"] = right(reply.get("text") or "", q["answers"])
    return marks


def rows(args):
    tokens = ["-n", "96" if args.answers else "12"]
    sums = {}
    lost = []
    for session in json.loads((here / "questions/rows/rows.json").read_text()):
        path = os.path.join(root, session["document"])
        if not os.path.exists(path):
            print("skipped, not there:", path)
            continue
        shown = subprocess.run([args.weir, "inspect", "document", "--json", path], stdin=subprocess.DEVNULL, capture_output=True)
        text = json.loads(shown.stdout)["text"]
        questions = session["questions"]
        out = run(args.weir, [*tokens, *args.options, "--json", "--each-line", path], "".join(q["question"] + "\n" for q in questions))
        in_row = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        if len(in_row) != len(questions):
            sys.exit(f"{path}: {len(in_row)} replies to {len(questions)} questions")
        for q, row in zip(questions, in_row):
            gold = []
            for g in q["gold"]:
                for m in re.finditer(r"\s+".join(map(re.escape, g.split())), text):
                    gold.append((len(text[:m.start()].encode()), len(text[:m.end()].encode())))
            if not gold:
                sys.exit(f"{path}: no gold of {q['question']!r} is in its text")
            lines = run(args.weir, [*tokens, *args.options, "--json", "-p", q["question"], path]).splitlines()
            alone = next((json.loads(line) for line in reversed(lines) if line.startswith("{")), {})
            kind = "follow-ups" if q.get("follows") else "questions"
            marks = {"alone": score(q, alone, gold), "in the row": score(q, row, gold)}
            for way, got in marks.items():
                sum_ = sums.setdefault((kind, way), {"all": 0})
                sum_["all"] += 1
                for name, value in got.items():
                    sum_[name] = sum_.get(name, 0) + value
            a, r = marks["alone"], marks["in the row"]
            worse = [name for name in ("found", "gold in 1", "gold in 3", "gold in 10") if a[name] and not r[name]]
            if worse and kind == "questions":
                lost.append(f"{'LOST ' if not r['found'] else 'worse'} {os.path.basename(path)}: {q['question']} ({', '.join(worse)})")
            elif not r["found"]:
                lost.append(f"not found in the row: {os.path.basename(path)}: {q['question']}")
        print(os.path.basename(path), "done", file=sys.stderr, flush=True)
    for (kind, way), got in sorted(sums.items(), reverse=True):
        names = ["found", "gold in 1", "gold in 3", "gold in 10"] + (["right"] if args.answers else [])
        print(f"{kind} {way:10}: of {got['all']}: " + ", ".join(f"{name} {got.get(name, 0)}" for name in names))
    print(*lost, sep="\n")


def main():
    argv = sys.argv[1:]
    options = []
    if "--" in argv:
        at = argv.index("--")
        argv, options = argv[:at], argv[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["easy", "rows"])
    parser.add_argument("--weir", default=str(root / "weir"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--answers", action="store_true")
    args = parser.parse_args(argv)
    args.weir = os.path.abspath(args.weir)
    args.options = options
    (easy if args.what == "easy" else rows)(args)


if __name__ == "__main__":
    main()
