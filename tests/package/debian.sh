# shellcheck shell=sh disable=SC2154,SC2034 # variables of the scripts that read this file, and for them
# tests/package/debian.sh - packages and sources from Debian's mirror, for portable.sh and static.sh, which read this file:
# an apt of their own downloads into $w/get and compares signatures and checksums; this machine's apt is left alone.
# They set $w, the folder to work in.
keys=/usr/share/keyrings/debian-archive-keyring.gpg
jobs=-j$(nproc)

die() { printf 'package: %s\n' "$*" >&2; exit 1; }

# build WHAT FOLDER COMMAND: run the command quietly, with a log of its own.
build() {
	printf 'package: %s\n' "$1" >&2
	(cd "$2" && eval "$3") >"$w/$1.log" 2>&1 || { tail -n 5 "$w/$1.log" >&2; die "$1 was not built (see $w/$1.log)"; }
}

uri() { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null | sed -n 's/^URIs: *//p; s/^deb \([^ ]*\) .*/\1/p' | grep "$1" | head -n 1; }

# fetch SUITES PACKAGES SOURCES PLAIN: download packages (NAME, NAME:ARCH or NAME/SUITE), sources, and sources without Debian's patches. All
# are Debian 12's but packages with a SUITE.
fetch() {
	[ -e $keys ] || die "run this first: apt-get install debian-archive-keyring"
	command -v dpkg-source >/dev/null || die "run this first: apt-get install dpkg-dev"
	rm -rf "$w"
	mkdir -p "$w/apt/lists/partial" "$w/apt/archives/partial" "$w/get"
	mirror=$(uri 'debian/*$') security=$(uri 'debian-security/*$')
	{
		for s in $1; do
			echo "deb [signed-by=$keys] ${mirror:=http://deb.debian.org/debian} $s main"
		done
		for type in deb deb-src; do
			echo "$type [signed-by=$keys] ${mirror:=http://deb.debian.org/debian} bookworm main"
			[ -z "$security" ] || echo "$type [signed-by=$keys] $security bookworm-security main"
		done
	} >"$w/apt/sources.list"
	cat >"$w/apt/conf" <<END
Dir::Etc::sourcelist "$w/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$w/apt/lists";
Dir::State::status "/dev/null";
Dir::Cache "$w/apt";
APT::Sandbox::User "root";
APT::Architectures { ${arch:+\"$arch\";} "$(dpkg --print-architecture)"; };
END
	build download "$w/get" "export APT_CONFIG=$w/apt/conf; apt-get -q update && apt-get -q download $2 &&
	  for s in $3; do apt-get -q source --download-only \$s || exit 1; done &&
	  for s in ${4:-}; do apt-get -q source --download-only --tar-only \$s || exit 1; done"
}

# source_of NAME [PATCHES]: unpack the source, if it has Debian's patches with all but the last PATCHES of them. All files get the same
# time, so that generated ones count as up to date.
source_of() {
	if dsc=$(ls "$w/get/$1"_*.dsc 2>/dev/null); then
		dpkg-source --skip-patches -x "$dsc" "$w/$1" >"$w/source.log" 2>&1 || die "cannot unpack the source of $1 (see $w/source.log)"
		sed '/^#/d; /^$/d' "$w/$1/debian/patches/series" | head -n "-${2:-0}" | while read -r p _; do
			patch -s -d "$w/$1" -p1 <"$w/$1/debian/patches/$p" >>"$w/source.log" 2>&1 || die "cannot patch $1 by $p (see $w/source.log)"
		done
	else
		mkdir "$w/$1" && tar -xf "$w/get/$1"_*.orig.tar.*[z2] -C "$w/$1" --strip-components=1
	fi
	find "$w/$1" -exec touch -h -d @1700000000 {} +
}
