"""A program at a terminal, for s_pull.sh: python3 answers.py OUT PROGRAM [PATTERN ANSWER ...] -- ARGS

Each ANSWER is typed, with Enter behind it, once what the program has shown since the answer before matches PATTERN; ^C is Ctrl-C.
OUT gets all that it shows.  Exits as the program does."""
import os, pty, re, select, sys, time

out, program = sys.argv[1:3]
end = sys.argv.index("--")
steps = list(zip(sys.argv[3:end:2], sys.argv[4:end:2]))
pid, fd = pty.fork()
if not pid:
    os.environ["TERM"] = "xterm"
    os.execv(program, [program] + sys.argv[end + 1:])
shown, at, limit = b"", 0, time.time() + 300
while time.time() < limit:
    if select.select([fd], [], [], 0.2)[0]:
        try:
            got = os.read(fd, 65536)
        except OSError:
            break
        if not got:
            break
        shown += got
    if steps and re.search(steps[0][0].encode(), shown[at:]):
        answer = steps.pop(0)[1]
        at = len(shown)
        os.write(fd, b"\x03" if answer == "^C" else answer.encode() + b"\r")
else:
    os.kill(pid, 9)
open(out, "wb").write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
