#!/usr/bin/env python3
"""Numbers, dates and names of answers that are not in the sources.

  tests/measure/facts.py [--weir PATH] [--log FILE] [--home FOLDER] [--set NAME ...] [--most N] [--row N] [--skip N]
                         [--seed N] [-- OPTIONS of weir]
  tests/measure/facts.py --check FILE

Asks questions about documents with the settings that a user gets, each in a process of its own (--row N: N questions of
a document one after the other in one process), with seeds N, N + 1 and N + 2 by turns. --skip: leave out the first N.
Sets: own (tests/measure/questions), rows (questions/rows, the follow-ups behind the question before them), squad (every
seventh question of half b of squad-open.json, one document), wiki and essays (every third question of
tests/train/questions.jsonl about the two documents that are in ../shared/data). --most: of each set. Prints each word of an answer that
is neither in the passages shown so far (in a document that is read whole: in the document) nor in the question, then
counts. Looks a word up by rules of its own, not by those of app/retrieval/unsupported.c, which it judges:
- number: any word with a digit, and spelled numbers from zero to a million, cardinal or ordinal;
- name: a word with a capital letter inside a sentence, or at the beginning of one if it is in no list of English words;
  in questions in English alone.
A word counts as found if the sources have it in any case, with or without 's, or have it as a part of a word.
--home keeps the database of documents for the next run; --log writes a JSON line a process, --check FILE reads such
lines instead of asking."""
import argparse, json, os, pathlib, re, subprocess, sys, tempfile, time

here = pathlib.Path(__file__).resolve().parent
root = here.parents[1]
data = root / "../shared/data"
SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
VALUE = {w: str(i) for i, w in enumerate(SMALL)} | {w: str(20 + 10 * i) for i, w in enumerate(TENS)}
VALUE |= {"hundred": "100", "thousand": "1000", "million": "1000000"}
VALUE |= {w: str(i + 1) for i, w in enumerate("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split())}
WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W_]+(?:['\u2019][^\W_]+)*")


def forms(word):
    """The spellings under which a word is looked up: digits of a number, a name in lower case without 's."""
    low = re.sub(r"['\u2019]s?$", "", word.lower()).replace("\u2019", "'")
    if word[0].isdigit():
        return {re.sub(r"[.,:]", "", low)}
    return {VALUE[low], low} if low in VALUE else {low}


def sets(names, most, row):
    """Yield (set, document, questions, counted): the last `counted` questions count, those before them are asked first."""
    out = {name: [] for name in names}
    if "own" in out:
        for q in json.loads((here / "questions/questions.json").read_text()):
            out["own"].append((data / q["document"], ([q["first"]["question"]] if "first" in q else []) + [q["question"]]))
    if "rows" in out:
        for session in json.loads((here / "questions/rows/rows.json").read_text()):
            for i, q in enumerate(session["questions"]):
                before = [session["questions"][i - 1]["question"]] if q.get("follows") else []
                out["rows"].append((root / session["document"], before + [q["question"]]))
    if "squad" in out:
        number, asked, text = 0, [], []
        for article in json.loads((data / "ruler/squad-open.json").read_text())["data"]:
            text.append("# " + article["title"].replace("_", " "))
            for p in article["paragraphs"]:
                number += 1
                text.append(p["context"])
                asked += [q["question"].strip() for q in p["qas"] if number % 2]
        (work / "squad.md").write_text("\n\n".join(text))
        out["squad"] = [(work / "squad.md", [q]) for q in asked[::7]]
    if "wiki" in out or "essays" in out:
        (work / "essays.txt").write_text(json.loads((data / "ruler/pd-essays.json").read_text())["text"][:500000])
        at = {"e_wiki": ("wiki", data / "text/wiki.test.raw"), "e_essays": ("essays", work / "essays.txt")}
        (work / "wiki.txt").write_bytes(at["e_wiki"][1].read_bytes())
        at["e_wiki"] = ("wiki", work / "wiki.txt")
        for line in (root / "tests/train/questions.jsonl").read_text().splitlines()[::3]:
            q = json.loads(line)
            name, path = at.get(q["document"], (None, None))
            if name in out:
                out[name].append((path, [q["question"]]))
    for name, asked in out.items():
        alone = [(p, q) for p, q in asked[:most] if row == 1 or len(q) > 1]
        for path, questions in alone:
            yield name, path, questions, 1
        together = {}
        for path, questions in asked[:most] if row > 1 else ():
            if len(questions) == 1:
                together.setdefault(path, []).append(questions[0])
        for path, questions in together.items():
            for i in range(0, len(questions), row):
                yield name, path, questions[i:i + row], len(questions[i:i + row])


def ask(weir, home, path, questions, seed, options):
    """The replies to the questions, as weir --json writes them."""
    env = dict(os.environ, **{f"XDG_{kind}_HOME": str(home) for kind in ("DATA", "STATE", "CONFIG")})
    asked = "".join(" ".join(q.split()) + "\n" for q in questions)
    done = subprocess.run([weir, "-q", "-s", f"{os.getpid()}-{time.time()}", "--json", "--each-line", "-n", "200", "--seed", str(seed), *options, str(path)], env=env, input=asked.encode(), capture_output=True, timeout=3600)
    lines = [x for x in done.stdout.decode(errors="replace").splitlines() if x.startswith("{")]
    return [json.loads(line) for line in lines] if len(lines) == len(questions) else [{"error": done.stderr.decode(errors="replace")[-300:]}]


texts = {}


def text_of(weir, path):
    if path not in texts:
        texts[path] = subprocess.run([weir, "inspect", "document", str(path)], capture_output=True).stdout
    return texts[path]


def shown(weir, path, replies):
    """The text that stands beside the answers: passages, their places; the whole document if there are none."""
    list_ = [p for reply in replies for i, p in enumerate(reply.get("passages") or []) if i < 3 or p["sent"]]
    if not list_:
        return text_of(weir, path).decode(errors="replace")
    return "\n".join(text_of(weir, path)[s["bytes"][0]:s["bytes"][1]].decode(errors="replace") + "\n" + str(s.get("heading") or "") + " " + str(s.get("page") or "") for s in list_)


def logged(rows, log):
    for row in rows:
        if log:
            log.write(json.dumps(row) + "\n")
            log.flush()
        yield row


def missing(answer, given, english):
    """The words of an answer to look up that are in no given text, each with the 30 characters on both sides."""
    known = set().union(*(forms(w) for w in WORD.findall(given)), ("1",))
    low = given.lower()
    out = []
    for m in WORD.finditer(answer):
        word, before = m.group(), answer[:m.start()].rstrip(" \"'(*\u201c\u2018[")
        begins = not before or before[-1] in "\n.!?:"
        number = any(c.isdigit() for c in word) or word.lower() in VALUE
        name = english and len(word) > 1 and word[0].isupper() and not (begins and word.lower() in common)
        if number and re.search(r"(?:^|\n)\s*$", answer[:m.start()]) and answer[m.end():m.end() + 2] in (". ", ") "):
            continue
        if not number and not name or forms(word) & known:
            continue
        if re.search(r"(?<!\w)%s|%s(?!\w)" % ((re.escape(word.lower()),) * 2), low):
            continue
        out.append((word, answer[max(0, m.start() - 30):m.end() + 30].replace("\n", " ")))
    return out


def main():
    global work, common
    argv, options = sys.argv[1:], []
    if "--" in argv:
        argv, options = argv[:argv.index("--")], argv[argv.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default=str(root / "weir"))
    parser.add_argument("--set", nargs="+", default=["own", "rows", "squad", "wiki", "essays"])
    parser.add_argument("--most", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log")
    parser.add_argument("--check")
    parser.add_argument("--home")
    parser.add_argument("--row", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0)
    args = parser.parse_args(argv)
    weir = os.path.abspath(args.weir)
    common = {w.strip().lower() for w in (data / "ruler/english_words.txt").read_text().splitlines()}
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(args.home or temporary).resolve()
        work.mkdir(exist_ok=True)
        log = open(args.log, "w") if args.log else None
        if args.check:
            rows = map(json.loads, open(args.check))
        else:
            rows = ({"set": name, "document": str(path), "questions": questions, "counted": counted, "seed": args.seed + i % 3,
                     "replies": ask(weir, work, path, questions, args.seed + i % 3, options)}
                    for i, (name, path, questions, counted) in enumerate(sets(args.set, args.most, args.row)) if i >= args.skip)
        count = {}
        for row, at in ((row, at) for row in logged(rows, log) for at in range(len(row["replies"]) - row["counted"], len(row["replies"]))):
            reply, name, question = row["replies"][at], row["set"], row["questions"][at]
            c = count.setdefault(name, dict.fromkeys(("asked", "failed", "refused", "answers", "with a miss", "with one that weir does not list", "with a word that weir lists"), 0))
            c["asked"] += 1
            c["failed"] += "error" in reply
            if "error" in reply or not reply.get("answered"):
                c["refused"] += "error" not in reply
                continue
            c["answers"] += 1
            given = shown(weir, row["document"], row["replies"][:at + 1]) + "\n" + "\n".join(row["questions"][:at + 1]) + "\n" + os.path.basename(row["document"])
            miss = missing(reply["text"] or "", given, True)
            listed = reply.get("unsupported") or []
            unseen = [w for w, _ in miss if not any(w in x for x in listed)]
            c["with a word that weir lists"] += bool(listed)
            c["with a miss"] += bool(miss)
            c["with one that weir does not list"] += bool(unseen)
            for word, around in miss:
                there = not missing(around, text_of(weir, row["document"]).decode(errors="replace"), True)
                print(f"{name}: {word!r}{' (elsewhere in the document)' if there else ''}{' (not listed by weir)' if word in unseen else ''} in {around!r} | {question} | seed {row['seed']}", flush=True)
            for word in listed:
                if not any(w in word for w, _ in miss):
                    print(f"{name}: weir lists {word!r}, which is in a passage that was shown | {question} | seed {row['seed']}", flush=True)
        for name, c in count.items():
            print(f"{name}: " + ", ".join(f"{v} {k}" for k, v in c.items()))
        total = {k: sum(c[k] for c in count.values()) for k in next(iter(count.values()))}
        print("all: " + ", ".join(f"{v} {k}" for k, v in total.items()))


if __name__ == "__main__":
    main()
