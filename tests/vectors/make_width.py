#!/usr/bin/env python3
"""Write ui/text/chars.c, the table of character classes behind ui/text/clean.c.

    pip install regex unicodedata2 && python3 tests/vectors/make_width.py > ui/text/chars.c

Needs the PyPI packages regex (binary properties, scripts) and unicodedata2 (categories, east asian
width) of the same Unicode version; the version is written into the file.  The classes are decided
here, what happens to each is decided in ui/text/clean.c.
"""
import sys
import regex
import unicodedata2 as ud

BIDI = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
HIDDEN = {0x00AD, 0x034F, 0x115F, 0x1160, 0x180E, 0x200B, *range(0x2060, 0x2065), *range(0x206A, 0x2070),
          0x3164, 0xFEFF, 0xFFA0, *range(0xE0000, 0xE1000)}
SELECTORS = {0x180B, 0x180C, 0x180D, 0x180F}
# Scripts whose letters change shape with their neighbours, so that U+200C and U+200D mean something in them.
JOINING = """Arabic Syriac Nko Mandaic Mongolian Phags_Pa Hanifi_Rohingya Adlam Sogdian Old_Sogdian Old_Uyghur
Manichaean Psalter_Pahlavi Chorasmian Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada Malayalam
Sinhala Myanmar Khmer Tibetan Javanese Balinese Sundanese Chakma Brahmi Kaithi Grantha Newa Tirhuta Siddham Modi
Takri Khojki Khudawadi Sharada Saurashtra Limbu Meetei_Mayek Tai_Tham Cham Bhaiksuki Marchen Dogra
Nandinagari Gunjala_Gondi Masaram_Gondi""".split()

joining = regex.compile("|".join(r"\p{Script=%s}" % s for s in JOINING))
ignorable = regex.compile(r"\p{Default_Ignorable_Code_Point}")
pictographic = regex.compile(r"[\p{Extended_Pictographic}\p{Emoji_Modifier}]")
prepended = regex.compile(r"\p{Prepended_Concatenation_Mark}")


def char_class(cp):
    c = chr(cp)
    cat = ud.category(c)
    wide = ud.east_asian_width(c) in "WF"
    if cat == "Cs" or cp & 0xFFFE == 0xFFFE or 0xFDD0 <= cp <= 0xFDEF:
        return "NONE"
    if cat == "Co":
        return "PRIVATE"
    if cp in (0x85, 0x2028, 0x2029):
        return "BREAK"
    if cat == "Cc":
        return "CONTROL"
    if cp in BIDI:
        return "BIDI"
    if cp in (0x200C, 0x200D):
        return "JOINER"
    if cp == 0xFE0F:
        return "VS16"
    if cp in SELECTORS:
        return "SELECTOR"
    if cp in HIDDEN or ignorable.match(c) or (cat == "Cf" and not prepended.match(c)):
        return "HIDDEN"
    if cat == "Cn":
        return "UNASSIGNED"
    # Vowels and final consonants of decomposed Hangul take no column of their own.
    if cat in ("Mn", "Me") or 0x1160 <= cp <= 0x11FF or 0xD7B0 <= cp <= 0xD7FF:
        return "MARK"
    if pictographic.match(c):
        return "EMOJI_WIDE" if wide else "EMOJI"
    if joining.match(c) and cat[0] in "LM":
        assert not wide
        return "JOINING"
    return "WIDE" if wide else "PLAIN"


def main():
    runs = []
    last = None
    for cp in range(0x110000):
        k = char_class(cp)
        if k != last:
            runs.append((cp, k))
            last = k
    names = ["PLAIN", "WIDE", "EMOJI", "EMOJI_WIDE", "JOINING", "MARK", "JOINER", "VS16", "SELECTOR", "HIDDEN", "BIDI",
             "BREAK", "CONTROL", "PRIVATE", "UNASSIGNED", "NONE"]
    out = sys.stdout.write
    out(f"""/* ui/text/chars.c - the class of every code point (Unicode {ud.unidata_version}).
 *
 * Written by tests/vectors/make_width.py; do not edit.  Each entry is the first code point of a run times
 * 256 plus its enum char_class; a run ends where the next one starts. */
#include "ui/text/chars.h"

const uint32_t char_run[] = {{
""")
    for i in range(0, len(runs), 9):
        out("\t" + " ".join(f"0x{cp * 256 + names.index(k):08x}," for cp, k in runs[i:i + 9]) + "\n")
    out("};\nconst size_t n_char_run = sizeof char_run / sizeof char_run[0];\n")


main()
