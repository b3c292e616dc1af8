#!/bin/sh
# tests/package.sh - the Debian package on a bare system, a part of `make soak`: it is built, installed, used, upgraded and removed in a
# Debian 12 in which nothing else is installed.
# Needs root, debootstrap, debhelper, lintian and a network; skips where one is missing.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/lib/count.sh

model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
for tool in debootstrap dpkg-buildpackage dh lintian; do
	command -v $tool >/dev/null || { skip "packages" "$tool is not installed"; finish; }
done
[ "$(id -u)" = 0 ] || { skip "packages" "only root can make a bare system"; finish; }
[ -e "$model" ] || { skip "packages" "there is no default model"; finish; }

dir=$(mktemp -d "${TMPDIR:-/tmp}/weir-package.XXXXXX")
mounted=
cleanup() {
	for m in $mounted; do umount "$m"; done
	rm -rf --one-file-system "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# bare SUITE: a bare system in $dir/SUITE with the model in it.
bare() {
	app/package/package.sh system "$1" "$dir/$1" 2>"$dir/log" || return 1
	mount --bind /proc "$dir/$1/proc" && mounted="$mounted $dir/$1/proc"
	cp "$model" "$dir/$1/root/model.gguf"
	printf '<h1>Harbour</h1><p>The crane lifts 40 tons.</p>' >"$dir/$1/root/note.html"
}
# inside SUITE COMMAND: the command's output in $dir/out.
inside() {
	chroot "$dir/$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
	  sh -c "cd /root && $2" >"$dir/out" 2>&1 </dev/null
}
# check WHAT SUITE COMMAND PATTERN: the command succeeds and its output matches.
check() {
	if inside "$2" "$3" && grep -qE "$4" "$dir/out"; then ok "$1"; else bad "$1" "$(tail -n 3 "$dir/out")"; fi
}
answers="-m /root/model.gguf -p 'What is the capital of France?' -n 12 --temp 0 -q"
# used SUITE PROGRAM: what a user would do first.
used() {
	check "$1: it says its version" "$1" "$2 --version -v" '^weir [0-9.]+$'
	check "$1: it answers" "$1" "$2 $answers" '[A-Za-z]'
	check "$1: it reads a document in the jail" "$1" "$2 inspect document note.html" 'The crane lifts 40 tons'
	check "$1: a session is kept" "$1" "$2 -s harbour $answers && $2 sessions ls" 'harbour'
	check "$1: without pdftotext a PDF is refused by one line" "$1" "printf '%%PDF-1.4' >a.pdf; $2 inspect document a.pdf; test \$? = 4" 'pdftotext'
}

if deb=$(app/package/package.sh deb 2>"$dir/log"); then ok "the package is built, and lintian finds nothing"
else bad "the package is built, and lintian finds nothing" "$(tail -n 3 "$dir/log")"; fi
if bare bookworm && [ -n "$deb" ]; then
	cp "$deb" "$dir/bookworm/root/weir.deb"
	dpkg-deb -R "$deb" "$dir/next" && sed -i 's/^Version: .*/&+1/' "$dir/next/DEBIAN/control" && dpkg-deb -b "$dir/next" "$dir/bookworm/root/next.deb" >"$dir/log"
	check "it is installed with what it needs alone" bookworm "apt-get -qq update && apt-get -qq install -y --no-install-recommends ./weir.deb" .
	used bookworm weir
	check "manual, completions and desktop entry are there" bookworm \
	  "ls /usr/share/man/man1/weir.1.gz /usr/share/man/man7/weir-cache.7.gz /usr/share/bash-completion/completions/weir /usr/share/applications/weir.desktop" .
	check "it is upgraded" bookworm "apt-get -qq install -y --no-install-recommends ./next.deb && dpkg -s weir" '^Version: .*\+1'
	check "the session of the version before is there" bookworm "weir sessions ls" 'harbour'
	check "it is removed" bookworm "dpkg -L weir | grep weir >files; apt-get -qq purge -y weir; for f in \$(cat files); do test -e \$f && echo left: \$f; done; echo done" '^done$'
	if grep -q '^left: ' "$dir/out"; then bad "nothing is left" "$(grep '^left: ' "$dir/out" | head -n 3)"; else ok "nothing is left"; fi
else
	bad "a bare Debian 12" "$(tail -n 3 "$dir/log")"
fi

finish
