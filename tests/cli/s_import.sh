#!/bin/sh
# tests/cli/s_import.sh - weir inspect document: its contract, addresses, and hostile documents (hostile.py).
#
# WEIR is the program (default ./weir).  Needs python3 for the documents and for a server on 127.0.0.1; no model.
# Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}

. tests/lib/count.sh
command -v python3 >/dev/null || { skip import "python3 is not installed"; finish; }
dir=$(mktemp -d) || exit 1
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$dir"' EXIT

# reads NAME ARGUMENT PATTERN: check status 0 and the output.
reads() {
	"$weir" inspect document "$2" --json >"$dir/out" 2>"$dir/err"
	rc=$?
	if [ $rc != 0 ]; then bad "$1" "status $rc: $(cat "$dir/err")"
	elif ! grep -q -e "$3" "$dir/out"; then bad "$1" "no '$3' in: $(head -c 600 "$dir/out")"
	else ok "$1"; fi
}

# refuses NAME ARGUMENT PATTERN: check status 4, no standard output, and one line of error that matches.
refuses() {
	"$weir" inspect document "$2" >"$dir/out" 2>"$dir/err"
	rc=$?
	if [ $rc != 4 ]; then bad "$1" "status $rc: $(cat "$dir/err")"
	elif [ -s "$dir/out" ] || [ "$(wc -l <"$dir/err")" != 1 ]; then bad "$1" "not one line: $(cat "$dir/out" "$dir/err")"
	elif ! grep -q -e "$3" "$dir/err"; then bad "$1" "no '$3' in: $(cat "$dir/err")"
	else ok "$1"; fi
}

# ---- the contract for scripts ----

printf '# One\n\ntext\n\nTwo\n===\n\nmore \303\251 "quoted"\n' >"$dir/a.md"
"$weir" inspect document "$dir/a.md" --json -m /none >"$dir/out" 2>"$dir/err"
python3 - "$dir/out" <<'EOT' >"$dir/why" 2>&1 && ok "--json: name, type, pages, bytes, tokens, text, marks, notes, left_out" || bad "--json" "$(tail -n 1 "$dir/why")"
import json, sys
d = json.load(open(sys.argv[1]))
assert list(d) == ["name", "type", "encoding", "pages", "bytes", "tokens", "text", "marks", "notes", "left_out"], list(d)
assert (d["name"], d["type"], d["pages"], d["bytes"], d["tokens"], d["notes"]) == ("a.md", "markdown", 0, 39, None, []), d
assert [(m["kind"], m["at"], m["text"], m["level"]) for m in d["marks"]] == [("heading", 0, "One", 1), ("heading", 13, "Two", 1)], d["marks"]
EOT
if command -v pdftotext >/dev/null 2>&1; then
	"$weir" inspect document tests/vectors/documents/harbour.pdf --json -m /none >"$dir/out" 2>"$dir/err"
	python3 - "$dir/out" <<'EOT' >"$dir/why" 2>&1 && ok "--json: the running heads of a PDF are listed" || bad "--json: the running heads of a PDF are listed" "$(tail -n 1 "$dir/why")"
import json, sys
d = json.load(open(sys.argv[1]))
head = "Report on Marlow Harbour"
assert [(x["page"], x["text"]) for x in d["left_out"]] == [("1", "1")] + [(p, t) for p in "234" for t in (head, p)], d["left_out"]
assert d["notes"] == ["7 lines of running heads, feet and page numbers left out"] and d["text"].count(head) == 1, d
EOT
else
	skip "the running heads of a PDF" "pdftotext is not installed"
fi
"$weir" inspect document "$dir/a.md" >"$dir/out" 2>"$dir/err"
if cmp -s "$dir/a.md" "$dir/out"; then ok "a text comes out as it is"; else bad "a text comes out as it is" "$(cat "$dir/err")"; fi
if [ "$(cat "$dir/err")" = 'a.md: markdown, 39 B of text
      byte
         0    One
        13    Two' ]; then ok "its headings stand on standard error"; else bad "its headings stand on standard error" "$(cat "$dir/err")"; fi
printf '1 One\n\ntext\n\f2 Two\n\nmore\n' | "$weir" inspect document - >/dev/null 2>"$dir/err"
if grep -q '^ *0  page 1$' "$dir/err" && grep -q '^ *13  page 2$' "$dir/err"; then ok "so do its pages"; else bad "so do its pages" "$(cat "$dir/err")"; fi
"$weir" inspect document "$dir/a.md" -q >"$dir/out" 2>"$dir/err"
if cmp -s "$dir/a.md" "$dir/out" && [ ! -s "$dir/err" ]; then ok "with -q it is the text alone"; else bad "with -q it is the text alone" "$(cat "$dir/err")"; fi
printf 'page one\fpage two\n' | gzip | "$weir" inspect document - --json >"$dir/out" 2>"$dir/err"
if grep -q '"type":"text".*"pages":2.*"kind":"page","at":9,"text":"2"' "$dir/out"; then ok "gzip on standard input, pages"; else bad "gzip on standard input, pages" "$(cat "$dir/out" "$dir/err")"; fi
"$weir" inspect document >"$dir/out" 2>"$dir/err"
[ $? = 2 ] && ok "no file is usage" || bad "no file is usage" "$(cat "$dir/err")"
refuses "a missing file" "$dir/none.pdf" 'cannot be opened'
refuses "an unknown protocol" "ftp://127.0.0.1/x" 'cannot be opened'
PATH=/nowhere "$weir" inspect document /dev/null >/dev/null 2>&1
printf '%%PDF-1.4\n' >"$dir/x.pdf"
PATH=/nowhere "$weir" inspect document "$dir/x.pdf" 2>"$dir/err"
grep -q 'install pdftotext' "$dir/err" && ok "without pdftotext it says what to install" || bad "without pdftotext" "$(cat "$dir/err")"

# A font whose characters only the tables of poppler-data name: the text is read, or the note says what is missing.
python3 - "$dir/japanese.pdf" <<'EOT'
import sys
objects = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R /Resources << /Font << /F 5 0 R /G 7 0 R >> >> >>",
    "<< /Length 82 >>\nstream\nBT /G 12 Tf 50 700 Td (page text) Tj ET BT /F 12 Tf 50 600 Td <93FA967B8CEA> Tj ET  \nendstream",
    "<< /Type /Font /Subtype /Type0 /BaseFont /Ryumin-Light /Encoding /90ms-RKSJ-H /DescendantFonts [6 0 R] >>",
    "<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Ryumin-Light /CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 2 >> /DW 1000 >>",
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
out, at = "%PDF-1.7\n", []
for i, o in enumerate(objects, 1):
    at.append(len(out))
    out += "%d 0 obj\n%s\nendobj\n" % (i, o)
xref = len(out)
out += "xref\n0 8\n0000000000 65535 f \n" + "".join("%010d 00000 n \n" % a for a in at)
open(sys.argv[1], "w").write(out + "trailer\n<< /Size 8 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % xref)
EOT
reads "a PDF in Japanese" "$dir/japanese.pdf" 'page text.*日本語\|page text.*install poppler-data'

# ---- addresses ----

cat >"$dir/server.py" <<'EOT'
import gzip, http.server, socketserver, ssl, sys, threading, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    def do_GET(self):
        path, code, head, body = self.path, 200, {}, b"<html><p>served page"
        if path.startswith("http://"):   # as a proxy
            code, head = 302, {"Location": "http://%s/secret" % path.split("/")[3]}
            if path.endswith("/secret"):
                code, head, body = 200, {"Content-Type": "text/plain"}, b"a page that only this machine sees"
        elif path.startswith("/to-"):
            code, head = 302, {"Location": {"/to-plain": "http://127.0.0.1:%s/notes.md" % plain, "/to-user": "http://me:hunter2@127.0.0.1:%s/notes.md" % plain,
                                            "/to-endless": "/notes.md", "/to-page": "/page.html", "/to-file": "file:///etc/passwd", "/to-itself": "/to-itself", "/to-ftp": "ftp://127.0.0.1/"}[path]}
        elif path == "/russian.html":
            head, body = {"Content-Type": "text/html; charset=koi8-r"}, "<p>\u043f\u0440\u0438\u0432\u0435\u0442".encode("koi8-r")
        elif path == "/packed":
            head, body = {"Content-Type": "text/html", "Content-Encoding": "gzip"}, gzip.compress(b"<html><p>unpacked page")
        elif path == "/bomb":
            head, body = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, gzip.compress(b"x" * (100 << 20))
        elif path.startswith("/missing"):
            code = 404
        elif path.split("?")[0] in ("/notes.md", "/a%20b.txt"):
            head, body = {"Content-Type": "text/plain"}, b"# Title\n\ntext\n"
        self.send_response(code)
        for k, v in head.items():
            self.send_header(k, v)
        self.end_headers()
        try:
            self.wfile.write(body)
            while path in ("/endless", "/to-endless", "/missing-endless"):
                self.wfile.write(b"x" * 65536)
        except OSError:
            pass
    def log_message(self, *a):
        pass
with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as s, socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as t:
    plain = s.server_address[1]
    if sys.argv[1:]:
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        c.load_cert_chain(sys.argv[1])
        t.socket = c.wrap_socket(t.socket, server_side=True)
    threading.Thread(target=t.serve_forever, daemon=True).start()
    print(plain, t.server_address[1], flush=True)
    s.serve_forever()
EOT
pem=
if command -v openssl >/dev/null 2>&1 && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
	-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$dir/key.pem" -out "$dir/cert.pem" >/dev/null 2>&1; then
	cat "$dir/key.pem" "$dir/cert.pem" >"$dir/both.pem"
	pem=$dir/both.pem
fi
unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE
# shellcheck disable=SC2086 # without a certificate there is no argument
python3 "$dir/server.py" $pem >"$dir/port" 2>/dev/null &
server=$!
wait_for [ -s "$dir/port" ]
read -r port tls <"$dir/port"
at=http://127.0.0.1:$port
if [ -s "$dir/port" ]; then
	reads "an address" "$at/page.html" '"name":"page.html","type":"html".*served page'
	reads "a name without a path" "$at/" '"name":"127.0.0.1:[0-9]*".*served page'
	reads "a redirection" "$at/to-page" 'served page'
	reads "the server's encoding" "$at/russian.html" '"encoding":"KOI8-R".*привет'
	reads "the server's compression" "$at/packed" 'unpacked page'
	reads "Markdown by its name" "$at/notes.md" '"type":"markdown".*"kind":"heading"'
	refuses "a redirection to a file" "$at/to-file" 'cannot be fetched'
	refuses "a redirection to another protocol" "$at/to-ftp" 'cannot be fetched'
	refuses "a redirection to itself" "$at/to-itself" 'cannot be fetched'
	refuses "a page that is not there" "$at/missing" '404'
	refuses "an endless page" "$at/endless" 'longer than 64 MiB'
	refuses "a compressed bomb" "$at/bomb" 'longer than 64 MiB'
	refuses "the page of an error without an end" "$at/missing-endless" '404'
	refuses "the page of a redirection without an end" "$at/to-endless" 'does not end'
	reads "an address with a blank" "$at/a b.txt" '"name":"a%20b.txt".*text'
	reads "blanks at its end" "$at/notes.md  " '"name":"notes.md"'
	reads "what stands behind a question mark is no name" "$at/notes.md?token=hunter2" '"name":"notes.md"'
	refuses "nor in an error" "$at/missing?token=hunter2" "/missing' cannot be fetched: the server answers 404"
	refuses "a password in an address" "http://me:hunter2@127.0.0.1:$port/" 'has a user name in it'
	refuses "one with a slash in it" "http://me:hun/ter2@127.0.0.1:$port/notes.md" 'has a user name in it'
	refuses "one in a redirection" "$at/to-user" 'an address with a user name in it'
	for url in "http://me:hunter2@127.0.0.1:$port/" "http://me:hunter2@127.0.0.1:1/" "http://me:hunter2@" "$at/missing?token=hunter2" "$at/to-user"; do
		"$weir" inspect document --json "$url" </dev/null 2>&1
		echo 'what is it?' | "$weir" read "$url" 2>&1
		"$weir" --remote "http://127.0.0.1:1" -p 'what is it?' "$url" </dev/null 2>&1
		"$weir" --remote "$url" -p 'what is it?' </dev/null 2>&1
	done >"$dir/out"
	if grep -q hunter2 "$dir/out"; then bad "passwords are not repeated" "$(grep hunter2 "$dir/out")"; else ok "passwords are not repeated"; fi
	# A proxy connects to other machines, so only their names tell whether they are local.
	export http_proxy="$at"
	reads "a redirection by a proxy to another name" http://pages.test/other.test/ 'only this machine sees'
	for near in 127.0.0.1 127.1 localhost x.localhost. 10.1.2.3 172.16.0.1 192.168.0.1 169.254.169.254 100.64.0.1 '[::1]' '[::ffff:127.0.0.1]' '[fd00::1]' '[fe80::1]'; do
		refuses "from the net to $near" "http://pages.test/$near/" 'which is this machine or one of its own network'
	done
	reads "from a network to itself" http://10.1.2.3/10.1.2.4/ 'only this machine sees'
	refuses "from there to this machine" http://10.1.2.3/127.0.0.1/ 'which is this machine'
	unset http_proxy
	if [ -n "$pem" ]; then
		refuses "a certificate of nobody" "https://localhost:$tls/notes.md" 'cannot be fetched'
		export SSL_CERT_FILE="$dir/cert.pem"
		reads "one of an authority that SSL_CERT_FILE names" "https://localhost:$tls/notes.md" '"name":"notes.md"'
		refuses "from https to http" "https://localhost:$tls/to-plain" 'without encryption'
		reads "from http to http" "$at/to-plain" '"name":"to-plain"'
		unset SSL_CERT_FILE
	else
		skip "https" "openssl makes no certificate"
	fi
	kill "$server"
	wait "$server" 2>/dev/null
	server=
	refuses "a server that is not there" "$at/page.html" 'cannot be fetched'
else
	skip "addresses" "no server on 127.0.0.1"
fi

# ---- documents made to harm ----

mkdir "$dir/hostile"
mkfifo "$dir/list" || exit 1
{ python3 tests/cli/hostile.py "$dir/hostile" "$weir" 2>&1 || echo "bad hostile.py"; } >"$dir/list" &
while IFS= read -r line; do
	case $line in
	"ok "*) ok "hostile: ${line#ok }" ;;
	"bad "*) bad "hostile: ${line#bad }" "see above" ;;
	*) echo "    ${line#note }" ;;
	esac
done <"$dir/list"
wait
finish
