#!/usr/bin/env python3
"""tests/measure/manual_pages.py - compares the text that weir makes of manual pages with what mandoc shows.

    find /usr/share/man -name '*.gz' | tests/measure/manual_pages.py [--weir ./weir] [--worst 10]

Words are compared as bags, and so are pairs of neighbouring words. Signs without a letter or digit, such as bullets, are left out;
curly quotation marks count as straight ones.
"""
import argparse
import collections
import re
import subprocess
import sys

SAME = str.maketrans('−‐‘’“”´ˆ˜\u00a0', "--''\"\"'^~ ")


def words(text):
    text = re.sub(r'[│┼─├┤┌┐└┘┬┴|]+|\+[-+=]{3,}', ' ', text.translate(SAME))
    return [w for w in text.split() if re.search(r'\w', w)]


def shown(path):
    """What mandoc shows, without the first and the last line, which repeat the title."""
    text = subprocess.run(f"zcat -f '{path}' | mandoc -T utf8 -O width=900", shell=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout.decode(errors='replace')
    return re.sub('.\x08', '', text).strip('\n').partition('\n')[2].rpartition('\n')[0]


def imported(weir, path):
    text = subprocess.run([weir, 'inspect', 'document', path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return text.decode(errors='replace').partition('\n')[2]


def less(a, b):
    return sum((collections.Counter(a) - collections.Counter(b)).values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--weir', default='./weir')
    parser.add_argument('--worst', type=int, default=10)
    args, rows = parser.parse_args(), []
    for path in sys.stdin.read().split():
        want, got = words(shown(path)), words(imported(args.weir, path))
        rows.append((less(want, got), less(got, want), less(zip(want, want[1:]), zip(got, got[1:])), len(want), path))
    for row in sorted(rows, reverse=True)[:args.worst]:
        print('lost %d, added %d, pairs broken %d of %d words: %s' % row)
    lost, added, pairs, n = (sum(row[i] for row in rows) for i in range(4))
    good = sum(row[0] + row[1] <= row[3] / 100 for row in rows)
    print(f'{len(rows)} pages, {n} words: lost {lost} ({lost / n:.2%}), added {added} ({added / n:.2%}), '
          f'pairs broken {pairs}; {good} pages with at most 1 % lost or added')


main()
