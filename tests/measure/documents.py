#!/usr/bin/env python3
"""tests/measure/documents.py FOLDER [WEIR] - measures how well documents are imported: every file under FOLDER is
compared with what a second extractor makes of it.

Prints a line for each file, then a table by format: number of files, character F1 (median and least), pages and headings
found, seconds, and the most MiB of memory.
The second extractor is mutool or pdftotext -layout for PDF, w3m for HTML, pandoc for EPUB and DOCX, iconv for text. A
format whose extractor is missing has no F1. Character F1 compares runs of five letters and digits; white space and signs
are ignored. With V=1, runs that only one of the two texts has are printed.
"""
import collections, json, os, re, resource, statistics, subprocess, sys, tempfile, time, unicodedata

folder, weir = sys.argv[1], os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "./weir")
RUN = 5


def output(*command, stdin=None):
    try:
        return subprocess.run(command, stdin=stdin or subprocess.DEVNULL, capture_output=True, timeout=300).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""


def encoding(path, data):
    """Return the encoding of a plain text: by its byte order mark, by the file's name (x.koi8-r.txt), or UTF-8."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    word = re.search(r"\.(koi8-r|koi8-u|euc-jp|euc-kr|shift_jis|big5|gb18030|iso-8859-\d+|windows-\d+|cp\d+)\.", os.path.basename(path).lower())
    return word.group(1) if word else "utf-8-sig"


def second(path, kind):
    """Return the text that another extractor makes of the file, or None."""
    if kind == "pdf":
        return output("mutool", "draw", "-q", "-F", "txt", "-o", "-", path) or output("pdftotext", "-layout", path, "-")
    if kind == "html":
        return output("w3m", "-dump", "-cols", "200", "-T", "text/html", "-O", "UTF-8", path)
    if kind in ("epub", "docx"):
        return output("pandoc", "-f", kind, "-t", "plain", "--wrap=none", path)
    data = open(path, "rb").read()
    if data[:2] == b"\x1f\x8b":
        import gzip
        data = gzip.decompress(data)
        if b"<html" in data[:2000].lower():
            with tempfile.NamedTemporaryFile(suffix=".html") as f:
                f.write(data)
                f.flush()
                return second(f.name, "html")
        if data[:5] == b"%PDF-":
            with tempfile.NamedTemporaryFile(suffix=".pdf") as f:
                f.write(data)
                f.flush()
                return second(f.name, "pdf")
    return data.decode(encoding(path, data), "replace")


def runs(text):
    letters = [c for c in unicodedata.normalize("NFKC", text).lower() if c.isalnum()]
    s = "".join(letters)
    return collections.Counter(s[i:i + RUN] for i in range(max(1, len(s) - RUN + 1)))


def f1(a, b):
    x, y = runs(a), runs(b)
    both, n, m = sum((x & y).values()), sum(x.values()), sum(y.values())
    return (2 * both / (n + m), both / n, both / m) if both else (0, 0, 0)


rows, failed = collections.defaultdict(list), 0
for top, _, names in sorted(os.walk(folder)):
    for name in sorted(names):
        path = os.path.join(top, name)
        start = time.monotonic()
        run = subprocess.run([weir, "inspect", "document", path, "--json"], stdin=subprocess.DEVNULL, capture_output=True)
        seconds = time.monotonic() - start
        if run.returncode:
            print("refused %-44s %s" % (name[:44], run.stderr.decode().strip()))
            failed += 1
            continue
        d = json.loads(run.stdout)
        gz = open(path, "rb").read(2) == b"\x1f\x8b"
        kind = "gzip" if gz else d["type"]
        other = second(path, d["type"] if not gz else "gzip")
        score = f1(d["text"], other) if other else (None, 0, 0)
        headings = sum(m["kind"] == "heading" for m in d["marks"])
        kilo = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        rows[kind].append((score[0], d["pages"], headings, seconds, name, len(d["text"])))
        print("%-5s %s  of ours %.3f of theirs %.3f  %7d characters %5d pages %5d headings %5.1f s  %s  %s  %s" % (
            kind, "%.3f" % score[0] if other else "  -  ", score[1], score[2], len(d["text"]), d["pages"], headings, seconds, name, d["encoding"],
            "; ".join(d["notes"])), flush=True)
print("\n| format | files | character F1, median | least | pages | headings | slowest |\n|---|---|---|---|---|---|---|")
for kind, r in sorted(rows.items()):
    scores = [x[0] for x in r if x[0] is not None]
    least = min((x for x in r if x[0] is not None), default=None)
    print("| %s | %d | %s | %s | %d | %d | %.1f s |" % (
        kind, len(r), "%.3f" % statistics.median(scores) if scores else "-", "%.3f (%s)" % (least[0], least[4]) if least else "-",
        sum(x[1] for x in r), sum(x[2] for x in r), max(x[3] for x in r)))
print("\n%d refused" % failed)
