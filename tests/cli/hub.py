"""A server of models that misbehaves, for s_pull.sh: python3 hub.py MODEL.gguf LOG PORTS

It answers as huggingface.co does: /api/models/REPO/revision/main names the commit, /api/models/REPO/tree/COMMIT lists the files in pages of
1,000 with the next one's address in a Link header, /REPO/resolve/COMMIT/FILE redirects to the storage of the file and names its SHA-256 and
size.  The name of a repository, t/NAME, says what goes wrong with it.  LOG gets a line for each request: its path, range, and whether a token
came.  PORTS gets the ports of the server and of another host that it redirects to."""
import email.utils, functools, hashlib, http.server, json, os, random, re, struct, sys, threading, time

model = open(sys.argv[1], "rb").read()
data = model + random.Random(1).randbytes(3 << 20)   # bytes behind the last tensor
log = open(sys.argv[2], "a", buffering=1)
chance = random.Random(2)
lock = threading.Lock()
count = {}
COMMIT = hashlib.sha1(data).hexdigest()   # of every repository; "main" moves on as soon as it was asked for
PAGE = 1000


def strange(name):   # the same model of a family that there is not; an encoder; a reranker
    if name in ("encoder", "ranker"):
        file = {"encoder": "nomic-bert", "ranker": "bert-reranker"}[name]
        return open(f"tests/vectors/models/{file}.gguf", "rb").read() + data[len(model):]
    return data.replace(b"llama", b"lxama") if name == "family" else data


@functools.lru_cache(None)
def tree(name):
    body = strange(name)
    f = lambda path, body=body, **more: {"type": "file", "path": path, "size": len(body), "oid": "0" * 40, "xetHash": "1" * 64,
                                         "lfs": {"oid": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 134, **more}}
    files = [{"type": "directory", "path": "sub"}, f("README.md"), f("mmproj-F16.gguf"), f(f"{name}-Q4_K_M.gguf"), f(f"{name}-Q8_0.gguf")]
    if name == "sum":
        files = [f("sum-Q4_K_M.gguf", oid="ab" * 32)]
    elif name == "hostile":
        files = [f(p) for p in ("../../evil-Q4_K_M.gguf", "/etc/x-Q4_K_M.gguf", "a/../../b-Q4_K_M.gguf", "\u001b[2Jx-Q4_K_M.gguf", "x y-Q4_K_M.gguf",
                                "-rf-Q4_K_M.gguf", ".hidden-Q4_K_M.gguf", "$(id)-Q4_K_M.gguf", "a\u0000b-Q4_K_M.gguf", "n" * 300 + ".gguf")]
    elif name == "huge":
        files = [f("huge-Q4_K_M.gguf", size=10 ** 30), f("b-Q4_K_M.gguf", size=-5), f("c-Q4_K_M.gguf", size=1.5), f("d-Q4_K_M.gguf", size="x")]
    elif name == "large":
        files = [f("large-Q4_K_M.gguf", size=1 << 41)]
    elif name == "vast":
        files = [f("vast-Q4_K_M.gguf", size=1 << 40)]
    elif name == "nosum":
        files = [{"type": "file", "path": "nosum-Q4_K_M.gguf", "size": len(data)}]
    elif name == "text":
        files = [f("README.md")]
    elif name == "parts":
        files = [f("Q4_K_M/parts-%05d-of-00003.gguf" % (i + 1), parts[i]) for i in range(3)] + [f("Q8_0/parts-Q8_0-00001-of-00002.gguf")]
    elif name == "quants":
        files = [f(f"Quants-{q}.gguf") for q in ("IQ1_S", "Q8_0", "Q5_K_M", "f16")]
    elif name in ("pages", "mirrored", "pagebusy", "pageaway", "pagecircle"):
        files = [{"type": "file", "path": f"text/{i}.txt", "size": 1, "oid": "0" * 40} for i in range(2 * PAGE)] + files
    elif name == "big":
        files = [f("big-Q8_0.gguf", size=1 << 41), f("big-Q4_K_M.gguf", size=1 << 40)]
    elif name == "bigsmall":
        files = [f("bigsmall-Q4_K_M.gguf", size=1 << 40), f("bigsmall-Q2_K.gguf")]
    return files


def split(n):
    """The tensors of the model over n files, as llama.cpp's gguf-split leaves them."""
    at = 0

    def take(fmt):
        nonlocal at
        v = struct.unpack_from("<" + fmt, model, at)
        at += struct.calcsize("<" + fmt)
        return v[0]

    def text():
        nonlocal at
        k = take("Q")
        at += k
        return model[at - k:at]

    def value(t):
        nonlocal at
        if t == 8:
            text()
        elif t == 9:
            elem, k = take("I"), take("Q")
            for _ in range(k):
                value(elem)
        else:
            at += (1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8)[t]

    take("I"), take("I")
    n_tensor, n_kv = take("Q"), take("Q")
    kv0, align = at, 32
    for _ in range(n_kv):
        if text() == b"general.alignment":
            align = struct.unpack_from("<I", model, at + 4)[0]
        value(take("I"))
    kv = model[kv0:at]
    tensors = []
    for _ in range(n_tensor):
        name, dims = text(), take("I")
        ne = [take("Q") for _ in range(dims)]
        tensors.append((name, ne, take("I"), take("Q")))
    start = (at + align - 1) // align * align
    order = sorted(t[3] for t in tensors) + [len(model) - start]
    out = []
    for part in range(n):
        mine = tensors[part * n_tensor // n:(part + 1) * n_tensor // n]
        s = lambda b: struct.pack("<Q", len(b)) + b
        keys = s(b"split.no") + struct.pack("<IH", 2, part) + s(b"split.count") + struct.pack("<IH", 2, n) + s(b"split.tensors.count") + struct.pack("<Ii", 5, n_tensor)
        head, blob = b"", b""
        for name, ne, t, off in mine:
            head += s(name) + struct.pack("<I", len(ne)) + struct.pack(f"<{len(ne)}Q", *ne) + struct.pack("<IQ", t, len(blob))
            blob += model[start + off:start + order[order.index(off) + 1]]
            blob += b"\0" * (-len(blob) % align)
        own = kv if part == 0 else b""
        whole = b"GGUF" + struct.pack("<IQQ", 3, len(mine), (n_kv if part == 0 else 0) + 3) + own + keys + head
        out.append(whole + b"\0" * (-len(whole) % align) + blob)
    return out


parts = split(3)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    other = 0   # the port of the other host

    def log_message(self, *a):
        pass

    def answer(self, code, body=b"", **head):
        self.send_response(code)
        head.setdefault("Content_Length", str(len(body)))
        for k, v in head.items():
            if v is not None:
                self.send_header(k.replace("_", "-"), v)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass
        self.close_connection = True

    def do_GET(self):
        want = self.headers.get("Range", "")
        here = self.server.server_address[1]
        log.write(f"{self.path} {want or '-'} {'token' if self.headers.get('Authorization') else 'plain'} {'other' if here == self.other else 'hub'}\n")
        name = re.match(r"/(?:api/models/|api/resolve-cache/models/|there/)?t/([a-z0-9]+)", self.path)
        name = name.group(1) if name else ""
        with lock:
            times = count[self.path] = count.get(self.path, 0) + 1
        if name == "oldname":   # it has been renamed
            return self.answer(307, Location=self.path.replace("t/oldname", "t/newname"))
        if self.path.startswith("/api/resolve-cache/"):
            return self.file(name, times, want)
        if self.path.startswith("/api/"):
            return self.list(name, times)
        if f"/resolve/{COMMIT}/" not in self.path:
            return self.answer(404, X_Error_Code="RevisionNotFound", X_Error_Message="Invalid rev id: main")
        self.file(name, times, want)

    def refuse(self, name):
        """What huggingface.co answers where it does not give a file or a list."""
        code, error, message = {
            "401": (401, None, "Invalid username or password."),
            "403": (403, None, None),
            "404": (404, "RepoNotFound", "Repository not found"),
            "gated": (403, "GatedRepo", f"Access to model t/{name} is restricted and you are not in the authorized list."),
            "asked": (403, "GatedRepo", f"Your request to access model t/{name} is awaiting a review from the repo authors."),
            "closed": (401, "GatedRepo", f"Access to model t/{name} is restricted. You must have access to it and be authenticated to access it."),
            "disabled": (403, None, "Access to this resource is disabled. \x1b[2J"),
        }[name]
        self.answer(code, b"<html>no", X_Error_Code=error, X_Error_Message=message)

    def list(self, name, times):
        revision = re.match(r"/api/models/t/[a-z0-9]+/(?:revision/([^/?]+)\?expand=sha|tree/([^/?]+)\?recursive=true(?:&cursor=(\d+))?)$", self.path)
        if not name or not revision:
            return self.answer(404)
        asked, listed, cursor = revision.groups()
        if name in ("401", "403", "404", "disabled"):
            return self.refuse(name)
        if name == "login":
            return self.answer(200, b"<html>Welcome to our hotel</html>")
        if (asked or listed) not in ("main", "v1.0", "refs%2Fpr%2F1", COMMIT) or listed == "main":
            return self.answer(404, X_Error_Code="RevisionNotFound", X_Error_Message="Invalid rev id: " + (asked or listed))
        if name == "busy" and times <= 2:
            return self.answer(429 if times == 1 else 503, Retry_After="1")
        if name == "limited" and times == 1:
            return self.answer(429, RateLimit='"api";r=0;t=1', RateLimit_Policy='"fixed window";"api";q=500;w=300')
        if name == "429":
            return self.answer(429, RateLimit='"api";r=0;t=9999')
        if name == "circle":
            return self.answer(302, Location=self.path)
        if name in ("flood", "drip", "floodaway"):
            return self.endless(name)
        if name == "away":
            return self.answer(302, Location="ftp://127.0.0.1/x")
        if asked:
            answer = {"id": f"t/{name}", "sha": {"nocommit": None, "badcommit": "../" * 20}.get(name, COMMIT)}
            return self.answer(200, self.mutated(name, answer) if name.startswith("broken") else json.dumps(answer).encode())
        if name == "json":
            return self.answer(200, b'[{"type":"file","path":"a-Q4_K_M.gguf","lfs":{"oid":')
        if name == "changed" and times > 1:
            return self.answer(200, json.dumps(tree(name)).replace(hashlib.sha256(data).hexdigest(), hashlib.sha256(data[::-1]).hexdigest()).encode())
        if name == "pagebusy" and cursor and times == 1:
            return self.answer(503, Retry_After="1")
        files, at = tree(name), int(cursor or 0)
        link = f"{self.path.split('&')[0]}&cursor={at + PAGE}"
        host = {"mirrored": "https://huggingface.co", "pageaway": f"http://127.0.0.1:{self.other}"}.get(name, f"http://{self.headers['Host']}")
        link = None if at + PAGE >= len(files) else f'<{host}{link}>; rel="next"'
        if name == "pagecircle":
            link = f'<{host}{self.path}>; rel="next"'
        files = files[at:at + PAGE]
        self.answer(200, self.mutated(name, files) if name.startswith("mutated") else json.dumps(files).encode(), Link=link)

    def mutated(self, name, answer):
        """An answer with a few bytes changed, by a number."""
        some, body = random.Random(name), bytearray(json.dumps(answer).encode())
        for _ in range(some.randrange(1, 6)):
            at = some.randrange(len(body))
            body[at:at + some.randrange(0, 4)] = some.choice((b"", b"\0", b'"', b"{", b"]", b"\\", b"9", b"-", b"\xff", b"../", b"e999", some.randbytes(3)))
        return bytes(body)

    def file(self, name, times, want):
        body = strange(name)
        if name == "parts":
            body = parts[int(re.search(r"-(\d+)-of", self.path).group(1)) - 1]
        if name == "gone":
            return self.answer(404, X_Error_Code="EntryNotFound", X_Error_Message="Entry not found")
        if name in ("gated", "asked", "closed"):
            return self.refuse(name)
        while name == "gate" and not os.path.exists(sys.argv[2] + ".open"):
            time.sleep(0.05)
        there = self.path.startswith(("/there/", "/api/resolve-cache/"))
        if name == "cached" and not there:
            return self.answer(307, Location="/api/resolve-cache/models" + self.path)
        if name in ("elsewhere", "expired", "relinked", "resizedlink", "parts", "newname") and not there:
            sum = "ef" * 32 if name == "relinked" else hashlib.sha256(body).hexdigest()
            return self.answer(302, Location=f"http://127.0.0.1:{self.other}/there{self.path}?X-Xet-Signed-Range=bytes%3D0-1&Expires={times}", X_Repo_Commit=COMMIT,
                               X_Linked_ETag=f'"{sum}"', X_Linked_Size=str(len(body) + (name == "resizedlink")), ETag='"x"')
        if name == "expired" and int(self.path.split("Expires=")[1]) % 2:
            return self.answer(403, b"<Error>AccessDenied: Request has expired</Error>")
        if name == "short416" and times > 2:
            return self.answer(416)
        if name == "busyfile" and times in (1, 3):
            return self.answer(503, Retry_After="1")
        if name == "busydate" and times == 1:
            return self.answer(503, Retry_After=email.utils.formatdate(time.time() + 8, usegmt=True))
        m = re.match(r"bytes=(\d+)-(\d*)$", want)
        first, last = (int(m.group(1)), int(m.group(2) or len(body) - 1)) if m else (0, len(body) - 1)
        if name == "norange":
            return self.answer(200, body)
        if name == "norangedrop":
            return self.part(200, {"Content_Length": str(len(body))}, body[:len(body) // 2 if times < 4 else len(body)])
        part = body[first:last + 1]
        head = {"Content_Length": str(len(part)), "Content_Range": f"bytes {first}-{last}/{len(body)}", "ETag": '"x"'}
        if name == "vast":
            head["Content_Range"] = f"bytes {first}-{last}/{1 << 40}"
        if name == "wrongrange":
            head["Content_Range"] = f"bytes {first + 7}-{last + 7}/{len(body)}"
        if name == "resized":
            head["Content_Range"] = f"bytes {first}-{last}/{len(body) + 99}"
        if name == "endless":
            part, head["Content_Length"] = part + b"x" * 100000, None
        if name == "truncated":
            part, head["Content_Length"] = part[:len(part) // 2 + 1], None
        if name == "drops":
            part = part[:chance.randrange(0, 24000)]
        if name == "kills":   # at first it stands still, until the other side is killed
            return self.part(206, head, part[:chance.randrange(0, 400000)], pause=0.1, holds=times <= 6)
        if name == "stuck" and first > 100000:
            part = b""
        if name == "slow":
            return self.part(206, head, part, pause=0.3)
        if first and (name == "held" or name == "changed" and times == 2):   # the first request is for the header
            return self.part(206, head, part[:len(part) // 2], holds=True)
        self.part(206, head, part)

    def endless(self, name):
        """A page that goes with an error or a redirection, without an end."""
        self.send_response(302 if name == "floodaway" else 404)
        self.send_header("Location", "/api/models/t/plain/revision/main?expand=sha")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x" * (1 if name == "drip" else 65536))
                self.wfile.flush()
                time.sleep(0.2 if name == "drip" else 0)
        except OSError:
            pass
        self.close_connection = True

    def part(self, code, head, body, pause=0, holds=False):
        self.send_response(code)
        for k, v in head.items():
            if v is not None:
                self.send_header(k.replace("_", "-"), v)
        self.end_headers()
        try:
            step = max(1, len(body) // 4) if pause else 1 << 20
            for i in range(0, len(body), step):
                self.wfile.write(body[i:i + step])
                self.wfile.flush()
                time.sleep(pause)
            if holds:
                time.sleep(600)
        except OSError:
            pass
        self.close_connection = True


servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
Handler.other = servers[1].server_address[1]
threading.Thread(target=servers[1].serve_forever, daemon=True).start()
with open(sys.argv[3] + ".new", "w") as f:
    print(servers[0].server_address[1], servers[1].server_address[1], hashlib.sha256(data).hexdigest(), file=f)
os.rename(sys.argv[3] + ".new", sys.argv[3])
servers[0].serve_forever()
