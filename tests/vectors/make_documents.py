#!/usr/bin/env python3
"""tests/vectors/make_documents.py - writes tests/vectors/documents/harbour.pdf and harbour.docx: the same small report in two formats.

Four pages, three headings, one of them in the middle of a page; a section that runs over a page break, so that the page of a sentence
is not the page of its heading; a running head and page numbers in the PDF.  Needs reportlab and python-docx; both are written without
dates, so that making them again gives the same text.  tests/cli/s_evidence.sh asks about them.
"""
import os

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "documents")
PAGES = [
    [("h", "1 The quay"),
     ("p", "The quay of Marlow Harbour was laid in oak piles, and stone was put before them when the worm had eaten the oak. Boats of every "
           "size lie there in winter, and in summer only those that wait for a cargo."),
     ("p", "Forty-one mooring rings were counted at the last inspection, and six of them are to be replaced.")],
    [("p", "Dredging is paid by the county. The contract with the dredger Petronella ends in the autumn, and no other ship draws so little "
           "water that it could work above the bar."),
     ("h", "2 The lighthouse"),
     ("p", "The lighthouse stands on the northern mole. Its lamp burns colza oil, and the keeper climbs one hundred and twelve steps to trim "
           "the wick.")],
    [("p", "In thick weather a bell is rung. The bell was cast in Antwerp and weighs nine hundredweight; its clapper is wrapped in leather, "
           "because the fishermen complained of the noise.")],
    [("h", "3 The customs house"),
     ("p", "Tobacco, brandy and lace are weighed in the customs house. The great scales were tested in March and found to be honest to half "
           "an ounce.")],
]


def pdf(path):
    from reportlab.lib.pagesizes import A5
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Spacer
    style = getSampleStyleSheet()

    def head(canvas, doc):
        canvas.drawString(60, doc.pagesize[1] - 40, "Report on Marlow Harbour")
        canvas.drawCentredString(doc.pagesize[0] / 2, 30, str(doc.page))

    flow = []
    for page in PAGES:
        for kind, text in page:
            flow += [Paragraph(text, style["Heading1" if kind == "h" else "BodyText"]), Spacer(1, 6)]
        flow.append(PageBreak())
    SimpleDocTemplate(path, pagesize=A5, invariant=1).build(flow, onFirstPage=head, onLaterPages=head)


def docx(path):
    import datetime, docx
    d = docx.Document()
    d.core_properties.created = d.core_properties.modified = datetime.datetime(2000, 1, 1)
    for i, page in enumerate(PAGES):
        if i:
            d.add_page_break()
        for kind, text in page:
            d.add_heading(text, 1) if kind == "h" else d.add_paragraph(text)
    d.save(path)
    # Of python-docx's template only what the report uses.
    import re, zipfile
    with zipfile.ZipFile(path) as z:
        parts = {n: z.read(n) for n in z.namelist() if n in ("[Content_Types].xml", "_rels/.rels", "word/document.xml", "word/styles.xml",
                                                             "word/_rels/document.xml.rels")}
    styles = re.sub(r"<w:latentStyles.*?</w:latentStyles>", "", parts["word/styles.xml"].decode(), flags=re.S)
    used = lambda m: m.group() if re.search(r'w:styleId="(Normal|Heading1)"', m.group()) else ""
    parts["word/styles.xml"] = re.sub(r"<w:style .*?</w:style>", used, styles, flags=re.S).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for n, data in parts.items():
            z.writestr(zipfile.ZipInfo(n, (2000, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)


os.makedirs(folder, exist_ok=True)
pdf(os.path.join(folder, "harbour.pdf"))
docx(os.path.join(folder, "harbour.docx"))
