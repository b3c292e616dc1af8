"""Measures how much later tokens of a server leave weir than they were sent, and whether weir's memory grows with a long
answer: python3 tests/measure/remote.py [WEIR]

A server on this machine sends 500 tokens, one every 10 ms, each with the time at which it was sent. They are read once
from the socket and once from weir's standard output; the delays are printed in ms (median, 99 %, most). Then answers of
1,000 and 10,000 tokens are sent without a pause, and weir's largest memory is printed.
"""
import http.server, json, os, socket, subprocess, sys, threading, time

weir = sys.argv[1] if len(sys.argv) > 1 else "./weir"


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = json.dumps({"data": [{"id": "m"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        _, name, count, pause = self.path.split("/")[:4]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for i in range(int(count)):
            text = "%.6f\n" % time.time() if name == "timed" else "word%d\n" % i
            self.wfile.write(b"data: %s\n\n" % json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode())
            time.sleep(float(pause)) if float(pause) else None
        self.wfile.write(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')


http.server.ThreadingHTTPServer.disable_nagle_algorithm = True
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
port = server.server_address[1]
threading.Thread(target=server.serve_forever, daemon=True).start()
env = dict(os.environ, HOME="/nonexistent", XDG_CONFIG_HOME="/nonexistent")


def lines_of(read):
    buf, late = b"", []
    while True:
        got = read(65536)
        now = time.time()
        if not got:
            return late
        buf += got
        *whole, buf = buf.split(b"\n")
        for line in whole:
            text = line.decode()
            if text.startswith("data: {"):
                text = json.loads(text[6:])["choices"][0]["delta"].get("content", "")
            try:
                late.append((now - float(text)) * 1000)
            except ValueError:
                pass


def show(name, late):
    late.sort()
    print(f"{name:5} {len(late)} tokens, {late[len(late) // 2]:.2f} {late[len(late) * 99 // 100]:.2f} {late[-1]:.2f} ms")


for _ in range(2):
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(b"POST /timed/500/0.01/v1/chat/completions HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
    show("raw", lines_of(s.recv))
    p = subprocess.Popen([weir, "-p", "x", "--remote", f"http://127.0.0.1:{port}/timed/500/0.01/v1"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env)
    show("weir", lines_of(lambda n: os.read(p.stdout.fileno(), n)))
    p.wait()
for count in (1000, 10000, 40000):
    p = subprocess.Popen([weir, "-p", "x", "--remote", f"http://127.0.0.1:{port}/words/{count}/0/v1"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env)
    start, n = time.time(), len(p.stdout.read().split())
    usage = os.wait4(p.pid, 0)[2]
    print(f"{n} tokens in {time.time() - start:.2f} s, {usage.ru_utime + usage.ru_stime:.2f} s of processor, {usage.ru_maxrss / 1024:.1f} MiB at most")
