#!/usr/bin/env python3
"""Measures what training under the mask of `recycled` gains (weir train --mask). Three arms are compared: every policy
runs on the same windows of a text that no arm was trained on, and the differences are paired over the windows.

    tests/measure/mask.py [--weir ./weir] [--out build/mask] [--windows 204] [--fixed 512] [--scored 50] HELD TEXT ...

The arms are the model as it is, a LoRA adapter trained under full attention, and one trained under the mask. Both
adapters are trained on the texts. A window has `fixed` tokens that are read under full attention, and `scored` tokens
that are computed one at a time under a policy; k is an eighth of `fixed`. Adapters and results stay in --out, so a run
that was stopped can be continued. The model and the threads are those of the environment (WEIR_MODEL, WEIR_THREADS).
"""
import argparse
import json
import math
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--weir", default="./weir")
parser.add_argument("--out", default="build/mask")
parser.add_argument("--windows", type=int, default=204)
parser.add_argument("--fixed", type=int, default=512)
parser.add_argument("--scored", type=int, default=50)
parser.add_argument("--steps", type=int, default=16)
parser.add_argument("--rank", type=int, default=4)
parser.add_argument("held")
parser.add_argument("text", nargs="+")
o = parser.parse_args()
k, window = o.fixed // 8, o.fixed + o.scored
ARMS = ("as-is", "full", "mask")
KVS = ("full", f"recycled:k={k},stride=50", f"recycled:k={k},stride=25", f"streaming++:size={k - 4},stride=1000000", f"snapkv:k={k}", f"h2o:k={k}")


def run(*args):
    done = subprocess.run([o.weir, *map(str, args)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"mask.py: 'weir {' '.join(map(str, args))}' ended with {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def adapter(arm):
    path = f"{o.out}/{arm}.gguf"
    mask = [] if arm == "full" else ["--mask", f"recycled:prefill={o.fixed},k={k},stride=50,pool=7"]
    if not os.path.exists(path):
        run("train", *o.text, "--out", path, "--resume", f"{o.out}/{arm}.training", "--lora-rank", o.rank, "--lr", "5e-4", "--warmup", 4, "--context", window,
            "--fixed", o.fixed, "--batch", 4, "--steps", o.steps, *mask, "--json", "-q")
    return path


def losses(arm):
    """Return the loss of every window in nats per token, by policy."""
    args = ["eval", "ppl", o.held, "--tokens", window * o.windows, "--window", window, "--last", o.scored, "--curve", o.scored,
            "--resume", f"{o.out}/{arm}.finished", "--json", "-q"]
    for kv in KVS:
        args += ["--kv", kv]
    if arm != "as-is":
        args += ["--lora", adapter(arm)]
    sums = {line["kv"]: [0] + line["curve"] for line in run(*args)}
    return {kv: [(b - a) / o.scored for a, b in zip(s, s[1:])] for kv, s in sums.items()}


def mean(x):
    m = sum(x) / len(x)
    return m, math.sqrt(sum((v - m) ** 2 for v in x) / (len(x) - 1) / len(x)) if len(x) > 1 else 0


def less(a, b):
    return "%+.4f ± %.4f" % mean([x - y for x, y in zip(a, b)])


os.makedirs(o.out, exist_ok=True)
loss = {arm: losses(arm) for arm in ARMS}
print(f"{len(loss['mask']['full'])} windows of {o.fixed} + {o.scored} tokens, k = {k}; nats a token\n")
print("| loss under | as it is | trained, full | trained, mask | mask less as it is | mask less full |\n|---|---|---|---|---|---|")
for kv in KVS:
    a, f, m = (loss[arm][kv] for arm in ARMS)
    print(f"| `{kv}` | {mean(a)[0]:.4f} | {mean(f)[0]:.4f} | {mean(m)[0]:.4f} | {less(m, a)} | {less(m, f)} |")
print("\nWhat a policy loses against full attention in the same arm:\n\n| policy | as it is | trained, full | trained, mask |\n|---|---|---|---|")
for kv in KVS[1:]:
    print(f"| `{kv}` | " + " | ".join(less(loss[arm][kv], loss[arm]["full"]) for arm in ARMS) + " |")
