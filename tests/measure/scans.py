#!/usr/bin/env python3
"""tests/measure/scans.py - measures how much of a scanned document is recognised.

    tests/measure/scans.py --weir ./weir --pages 50 TEXT         prints "50 pages, F1 least .97, mean .99, 150 s"
    tests/measure/scans.py --pages 3 --keep scan.pdf TEXT        only makes the scanned PDF

TEXT is set in pages of 46 lines, which pdftoppm draws at 300 dpi. The document is a PDF of these pictures. F1 compares
the words of each page, without punctuation and in any order. Needs pdftoppm and tesseract.
"""
import argparse, collections, json, re, subprocess, sys, tempfile, textwrap, time, zlib

LINES, COLUMNS = 46, 84


def write_pdf(path, objects):
    out, at = b"%PDF-1.4\n", []
    for i, o in enumerate(objects, 1):
        at.append(len(out))
        out += b"%d 0 obj\n" % i + o + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % a for a in at)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    with open(path, "wb") as f:
        f.write(out)


def stream(head, data):
    return b"<< " + head + b" /Length %d >>\nstream\n" % len(data) + data + b"\nendstream"


def write_pages(path, contents, resources, more):
    """Write a PDF. contents: the stream of each page. resources(i): the resources of page i. more: further objects, which
    follow the objects of the pages and are numbered from 3 + 2n on, n being the number of pages."""
    n = len(contents)
    kids = b" ".join(b"%d 0 R" % (3 + 2 * i) for i in range(n))
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, n)]
    for i, c in enumerate(contents):
        objects.append(b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R /Resources << %s >> >>"
                       % (4 + 2 * i, resources(i)))
        objects.append(stream(b"", c))
    write_pdf(path, objects + more)


def set_text(path, pages):
    def escape(s):
        return s.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)").encode("latin-1")
    contents = [b"BT /F 11 Tf 14 TL 72 730 Td " + b" ".join(b"(%s) Tj T*" % escape(line) for line in page) + b" ET"
                for page in pages]
    write_pages(path, contents, lambda i: b"/Font << /F %d 0 R >>" % (3 + 2 * len(pages)),
                [b"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman >>"])


def draw(path, n):
    """Let pdftoppm draw a page. Returns its width, height and grey values."""
    pgm = subprocess.run(["pdftoppm", "-r", "300", "-gray", "-f", str(n), "-l", str(n), path], check=True,
                         stdout=subprocess.PIPE).stdout
    head, size, _, grey = pgm.split(b"\n", 3)
    assert head == b"P5", head
    return [int(x) for x in size.split()] + [grey]


def scan(text, path, n):
    pictures = []
    for i in range(n):
        w, h, grey = draw(text, i + 1)
        pictures.append(stream(b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray "
                               b"/BitsPerComponent 8 /Filter /FlateDecode" % (w, h), zlib.compress(grey, 1)))
    write_pages(path, [b"612 0 0 792 0 0 cm /P Do"] * n, lambda i: b"/XObject << /P %d 0 R >>" % (3 + 2 * n + i), pictures)


def f1(want, got):
    want, got = (collections.Counter(re.findall(r"[A-Za-z0-9]+", s)) for s in (want, got))
    both = sum((want & got).values())
    return 2 * both / max(1, sum(want.values()) + sum(got.values()))


def pages_of(doc):
    text = doc["text"].encode()
    at = [m["at"] for m in doc["marks"] if m["kind"] == "page"] + [len(text)]
    return [text[a:b].decode() for a, b in zip(at, at[1:])]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("text")
    p.add_argument("--pages", type=int, default=50)
    p.add_argument("--weir", default="./weir")
    p.add_argument("--keep")
    o = p.parse_args()
    with open(o.text, encoding="utf-8") as f:
        paragraphs = f.read().encode("ascii", "ignore").decode().split("\n\n")
    lines = [line for para in paragraphs for line in textwrap.wrap(" ".join(para.split()), COLUMNS) + [""]]
    pages = [lines[i:i + LINES] for i in range(0, LINES * o.pages, LINES)]
    if len(pages[-1]) < LINES // 2:
        sys.exit("the text is too short")
    with tempfile.TemporaryDirectory() as d:
        set_text(d + "/text.pdf", pages)
        path = o.keep or d + "/scan.pdf"
        scan(d + "/text.pdf", path, len(pages))
        if o.keep:
            return
        begun = time.time()
        run = subprocess.run([o.weir, "inspect", "document", "--json", "-m", "/none", path], check=True, stdout=subprocess.PIPE)
        seconds = time.time() - begun
    doc = json.loads(run.stdout)
    got = pages_of(doc)
    assert len(got) == len(pages), (len(got), len(pages))
    scores = [f1(" ".join(a), b) for a, b in zip(pages, got)]
    print("%d pages, F1 least %.3f, mean %.3f, %.0f s" % (len(pages), min(scores), sum(scores) / len(scores), seconds))


main()
