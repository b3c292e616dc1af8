#!/usr/bin/env python3
"""make_utf8.py - utf8.bin, lines of well-formed and ill-formed UTF-8, and utf8.ref, what they become; run in this folder.

The answer is that of Python's own decoder with errors='replace': U+FFFD for each maximal part that is no UTF-8 (Unicode 3.9, table
3-8).  NUL stays: who wants U+FFFD for it says so."""
import random

lines = [
    # The ends of each length, and one beyond them.
    *[chr(c).encode() for c in (0x20, 0x7e, 0x80 + 0x20, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xfffd, 0xffff, 0x10000, 0x10ffff)],
    b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf7\xbf\xbf\xbf", b"\xf8\x88\x80\x80\x80", b"\xfc\x84\x80\x80\x80\x80", b"\xfe", b"\xff",
    # Continuations alone; first bytes alone; a sequence cut at each place.
    b"\x80", b"\xbf", b"\x80\xbf\x80\xbf", bytes(range(0x80, 0xc0)),
    *[b" ".join(bytes([b]) for b in part) for part in (range(0xc0, 0xe0), range(0xe0, 0xf0), range(0xf0, 0x100))],
    b"\xc2", b"\xe2\x82", b"\xe2", b"\xf0\x9f\x98", b"\xf0\x9f", b"\xf0", b"\xe2\x82\xf0\x9f\xc2", b"a\xe2\x82b\xf0\x9f\x98c",
    # Longer than needed.
    b"\xc0\xaf", b"\xc1\xbf", b"\xe0\x80\xaf", b"\xe0\x9f\xbf", b"\xf0\x80\x80\xaf", b"\xf0\x8f\xbf\xbf", b"\xf8\x80\x80\x80\xaf", b"\xc0\x80",
    # Surrogates, alone and in pairs.
    b"\xed\xa0\x80", b"\xed\xad\xbf", b"\xed\xae\x80", b"\xed\xbf\xbf", b"\xed\xa0\x80\xed\xb0\x80", b"\xed\xa0\xbd\xed\xb8\x80",
    # No characters, and the replacement itself.
    b"\xef\xbf\xbe", b"\xef\xb7\x90", b"\xf0\x9f\xbf\xbf", b"\xef\xbf\xbd", b"before\x00after",
]
random.seed(7)
pieces = ["word ".encode(), "é".encode(), "語".encode(), "😀".encode(), b"\xe2\x82", b"\xf0\x9f\x98", b"\xc0", b"\x80", b"\xed\xa0\x80", b"\xff"]
lines += [b"".join(random.choices(pieces, k=12)) for _ in range(400)]
text = b"".join(b"%d |" % n + line + b"|\n" for n, line in enumerate(lines))
open("utf8.bin", "wb").write(text)
open("utf8.ref", "wb").write(text.decode("utf-8", "replace").encode())
