#!/usr/bin/env python3
"""tests/measure/documents.py FOLDER [WEIR ...] - measures how well documents are imported: every file under FOLDER is
compared with what a second extractor makes of it. Several programs, such as an old and a new one, are measured side by side.

Prints a line for each file, then a table by format, then the ten worst files of each format. The second extractor is
mutool or pdftotext -layout for PDF, w3m for HTML, iconv for text. For EPUB it is Chromium, which shows the chapters in the
order of the spine (html_pages.py); for DOCX a walk through the paragraphs in the order of the XML, without deleted
text, with notes at the end. A format whose extractor is missing is not compared.
Character F1 compares runs of five letters and digits; white space and signs are ignored. Order is the share of
neighbouring blocks in the same order. Words lost, added, joined and split are counted as in html_pages.py.
"""
import collections, gzip, json, os, re, resource, statistics, subprocess, sys, tempfile, time, unicodedata, urllib.parse, zipfile
import xml.etree.ElementTree as xml

import html_pages

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


def local(element):
    return element.tag.rsplit("}", 1)[-1]


def value(element, name):
    return next((v for k, v in element.attrib.items() if k.rsplit("}", 1)[-1] == name), None)


def paragraphs(element, out, notes):
    """Append the text of an element of WordprocessingML, and the ids of the notes that it names."""
    name = local(element)
    if name in ("del", "moveFrom", "Fallback", "instrText", "delText", "rt"):
        return
    if name in ("t", "tab", "noBreakHyphen"):
        out.append({"t": element.text or "", "tab": " ", "noBreakHyphen": "-"}[name])
    if name in ("footnoteReference", "endnoteReference"):
        notes.append((name[:-9] + "s", value(element, "id")))
    if name in ("p", "tc", "br", "cr"):
        out.append("\n")
    for child in element:
        paragraphs(child, out, notes)
    if name == "p":
        out.append("\n")


def docx_text(path):
    out, notes = [], []
    with zipfile.ZipFile(path) as z:
        names = {n.lower(): n for n in z.namelist()}
        main = next(n for n in ("word/document.xml", "word/document2.xml") if n in names)
        paragraphs(xml.fromstring(z.read(names[main])), out, notes)
        for kind, ident in list(notes):
            part = names.get(f"word/{kind}.xml")
            for note in xml.fromstring(z.read(part)) if part else []:
                if value(note, "id") == ident:
                    paragraphs(note, out, [])
    return "".join(out)


def epub_text(path):
    """Return the text of the chapters in the order of the spine, as Chromium shows it."""
    with tempfile.TemporaryDirectory() as top, zipfile.ZipFile(path) as z:
        z.extractall(top)
        container = xml.fromstring(z.read("META-INF/container.xml"))
        package = next(e.get("full-path") for e in container.iter() if local(e) == "rootfile")
        root = xml.fromstring(z.read(package))
        items = {e.get("id"): e.get("href") for e in root.iter() if local(e) == "item"}
        spine = list(dict.fromkeys(items.get(e.get("idref")) for e in root.iter() if local(e) == "itemref"))
        files = [os.path.join(top, os.path.dirname(package), urllib.parse.unquote(h)) for h in spine if h]
        texts = html_pages.browser_texts("chromium", [f for f in files if os.path.exists(f)])
        return "\n".join(texts.get(f, ("", ""))[1] for f in files)


def second(path, kind):
    """Return the text that another extractor makes of the file, or None."""
    if kind == "pdf":
        return output("mutool", "draw", "-q", "-F", "txt", "-o", "-", path) or output("pdftotext", "-layout", path, "-")
    if kind == "html":
        return output("w3m", "-dump", "-cols", "200", "-T", "text/html", "-O", "UTF-8", path)
    if kind in ("epub", "docx"):
        try:
            return epub_text(path) if kind == "epub" else docx_text(path)
        except Exception as e:
            return print("no reference:", os.path.basename(path), e)
    data = open(path, "rb").read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
        inner = "html" if b"<html" in data[:2000].lower() else "pdf" if data[:5] == b"%PDF-" else None
        if inner:
            with tempfile.NamedTemporaryFile(suffix="." + inner) as f:
                f.write(data)
                f.flush()
                return second(f.name, inner)
    return data.decode(encoding(path, data), "replace")


def runs(text):
    s = "".join(c for c in unicodedata.normalize("NFKC", text).lower() if c.isalnum())
    return collections.Counter(s[i:i + RUN] for i in range(max(1, len(s) - RUN + 1)))


def measure(weir, path, others):
    """Return the figures of a file, or None if it is refused. others: texts of second() by path, which are added to."""
    start = time.monotonic()
    run = subprocess.run([weir, "inspect", "document", path, "--json"], stdin=subprocess.DEVNULL, capture_output=True)
    name, seconds = os.path.basename(path), time.monotonic() - start
    if run.returncode:
        return print("refused %-44s %s" % (name[:44], run.stderr.decode().strip()))
    d = json.loads(run.stdout)
    kind = "gzip" if open(path, "rb").read(2) == b"\x1f\x8b" else d["type"]
    if path not in others:
        others[path] = second(path, kind)
    other = others[path]
    m = html_pages.compare(other, d["text"]) if other and other.strip() else {}
    if m:
        m["runs"] = html_pages.f1(runs(d["text"]), runs(other))
    m.update(kind=kind, name=name, seconds=seconds, pages=d["pages"], headings=sum(x["kind"] == "heading" for x in d["marks"]))
    print("%-5s %s  %7d characters %5d pages %5d headings %5.1f s  %s  %s  %s" % (
        kind, "F1 %.3f order %.3f lost %d joined %d" % (m["runs"], m["order"], m["lost"], m["joined"]) if "runs" in m else "-",
        len(d["text"]), d["pages"], m["headings"], seconds, name, d["encoding"], "; ".join(d["notes"])), flush=True)
    return m


def spread(rows, key):
    v = sorted(r[key] for r in rows)
    return "%.3f, %.3f, %.3f" % (statistics.median(v), v[len(v) // 10], v[0]) if v else "-"


def summary(weir, rows):
    kinds = collections.defaultdict(list)
    for r in rows:
        if r:
            kinds[r["kind"]].append(r)
    print("\n%s: %d refused; of F1 and order: median, tenth, least" % (weir, rows.count(None)))
    print("| format | files | compared | words | character F1 | order of blocks | lost | added | joined | split | pages | headings | slowest |")
    for kind, all_of in sorted(kinds.items()):
        r = [x for x in all_of if "runs" in x]
        print("| %s | %d | %d | %d | %s | %s | %s | %d | %d | %.1f s |" % (
            kind, len(all_of), len(r), sum(x["n"] for x in r), spread(r, "runs"), spread(r, "order"),
            " | ".join(str(sum(x[k] for x in r)) for k in ("lost", "added", "joined", "split")),
            sum(x["pages"] for x in all_of), sum(x["headings"] for x in all_of), max(x["seconds"] for x in all_of)))
    for kind, all_of in sorted(kinds.items()):
        for x in sorted((x for x in all_of if "runs" in x), key=lambda x: x["runs"])[:10]:
            print("%s %.3f order %.3f joined %d %s\n    lost %d: %s\n    added %d: %s" % (
                kind, x["runs"], x["order"], x["joined"], x["name"], x["lost"], x["most"][0], x["added"], x["most"][1]))


def main():
    programs = [os.path.abspath(w) for w in sys.argv[2:] or ["./weir"]]
    paths = [os.path.join(top, n) for top, _, names in sorted(os.walk(sys.argv[1])) for n in sorted(names)]
    rows = {w: [] for w in programs}
    for path in paths:
        others = {}
        for w in programs:
            rows[w].append(measure(w, path, others))
    for w in programs:
        summary(w, rows[w])


main()
