#!/bin/sh
# app/package/package.sh dist|deb|portable|system SUITE FOLDER - write what people install into build/dist/.  `make dist`, `make deb`, `make portable` call it.
#
#   dist      weir-VERSION.tar.gz: the source as it is committed; make and make install build and install it
#   deb       weir_VERSION_ARCH.deb, by Debian's own tools from that source, checked by lintian where it is installed
#   portable  weir-VERSION-ARCH.tar.xz: the program with the libraries it needs, for any Linux with glibc 2.31 or later; this machine's
#             compiler builds it with headers and libraries of a Debian 11 that debootstrap makes (whose own compiler is too old), so it
#             needs root, debootstrap, pkg-config and a network
#   system    not a package: a bare Debian (bullseye, bookworm, trixie) in FOLDER, to build in or to try packages in (tests/package.sh)
#
# The version is that of app/package/debian/changelog.  Progress and errors go to standard error, the path of what was written to
# standard output.
set -eu
cd "$(dirname "$0")/../.."
version=$(sed -n '1s/.*(\(.*\)).*/\1/p' app/package/debian/changelog)
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
		tar -cf - --exclude=./build --exclude=./weir --exclude=./weir-cuda.so --transform "s,^\.,weir-$version," . | gzip -9n >"$tar.part"
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
	cp -r app/package/debian debian
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

# inside ROOT COMMAND...: in another system.
inside() {
	root=$1
	shift
	chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"
}

# libraries ROOT PROGRAM: name and path in ROOT of those that the program and libcurl need and no Linux is sure to have; what glibc brings is
# left out.
libraries() {
	curl=$(cd "$1" && ls usr/lib/*-linux-gnu*/libcurl.so.4)
	{ inside "$1" ldd "$2"; inside "$1" ldd "/$curl"; echo "libcurl.so.4 => /$curl (0)"; } |
	sed -n 's/^[[:space:]]*\([^ ]*\) => \(\/[^ ]*\) (.*/\1 \2/p' | sort -u |
	grep -v -E '^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|anl|nsl|mvec|thread_db))\.so'
}

# portable_build ROOT NAME: the folder build/dist/NAME.
portable_build() {
	inside "$1" sh -c 'apt-get -qq update && apt-get -qq install -y --no-install-recommends libc6-dev libarchive-dev libcurl4-openssl-dev \
	  libmd4c-dev libncurses-dev libreadline-dev libseccomp-dev libsqlite3-dev libssl-dev libxml2-dev libxxhash-dev zlib1g-dev'
	# A linker outside follows links that begin with / to its own system.
	find "$1/usr" -type l -lname '/*' -name '*.so*' | while read -r link; do
		ln -sfr "$1$(readlink "$link")" "$link"
	done
	tar -xzf "$tar" -C "$1/src" --strip-components=1
	triplet=$(gcc -dumpmachine)
	# DT_RPATH counts for the libraries' own libraries, too, which DT_RUNPATH does not.
	make -C "$1/src" -j"$(nproc)" all CUDA=0 CC="gcc --sysroot=$1" LDFLAGS='-Wl,--disable-new-dtags,-rpath,\$$ORIGIN/lib' \
	  PKG_CONFIG="env PKG_CONFIG_SYSROOT_DIR=$1 PKG_CONFIG_LIBDIR=$1/usr/lib/$triplet/pkgconfig:$1/usr/share/pkgconfig pkg-config"
	to=$out/$2
	rm -rf "$to"
	mkdir -p "$to/lib" "$to/licences" "$to/completions"
	strip -o "$to/weir" "$1/src/weir"
	libraries "$1" /src/weir | while read -r so path; do
		real=$(inside "$1" readlink -f "$path")
		cp "$1$real" "$to/lib/$so"
		package=$(inside "$1" dpkg -S "$real" 2>/dev/null || inside "$1" dpkg -S "*/${real##*/}")
		package=${package%%:*}
		[ -e "$to/licences/$package" ] || cp -L "$1/usr/share/doc/$package/copyright" "$to/licences/$package"
	done
	strip --strip-unneeded "$to"/lib/*.so*
	cp -r LICENSE README.md man "$to/"
	for shell in bash zsh fish; do "$to/weir" completion $shell >"$to/completions/weir.$shell"; done
	tar -C "$out" -cJf "$to.tar.xz" "$2"
}

# system SUITE FOLDER: a Debian from the mirror that this machine uses, with its settings for apt.
system() {
	[ "$(id -u)" = 0 ] || die "only root can make a bare Debian"
	need debootstrap debootstrap
	mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -n 's/^URIs: *//p; s/^deb \([^ ]*\) .*/\1/p' | head -n 1)
	debootstrap --variant=minbase "$1" "$2" ${mirror:+"$mirror"} >"$out/debootstrap.log" 2>&1 || { tail -n 3 "$out/debootstrap.log" >&2; die "debootstrap failed"; }
	cp /etc/apt/apt.conf.d/99* "$2/etc/apt/apt.conf.d/" 2>/dev/null || true
}

portable() {
	need pkg-config pkg-config
	name=weir-$version-$(uname -m)
	tar=$(dist)
	bare=$(mktemp -d "${TMPDIR:-/tmp}/weir-portable.XXXXXX")
	trap 'umount "$bare/proc" 2>/dev/null; rm -rf --one-file-system "$bare"' EXIT
	say "making a Debian 11"
	system bullseye "$bare"
	mkdir "$bare/src"
	mount --bind /proc "$bare/proc"
	say "building; the log is $out/portable.log"
	set +e
	(set -e; portable_build "$bare" "$name") >"$out/portable.log" 2>&1
	built=$?
	set -e
	[ $built = 0 ] || { tail -n 15 "$out/portable.log" >&2; die "the archive was not built"; }
	echo "$out/$name.tar.xz"
}

case ${1:-} in
dist|deb|portable) "$1" ;;
system) "$1" "$2" "$3" ;;
*) die "usage: package.sh dist|deb|portable|system SUITE FOLDER" ;;
esac
