#!/bin/sh
# tests/package/package.sh dist|deb|portable|static [ARCH]|formulas URL|system SUITE FOLDER - write what people install into build/dist/.
# `make dist`, `make deb`, `make portable` and `make static` call it.
#
#   dist      weir-VERSION.tar.gz: the source as it is committed; make and make install build and install it
#   deb       weir_VERSION_ARCH.deb, by Debian's own tools from that source, checked by lintian where it is installed
#   portable  weir-VERSION-linux-ARCH.tar.gz: the program with its libraries, for every Linux with glibc 2.31 or later (portable.sh)
#   static    build/static-ARCH/weir: one file for every Linux on amd64 or arm64; without ARCH for this processor (static.sh)
#   formulas  for Homebrew, AUR, Nix and Copr, which build weir from that source: tests/package/formulas/ with its address and its SHA-256
#   system    not a package: a bare Debian (bullseye, bookworm, trixie) in FOLDER, to try packages in (tests/package/try.sh)
#
# The version is that of tests/package/debian/changelog.  Progress and errors go to standard error, the path of what was written to
# standard output.
set -eu
cd "$(dirname "$0")/../.."
version=$(sed -n '1s/.*(\(.*\)).*/\1/p' tests/package/debian/changelog)
out=$PWD/build/dist
mkdir -p "$out"

say() { printf 'package: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
# need COMMAND PACKAGE...: the commands that the Debian packages bring.
need() {
	command -v "$1" >/dev/null || { shift; die "run this first: apt-get install $*"; }
}

dist() {
	tar=$out/weir-$version.tar.gz
	if git rev-parse --git-dir >/dev/null 2>&1; then
		[ -z "$(git status --porcelain)" ] || say "what is not committed is left out"
		git archive --prefix="weir-$version/" HEAD | gzip -9n >"$tar.part"
	else
		tar -cf - --exclude=./build --exclude=./weir --exclude=./weir-lab --exclude=./weir-cuda.so --transform "s,^\.,weir-$version," . | gzip -9n >"$tar.part"
	fi
	mv "$tar.part" "$tar"
	echo "$tar"
}

deb() {
	need dpkg-buildpackage dpkg-dev debhelper
	need dh debhelper
	tar=$(dist)
	rm -rf "$out/deb"
	mkdir "$out/deb"
	tar -xzf "$tar" -C "$out/deb"
	cd "$out/deb/weir-$version"
	cp -r tests/package/debian debian
	say "building; the log is $out/deb/log"
	dpkg-buildpackage -b -us -uc >"$out/deb/log" 2>&1 || { tail -n 15 "$out/deb/log" >&2; die "the package was not built"; }
	cd "$out/deb"
	if command -v lintian >/dev/null; then
		lintian --allow-root --fail-on error,warning "weir_$version"_*.changes >&2 || die "lintian finds what is named above"
	else
		say "lintian is not installed: the package is not checked"
	fi
	mv "weir_$version"_*.deb "$out"/
	ls "$out"/weir_"$version"_*.deb
}

portable() {
	tests/package/portable.sh "$(dist)"
}

# formulas URL: URL is the folder on a server from which the archive of the source will be fetched, and the address of the project.
formulas() {
	tar=$(dist)
	sum=$(sha256sum <"$tar" | cut -d' ' -f1)
	for f in tests/package/formulas/*; do
		sed "s,@VERSION@,$version,g; s,@HOME@,$1,g; s,@URL@,$1/${tar##*/},g; s,@SHA256@,$sum,g" "$f" >"$out/${f##*/}"
		echo "$out/${f##*/}"
	done
}

static() {
	tests/package/static.sh "$(dist)" "$@"
}

# system SUITE FOLDER: a Debian from the mirror that this machine uses, with its settings for apt.
system() {
	[ "$(id -u)" = 0 ] || die "only root can make a bare Debian"
	need debootstrap debootstrap
	mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -n 's/^URIs: *//p; s/^deb \([^ ]*\) .*/\1/p' | head -n 1)
	debootstrap --variant=minbase "$1" "$2" ${mirror:+"$mirror"} >"$out/debootstrap.log" 2>&1 || { tail -n 3 "$out/debootstrap.log" >&2; die "debootstrap failed"; }
	cp /etc/apt/apt.conf.d/99* "$2/etc/apt/apt.conf.d/" 2>/dev/null || true
}

case ${1:-} in
dist|deb|portable|static|formulas) "$@" ;;
system) "$1" "$2" "$3" ;;
*) die "usage: package.sh dist|deb|portable|static [ARCH]|formulas URL|system SUITE FOLDER" ;;
esac
