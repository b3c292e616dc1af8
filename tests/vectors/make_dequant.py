#!/usr/bin/env python3
"""Make dequant.bin: blocks of every weight type and the floats they stand for.

The expected floats come from the Python package `gguf` (tested with 0.19.0), which the makers of the
file format publish; the blocks are random bytes under a fixed seed, with finite half-float scales.

    pip install gguf numpy
    python3 tests/vectors/make_dequant.py [OUT [BLOCKS_OF_RANDOM_BYTES]]

Records back to back, little endian: u32 GGML type number, u32 values, u32 block bytes, the blocks, zero bytes
up to a multiple of 4, one u32 (float bits) per value.
"""
import struct
import sys
import numpy as np
from gguf import GGMLQuantizationType as T, GGML_QUANT_SIZES
from gguf.quants import dequantize

# Offsets of the half floats inside a block.
HALF = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
    T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: [], T.TQ1_0: [52], T.TQ2_0: [64],
}
# Largest, smallest normal, largest and smallest subnormal, zeros, a plain one.
EXTREME = [0x7BFF, 0x0400, 0x83FF, 0x0001, 0x0000, 0x8000, 0xFBFF, 0x3C00]


def finite_halves(rng, n):
    h = rng.integers(0, 65536, n).astype(np.uint16)
    return np.where((h & 0x7C00) == 0x7C00, h ^ 0x4000, h)


def blocks_of(t, rng, count):
    size, bytes_ = GGML_QUANT_SIZES[t]
    if t == T.F32:
        return (rng.standard_normal(count) * 10.0 ** rng.integers(-30, 30, count)).astype("<f4").tobytes()
    if t in (T.F16, T.BF16):
        h = finite_halves(rng, count)
        if t == T.F16:
            h[:8] = EXTREME
        return h.astype("<u2").tobytes()
    b = rng.integers(0, 256, (count, bytes_)).astype(np.uint8)
    b[0] = 0
    b[1] = 255
    b[2] = 128
    for k, off in enumerate(HALF[t]):
        # Scales of every size, then (in the middle) the extremes; the sizes real weights have come last.
        h = finite_halves(rng, count)
        h[0], h[1] = EXTREME[7], EXTREME[7]
        n = min(len(EXTREME), max(count - 4, 0))
        h[2:2 + n] = np.roll(EXTREME, k)[:n]
        h[-2:] = (rng.standard_normal(2) * 0.01).astype(np.float16).view(np.uint16)
        b[:, off:off + 2] = h.astype("<u2").view(np.uint8).reshape(-1, 2)
    if t == T.MXFP4:
        b[:, 0] = [0, 1, 2, 3, 100, 115, 118, 119, 120, 121, 122, 127, 200, 250]
    return b.tobytes()


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else "tests/vectors/dequant.bin"
    more = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    rng = np.random.default_rng(20240229)
    with open(out, "wb") as f:
        for t in [T.F32, T.F16, T.BF16, *HALF]:
            size, bytes_ = GGML_QUANT_SIZES[t]
            count = more or (64 if size == 1 else 14 if size == 32 else 8)
            raw = blocks_of(t, rng, count)
            w = dequantize(np.frombuffer(raw, np.uint8).reshape(1, -1)
                           if t not in (T.F32, T.F16) else
                           np.frombuffer(raw, "<f4" if t == T.F32 else "<f2").reshape(1, -1), t)
            w = np.ascontiguousarray(w, "<f4").reshape(-1)
            assert w.size == count * size and np.isfinite(w).all()
            f.write(struct.pack("<3I", int(t), w.size, len(raw)))
            f.write(raw + b"\0" * (-len(raw) % 4) + w.tobytes())


main()
