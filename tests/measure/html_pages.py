#!/usr/bin/env python3
"""tests/measure/html_pages.py - compares the text that weir makes of HTML pages with the text that a browser shows.

    find DIR... -name '*.html' | tests/measure/html_pages.py [--weir ./weir] [--chromium chromium] [--worst 10]

Each page is loaded in a frame of one headless Chromium, without its scripts; innerText is the reference. A second reference lacks
what weir leaves out on purpose: navigation, buttons and fields of forms. Of each page are printed, for both: F1 of words and
of characters (as bags), the share of neighbouring blocks in the same order, words lost, added, joined and split.
"""
import argparse
import collections
import html
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

DRIVER = """<!DOCTYPE html><meta charset=utf-8><pre id=out></pre><script>
const files = FILES, drop = 'nav, [role=navigation], [role=search], button, input, select, textarea, datalist';
const all = [];
function show() { document.getElementById('out').textContent = JSON.stringify(all); }
function next(i) {
  if (i == files.length) return show();
  const f = document.createElement('iframe');
  let done = false;
  const take = () => {
    if (done) return;
    done = true;
    let whole = '', text = '';
    try {
      const d = f.contentDocument;
      whole = d.body.innerText;
      for (const e of d.querySelectorAll(drop)) e.remove();
      text = d.body.innerText;
    } catch (e) { }
    all.push([files[i], whole, text]);
    f.remove();
    next(i + 1);
  };
  f.sandbox = 'allow-same-origin';
  f.width = 1200;
  f.height = 900;
  f.onload = take;
  f.src = 'file://' + encodeURI(files[i]).replace(/[#?]/g, encodeURIComponent);
  document.body.append(f);
  setTimeout(take, 20000);
}
next(0);
</script>"""


def browser_texts(chromium, files):
    """Return {file: (whole text, text without navigation and forms)} as the browser shows them."""
    with tempfile.TemporaryDirectory() as d:
        page = os.path.join(d, 'driver.html')
        with open(page, 'w', encoding='utf-8') as f:
            f.write(DRIVER.replace('FILES', json.dumps(files).replace('<', '\\\\u003c')))
        dom = subprocess.run([chromium, '--headless', '--no-sandbox', '--disable-gpu', '--user-data-dir=' + d, '--disable-web-security',
                              '--allow-file-access-from-files', '--host-rules=MAP * 0.0.0.0',
                              '--virtual-time-budget=3000000', '--dump-dom', 'file://' + page],
                             capture_output=True, encoding='utf-8', errors='replace').stdout
    out = re.search(r'<pre id="?out"?>(.*?)</pre>', dom, re.S)
    return {f: (whole, text) for f, whole, text in json.loads(html.unescape(out.group(1)))} if out else {}


def words_of(text):
    return re.findall(r'\w+', text.replace('\u00ad', '').casefold())


def f1(a, b):
    both = sum((a & b).values())
    return 2 * both / max(1, sum(a.values()) + sum(b.values()))


def joined(ours, theirs, extra, missing):
    """Count words of ours that are two neighbouring words of theirs: extra words made of missing ones."""
    pairs = {a + b for a, b in zip(theirs, theirs[1:]) if a in missing and b in missing}
    return sum(n for w, n in extra.items() if w in pairs)


BLOCKS = 2000  # blocks of a page whose order is compared; of more, every second one or fewer


def order_of(reference, text):
    """Return the share of neighbouring blocks of the reference that are in the same order in the text, and their number."""
    squeezed = ''.join(words_of(text))
    blocks = [''.join(words_of(b)) for b in reference.split('\n')]
    blocks = blocks[::1 + len(blocks) // BLOCKS]
    count = collections.Counter(blocks)
    at = [squeezed.find(b) for b in blocks if len(b) >= 20 and count[b] == 1 and squeezed.count(b) == 1]
    same = sum(a < b for a, b in zip(at, at[1:]))
    return (same / (len(at) - 1) if len(at) > 1 else 1.0), len(at)


def compare(reference, text):
    ref, own = words_of(reference), words_of(text)
    a, b = collections.Counter(ref), collections.Counter(own)
    missing, extra = a - b, b - a
    order, blocks = order_of(reference, text)
    return {'words': f1(a, b), 'characters': f1(collections.Counter(''.join(reference.split())), collections.Counter(''.join(text.split()))),
            'order': order, 'blocks': blocks, 'n': len(ref), 'lost': sum(missing.values()), 'added': sum(extra.values()),
            'joined': joined(own, ref, extra, missing), 'split': joined(ref, own, missing, extra),
            'most': [' '.join(w for w, _ in c.most_common(8)) for c in (missing, extra)]}


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--weir', default='./weir')
    p.add_argument('--chromium', default='chromium')
    p.add_argument('--worst', type=int, default=10)
    args = p.parse_args()
    files = [os.path.abspath(line.rstrip('\n')) for line in sys.stdin]
    shown = browser_texts(args.chromium, files)
    rows = []
    for f in files:
        r = subprocess.run([args.weir, 'inspect', 'document', '-q', f], capture_output=True, encoding='utf-8', errors='replace')
        if f not in shown or not shown[f][0].strip() or r.returncode:
            print('not compared:', f, r.stderr.strip().split('\n')[0])
            continue
        rows.append((f, compare(shown[f][0], r.stdout), compare(shown[f][1], r.stdout)))
    for title, k in (('all that the browser shows', 1), ('without navigation and forms', 2)):
        m = [r[k] for r in rows]
        print(f'\n{title}: {len(m)} pages, {sum(x["n"] for x in m)} words')
        for key in ('words', 'characters', 'order'):
            v = sorted(x[key] for x in m)
            print(f'  {key}: median {statistics.median(v):.4f}, tenth {v[len(v) // 10]:.4f}, least {v[0]:.4f}')
        print('  ' + ', '.join(f'{key} {sum(x[key] for x in m)}' for key in ('lost', 'added', 'joined', 'split', 'blocks')))
        for r in sorted(rows, key=lambda r: r[k]['words'])[:args.worst]:
            x = r[k]
            print(f'  {x["words"]:.3f} {x["characters"]:.3f} {x["order"]:.3f} {x["joined"]} {r[0]}\n      lost: {x["most"][0]}\n      added: {x["most"][1]}')
        for r in sorted(rows, key=lambda r: r[k]['order'])[:args.worst // 2]:
            print(f'  order {r[k]["order"]:.3f} of {r[k]["blocks"]} {r[0]}')
        print('  joined:', [(r[0].split('/')[-1], r[k]['joined']) for r in rows if r[k]['joined']][:12])


if __name__ == '__main__':
    main()
