#!/bin/sh
# tests/package/try.sh - packages on bare systems, a part of `make soak`: the Debian package is built, installed, used, upgraded and removed in a
# Debian 12 in which nothing else is installed; the portable archive is built, and used in Debian 11 (the oldest C library that it is for), 12 and 13;
# the static files are built, and used in folders in which nothing else is, that for amd64 also in Debian 11 and 13.
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
mounted= emulated= refused=
cleanup() {
	[ -z "$emulated" ] || echo -1 >"$emulated"
	[ -z "${server:-}" ] || kill "$server"
	for m in $mounted; do umount "$m"; done
	rm -rf --one-file-system "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# bare SUITE: make a bare system in $dir/SUITE with the model in it.
bare() {
	tests/package/package.sh system "$1" "$dir/$1" 2>"$dir/log" || return 1
	furnish "$1"
}
# furnish SYSTEM: mount /proc there, and give root the model and a document.
furnish() {
	mount --bind /proc "$dir/$1/proc" && mounted="$mounted $dir/$1/proc"
	cp "$model" "$dir/$1/root/model.gguf"
	printf '<h1>Harbour</h1><p>The crane lifts 40 tons.</p>' >"$dir/$1/root/note.html"
}
# inside SYSTEM COMMAND: run the command there; its output goes to $dir/out.  Where there is no shell, this machine's runs it.
inside() {
	into= home=.
	[ ! -e "$dir/$1/bin/sh" ] || into="chroot $dir/$1" home=/root
	(cd "$dir/$1/root" && $into /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
	  sh -c "cd $home && $2") >"$dir/out" 2>&1 </dev/null
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
	check "$1: a document in the jail" "$1" "$2 inspect document note.html${refused:+; test \$? = 4}" "${refused:-The crane lifts 40 tons}"
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
# addresses SYSTEM PROGRAM: a page is read where the system has the server's certificate.
addresses() {
	check "$1: no certificate, no page" "$1" "$2 inspect document https://localhost:$(cat "$dir/port")/note.txt; test \$? = 4" 'certificate'
	for f in etc/ssl/certs/ca-certificates.crt etc/pki/tls/certs/ca-bundle.crt etc/ssl/ca-bundle.pem; do
		mkdir -p "$dir/$1/${f%/*}" && cp "$dir/cert.pem" "$dir/$1/$f"
		check "$1: certificates in /$f" "$1" "$2 inspect document https://localhost:$(cat "$dir/port")/note.txt" 'The crane lifts 40 tons'
		rm "$dir/$1/$f"
	done
}
# screens SYSTEM PROGRAM: the screen comes up on the usual terminals.
screens() {
	for term in xterm-256color screen linux; do
		if screen "$1" "$2" $term && grep -q 'status 0' "$dir/out" && grep -q F1 "$dir/out"; then ok "$1: the screen with TERM=$term"
		else bad "$1: the screen with TERM=$term" "$(tail -n 2 "$dir/out")"; fi
	done
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
	addresses $suite "$name/bin/weir"
	screens $suite "/root/$name/bin/weir"
done

# ---- the static files ----

# empty SYSTEM FILE: make a system in which nothing is but devices, /proc, the model, and the file as /weir.  Its /root is its root.
empty() {
	mkdir -p "$dir/$1/dev" "$dir/$1/proc" "$dir/$1/tmp"
	ln -s . "$dir/$1/root"
	cp -a /dev/null /dev/zero /dev/urandom /dev/tty "$dir/$1/dev/"
	cp "$2" "$dir/$1/weir"
	furnish "$1"
}
# emulate: until the test ends, the kernel starts programs for arm64 by qemu.
emulate() {
	(cd "$dir" && apt-get -qq download qemu-user-static && dpkg-deb -x qemu-user-static_*.deb qemu) >"$dir/log" 2>&1 || return 1
	[ -e /proc/sys/fs/binfmt_misc/register ] || mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
	printf '%s' ':weir-arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:' \
	  "$dir/qemu/usr/bin/qemu-aarch64-static:F" >/proc/sys/fs/binfmt_misc/register
	emulated=/proc/sys/fs/binfmt_misc/weir-arm64
	refused='seccomp cannot be set up'   # by qemu: a document is refused then
}
for arch in amd64 arm64; do
	for tool in tclsh $([ $arch = amd64 ] || echo aarch64-linux-gnu-gcc); do
		command -v $tool >/dev/null || { skip "the static file for $arch" "$tool is not installed"; continue 2; }
	done
	if ! file=$(tests/package/package.sh static $arch 2>"$dir/log"); then
		bad "the static file for $arch is built" "$(tail -n 3 "$dir/log")"
		continue
	fi
	ok "the static file for $arch is built: $(tail -n 1 "$dir/log")"
	if [ $arch != "$(dpkg --print-architecture)" ] && ! emulate; then
		skip "the static file for $arch" "$(tail -n 1 "$dir/log")"
		continue
	fi
	empty "only-$arch" "$file"
	check "$arch: it needs no loader and no library" "only-$arch" "readelf -ld weir | grep -E 'INTERP|NEEDED' || echo none" '^none$'
	used "only-$arch" 'chroot . /weir'
	check "$arch: the session goes on" "only-$arch" "chroot . /weir -s harbour $answers && chroot . /weir sessions show harbour | grep -c capital" '^[2-9]'
	check "$arch: CUDA is refused by one line" "only-$arch" "chroot . /weir --device cuda $answers; test \$? != 0" 'one static file, which cannot load CUDA'
	addresses "only-$arch" 'chroot . /weir'
	screens "only-$arch" /weir
done
refused=
for suite in bullseye trixie; do
	[ -e "$dir/$suite/root/model.gguf" ] && [ -e build/static-amd64/weir ] || continue
	cp build/static-amd64/weir "$dir/$suite/root/"
	used $suite ./weir
	screens $suite /root/weir
done

finish
