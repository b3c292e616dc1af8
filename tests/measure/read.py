#!/usr/bin/env python3
"""tests/measure/read.py TEXT [WEIR OPTIONS...] - tests whether `weir read` keeps its speed and memory to the end of a
book.

Reads TEXT to its end with WEIR (default ./weir). For each tenth of the text are printed: tokens; tokens per second;
seconds of processor time for 1,000 tokens, which other programs affect less; and the resident memory of the process in
MiB, the largest of the samples in that tenth.
"""
import os, re, subprocess, sys, threading, time

weir = os.environ.get('WEIR', './weir')
run = subprocess.Popen([weir, 'read', sys.argv[1], '--private', '-v', *sys.argv[2:]], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, text=True)
size = os.path.getsize(sys.argv[1])
memory = [0]


def watch():
    while run.poll() is None:
        try:
            with open(f'/proc/{run.pid}/status') as f:
                memory[0] = max([memory[0]] + [int(l.split()[1]) / 1024 for l in f if l.startswith('VmRSS')])
        except OSError:
            pass
        time.sleep(0.2)


threading.Thread(target=watch, daemon=True).start()
start = since = time.time()
last, before, tenth, spent = 0, 0, 1, 0
print('| tenth | tokens | tokens a second | CPU s for 1,000 | MiB |\n|---|---|---|---|---|', flush=True)


def cpu():
    """Return the processor time of the process in seconds, all threads together."""
    try:
        with open(f'/proc/{run.pid}/stat') as f:
            field = f.read().rsplit(')', 1)[1].split()
        return (int(field[11]) + int(field[12])) / os.sysconf('SC_CLK_TCK')
    except OSError:
        return float('nan')


def row():
    global since, before, spent
    if last == before:
        return
    now, used = time.time(), cpu()
    print(f'| {tenth} | {last - before:,} | {(last - before) / (now - since):.0f} | {1000 * (used - spent) / (last - before):.2f} | {memory[0]:.0f} |',
          flush=True)
    since, before, spent, memory[0] = now, last, used, 0


for line in run.stderr:
    m = re.search(r"reading ([\d,]+) tokens, (\d+) %", line) or re.search(r"the end of .*: ([\d,]+) tokens()", line)
    if not m:
        continue
    last = int(m.group(1).replace(',', ''))
    if not m.group(2) or int(m.group(2)) >= 10 * tenth:
        row()
        tenth += 1
print(f'{last:,} tokens of {size:,} bytes in {time.time() - start:.0f} s, {last / (time.time() - start):.0f} a second; exit {run.wait()}')
