"""Draw what evaluations wrote with --json, as a picture in SVG.

  python3 plot.py [--draw WHAT] LINES PICTURE.svg

WHAT, of a file that this command wrote (its first choice is the default):
  weir eval ppl --curve N     ppl      perplexity, the mean of all tokens so far
                              ratio    perplexity of every N tokens, in % of that under `full` (or the first policy) in the same text
  weir eval recovery          age      % recovered so many tokens after the set that is read was selected
                              stride   tokens between two selections, by layer
                              queries  cosine of consecutive tokens' queries, a row a layer, a column a query head
  weir eval plot              matrix   the attention matrices, coloured; the picture that the lines name is read, too
  weir eval plot --draw span  span     % of layers and KV heads that keep a token, by its age

It also prints a line for each curve, layer or matrix. Nothing but Python's own library is needed."""
import argparse, base64, html, json, math, os, struct, sys, zlib

WIDE, HIGH, LEFT, RIGHT, TOP, BELOW, CURVES = 960, 600, 64, 16, 14, 32, 8
COLOURS = "#50a0ff #ff9632 #5ad26e #f05a6e #be82fa #e6dc5a #6edcdc #c8c8c8".split()
TEXT, FRAME = "#e6e6e6", "#5a5a5a"
OF = {"ppl": "ppl --curve N", "ratio": "ppl --curve N", "age": "recovery", "stride": "recovery", "queries": "recovery", "matrix": "plot", "span": "plot --draw span"}


def palette():
    """Return 256 colours of a matrix. 0, black: no head read the token; 1, grey: the token comes later; 2 to 255:
    shares of attention, from dark blue through red and yellow to white."""
    stops = [(20, 12, 70), (90, 20, 130), (190, 50, 90), (245, 140, 40), (250, 225, 110), (255, 255, 255)]
    colours = [(0, 0, 0), (48, 48, 48)]
    for i in range(254):
        k, part = divmod(i * (len(stops) - 1) / 253, 1)
        a, b = stops[int(k)], stops[min(int(k) + 1, len(stops) - 1)]
        colours.append(tuple(round(x + part * (y - x)) for x, y in zip(a, b)))
    return b"".join(bytes(c) for c in colours)


def image(x, y, scale, rows):
    """Return rows of palette indices as a PNG that is embedded in the SVG."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    w, h = len(rows[0]), len(rows)
    png = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 3, 0, 0, 0)) + chunk(b"PLTE", palette())
           + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(r) for r in rows))) + chunk(b"IEND", b""))
    return (f'<image x="{x}" y="{y}" width="{w * scale}" height="{h * scale}" style="image-rendering:pixelated" '
            f'href="data:image/png;base64,{base64.b64encode(png).decode()}"/>')


def text(x, y, words, colour=TEXT, anchor="start"):
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}">{html.escape(words)}</text>'


def svg(path, w, h, parts):
    with open(path, "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" font-family="monospace" font-size="12">'
                f'<rect width="{w}" height="{h}"/>\n' + "\n".join(parts) + "\n</svg>\n")


class Curve:
    def __init__(self, name, every, first, y, skip=0):
        self.name, self.x, self.y = name, [(i + first) * every for i in range(len(y))], y
        self.scale = [v for v in y[skip:] if v is not None]


def listed(lines, key, scale, every=lambda line: 1):
    """Yield a curve for each output line with a list `key`; null becomes a gap in the curve."""
    for line in lines:
        if isinstance(line.get(key), list):
            y = [None if v is None else scale * v for v in line[key]]
            while y and y[-1] is None:
                y.pop()
            yield Curve(name_of(line), every(line), 0, y)


def name_of(line):
    return line.get("fitted", line.get("kv", args.lines))


def ppl(lines):
    for line in lines:
        if "curve" in line:
            every = line["every"]
            y = [math.exp(s / ((i + 1) * every)) for i, s in enumerate(line["curve"])]
            # The first two means are of few tokens and vary much, so the scale ignores them.
            yield Curve(name_of(line), every, 1, y, 2 if len(y) > 3 else 0)


def ratio(lines):
    lines = [line for line in lines if "curve" in line]
    for line in lines:
        same = [l for l in lines if l["every"] == line["every"] and l.get("file") == line.get("file")]
        base = next((l for l in same if l.get("kv") == "full"), same[0])
        if base is not line:
            pairs = [(0, 0), *zip(line["curve"], base["curve"])]
            steps = [(b[0] - a[0]) - (b[1] - a[1]) for a, b in zip(pairs, pairs[1:])]
            yield Curve(name_of(line), line["every"], 1, [100 * math.exp(d / line["every"]) for d in steps])


def draw_curves(curves, path):
    curves = [c for c in curves if len(c.y) > 1 and c.scale]
    if not curves:
        refuse(f"holds no curves; they come from 'weir eval {OF[args.draw]} --json'")
    if len(curves) > CURVES:
        print(f"plot: a picture holds {CURVES} curves; {len(curves) - CURVES} more of '{args.lines}' are left out", file=sys.stderr)
    curves = curves[:CURVES]
    low, high = min(min(c.scale) for c in curves), max(max(c.scale) for c in curves)
    right, x1, y0 = max(c.x[-1] for c in curves), WIDE - RIGHT, HIGH - BELOW
    at_x = lambda x: round(LEFT + (x1 - LEFT) * x / right, 1)
    at_y = lambda y: round(y0 - (y0 - TOP) * (min(max(y, low), high) - low) / (high - low) if high > low else (y0 + TOP) / 2, 1)
    parts = [f'<path stroke="{FRAME}" d="M{LEFT} {TOP}V{y0}"/>']
    for i in range(5):
        x, y = LEFT + (x1 - LEFT) * i / 4, y0 + (TOP - y0) * i / 4
        parts += [f'<path stroke="{FRAME}" d="M{LEFT} {y}H{x1}"/>', text(4, y + 4, f"{low + (high - low) * i / 4:.2f}"),
                  text(x, y0 + 18, f"{right * i / 4:.0f}", anchor="end" if i == 4 else "start")]
    for i, c in enumerate(curves):
        pen, d = "M", ""
        for x, y in zip(c.x, c.y):
            if y is not None:
                d += f"{pen}{at_x(x)} {at_y(y)}"
            pen = "M" if y is None else "L"
        parts += [f'<path fill="none" stroke="{COLOURS[i]}" d="{d}"/>', text(x1, TOP + 16 + 14 * i, c.name, COLOURS[i], "end")]
        first = next(k for k, y in enumerate(c.y) if y is not None)
        print(f"{c.name}: {c.y[-1]:.4f} after {c.x[-1]} tokens" if args.draw == "ppl" else
              f"{c.name}: {c.y[first]:.2f} at {c.x[first]}, {c.y[-1]:.2f} at {c.x[-1]}")
    svg(path, WIDE, HIGH, parts)


def draw_queries(lines, path):
    line = next((l for l in lines if l.get("task") == "queries" and "cosine" in l), None)
    if not line:
        refuse("holds no queries; they come from 'weir eval recovery --json'")
    heads, cosine = line["heads"], line["cosine"]
    rows = [cosine[i:i + heads] for i in range(0, len(cosine), heads)]
    if len(rows) != line["layers"] or len(rows[-1]) != heads:
        refuse(f"has {len(cosine)} numbers in its line of queries, not one for each of {heads} heads of {line['layers']} layers")
    low = min((v for v in cosine if v is not None), default=1)
    shade = lambda v: 0 if v is None or low >= 1 else 2 + round(253 * (v - low) / (1 - low))
    svg(path, max(480, 24 * heads), TOP + 24 * len(rows), [
        text(0, 11, f"layers down, heads across; {low:.2f} dark, 1 bright"), image(0, TOP, 24, [[shade(v) for v in r] for r in rows])])
    for i, r in enumerate(rows):
        print(f"layer {i}: {sum(v or 0 for v in r) / heads:.3f}")


def draw_matrix(lines, path):
    lines = [l for l in lines if l.get("draw") == "matrix"]
    if not lines:
        refuse("holds no attention matrices; they come from 'weir eval plot --json'")
    named = os.path.join(os.path.dirname(args.lines), os.path.basename(lines[0]["picture"]))
    with open(lines[0]["picture"] if os.path.exists(lines[0]["picture"]) else named, "rb") as f:
        kind, size, most, grey = f.read().split(b"\n", 3)
    w, side = map(int, size.split())
    parts = []
    for l in lines:
        # Grey 0 stays 0 (not read), a column right of the diagonal becomes 1 (later), grey 1 becomes 2.
        rows = [[1 if x > y else g and max(g, 2) for x, g in enumerate(grey[y * w + l["x"]:][:side])] for y in range(side)]
        parts += [text(l["x"], 11, l["kv"]), image(l["x"], TOP, 1, rows)]
        print(f"{l['kv']}: {100 * l['seen']:.1f} % of the pairs in sight")
    svg(path, w, TOP + side, parts)


def refuse(why):
    sys.exit(f"plot: '{args.lines}' {why}")


def first_choice(lines):
    line = lines[0] if lines else {}
    return line["draw"] if line.get("task") == "plot" else "age" if line.get("task") == "recovery" else "ppl"


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--draw", choices=OF)
parser.add_argument("lines", metavar="LINES")
parser.add_argument("picture", metavar="PICTURE.svg")
args = parser.parse_args()
try:
    with open(args.lines) as f:
        found = [json.loads(line) for line in f if line.strip()]
    args.draw = args.draw or first_choice(found)
    if args.draw == "queries":
        draw_queries(found, args.picture)
    elif args.draw == "matrix":
        draw_matrix(found, args.picture)
    else:
        draw_curves({"ppl": ppl, "ratio": ratio, "age": lambda l: listed(l, "ages", 100), "stride": lambda l: listed(l, "strides", 1),
                     "span": lambda l: listed(l, "ages", 100, lambda line: line.get("every", 1))}[args.draw](found), args.picture)
except OSError as e:
    sys.exit(f"plot: cannot use '{e.filename}': {e.strerror}")
except (ValueError, KeyError, TypeError, AttributeError) as e:
    sys.exit(f"plot: '{args.lines}' holds a line that no evaluation wrote ({type(e).__name__}: {e})")
