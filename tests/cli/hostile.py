#!/usr/bin/env python3
"""tests/cli/hostile.py DIR WEIR [all] - documents made to harm whoever reads them, each read once by `weir inspect document`.

Prints "ok NAME" or "bad NAME: WHY" a line.  A document is read within 60 seconds and 1 GiB, ends with exit status 0 and text, or with 4 and
one line; no file appears, no connection is made to the address that the documents name, and the secret file that they name stays secret.
Called by tests/cli/s_import.sh with an eighth of the size where size is the harm, and by tests/soak.sh whole ("all").
"""
import gzip, io, os, re, random, resource, socket, struct, subprocess, sys, threading, time, zipfile, zlib

top, weir, whole = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:] == ["all"]
files, secret = os.path.join(top, "files"), os.path.join(top, "secret.txt")
os.makedirs(files)
open(secret, "w").write("SECRET-CANARY\n")
server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
calls = []


def listen():
    while True:
        calls.append(server.accept()[1])


threading.Thread(target=listen, daemon=True).start()
names, random_ = [], random.Random(18)


def part(n):
    return n if whole else n // 8


def add(name, data):
    if isinstance(data, str):
        data = data.encode()
    open(os.path.join(files, name), "wb").write(data)
    names.append(name)


# ---- zip: EPUB, DOCX and OpenDocument ----

CONTAINER = '<?xml version="1.0"?><container><rootfiles><rootfile full-path="%s"/></rootfiles></container>'
OPF = '<?xml version="1.0"?><package><manifest>%s</manifest><spine>%s</spine></package>'
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
BODY = '<?xml version="1.0"?><w:document ' + W + '><w:body>%s</w:body></w:document>'
P = '<w:p><w:r><w:t>%s</w:t></w:r></w:p>'


def pack(entries, mode=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", mode) as z:
        for name, data in entries:
            z.writestr(name, data)
    return out.getvalue()


def epub(chapters, container=None, opf=None, more=()):
    items = "".join('<item id="c%d" href="%s"/>' % (i, h) for i, (h, _) in enumerate(chapters))
    spine = "".join('<itemref idref="c%d"/>' % i for i in range(len(chapters)))
    return pack([("META-INF/container.xml", container or CONTAINER % "book.opf"), ("book.opf", opf or OPF % (items, spine))] +
                [(h, t) for h, t in chapters if t is not None] + list(more))


def docx(body, more=(), head=""):
    text = BODY % body
    return pack([("[Content_Types].xml", "<Types/>"), ("word/document.xml", text.replace("?>", "?>" + head, 1) if head else text)] + list(more))


ODF_NAMES = ('xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
             'xmlns:s="urn:oasis:names:tc:opendocument:xmlns:style:1.0" xmlns:b="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
             'xmlns:d="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:x="http://www.w3.org/1999/xlink"')
ODF_TYPE = "application/vnd.oasis.opendocument."


def odf_xml(body, kind="text", styles="", head=""):
    return ('<?xml version="1.0"?>%s<office:document %s xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" o:mimetype="%s"><o:styles>%s</o:styles>'
            "<o:body><o:%s>%s</o:%s></o:body></office:document>" % (head, ODF_NAMES, ODF_TYPE + kind, styles, kind, body, kind))


def odf(body, kind="text", styles="", head="", more=()):
    mime = zipfile.ZipInfo("mimetype")
    mime.compress_type = zipfile.ZIP_STORED
    return pack([(mime, ODF_TYPE + kind), ("content.xml", odf_xml(body, kind, styles, head))] + list(more))


good_rtf = "{\\rtf1\\ansi{\\fonttbl{\\f0\\fcharset204 X;}}\\pard\\f0 paragraph \\'cf\\u8364? text\\par}"
add("good.rtf", good_rtf)
add("deep.rtf", "{\\rtf1 " + "{\\b " * part(1 << 20) + "deep")
add("bin.rtf", "{\\rtf1 a{\\bin99999999999 b}{\\bin-5 c}\\par d}")
add("code-pages.rtf", "{\\rtf1\\ansicpg99999 " + "{\\f0\\'cf}{\\f1 \\'93\\'fa}" * part(200000) + "}")
add("fonts.rtf", "{\\rtf1{\\fonttbl" + "".join("{\\f%d\\fcharset128 x;}" % i for i in range(50000)) + "}\\f49999 \\'93\\'fa text}")
add("units.rtf", "{\\rtf1\\uc15 " + "\\u-10179\\u0\\u-8704 " * 100000 + "text}")
add("rows.rtf", "{\\rtf1 " + "\\trowd\\cell" * part(1 << 20) + " text\\row}")
add("notes.rtf", "{\\rtf1 " + "{\\footnote {\\footnote x" * 50000 + "text}")
add("bare.rtf", "{\\rtf")
add("objects.rtf", "{\\rtf1 text{\\object\\objupdate{\\*\\objclass http://127.0.0.1:%d/x}{\\*\\objdata 00}}{\\field{\\*\\fldinst INCLUDETEXT \"file://%s\"}}}" % (port, secret))

page = "<html><body><p>chapter text</p></body></html>"
good_odt = odf("<t:p>paragraph text</t:p>")
add("good.odt", good_odt)
add("good.fodt", odf_xml("<t:p>paragraph text</t:p>"))
add("bomb-content.odt", odf("<t:p>" + " " * part(90 << 20) + "x</t:p>"))
row = '<b:table-row b:number-rows-repeated="%d"><b:table-cell b:number-columns-repeated="%d"><t:p>%s</t:p></b:table-cell></b:table-row>'
add("rows.ods", odf("<b:table>" + row % (1 << 40, 1 << 40, "text") * 300 + "</b:table>", "spreadsheet"))
add("long-rows.ods", odf("<b:table>" + row % (999999, 1, "text " * 20000) * 50 + "</b:table>", "spreadsheet"))
add("blanks.odt", odf('<t:p>x<t:s t:c="2000000000"/>y</t:p>' * 1000))
add("deep.odt", odf("<b:table><b:table-row><b:table-cell>" * 60000 + "<t:p>deep</t:p>"))
add("deep-closed.odt", odf("<t:list><t:list-item>" * 60 + "<t:p>deep</t:p>" + "</t:list-item></t:list>" * 60 + "<t:p>" + "<d:frame><d:text-box><t:p>x" * 60 +
    "</t:p></d:text-box></d:frame>" * 60 + "</t:p>"))
add("styles-loop.odt", odf('<t:p t:style-name="A">x</t:p>', styles='<s:style s:name="A" s:family="paragraph" s:parent-style-name="B"/>'
    '<s:style s:name="B" s:family="paragraph" s:parent-style-name="A"/>'))
add("styles-many.odt", odf('<t:p t:style-name="P1">x</t:p>' * 20000, styles="".join('<s:style s:name="P%d" s:family="paragraph"/>' % i for i in range(60000))))
add("lists-many.odt", odf("".join('<t:list xml:id="l%d" t:style-name="L" t:continue-list="%s"><t:list-item><t:p>x</t:p></t:list-item></t:list>' % (i, "l0" if i % 2 else "none")
    for i in range(part(200000))), styles='<t:list-style s:name="L"><t:list-level-style-number t:level="1" s:num-format="a"/></t:list-style>'))
add("notes-many.odt", odf("<t:p>x<t:note><t:note-body><t:p>" + "note " * 20 + "</t:p></t:note-body></t:note></t:p>" * 30000))
add("objects.odt", odf('<t:p>x<d:frame><d:object x:href="./O"/></d:frame></t:p>' * part(3000), more=[("O/content.xml",
    '<math xmlns="http://www.w3.org/1998/Math/MathML">' + "<mrow><mi>a</mi></mrow>" * 3000 + "</math>")]))
add("object-itself.odt", odf('<t:p>text<d:frame><d:object x:href=""/></d:frame><d:frame><d:object x:href="../../etc/passwd"/></d:frame></t:p>'))
add("locked.odt", odf("<t:p>x</t:p>", more=[("META-INF/manifest.xml", "<m><encryption-data/></m>")]))
add("numbers.odt", odf('<t:h t:outline-level="99999999999999999999">x</t:h><t:h t:outline-level="-5" t:start-value="99999999999999">y</t:h>'))
add("unclosed.odt", odf_xml("<t:p>begun")[:-40])
good_epub, good_docx = epub([("a.xhtml", page)]), docx(P % "paragraph text")
add("good.epub", good_epub)
add("good.docx", good_docx)
add("bomb-document.docx", docx(P % (" " * part(90 << 20))))
add("bomb-chapter.epub", epub([("a.xhtml", "<p>" + "A" * part(70 << 20))]))
add("bomb-chapters.epub", epub([("c%d.xhtml" % i, "<p>" + "A" * part(9 << 20)) for i in range(12)]))
add("many-entries.epub", epub([("a.xhtml", page)], more=[("x%d" % i, "") for i in range(20000 if whole else 10001)]))
add("many-chapters.epub", epub([("a.xhtml", page)], opf=OPF % ('<item id="a" href="a.xhtml"/>', '<itemref idref="a"/>' * 200000)))
for i, href in enumerate(("../../../../../../../.." + secret, secret, "file://" + secret, "..\\..\\secret.txt", "C:\\secret.txt", "%2e%2e/%2e%2e" + secret,
                          "http://127.0.0.1:%d/x" % port, "//127.0.0.1:%d/x" % port, "a\x00b", "")):
    add("href-%d.epub" % i, epub([("a.xhtml", page)], opf=OPF % ('<item id="a" href="a.xhtml"/><item id="b" href="%s"/>' % href.replace("\x00", "%00"),
                                                                   '<itemref idref="b"/><itemref idref="a"/>')))
for i, name in enumerate(("../../traversal.xhtml", "/tmp/traversal.xhtml", "..\\traversal.xhtml", "a/../../traversal", ".." * 200 + "/x")):
    add("entry-%d.epub" % i, epub([("a.xhtml", page)], more=[(name, "written?")]))
link = zipfile.ZipInfo("a.xhtml")
link.create_system, link.external_attr = 3, 0o120777 << 16
add("symlink-chapter.epub", epub([("a.xhtml", None)], more=[(link, secret)]))
add("itself.epub", epub([("book.opf", None)], opf=OPF % ('<item id="c0" href="book.opf"/>', '<itemref idref="c0"/>')))
add("nested.epub", epub([("a.xhtml", good_epub)]))
doctypes = {
    "file": '<!DOCTYPE r [<!ENTITY x SYSTEM "file://%s">]>' % secret,
    "http": '<!DOCTYPE r [<!ENTITY x SYSTEM "http://127.0.0.1:%d/x">]>' % port,
    "parameter": '<!DOCTYPE r [<!ENTITY %% p SYSTEM "http://127.0.0.1:%d/x">%%p;<!ENTITY x "y">]>' % port,
    "dtd": '<!DOCTYPE r SYSTEM "http://127.0.0.1:%d/x.dtd">' % port,
    "laughs": "<!DOCTYPE r [<!ENTITY a0 'ha'>" + "".join("<!ENTITY a%d '%s'>" % (i, "&a%d;" % (i - 1) * 10) for i in range(1, 10)) + "<!ENTITY x '&a9;'>]>",
    "quadratic": "<!DOCTYPE r [<!ENTITY x '" + "A" * 100000 + "'>]>",
    "itself": "<!DOCTYPE r [<!ENTITY x '&y;'><!ENTITY y '&x;'>]>",
}
for kind, doctype in doctypes.items():
    add("entity-%s.odt" % kind, odf("<t:p>%s</t:p>" % ("&x;" * (1 if kind == "laughs" else 5000)), head=doctype))
    add("entity-%s.docx" % kind, docx(P % ("&x;" * (1 if kind == "laughs" else 5000)), head=doctype))
    add("entity-%s-container.epub" % kind, epub([("a.xhtml", page)], container=CONTAINER.replace("?>", "?>" + doctype.replace("%", "%%")) % "&x;"))
    add("entity-%s-chapter.epub" % kind, epub([("a.xhtml", '<?xml version="1.0"?>' + doctype + "<html><body><p>&x;</p></body></html>")]))
    add("entity-%s.html" % kind, '<?xml version="1.0"?>' + doctype.replace("DOCTYPE r", "DOCTYPE html") + "<html><body><p>before &x; after</p></body></html>")
add("xinclude.docx", docx('<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file://%s" parse="text"/>' % secret + P % "text"))
add("deep.docx", docx("<w:tbl><w:tr><w:tc>" * 60000 + P % "deep"))
add("deep-closed.docx", docx("<w:sdt>" * 250 + P % "deep" + "</w:sdt>" * 250))
add("unclosed.docx", docx("<w:p><w:r><w:t>begun"))
add("styles-loop.docx", docx('<w:p><w:pPr><w:pStyle w:val="A"/></w:pPr><w:r><w:t>x</w:t></w:r></w:p>', more=[
    ("word/styles.xml", '<w:styles %s><w:style w:styleId="A"><w:basedOn w:val="B"/></w:style><w:style w:styleId="B"><w:basedOn w:val="A"/></w:style></w:styles>' % W)]))
add("notes-many.docx", docx('<w:p><w:r><w:footnoteReference w:id="1"/></w:r></w:p>' * 30000, more=[
    ("word/footnotes.xml", '<w:footnotes %s><w:footnote w:id="1">%s</w:footnote></w:footnotes>' % (W, P % ("note " * 200)))]))
add("numbers.docx", docx('<w:p><w:pPr><w:numPr><w:ilvl w:val="99999999999999999999"/><w:numId w:val="-5"/></w:numPr></w:pPr><w:r><w:t>x</w:t></w:r></w:p>' + P % "y"))
for name, data in (("epub", good_epub), ("docx", good_docx), ("odt", good_odt), ("rtf", good_rtf.encode())):
    for cut in (5, 30, 90, len(data) // 2, len(data) - 22, len(data) - 1):
        add("cut-%d.%s" % (cut, name), data[:cut])
    for i in range(12):
        bad = bytearray(data)
        for _ in range(6):
            bad[random_.randrange(4, len(bad))] = random_.randrange(256)
        add("flipped-%d.%s" % (i, name), bytes(bad))
locked = bytearray(good_docx)
for sign, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
    where = -1
    while (where := locked.find(sign, where + 1)) >= 0:
        locked[where + at] |= 1
add("locked.docx", bytes(locked))
add("drm.epub", epub([("a.xhtml", page)], more=[("META-INF/encryption.xml", '<encryption><EncryptedData><CipherData><CipherReference URI="a.xhtml"/></CipherData></EncryptedData></encryption>')]))


def overlapping(n):
    """One stored local entry that n names of the directory share."""
    body = zlib.compress(b"<p>" + b"B" * (3 << 20))[2:-4]
    crc = zlib.crc32(b"<p>" + b"B" * (3 << 20))
    data = epub([("c%d.xhtml" % i, None) for i in range(n)])
    end = data.rfind(b"PK\5\6")
    n_entries, size, at = struct.unpack("<HII", data[end + 10:end + 20])
    name = b"c0.xhtml"
    local = struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, 0, 8, 0, 0, crc, len(body), (3 << 20) + 3, len(name), 0) + name + body
    central = b"".join(struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, 0, 8, 0, 0, crc, len(body), (3 << 20) + 3, len(b"c%d.xhtml" % i), 0, 0, 0, 0, 0, at)
                       + b"c%d.xhtml" % i for i in range(n))
    return data[:at] + local + data[at:end] + central + struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, n_entries + n, n_entries + n, size + len(central), at + len(local), 0)


add("overlapping.epub", overlapping(2000))



def central(entries, sizes=None, n=None):
    """A zip by hand: (name, stored bytes) each, and the sizes and the count that its directory states."""
    out, directory = bytearray(), bytearray()
    for name, data in entries:
        crc, size = zlib.crc32(data), sizes or (len(data), len(data))
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, 0, 0, 0, 0, crc, *size, len(name), 0, 0, 0, 0, 0, len(out)) + name
        out += struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, 0, 0, 0, 0, crc, *size, len(name), 0) + name + data
    count = min(n or len(entries), 0xffff)
    end = struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, count, count, len(directory), len(out), 0)
    return bytes(out + directory + end)


plain = [(b"META-INF/container.xml", (CONTAINER % "o").encode()), (b"o", (OPF % ('<item id="a" href="a"/>', '<itemref idref="a"/>')).encode()), (b"a", page.encode())]
add("sizes-zero.epub", central(plain, (0, 0)))
add("sizes-huge.epub", central(plain, (0x7fffffff, 0x7fffffff)))
add("sizes-zip64.epub", central(plain, (0xffffffff, 0xffffffff)))
add("count.epub", central(plain, n=60000))
add("directory-offset.epub", central(plain)[:-6] + struct.pack("<IH", 0xfffffff0, 0))
add("comment.epub", central(plain)[:-2] + b"\xff\xff" + b"PK\5\6" * 15000)
add("same-names.docx", central([(b"word/document.xml", (BODY % (P % ("copy %d" % i))).encode()) for i in range(3000)]))
if whole:
    add("entries-million.epub", central(plain + [(b"x%d" % i, b"") for i in range(1000000)]))
add("spine-loop.epub", epub([("a.xhtml", page)], opf=OPF % ('<item id="a" href="a.xhtml" fallback="b" media-overlay="a"/><item id="b" href="o" fallback="a"/><item id="n" '
    'href="n" properties="nav"/>', '<itemref idref="b"/><itemref idref="n"/><itemref idref="a"/>' * 3000), more=[("n", "<html><body><nav><a href='n'>" * 2000)]))
add("container-loop.epub", epub([("a.xhtml", page)], container=CONTAINER % "META-INF/container.xml"))
add("labels.epub", epub([("a.xhtml", "<p>text</p>")], opf=OPF % ('<item id="a" href="a.xhtml"/><item id="n" href="n" properties="nav"/>', '<itemref idref="a"/>'),
                        more=[("n", "<html><body><nav>" + "<a href='a.xhtml'>%s</a>" % ("x" * 500) * 20000 + "</nav></body></html>")]))
RELS = ('<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="%s" Target="%s" TargetMode="External"/></Relationships>')
for i, (kind, target) in enumerate((("attachedTemplate", "http://127.0.0.1:%d/t.dotm" % port), ("oleObject", "file://" + secret), ("image", "\\\\127.0.0.1\\x.png"),
                                    ("frame", "http://127.0.0.1:%d/f" % port), ("footnotes", "file://" + secret))):
    add("relation-%d.docx" % i, docx('<w:altChunk r:id="r1" xmlns:r="r"/>' + P % "text", more=[
        ("word/_rels/document.xml.rels", RELS % ("http://schemas.openxmlformats.org/officeDocument/2006/relationships/" + kind, target)),
        ("word/_rels/settings.xml.rels", RELS % (kind, target))]))
add("fields.docx", docx('<w:p><w:r><w:instrText>INCLUDETEXT "file://%s" DDEAUTO c:\\x INCLUDEPICTURE "http://127.0.0.1:%d/x"</w:instrText></w:r></w:p>' % (secret, port) + P % "text"))
add("utf-16-entity.docx", pack([("word/document.xml", ('<?xml version="1.0" encoding="UTF-16"?>' + doctypes["file"] + BODY[21:] % (P % "&x;")).encode("utf-16"))]))
add("utf-7.docx", pack([("word/document.xml", '<?xml version="1.0" encoding="UTF-7"?>' + BODY[21:] % (P % "+ADw-x+AD4-"))]))
add("attributes.docx", docx("<w:p %s/>" % " ".join('a%d="1"' % i for i in range(part(200000))) + P % "text"))
add("namespaces.docx", docx("".join('<w:p xmlns:n%d="n%d">' % (i, i) for i in range(200)) + P % "text" + "</w:p>" * 200))
add("numbering.docx", docx('<w:p><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>x</w:t></w:r></w:p>' * 2000, more=[("word/numbering.xml",
    '<w:numbering %s><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:start w:val="99999999999999999999"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="%s"/></w:lvl>'
    '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>' % (W, "%1" * 15))]))
add("text-boxes.docx", docx("<w:p><w:r><w:txbxContent>" * 60 + P % "deep" + "</w:txbxContent></w:r></w:p>" * 60))

# ---- gzip ----

add("bomb.gz", gzip.compress(b"\0" * part(300 << 20), 9))
add("bomb-text.html.gz", gzip.compress(b"<p>" + b"word " * part(40 << 20), 9))
add("twice.gz", gzip.compress(gzip.compress(b"text")))
add("bomb-in-bomb.gz", gzip.compress(gzip.compress(b"\0" * part(64 << 20), 9) * 3, 9))
add("bomb-inside.epub.gz", gzip.compress(epub([("a.xhtml", "<p>" + "A" * part(70 << 20))]), 9))
add("cut.txt.gz", gzip.compress(b"text " * 10000)[:60])
add("tail.txt.gz", gzip.compress(b"text " * 100) + b"garbage" * 100)
add("members.txt.gz", gzip.compress(b"one ") * 20000)
add("empty.gz", gzip.compress(b""))

# ---- HTML ----

M = part(1 << 20)
for name, text in {
    "deep-div": "<div>" * M + "deep", "deep-b": "<b>" * M + "deep", "deep-table": "<table><tr><td>" * (M // 4) + "deep", "deep-list": "<ul><li>" * (M // 4) + "deep",
    "ends": "</div>" * M + "text", "deep-ends": "<a><b><i>" * part(10000) + "x" + "</u>" * part(50000), "cells": "<table><tr>" + "<td>x" * M, "rows": "<table>" + "<tr><td>x" * M,
    "items": "<ol start=-9223372036854775808>" + "<li value=999999999999999999999>x" * 100000, "attributes": "<p " + "b " * M + ">x",
    "attribute": "<p title='" + "x" * (20 * M) + "'>x", "less": "<" * (4 * M) + "x", "comment": "text<!-- " + "x" * M, "comments": "<!---->" * M + "x",
    "script": "text<script>" + "x" * M, "style": "text<style>" + "x{" * M, "rules": "<style>" + ".a1{display:none}" * 100000 + "</style><body class=a1>x<p class=a1>y",
    "title": "<title>" + "x" * M, "references": "&#0;&#xD800;&#1114112;&#x110000;&#99999999999;&amp" * part(100000), "cdata": "<![CDATA[" * 100000 + "x",
    "plaintext": "<plaintext>" + "<x>" * M, "fetch": "<base href='http://127.0.0.1:{0}/'><meta http-equiv=refresh content='0;url=http://127.0.0.1:{0}/'><link rel=stylesheet "
    "href=http://127.0.0.1:{0}/a.css><img src=http://127.0.0.1:{0}/a.png><iframe src=http://127.0.0.1:{0}/></iframe><object data='file://{1}'></object>"
    "<script src=http://127.0.0.1:{0}/></script><p>text".format(port, secret),
    "pages": "<span epub:type=pagebreak title=1></span>" * part(300000) + "x", "headings": "<h1>x</h1>" * part(300000), "entities": "&" + "a" * (8 * M) + ";x",
    "escape": "<p>\x1b]0;owned\x07\x1b[2J &#27;[2J&#155;2J\u202e\u2066 text", "doctype": "<!DOCTYPE html PUBLIC '" + "x" * M + "'><p>x",
    "nul": "<p>a\0b</p><scr\0ipt>x</script>", "open": "<html><body><p", "frames": "<frameset>" * 100000 + "<noframes>x", "forms": "<form>" * part(300000) + "x<select>" * part(300000),
}.items():
    add(name + ".html", text if text.startswith("<!DOCTYPE") else "<html>" + text)
for label in ("utf-7", "utf-16", "ISO-2022-CN-EXT", "x" * 900, "iso-2022-jp", "gb18030", "../../../etc/passwd", "UTF-8//TRANSLIT"):
    add("charset-%s.html" % label.replace("/", "_")[:20], b"<html><meta charset='" + label.encode() + b"'><p>text \x1b$A\x1bN\x80\xff\xfe\xc0\xaf\xed\xa0\x80</p>")

# ---- plain text ----

for name, data in {
    "overlong": b"\xc0\xaf\xe0\x80\xaf" * 1000, "surrogates": b"\xed\xa0\x80\xed\xbf\xbf" * 1000, "lone": bytes(range(128, 256)) * 100, "cut": "ä".encode()[:1],
    "utf16-odd": b"\xff\xfea\0b\0c", "utf16-lone": b"\xff\xfe" + b"\x00\xd8" * 1000, "utf32": b"\xff\xfe\0\0a\0\0\0", "bom": b"\xef\xbb\xbf", "nul": b"\0" * 5000,
    "empty": b"", "blank": b" \n" * 1000, "line": b"x" * (8 * M), "lines": b"\n" * (8 * M) + b"x", "feeds": b"x\f" * M, "controls": bytes(range(1, 32)) * 1000,
    "bidi": "\u202e\u2066\u200f text ".encode() * 1000, "marks": ("a" + "\u0301" * 10000).encode(), "headings": b"CHAPTER I\n\n" * part(300000), "random": random_.randbytes(200000),
}.items():
    add(name + ".txt", data)
add("headings.md", b"# x\n" * 300000 + b"```\n" * 1001)

# ---- PDF ----


def pdf(objects, trailer="/Root 1 0 R", tail=b""):
    out, at = bytearray(b"%PDF-1.7\n"), []
    for i, o in enumerate(objects, 1):
        at.append(len(out))
        out += b"%d 0 obj\n" % i + (o.encode("latin-1") if isinstance(o, str) else o) + b"\nendobj\n"
    xref = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(at) + 1) + b"".join(b"%010d 00000 n \n" % a for a in at)
    return bytes(out + b"trailer\n<< /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n" % (len(at) + 1, trailer.encode(), xref) + tail)


def stream(data, more=""):
    return b"<< /Length %d %s >>\nstream\n" % (len(data), more.encode()) + data + b"\nendstream"


FONT = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
CATALOG, PAGES = "<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
PAGE = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> %s >> >>"
TEXT = b"BT /F 12 Tf 50 700 Td (page text) Tj ET"
good_pdf = pdf([CATALOG, PAGES, PAGE % "", stream(TEXT), FONT])
add("good.pdf", good_pdf)
add("no-text.pdf", pdf([CATALOG, PAGES, PAGE % "", stream(b"0 0 100 100 re f"), FONT]))
add("no-pages.pdf", pdf([CATALOG, "<< /Type /Pages /Kids [] /Count 0 >>"]))
add("pages-loop.pdf", pdf([CATALOG, "<< /Type /Pages /Kids [2 0 R 2 0 R 3 0 R] /Count 1000000 >>", PAGE % "", stream(TEXT), FONT]))
add("same-page.pdf", pdf([CATALOG, "<< /Type /Pages /Kids [%s] /Count 100000 >>" % ("3 0 R " * 100000), PAGE % "", stream(TEXT), FONT]))
add("count.pdf", pdf([CATALOG, "<< /Type /Pages /Kids [3 0 R] /Count 2147483647 >>", PAGE % "", stream(TEXT), FONT]))
add("form-loop.pdf", pdf([CATALOG, PAGES, PAGE % "/XObject << /X 6 0 R >>", stream(TEXT + b" /X Do"), FONT,
                          stream(b"/X Do /X Do", "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> >>")]))
add("bomb.pdf", pdf([CATALOG, PAGES, PAGE % "", stream(zlib.compress(TEXT + b" " * part(400 << 20), 9), "/Filter /FlateDecode"), FONT]))
add("text-bomb.pdf", pdf([CATALOG, PAGES, PAGE % "", stream(zlib.compress(b"BT /F 12 Tf 50 700 Td " + b"(page text) Tj 0 -1 Td " * part(4 << 20) + b"ET", 9), "/Filter /FlateDecode"), FONT]))
add("filters.pdf", pdf([CATALOG, PAGES, PAGE % "", stream(TEXT, "/Filter [%s]" % ("/FlateDecode " * 5000)), FONT]))
add("nesting.pdf", pdf([CATALOG, PAGES, PAGE % "", stream(TEXT), FONT, "[" * 500000]))
add("length.pdf", pdf([CATALOG, PAGES, PAGE % "", b"<< /Length 99999999999999 >>\nstream\n" + TEXT + b"\nendstream", FONT]))
add("length-itself.pdf", pdf([CATALOG, PAGES, PAGE % "", b"<< /Length 4 0 R >>\nstream\n" + TEXT + b"\nendstream", FONT]))
add("media-box.pdf", pdf([CATALOG, PAGES, (PAGE % "").replace("600 800", "1e38 1e38"), stream(TEXT), FONT]))
add("prev-loop.pdf", pdf([CATALOG, PAGES, PAGE % "", stream(TEXT), FONT], "/Root 1 0 R /Prev 9"))
add("root-missing.pdf", pdf([CATALOG], "/Root 77 0 R"))
add("encrypted.pdf", pdf([CATALOG, PAGES, PAGE % "", stream(TEXT), FONT, "<< /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P -4 >>" % ("41" * 32, "42" * 32)],
                         "/Root 1 0 R /Encrypt 6 0 R /ID [<00><00>]"))
add("encrypted-unknown.pdf", pdf([CATALOG, PAGES, PAGE % "", stream(TEXT), FONT, "<< /Filter /Nobody /V 9 >>"], "/Root 1 0 R /Encrypt 6 0 R /ID [<00><00>]"))
add("actions.pdf", pdf([CATALOG.replace(">>", "/OpenAction << /S /URI /URI (http://127.0.0.1:%d/x) >> /AA << /WC << /S /Launch /F (/bin/sh) >> >> >>" % port), PAGES,
                        PAGE % "", stream(TEXT), FONT]))
add("file-stream.pdf", pdf([CATALOG, PAGES, PAGE % "", b"<< /Length 0 /F (%s) >>\nstream\n\nendstream" % secret.encode(), FONT]))
add("cmap-bomb.pdf", pdf([CATALOG, PAGES, PAGE % "", stream(TEXT), FONT.replace(">>", "/ToUnicode 6 0 R >>"),
                          stream(zlib.compress(b"1 begincodespacerange <00000000><ffffffff> endcodespacerange 1 beginbfrange <00000000><ffffffff><0041> endbfrange " * part(3000), 9), "/Filter /FlateDecode")]))
add("only-header.pdf", b"%PDF-1.7\n")
add("garbage.pdf", b"%PDF-1.7\n" + random_.randbytes(300000))
for i in range(16):
    bad = bytearray(good_pdf)
    for _ in range(5):
        bad[random_.randrange(9, len(bad))] = random_.randrange(256)
    add("flipped-%d.pdf" % i, bytes(bad))
for cut in (20, 100, 400, len(good_pdf) - 30):
    add("cut-%d.pdf" % cut, good_pdf[:cut])

add("outlines-loop.pdf", pdf([CATALOG.replace(">>", "/Outlines 6 0 R >>"), PAGES, PAGE % "", stream(TEXT), FONT, "<< /First 6 0 R /Last 6 0 R /Next 6 0 R /Parent 6 0 R /Title (x) >>"]))
add("annotations-loop.pdf", pdf([CATALOG, PAGES, (PAGE % "").replace("/Contents", "/Annots [6 0 R 6 0 R] /Contents"), stream(TEXT), FONT, "<< /Type /Annot /Parent 6 0 R /Kids [6 0 R] /AP << /N 6 0 R >> >>"]))
add("object-stream-itself.pdf", pdf([CATALOG, PAGES, PAGE % "", stream(TEXT), FONT, stream(b"1 0 6 5 << >>", "/Type /ObjStm /N 2 /First 8 /Extends 6 0 R")],
                                    "/Root 1 0 R /XRefStm 9"))
add("object-stream-count.pdf", pdf([CATALOG, PAGES, PAGE % "", stream(TEXT), FONT, stream(b"1 0", "/Type /ObjStm /N 2147483647 /First 4")]))
add("type3-loop.pdf", pdf([CATALOG, PAGES, PAGE % "", stream(TEXT), "<< /Type /Font /Subtype /Type3 /FontBBox [0 0 9 9] /FontMatrix [1 0 0 1 0 0] /CharProcs << /p 6 0 R >> /Encoding "
                           "<< /Differences [112 /p] >> /FirstChar 112 /LastChar 112 /Widths [9] /Resources << /Font << /F 5 0 R >> >> >>", stream(b"BT /F 9 Tf (p) Tj ET")]))
add("contents-loop.pdf", pdf([CATALOG, PAGES, (PAGE % "").replace("4 0 R", "[4 0 R 6 0 R]"), stream(TEXT), FONT, "[6 0 R 6 0 R]"]))
add("image-huge.pdf", pdf([CATALOG, PAGES, PAGE % "/XObject << /X 6 0 R >>", stream(TEXT + b" /X Do"), FONT,
                           stream(b"x", "/Type /XObject /Subtype /Image /Width 2147483647 /Height 2147483647 /BitsPerComponent 16 /ColorSpace /DeviceRGB /Filter /JPXDecode")]))
add("xref-stream-loop.pdf", b"%PDF-1.7\n1 0 obj\n" + stream(b"\0" * 40, "/Type /XRef /Size 8 /W [1 2 1] /Prev 9 /Root 1 0 R") + b"\nendobj\nstartxref\n9\n%%EOF\n")
add("linearized.pdf", pdf(["<< /Linearized 1 /L 99999999 /H [9 9 9 9] /O 3 /E 9 /N 2147483647 /T 9 >>", CATALOG, PAGES, PAGE % "", stream(TEXT)], "/Root 2 0 R"))
add("generation.pdf", good_pdf.replace(b"00000 n", b"65535 n"))

# ---- special files ----

os.mkfifo(os.path.join(files, "fifo.pdf"))
os.mkdir(os.path.join(files, "directory.epub"))
os.symlink("/dev/zero", os.path.join(files, "zero.docx"))
os.symlink("loop.html", os.path.join(files, "loop.html"))
os.symlink("/proc/self/environ", os.path.join(files, "environ.txt"))
with open(os.path.join(files, "sparse.txt"), "wb") as f:
    f.truncate(1 << 40)
socket.socket(socket.AF_UNIX).bind(os.path.join(files, "socket.md"))
os.symlink("/dev/tty", os.path.join(files, "terminal.txt"))
os.symlink("/proc/self/mem", os.path.join(files, "memory.html"))
os.symlink("/proc/kmsg", os.path.join(files, "kernel.txt"))
names += ["socket.md", "terminal.txt", "memory.html", "kernel.txt", "fifo.pdf", "directory.epub", "zero.docx", "loop.html", "environ.txt", "sparse.txt"]

# ---- read each ----


def listing():
    found = []
    for folder, _, inside in os.walk(top):
        if folder.endswith("/.cache/weir/recognised"):  # recognised pages are kept there, by their hash
            inside = [n for n in inside if not re.fullmatch("[0-9a-f]{64}", n)]
        found += [os.path.join(folder, n) for n in inside]
    return sorted(found)


home = os.path.join(top, "home")
os.makedirs(os.path.join(home, "tmp"))
env = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": os.path.join(home, "tmp"), "LC_ALL": "C.UTF-8"}
env.update((k, v) for k, v in os.environ.items() if k.endswith("SAN_OPTIONS"))
print("ok %d documents written" % len(names), flush=True)
before, slowest = listing(), (0, "")
patience = 20 if os.environ.get("SANITIZE") else 1
for name in names:
    start = time.monotonic()
    try:
        run = subprocess.run([weir, "inspect", "document", os.path.join(files, name)], stdin=subprocess.DEVNULL, capture_output=True, env=env, cwd=home, timeout=60 * patience)
    except subprocess.TimeoutExpired:
        print("bad %s: longer than 60 s" % name)
        continue
    seconds = time.monotonic() - start
    slowest = max(slowest, (seconds, name))
    lines, why = run.stderr.decode("utf-8", "replace").splitlines(), ""
    try:
        run.stdout.decode()
    except UnicodeDecodeError:
        why = "no UTF-8"
    if run.returncode not in (0, 4):
        why = "exit status %d: %s" % (run.returncode, lines[:2])
    elif run.returncode == 4 and (len(lines) != 1 or run.stdout or "\x1b" in lines[0]):
        why = "not one line: %s" % lines[:3]
    elif name.startswith("good") and run.returncode:
        why = "refused: %s" % lines
    elif b"SECRET-CANARY" in run.stdout + run.stderr:
        why = "it told a secret"
    elif calls:
        why = "it made a connection"
        calls.clear()
    elif listing() != before:
        why = "it wrote %s" % set(listing()).symmetric_difference(before)
        before = listing()
    print("bad %s: %s" % (name, why) if why else "ok %s" % name, flush=True)
    if os.environ.get("V") == "1":
        print("note %6.2f s  status %d  %-28s %s" % (seconds, run.returncode, name, lines[0] if lines else run.stdout[:60]))
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
print("%s memory of the largest process: %d MiB" % ("ok" if peak < 1024 or os.environ.get("SANITIZE") else "bad", peak))
print("note %d documents, slowest %.1f s (%s), largest process %d MiB" % (len(names), slowest[0], slowest[1], peak))
