#!/bin/sh
# tests/package/try.sh - packages on bare systems, a part of `make soak`: the Debian package is built, installed, used, upgraded and removed in a
# Debian 12 in which nothing else is installed; the portable archive is built, and used in Debian 11 (the oldest C library that it is for), 12 and 13.
# Needs root, debootstrap, debhelper, lintian and a network; skips where one is missing.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/count.sh

model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
for tool in debootstrap dpkg-buildpackage dh lintian openssl python3; do
	command -v $tool >/dev/null || { skip "packages" "$tool is not installed"; finish; }
done
[ "$(id -u)" = 0 ] || { skip "packages" "only root can make a bare system"; finish; }
[ -e "$model" ] || { skip "packages" "there is no default model"; finish; }

dir=$(mktemp -d "${TMPDIR:-/tmp}/weir-package.XXXXXX")
mounted=
cleanup() {
	[ -z "${server:-}" ] || kill "$server"
	for m in $mounted; do umount "$m"; done
	rm -rf --one-file-system "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# bare SUITE: make a bare system in $dir/SUITE with the model in it.
bare() {
	tests/package/package.sh system "$1" "$dir/$1" 2>"$dir/log" || return 1
	mount --bind /proc "$dir/$1/proc" && mounted="$mounted $dir/$1/proc"
	cp "$model" "$dir/$1/root/model.gguf"
	printf '<h1>Harbour</h1><p>The crane lifts 40 tons.</p>' >"$dir/$1/root/note.html"
}
# inside SUITE COMMAND: run the command there; its output goes to $dir/out.
inside() {
	chroot "$dir/$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
	  sh -c "cd /root && $2" >"$dir/out" 2>&1 </dev/null
}
# check WHAT SUITE COMMAND PATTERN: the command succeeds and its output matches.
check() {
	if inside "$2" "$3" && grep -qE "$4" "$dir/out"; then ok "$1"; else bad "$1" "$(tail -n 3 "$dir/out")"; fi
}
answers="-m /root/model.gguf -p 'What is the capital of France?' -n 12 --temp 0 -q"
# used SUITE PROGRAM: the first things a user does.
used() {
	check "$1: it says its version" "$1" "$2 --version -v" '^weir [0-9.]+$'
	check "$1: it answers" "$1" "$2 $answers" '[A-Za-z]'
	check "$1: it reads a document in the jail" "$1" "$2 inspect document note.html" 'The crane lifts 40 tons'
	check "$1: weir-lab is found" "$1" "$2 eval ppl note.html -m /root/model.gguf --json -q" '"scored":[1-9]'
	check "$1: the network of predict is found" "$1" "$2 $answers --kv predict --private" '[A-Za-z]'
	check "$1: a session is kept" "$1" "$2 -s harbour $answers && $2 sessions ls" 'harbour'
	check "$1: without pdftotext a PDF is refused by one line" "$1" "printf '%%PDF-1.4' >a.pdf; $2 inspect document a.pdf; test \$? = 4" 'pdftotext'
}

if deb=$(tests/package/package.sh deb 2>"$dir/log"); then ok "the package is built, and lintian finds nothing"
else bad "the package is built, and lintian finds nothing" "$(tail -n 3 "$dir/log")"; fi
if bare bookworm && [ -n "$deb" ]; then
	cp "$deb" "$dir/bookworm/root/weir.deb"
	dpkg-deb -R "$deb" "$dir/next" && sed -i 's/^Version: .*/&+1/' "$dir/next/DEBIAN/control" && dpkg-deb -b "$dir/next" "$dir/bookworm/root/next.deb" >"$dir/log"
	check "it is installed with what it needs alone" bookworm "apt-get -qq update && apt-get -qq install -y --no-install-recommends ./weir.deb" .
	used bookworm weir
	check "manual, completions and desktop entry are there" bookworm \
	  "ls /usr/share/man/man1/weir.1.gz /usr/share/man/man7/weir-cache.7.gz /usr/share/bash-completion/completions/weir /usr/share/zsh/vendor-completions/_weir /usr/share/fish/vendor_completions.d/weir.fish /usr/share/applications/weir.desktop" .
	check "it is upgraded" bookworm "apt-get -qq install -y --no-install-recommends ./next.deb && dpkg -s weir" '^Version: .*\+1'
	check "the session of the version before is there" bookworm "weir sessions ls" 'harbour'
	check "it is removed" bookworm "dpkg -L weir | grep weir >files; apt-get -qq purge -y weir; for f in \$(cat files); do test -e \$f && echo left: \$f; done; echo done" '^done$'
	if grep -q '^left: ' "$dir/out"; then bad "nothing is left" "$(grep '^left: ' "$dir/out" | head -n 3)"; else ok "nothing is left"; fi
else
	bad "a bare Debian 12" "$(tail -n 3 "$dir/log")"
fi

# ---- the portable archive ----

# A web server with a certificate that only this test knows.
mkdir "$dir/www" && echo 'The crane lifts 40 tons.' >"$dir/www/note.txt"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout "$dir/key.pem" -out "$dir/cert.pem" 2>"$dir/log"
python3 - "$dir" <<'END' &
import functools, http.server, ssl, sys
d = sys.argv[1]
s = http.server.HTTPServer(('localhost', 0), functools.partial(http.server.SimpleHTTPRequestHandler, directory=d + '/www'))
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
c.load_cert_chain(d + '/cert.pem', d + '/key.pem')
s.socket = c.wrap_socket(s.socket, server_side=True)
open(d + '/port', 'w').write(str(s.server_port))
s.serve_forever()
END
server=$!
# screen: print what the full screen writes to a terminal of this kind when the user quits at once, and its status.
screen() {
	python3 - "$dir/$1" "$2" "$3" >"$dir/out" 2>&1 <<'END'
import os, pty, select, sys, time
pid, fd = pty.fork()
if not pid:
    os.chroot(sys.argv[1])
    os.chdir('/root')
    os.execve(sys.argv[2], [sys.argv[2], '-m', '/root/model.gguf', '--private'], {'HOME': '/root', 'TERM': sys.argv[3], 'LC_ALL': 'C.UTF-8', 'PATH': '/bin'})
got, end = b'', time.time() + 60
while time.time() < end and b'F1' not in got:
    if select.select([fd], [], [], 0.1)[0]:
        got += os.read(fd, 65536)
os.write(fd, b'\x04')
while time.time() < end:
    if select.select([fd], [], [], 0.1)[0]:
        try:
            got += os.read(fd, 65536)
        except OSError:
            break
print(got.decode(errors='replace'))
print('status', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
}
name=
if tar=$(tests/package/package.sh portable 2>"$dir/log"); then
	ok "the portable archive is built: $(sed -n 's/^package: \(.*needs glibc.*\)/\1/p' "$dir/log")"
	name=$(basename "$tar" .tar.gz)
else
	bad "the portable archive is built" "$(tail -n 3 "$dir/log")"
fi
for suite in bullseye bookworm trixie; do
	[ -n "$name" ] || break
	[ -n "$mounted" ] && [ $suite = bookworm ] || bare $suite || { bad "a bare Debian ($suite)" "$(tail -n 3 "$dir/log")"; continue; }
	rm -rf "$dir/$suite/root/.local" "$dir/$suite/root/.cache" "$dir/$suite/root/.config"
	tar -xzf "$tar" -C "$dir/$suite/root"
	used $suite "$name/bin/weir"
	check "$suite: doctor" $suite "$name/bin/weir doctor" '^jail +documents and model files are read under .*seccomp'
	check "$suite: no certificate, no page" $suite "$name/bin/weir inspect document https://localhost:$(cat "$dir/port")/note.txt; test \$? = 4" 'certificate'
	for f in etc/ssl/certs/ca-certificates.crt etc/pki/tls/certs/ca-bundle.crt etc/ssl/ca-bundle.pem; do
		mkdir -p "$dir/$suite/${f%/*}" && cp "$dir/cert.pem" "$dir/$suite/$f"
		check "$suite: certificates in /$f" $suite "$name/bin/weir inspect document https://localhost:$(cat "$dir/port")/note.txt" 'The crane lifts 40 tons'
		rm "$dir/$suite/$f"
	done
	for term in xterm-256color screen linux; do
		if screen $suite "/root/$name/bin/weir" $term && grep -q 'status 0' "$dir/out" && grep -q F1 "$dir/out"; then ok "$suite: the screen with TERM=$term"
		else bad "$suite: the screen with TERM=$term" "$(tail -n 2 "$dir/out")"; fi
	done
done

finish
