"""A server of the OpenAI chat protocol that misbehaves, for s_remote.sh: python3 models.py LOG PORTS

The first folder of a path, /NAME/v1/chat/completions, says what goes wrong, or of which make the server is (makes.py).  LOG gets a JSON line for each request: its path, whether a
key came, its messages; and one for each connection that the other side has closed early.  PORTS gets the port, and that of a second host."""
import gzip, json, os, socket, ssl, sys, threading, time, zlib

sys.dont_write_bytecode = True   # nothing beside the source
import makes

log = open(sys.argv[1], "a", buffering=1)
lock = threading.Lock()
count = {}
WORDS = ["Hel", "lo, ", "world", "."]
SAYS_STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def note(**what):
    with lock:
        log.write(json.dumps(what) + "\n")


def turn(name):   # how often it was asked before
    with lock:
        count[name] = count.get(name, 0) + 1
        return count[name] - 1


def delta(**d):
    return {"id": "x", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d, "finish_reason": None}]}


def event(o, end="\n\n", head="data: "):
    return (head + (o if isinstance(o, str) else json.dumps(o)) + end).encode()


def good(words=WORDS, end="\n\n", head="data: ", done=True, usage=31):
    out = event(delta(role="assistant", content=None), end, head) + b"".join(event(delta(content=w), end, head) for w in words)
    return out + event(SAYS_STOP, end, head) + event(usage_of(usage), end, head) + (event("[DONE]", end, head) if done else b"")


def usage_of(n):
    return {"choices": [], "usage": {"prompt_tokens": n, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 7}}}


class Conn:
    def __init__(self, sock):
        self.s = sock
        self.buf = b""

    def line(self):
        while b"\n" not in self.buf:
            got = self.s.recv(65536)
            if not got:
                return None
            self.buf += got
        one, self.buf = self.buf.split(b"\n", 1)
        return one.strip()

    def request(self):
        first = self.line()
        if not first:
            return None
        head = {}
        while True:
            l = self.line()
            if not l:
                break
            k, v = l.split(b":", 1)
            head[k.strip().lower()] = v.strip()
        n = int(head.get(b"content-length", 0))
        while len(self.buf) < n:
            self.buf += self.s.recv(65536)
        body, self.buf = self.buf[:n], self.buf[n:]
        return first.decode(), head, body

    def send(self, data):
        self.s.sendall(data)

    def head(self, status=200, type="text/event-stream", more=""):
        reason = {200: "OK", 204: "No Content"}.get(status, "Error")
        t = f"Content-Type: {type}\r\n" if type else ""
        self.send(f"HTTP/1.1 {status} {reason}\r\n{t}{more}Connection: close\r\n\r\n".encode())

    def json(self, o, status=200, more=""):
        body = o if isinstance(o, bytes) else json.dumps(o).encode()
        self.head(status, "application/json", f"Content-Length: {len(body)}\r\n{more}")
        self.send(body)

    def closed(self, seconds):
        """Wait until the other side has closed the connection: after how many seconds, or None."""
        start = time.time()
        self.s.settimeout(0.005)
        while time.time() - start < seconds:
            try:
                if not self.s.recv(4096):
                    return time.time() - start
            except (socket.timeout, ssl.SSLWantReadError):
                pass
            except OSError:
                return time.time() - start
        return None


def list_models(c, name):
    one = {"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": "someone"}]}
    if name == "nolist":
        c.json({"error": {"message": "no such path"}}, 404)
    elif name == "listhtml":
        c.head(200, "text/html")
        c.send(b"<html>welcome</html>")
    elif name == "listempty":
        c.json({"object": "list", "data": []})
    elif name == "listtwo":
        c.json({"data": [{"id": "tiny"}, {"id": "org/large"}]})
    elif name == "listevil":
        c.json({"data": [{"id": "\u001b[2Jevil\u0000\u202e"}, {"id": "x" * 300}, {"id": 7}, {}, "text", {"id": "a\nb"}, {"id": "tiny"}]})
    elif name == "listlong":
        c.json({"data": [{"id": f"m{i}"} for i in range(100000)]})
    elif name == "listhuge":
        c.head(200, "application/json")
        try:
            for _ in range(17 << 4):
                c.send(b" " * 65536)
        except OSError:
            pass
    elif name == "list401":
        c.json({"error": {"message": "Incorrect API key provided: %s" % key_of.get("last", "")}}, 401)
    elif name == "list500":
        c.json({"error": {"message": "the model has crashed"}}, 500)
    elif name == "listredirect":
        c.head(302, None, f"Location: http://127.0.0.1:{other_port}/plain/v1/models\r\nContent-Length: 0\r\n")
    elif name == "listslow":
        c.head(200, "application/json")
        c.closed(600)
    elif name.startswith("llama"):
        c.json({"data": [{"id": "/models/tiny.Q4.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": 300, "n_ctx_train": 8192, "n_params": 135000000}}]})
    elif name.startswith("ollama"):
        c.json({"data": [{"id": "tiny:latest", "owned_by": "library"}]})
    elif name.startswith("vllm"):
        c.json({"data": [{"id": "org/tiny", "owned_by": "vllm", "max_model_len": 400}]})
    elif name == "small":
        c.json({"data": [{"id": "tiny", "owned_by": "someone", "max_model_len": 300}]})
    elif name in makes.LISTS:
        c.json(makes.LISTS[name], makes.REFUSES_LIST.get(name, 200))
    else:
        c.json(one)


def stream(c, data, size=None, pause=0.0):
    c.head()
    if not size:
        c.send(data)
        return
    for i in range(0, len(data), size):
        c.send(data[i:i + size])
        if pause:
            time.sleep(pause)


def forever(c, data, pause=0.02):
    try:
        while True:
            c.send(data)
            time.sleep(pause)
    except OSError:
        pass


def chunked(c, data, size, last=b"0\r\n\r\n"):
    c.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")
    for i in range(0, len(data), size):
        piece = data[i:i + size]
        c.send(b"%x\r\n%s\r\n" % (len(piece), piece))
    c.send(last)


def words_of(messages):
    return sum(len(m["content"].encode()) for m in messages) // 4 + 8 * len(messages)


def answer(c, name, q):
    if "messages" not in q:   # a key that is tried
        refused = name in ("e401", "list401")
        return c.json({"error": {"message": "invalid key" if refused else "messages: field required"}}, 401 if refused else 400)
    n = turn(name)
    text = lambda words: b"".join(event(delta(content=w)) for w in words)
    if name in ("plain", "list", "small", "listtwo", "nolist", "listevil", "vllm", "secret"):
        if name == "small" and words_of(q["messages"]) > 300:
            c.json({"error": {"message": "maximum context length is 300 tokens"}}, 400)
        else:
            stream(c, good(usage=words_of(q["messages"]) if name in ("small", "vllm") else 31))
    elif name.startswith("ollama"):
        loaded.add(name)
        stream(c, good(usage=words_of(q["messages"])))
    elif name == "newlimit":   # as hosted models that reason
        if "max_tokens" in q:
            c.json({"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}, 400)
        else:
            stream(c, good(usage=q.get("max_completion_tokens", 0)))
    elif name == "bytes":
        stream(c, good(), 1)
    elif name == "crlf":
        stream(c, good(end="\r\n\r\n"))
    elif name == "crlfbytes":
        stream(c, good(end="\r\n\r\n"), 1)
    elif name == "cr":
        stream(c, good(end="\r\r"))
    elif name == "comments":
        c.head()
        for w in WORDS:
            c.send(b": ping\n\n:\n" + event(delta(content=w)) + b": data: {broken\n")
        c.send(b"\n" + event(SAYS_STOP) + event("[DONE]"))
    elif name == "lines":   # one JSON text over several data: lines
        c.head()
        for w in WORDS:
            c.send(("".join("data: %s\n" % l for l in json.dumps(delta(content=w), indent=1).split("\n")) + "\n").encode())
        c.send(event(SAYS_STOP) + event("[DONE]"))
    elif name == "nodone":
        stream(c, good(done=False))
    elif name == "nofinish":
        stream(c, text(WORDS) + event("[DONE]"))
    elif name == "nospace":
        stream(c, good(head="data:"))
    elif name == "bom":
        stream(c, b"\xef\xbb\xbf" + good())
    elif name == "nochoices":
        stream(c, event({"choices": []}) + event({"object": "x"}) + good())
    elif name == "utf8":
        c.head()
        data = b"".join(("data: " + json.dumps(delta(content=w), ensure_ascii=False) + "\n\n").encode() for w in ("Gr\u00fc\u00dfe ", "\U0001f30d"))
        for i in range(len(data)):
            c.send(data[i:i + 1])
        c.send(event(SAYS_STOP) + event("[DONE]"))
    elif name == "utf8split":   # a character over two events, as bytes
        raw = lambda b: b'data: {"choices":[{"index":0,"delta":{"content":"' + b + b'"}}]}\n\n'
        stream(c, raw(b"Gr\xc3") + raw(b"\xbc\xc3\x9fe") + event(SAYS_STOP) + event("[DONE]"))
    elif name == "escapes":
        stream(c, event('{"choices":[{"delta":{"content":"Gr\\u00fc\\u00dfe \\ud83c\\udf0d"},"index":0}]}') + event(SAYS_STOP) + event("[DONE]"))
    elif name == "whole":
        c.json({"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello, world."}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 4}})
    elif name == "chunked":
        chunked(c, good(), 7)
    elif name == "chunkbytes":
        chunked(c, good(), 1)
    elif name == "length":
        data = good()
        c.head(more=f"Content-Length: {len(data)}\r\n")
        c.send(data)
    elif name in ("thoughts", "reasoning"):
        k = "reasoning_content" if name == "thoughts" else "reasoning"
        stream(c, event(delta(**{k: "It greets, "})) + event(delta(**{k: "so do I.", "content": None})) + good())
    elif name == "parts":
        stream(c, event(delta(content=[{"type": "text", "text": "Hello, "}, {"type": "image"}, {"type": "text", "text": "world."}])) + event(SAYS_STOP) + event("[DONE]"))
    elif name == "fields":
        stream(c, b"retry: 1\nid: 7\nevent: message\nnonsense\n" + good(end="\nid: 8\nevent: x\n\n"))
    elif name == "open":
        c.head()
        c.send(good(done=False))
        c.closed(600)
    elif name == "busy":
        if n % 3 < 2:
            c.json({"error": {"message": "Loading model", "code": 503}}, 503)
        else:
            stream(c, good())
    elif name == "limit":
        if n % 2 == 0:
            c.json({"error": {"message": "rate limit"}}, 429, "Retry-After: 1\r\n")
        else:
            stream(c, good())
    elif name == "reset":
        if n % 3 == 2:
            stream(c, good())
    elif name == "cutfirst":
        if n % 2:
            stream(c, good())
        else:
            c.head()
            c.send(event(delta(role="assistant")))
    elif name == "notype":
        c.head(type=None)
        c.send(good())
    elif name == "plaintype":
        c.head(type="text/plain")
        c.send(good())
    elif name == "lastline":
        stream(c, text(WORDS) + json_line(SAYS_STOP))
    elif name == "second":
        stream(c, event({"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]}) + good())
    elif name == "zero":
        stream(c, text(["Hel\u0000lo, ", "\u0000world."]) + event(SAYS_STOP) + event("[DONE]"))
    elif name == "eos":
        stream(c, text(WORDS) + event({"choices": [{"index": 0, "delta": {}, "finish_reason": "eos"}]}))
    elif name == "cut":
        stream(c, text(WORDS[:2]) + event({"choices": [{"index": 0, "delta": {"content": "world."}, "finish_reason": "length"}]}) + event("[DONE]"))
    elif name in ("gzip", "deflate", "twice", "gzipbad", "gzipbomb", "gziperror"):   # compressed, though nobody asked for that
        pack = zlib.compress if name == "deflate" else gzip.compress
        data = pack(b": " + b"x" * (200 << 20) + b"\n\n" if name == "gzipbomb" else good())
        if name == "gziperror":
            data = pack(json.dumps({"error": {"message": "it is full"}}).encode())
        if name == "twice":
            data = pack(data)
        coding = {"deflate": "deflate", "twice": "gzip, gzip"}.get(name, "gzip")
        c.head(400 if name == "gziperror" else 200, more=f"Content-Encoding: {coding}\r\n")
        c.send(data[:20] + b"xxxxxxxx" + data[20:] if name == "gzipbad" else data)
    elif name == "gzipslow":   # what is compressed arrives piece by piece, too
        z = zlib.compressobj(wbits=31)
        c.head(more="Content-Encoding: gzip\r\n")
        c.send(z.compress(text(WORDS[:2])) + z.flush(zlib.Z_SYNC_FLUSH))
        c.closed(600)
    elif name == "text":
        stream(c, b"".join(event({"choices": [{"index": 0, "text": w, "finish_reason": None}]}) for w in WORDS) + event({"choices": [{"text": "", "finish_reason": "stop"}]}))
    elif name == "unopened":
        stream(c, good(["I won", "der</th", "ink>", "\n\n", "Hello, ", "world."]))
    elif name == "mentioned":
        stream(c, good(["The tag ", "`</think>`", " ends it."]))
    elif name == "escape":
        stream(c, text(["Hello, \u001b[2J\u001b]0;owned\u0007", "world."]) + event(SAYS_STOP) + event("[DONE]"))
    elif name == "figures":
        stream(c, good(done=False) + event('{"choices":[],"usage":{"prompt_tokens":1e300,"completion_tokens":-5},"timings":{"predicted_per_second":1e400}}') + event("[DONE]"))
    elif name == "many":
        stream(c, text(["word%d\n" % i for i in range(10000)]) + event(SAYS_STOP) + event("[DONE]"))
    elif name == "wide":   # each event comes twice as an error of null
        stream(c, event({"error": None, "choices": [{"index": 0, "delta": {"content": "Hello, world."}}]}) + event(SAYS_STOP) + event("[DONE]"))
    # ---- what ends with an error ----
    elif name == "e401":
        c.json({"error": {"message": "Incorrect API key provided: " + key_of.get("last", ""), "code": "invalid_api_key"}}, 401)
    elif name == "e403":
        c.json({"error": "forbidden"}, 403)
    elif name == "page403":   # as squid's
        c.head(403, "text/html")
        c.send(b"<html><title>ERROR: The requested URL could not be retrieved</title></html>")
    elif name == "e404":
        c.json({"error": {"message": "The model `tiny` does not exist"}}, 404)
    elif name == "e400":
        c.json({"detail": [{"loc": ["body"], "msg": "field required"}]}, 400)
    elif name == "e500":
        c.json({"error": {"message": "worker\nhas\u001b[31m died"}}, 500)
    elif name == "e503":
        c.json({"error": {"message": "come back later"}}, 503, "Retry-After: 3600\r\n")
    elif name == "e429":
        c.json({"object": "error", "message": "quota exceeded"}, 429, "Retry-After: 86400\r\n")
    elif name == "e418":
        c.head(418, "text/html")
        c.send(b"<html>" + b"teapot" * 100000)
    elif name == "e204":
        c.head(204, None)
    elif name == "redirect":
        c.head(307, None, f"Location: http://127.0.0.1:{other_port}/plain/v1/chat/completions\r\nContent-Length: 0\r\n")
    elif name == "html":
        c.head(type="text/html")
        c.send(b"<html><body>Welcome</body></html>")
    elif name == "nojson":
        stream(c, text(WORDS[:2]) + event('{"choices": [{"delta": {"content": "wor'))
    elif name == "nojsonfirst":
        stream(c, event("hello"))
    elif name == "deep":
        stream(c, event("[" * 100000))
    elif name == "deepclosed":
        stream(c, event('{"choices":' + "[" * 5000 + "]" * 5000 + "}"))
    elif name == "error":
        stream(c, event({"error": {"message": "out of memory", "code": 400}}))
    elif name == "errorlate":
        stream(c, text(WORDS[:2]) + event({"error": {"message": "out of memory"}}) + event("[DONE]"))
    elif name == "errorempty":
        stream(c, event({"error": {}}))
    elif name == "broken":
        c.head(more="Content-Length: 100000\r\n")
        c.send(text(WORDS[:2]))
    elif name == "brokenchunk":
        chunked(c, text(WORDS[:2]), 50, b"zzz\r\n")
    elif name == "ended":
        stream(c, text(WORDS[:2]))
    elif name == "empty":
        c.head()
    elif name == "doneonly":
        stream(c, event("[DONE]"))
    elif name == "filter":
        stream(c, text(WORDS[:2]) + event({"choices": [{"index": 0, "delta": {}, "finish_reason": "content_filter"}]}) + event("[DONE]"))
    elif name == "tools":
        stream(c, event({"choices": [{"index": 0, "delta": {"tool_calls": [{"function": {"name": "rm"}}]}, "finish_reason": "tool_calls"}]}))
    elif name == "silent":
        c.closed(600)
    elif name == "silentbody":
        c.head()
        c.closed(600)
    elif name == "silentlate":
        c.head()
        c.send(text(WORDS[:2]))
        c.closed(600)
    elif name == "pings":
        c.head()
        forever(c, b": ping\n\n")
    elif name == "nothings":
        c.head()
        forever(c, event({"choices": []}) + event(delta(content="")))
    elif name == "drip":
        c.send(b"HTTP/1.1 200 OK\r\n")
        forever(c, b"X-A: b\r\n", 0.1)
    elif name == "bigline":
        c.head()
        forever(c, b"data: " + b"a" * 65536, 0)
    elif name == "bigevent":
        c.head()
        forever(c, b"data: " + b"a" * 65000 + b"\n", 0)
    elif name == "bighead":
        c.send(b"HTTP/1.1 200 OK\r\n")
        forever(c, b"X-A: " + b"b" * 8000 + b"\r\n", 0)
    elif name == "bigwhole":
        c.head(type="application/json")
        forever(c, b" " * 65536, 0)
    elif name == "bigtext":
        c.head()
        forever(c, event(delta(content="a" * 500000)), 0)
    elif name == "nothttp":
        c.send(b"SSH-2.0-OpenSSH_9.2\r\n")
        c.closed(5)
    elif name == "hundred":
        c.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 3)
        stream(c, good())
    elif name == "overflow":
        c.json({"error": {"message": "request (2030 tokens) exceeds the available context size (300 tokens)", "type": "exceed_context_size_error",
                          "n_ctx": 300, "code": 400}}, 400)
    elif name == "forget":   # it never says how many tokens it has; four messages are too many
        if len(q["messages"]) > 3:
            c.json({"error": {"message": "This model's maximum context length was exceeded", "code": "context_length_exceeded"}}, 400)
        else:
            stream(c, good())
    elif name == "endless":
        c.head()
        try:
            while True:
                c.send(event(delta(content="word ")))
                late = c.closed(0.02)
                if late is not None:
                    break
        except OSError:
            pass
        note(what="closed", name=name, at=time.time())
    elif name == "llamaslow":
        c.head()
        c.send(event({"choices": [], "prompt_progress": {"total": 200, "cache": 0, "processed": 50}}))
        note(what="closed", name=name, late=c.closed(600), at=time.time())
    elif name == "llama":
        words = WORDS
        if q["messages"][-1]["role"] == "assistant":   # goes on, and repeats the beginning first
            words = [q["messages"][-1]["content"], " And", " more."]
        stream(c, event({"choices": [], "prompt_progress": {"total": 31, "cache": 7, "processed": 31}}) + text(words) + event(SAYS_STOP) +
               event({"choices": [], "usage": {"prompt_tokens": words_of(q["messages"]), "completion_tokens": 4}, "timings": {
                   "cache_n": 7, "prompt_n": 24, "prompt_per_second": 100.0, "predicted_n": 4, "predicted_per_second": 25.0}}) + event("[DONE]"))
    elif name in makes.ANSWERS:
        makes.ANSWERS[name](c, q)
    else:
        c.json({"error": {"message": "the test knows no '%s'" % name}}, 404)


def json_line(o):
    return b"data: " + json.dumps(o).encode()


key_of = {}
loaded = set()


def handle(sock, port):
    c = Conn(sock)
    try:
        got = c.request()
        if not got:
            return
        first, head, body = got
        method, url, _ = first.split(" ", 2)
        proxied = url.startswith("http://")
        if proxied:
            url = "/" + url.split("/", 3)[3]
        key = head.get(b"authorization", b"").decode()
        key_of["last"] = key.replace("Bearer ", "")
        q = json.loads(body) if body else {}
        name = url.split("/")[1]
        whole, url = url, url.split("?")[0]
        note(what="request", port=port, method=method, path=whole, key=bool(key), proxied=proxied, body=q)
        if url.endswith("/models"):
            list_models(c, name)
        elif url.endswith("/chat/completions"):
            answer(c, name, q)
        elif url.endswith("/api/ps") and name == "ollamamany":
            c.json(b'{"models":[' + b",".join([b"{}"] * 300000) + b',{"name":"tiny:latest","context_length":300}]}')
        elif url.endswith("/api/ps") and name == "ollamahuge":
            c.json(b'{"models":[' + b" " * (5 << 20) + b"]}")
        elif url.endswith("/api/ps") and name.startswith("ollama"):   # the context of a model that is loaded
            c.json({"models": [{"name": "other", "context_length": 9}] + [{"name": "tiny:latest", "context_length": 300}] * (name in loaded and name == "ollama")})
        elif url.endswith("/api/show") and name.startswith("ollama"):
            c.json({"parameters": "stop \"x\"\nnum_ctx                        300" if name == "ollamaset" and q["model"] == "tiny:latest" else "stop \"x\""})
        elif url.endswith("/props") and name.startswith("llama"):
            c.json({"default_generation_settings": {"n_ctx": 300}, "total_slots": 1, "chat_template": "{% if enable_thinking %}"})
        elif url.endswith("/apply-template") and name.startswith("llama"):
            c.json({"prompt": "".join("<%s>%s" % (m["role"], m["content"]) for m in q["messages"]) + "<assistant>"})
        elif url.endswith("/tokenize") and name.startswith("llama"):
            c.json({"tokens": list(range(len(q["content"].encode()) // 4 + 1))})
        elif url.endswith("/tokenize") and name.startswith("vllm"):
            c.json({"count": words_of(q["messages"]) if "messages" in q else len(q["prompt"]) // 4, "max_model_len": 400})
        else:
            c.json({"error": {"message": "no such path"}}, 404)
    except OSError:
        pass
    finally:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        sock.close()


def serve(listener, port, context=None):
    while True:
        s, _ = listener.accept()
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def run(s=s):
            try:
                handle(context.wrap_socket(s, server_side=True) if context else s, port)
            except (OSError, ValueError):
                s.close()
        threading.Thread(target=run, daemon=True).start()


def listen():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    s.listen(64)
    return s, s.getsockname()[1]


main, main_port = listen()
other, other_port = listen()
threading.Thread(target=serve, args=(other, other_port), daemon=True).start()
tls_port = 0
if len(sys.argv) > 3:   # a certificate with its key
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3])
    tls, tls_port = listen()
    threading.Thread(target=serve, args=(tls, tls_port, context), daemon=True).start()
with open(sys.argv[2] + ".new", "w") as f:
    f.write(f"{main_port} {other_port} {tls_port}\n")
os.rename(sys.argv[2] + ".new", sys.argv[2])
serve(main, main_port)
