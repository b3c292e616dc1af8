#!/usr/bin/env python3
"""tests/measure/folder.py TEXT [FILES] [BYTES] [WEIR] - measures a folder of many files: 10,000 files of 5,000 bytes if
FILES and BYTES are not given.

The files have sentences of TEXT in random order. Each file also has one sentence of its own, which a question asks for.
For each step a line is printed: seconds, seconds of processor time, and the most MiB of memory. The steps: open the
folder and answer a question; open the session again; open an empty session, for comparison; ask a question; change one
file and ask for it; change the times of all files; change one file in ten.
With WEIR_ENCODER=off the text encoder is left out. It computes no vectors for more than 40,000 passages in any case.
"""
import os, random, re, resource, shutil, subprocess, sys, tempfile, time

text = open(sys.argv[1], encoding="utf-8", errors="replace").read()
files, size = (int(a) if a else b for a, b in zip((sys.argv[2:4] + ["", ""])[:2], (10000, 5000)))
weir = os.path.abspath(sys.argv[4] if len(sys.argv) > 4 else "./weir")
sentences = [" ".join(s.split()) for s in re.split(r"(?<=[.!?])\s+", text) if 20 < len(s) < 400]
random.seed(7)
top = tempfile.mkdtemp()
os.environ["XDG_DATA_HOME"] = top + "/data"


def path(i):
    return f"{top}/notes/{i // 100:03d}/note-{i:05d}.txt"


def write(i, name):
    parts, n = [f"The keeper of lamp {i} is called {name}."], 0
    while n < size:
        parts.append(" ".join(random.choice(sentences) for _ in range(5)))
        n += len(parts[-1]) + 2
    os.makedirs(os.path.dirname(path(i)), exist_ok=True)
    with open(path(i), "w") as f:
        f.write("\n\n".join(parts)[:size] + "\n")


def step(what, words, session="a", ask=None, want=""):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    command = [weir, "-s", session] + (["-p", f"What is the keeper of lamp {ask} called?"] if ask is not None else []) + words
    run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    out = run.stdout.read().decode("utf-8", "replace")
    _, _, used = os.wait4(run.pid, 0)
    seconds = time.time() - start
    told = " ".join(re.findall(r"folder '.*", out))
    print(f"{what:34} {seconds:7.2f} s  {used.ru_utime + used.ru_stime:7.2f} s  {used.ru_maxrss / 1024:6.0f} MiB"
          f"  {'' if want in out else 'WRONG ANSWER '}{told}", flush=True)


for i in range(files):
    write(i, f"Zorb{i}")
some = files // 2
step("open the folder, ask", [top + "/notes"], ask=some, want=f"Zorb{some}")
step("open again", [])
step("open an empty session", [], session="b")
step("ask", [], ask=some + 1, want=f"Zorb{some + 1}")
write(some, "Quux")
step("one changed, ask", [], ask=some, want="Quux")
for i in range(files):
    os.utime(path(i))
step("all touched, ask", [], ask=some, want="Quux")
for i in range(0, files, 10):
    write(i, f"Newt{i}")
step("one in ten changed, ask", [], ask=10, want="Newt10")
shutil.rmtree(top)
