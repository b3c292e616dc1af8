#!/usr/bin/env python3
"""tests/measure/needles.py BOOKS FOLDER [WEIR] - tests whether the passage that answers is found and named, in documents of
every format.

Makes documents of the prose in BOOKS (*.txt) in every format. Each has one made-up sentence (the needle) at a random
place. Half of the documents fit the context of the default model (--docs whole); the others are many times longer and
are searched. weir is asked for the needle. Counted are the documents for which the needle is in the first passage; is in
the quoted sentence of that passage; has the right page; has the right heading; and, if the document fits, is in the
paragraph with the most attention of the answer. Documents stay in FOLDER.
The environment sets the number of documents for each format and length, N (default 10), and SEED. Needs reportlab,
python-docx and ebooklib.
"""
import collections, glob, gzip, html, json, os, random, re, subprocess, sys

books, folder, weir = sys.argv[1], sys.argv[2], os.path.abspath(sys.argv[3] if len(sys.argv) > 3 else "./weir")
each, rand = int(os.environ.get("N", 10)), random.Random(int(os.environ.get("SEED", 1)))
os.makedirs(folder, exist_ok=True)

# Pairs of a sentence and its question. The question has other words than the sentence where that is possible.
THINGS = ["copper kettle", "walnut cabinet", "blue lantern", "iron gate", "brass telescope", "wicker basket", "silver whistle", "oak ladder",
          "marble bust", "leather satchel", "tin trumpet", "glass decanter"]
PLACES = ["Harwick", "Dunmore", "Eastlea", "Portallan", "Greyfield", "Millbrook", "Thornby", "Ravensea", "Kilmarten", "Oldbury", "Westerholt", "Carrowmore"]
NEEDLES = [
    ("The {thing} in the parish hall of {place} was sold to a dealer for {n} pounds.", "For how many pounds was the {thing} of {place} sold?"),
    ("At {place} the ferry carried exactly {n} passengers on the first day of its service.", "How many passengers did the ferry at {place} carry on its first day?"),
    ("The lighthouse keeper of {place} wrote the number {n} beside the {thing} in his inventory.", "Which number stands beside the {thing} in the inventory of the lighthouse keeper of {place}?"),
    ("The bridge at {place} is {n} feet long and was built without a single nail.", "How long is the bridge at {place}?"),
    ("In {place} the school library owns {n} atlases and one {thing}.", "How many atlases are in the school library of {place}?"),
    ("The well behind the {thing} at {place} has a depth of {n} fathoms.", "How deep is the well at {place}?"),
]


# Only books with blank lines between the paragraphs are used.
TEXTS = [t for t in (open(b, encoding="utf-8", errors="replace").read().replace("\r", "") for b in sorted(glob.glob(os.path.join(books, "*.txt"))))
         if t.count("\n\n") > 200]


def chapters(want):
    """Return chapters (title, paragraphs) from a random place in a book, with `want` bytes in all."""
    text = rand.choice(TEXTS)
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", text)]
    paragraphs = [p for p in paragraphs if 150 < len(p) < 2500 and not p.isupper()]
    at, out, size, n = rand.randrange(len(paragraphs) // 3), [], 0, 0
    part = max(want // rand.randint(4, 7), 1200) if want < 40000 else 9000
    while size < want and at < len(paragraphs):
        n += 1
        body, k = [], 0
        while k < part and at < len(paragraphs):
            body.append(paragraphs[at])
            k += len(paragraphs[at])
            at += 1
        size += k
        out.append((f"Chapter {n}: The {rand.choice(THINGS).title()} and the {rand.choice(['Storm', 'Voyage', 'Letter', 'Garden', 'Winter', 'Visitor'])}", body))
    return out


def write_txt(path, parts, needle):
    with open(path, "w") as f:
        f.write("\f".join("\n\n".join([t] + [wrapped(p) for p in b]) + "\n" for t, b in parts))
    return {"page": next(i for i, (t, b) in enumerate(parts, 1) if needle in b)}


def wrapped(p):
    import textwrap
    return "\n".join(textwrap.wrap(p, 76))


def write_gz(path, parts, needle):
    with gzip.open(path, "wt") as f:
        f.write("\n\n".join("\n\n".join([t] + b) for t, b in parts))
    return {}


def write_md(path, parts, needle):
    with open(path, "w") as f:
        f.write("\n\n".join("\n\n".join(["## " + t] + b) for t, b in parts) + "\n")
    return {"heading": next(t for t, b in parts if needle in b)}


def body(parts):
    return "".join(f"<h2>{html.escape(t)}</h2>" + "".join(f"<p>{html.escape(p)}</p>\n" for p in b) for t, b in parts)


def write_html(path, parts, needle):
    with open(path, "w") as f:
        f.write(f"<!doctype html><html><head><meta charset=utf-8><title>A book</title></head><body><nav><a href=x>Home</a></nav><main>{body(parts)}</main></body></html>")
    return {"heading": next(t for t, b in parts if needle in b)}


def write_epub(path, parts, needle):
    from ebooklib import epub
    book = epub.EpubBook()
    book.set_identifier(path)
    book.set_title("A book")
    book.set_language("en")
    items = []
    for i, (t, b) in enumerate(parts):
        c = epub.EpubHtml(title=t, file_name=f"c{i}.xhtml", lang="en")
        c.content = f"<html><body>{body([(t, b)])}</body></html>"
        book.add_item(c)
        items.append(c)
    book.toc, book.spine = items, items
    book.add_item(epub.EpubNcx())
    book.add_item(epub.EpubNav())
    epub.write_epub(path, book)
    return {"heading": next(t for t, b in parts if needle in b)}


def write_docx(path, parts, needle):
    import docx
    d = docx.Document()
    for i, (t, b) in enumerate(parts):
        if i:
            d.add_page_break()
        d.add_heading(t, 1)
        for p in b:
            d.add_paragraph(p)
    d.save(path)
    return {"heading": next(t for t, b in parts if needle in b), "page": next(i for i, (t, b) in enumerate(parts, 1) if needle in b)}


def write_pdf(path, parts, needle):
    from reportlab.lib.pagesizes import A4, A5
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import SimpleDocTemplate, Paragraph, PageBreak, Spacer
    style, found = getSampleStyleSheet(), {}

    class Document(SimpleDocTemplate):
        def afterFlowable(self, f):
            if getattr(f, "needle", False):
                found["page"] = self.page

    def foot(canvas, doc):
        canvas.drawString(60, 30, "A book")
        canvas.drawRightString(doc.pagesize[0] - 60, 30, str(doc.page))

    flow = []
    for t, b in parts:
        flow.append(Paragraph(html.escape(t), style["Heading1"]))
        for p in b:
            x = Paragraph(html.escape(p), style["BodyText"])
            x.needle, x.keepWithNext = p == needle, 0
            x.splitLongWords = 0
            flow += [x, Spacer(1, 4)]
        flow.append(PageBreak())
    Document(path, pagesize=rand.choice([A4, A5])).build(flow, onFirstPage=foot, onLaterPages=foot)
    found["heading"] = next(t for t, b in parts if needle in b)
    return found


FORMATS = {"txt": write_txt, "txt.gz": write_gz, "md": write_md, "html": write_html, "epub": write_epub, "docx": write_docx, "pdf": write_pdf}


def ask(question, path, how):
    r = subprocess.run([weir, "--private", "-q", "-p", question, path, "--docs", how, "--json", "-n", "24", "--temp", "0"],
                       stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if not r.stdout:
        sys.exit(f"{path}: {r.stderr.strip()}")
    return json.loads(r.stdout), r.stderr


def main():
    print("| format | length | first | quoted | answered | attention first | page right | heading right |\n|---|---|---|---|---|---|---|---|")
    for ending, write in FORMATS.items():
        for how in ("whole", "passages"):
            got = collections.Counter()
            for i in range(each):
                words = {"thing": rand.choice(THINGS), "place": rand.choice(PLACES), "n": rand.randint(103, 997)}
                sentence, question = (s.format(**words) for s in rand.choice(NEEDLES))
                parts = chapters(rand.randint(9000, 17000) if how == "whole" else rand.randint(150000, 400000))
                title, paragraphs = parts[rand.randrange(len(parts))]
                paragraphs.insert(rand.randrange(len(paragraphs) + 1), sentence)
                path = os.path.join(folder, f"{how}{i}.{ending}")
                want = write(path, parts, sentence)
                d, err = ask(question, path, how)
                first = next(iter(d["passages"]), None)
                right = bool(first) and str(words["n"]) in first["text"]
                got["first"] += bool(first) and right_place(first, path, sentence)
                got["quoted"] += right
                got["answered"] += str(words["n"]) in d["text"]
                e = max(d["evidence"], key=lambda x: x["share"], default=None)
                got["attention"] += bool(e) and right_place(e, path, sentence)
                for key in ("page", "heading"):
                    if key in want and first and right:
                        got["n " + key] += 1
                        ok = str(first[key]) == str(want[key]) if key == "page" else first[key] == want[key]
                        got[key] += ok
                        if not ok:
                            print(f"# {path}: {key} {first[key]!r}, not {want[key]!r}", file=sys.stderr)
                if not right:
                    print(f"# {path}: {question} | {first and first['text']!r} | {err.strip()[:100]}", file=sys.stderr)
            share = lambda k: f"{got[k]} of {got['n ' + k]}" if got["n " + k] else ""
            print(f"| {ending} | {how} | {got['first']} | {got['quoted']} | {got['answered']} | {got['attention']} | {share('page')} | {share('heading')} |", flush=True)


def right_place(passage, path, sentence):
    """Tell whether the bytes of the first passage contain the needle."""
    r = subprocess.run([weir, "inspect", "document", path], capture_output=True, stdin=subprocess.DEVNULL)
    a, b = passage["bytes"]
    return " ".join(sentence.split())[:40] in " ".join(r.stdout[a:b].decode("utf-8", "replace").split())


main()
