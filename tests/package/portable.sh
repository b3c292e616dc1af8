#!/bin/sh
# tests/package/portable.sh SOURCE - an archive that runs on every Linux with glibc 2.31 or later, whatever else is installed:
# build/dist/weir-VERSION-linux-ARCH.tar.gz.  tests/package/package.sh calls it with the archive of the source (`make portable`).
#
# A program runs with the C library that it was linked to and with later ones.  So weir is compiled by this machine's compiler against the C
# library of Debian 11 (2.31), unpacked into a folder, and against Debian 12's other libraries as static ones: Debian 11's SQLite lacks STRICT
# tables.  libxml2, libarchive and libcurl are built from Debian's sources, since the static libraries bring what weir does not use (ICU alone is
# 31 MB).  Two libraries lie beside the program: libcurl, which is loaded with the first address, and libmd4c, which Debian has no static
# library of.
#
# Needs Debian or a relative with apt, dpkg-dev and Debian's keys, and no root.  Prints the path of the archive.
set -eu
out=$PWD/build/dist
version=$(sed -n '1s/.*(\(.*\)).*/\1/p' tests/package/debian/changelog)
oldest=2.31
triple=$(${CC:-gcc} -print-multiarch)
name=weir-$version-linux-${triple%%-*}
w=$out/portable
root=$w/root
lib=$root/usr/lib/$triple
. tests/package/debian.sh

static='libsqlite3-dev libreadline-dev libncurses-dev libssl-dev libxxhash-dev zlib1g-dev libseccomp-dev libgumbo-dev libutf8proc-dev'
shared='libmd4c-dev libmd4c0'
licences='libreadline8 libtinfo6'   # have the licences of the packages that are linked statically
system='libc6/bullseye libc6-dev/bullseye libcrypt-dev/bullseye linux-libc-dev'
fetch bullseye "$static $shared $licences $system" 'libxml2 libarchive curl'
mkdir -p "$lib"

# ---- what the program is linked to ----

# unpack PACKAGE...: unpack them into the root.
unpack() {
	for p in "$@"; do
		dpkg-deb -x "$w/get/${p%/*}"_*.deb "$root"
	done
}
# shellcheck disable=SC2086 # lists
{
	unpack $static $licences
	find "$root" -name '*.so' -delete
	unpack $shared $system
}
# Absolute links must point into this root.
find "$root" -type l -lname '/*' | while read -r l; do
	ln -sfn "$root$(readlink "$l")" "$l"
done
cc="${CC:-gcc} --sysroot=$root -B$lib -L$lib -L$root/lib/$triple"
harden='-D_FORTIFY_SOURCE=2 -fstack-protector-strong'

source_of libxml2
build libxml2 "$w/libxml2" "./configure -q CC='$cc' CFLAGS='-O2 $harden' --prefix=/usr --libdir=/usr/lib/$triple --disable-shared --without-icu --without-lzma --without-zlib \
  --without-python --without-http --without-ftp --without-legacy &&
  make -s $jobs libxml2.la && make -s install-libLTLIBRARIES DESTDIR=$root && make -s -C include install DESTDIR=$root"
source_of libarchive
build libarchive "$w/libarchive" "./configure -q CC='$cc' CFLAGS='-O2 $harden' --prefix=/usr --libdir=/usr/lib/$triple --disable-shared --without-xml2 --without-expat \
  --without-nettle --without-openssl --without-bz2lib --without-lzma --without-zstd --without-lz4 --without-libb2 --disable-acl --disable-xattr \
  --disable-bsdtar --disable-bsdcpio --disable-bsdcat && make -s $jobs && make -s install DESTDIR=$root"
# Debian's last two patches rename the library.  weir itself finds the certificates (sessions/fetch/http.c).
source_of curl 2
build libcurl "$w/curl" "./configure -q CC='$cc' CFLAGS='-O2 $harden' LIBS='-lpthread -ldl' PKG_CONFIG=false --disable-static --with-openssl --without-ca-bundle \
  --without-ca-path --without-zlib --without-brotli --without-zstd --without-libpsl --without-nghttp2 --without-libidn2 --without-librtmp \
  --without-libssh2 --disable-ldap --disable-manual --disable-ftp --disable-file --disable-dict --disable-telnet --disable-tftp --disable-pop3 \
  --disable-imap --disable-smb --disable-smtp --disable-gopher --disable-mqtt --disable-rtsp &&
  make -s $jobs -C lib LDFLAGS='-Wl,--exclude-libs,ALL -Wl,-z,relro,-z,now' && make -s -C include install prefix=/usr DESTDIR=$root"

# ---- the program ----

tar -xzf "$1" -C "$w"
to=$w/$name
build weir "$w/weir-$version" "make -s $jobs install CUDA=0 PREFIX= DESTDIR=$to LIBRARIES= CC='$cc' CFLAGS='-O2 $harden' \
  LDFLAGS='-Wl,-z,relro,-z,now -Wl,-rpath,'\\''\$\$ORIGIN/../lib:\$\$ORIGIN/..'\\' \
  packages='-I$root/usr/include/libxml2 -lncursesw -lreadline -ltinfo -lmd4c -lsqlite3 -lxxhash -lxml2 -lgumbo -lutf8proc -larchive -lcrypto -lz -lseccomp'"
mkdir -p "$to/lib" "$to/licences"
cp -L "$lib/libmd4c.so.0" "$w/curl/lib/.libs/libcurl.so.4" "$to/lib/"
strip "$to/bin/weir" "$to/lib/weir/weir-lab" "$to"/lib/*.so.*
cp "$w/weir-$version/LICENSE" "$w/weir-$version/README.md" "$to/"
for p in $static libmd4c0; do
	cp "$(readlink -f "$root/usr/share/doc/$p/copyright")" "$to/licences/${p%-dev}"
done
for p in libxml2 libarchive curl; do
	cp "$w/$p/debian/copyright" "$to/licences/$p"
done
for f in "$to/bin/weir" "$to/lib/weir/weir-lab" "$to"/lib/*.so.*; do
	newest=$(objdump -T "$f" | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -n 1)
	[ "$(printf '%s\nGLIBC_%s\n' "$newest" "$oldest" | sort -V | tail -n 1)" = "GLIBC_$oldest" ] || die "$f needs $newest"
done
tar -C "$w" -czf "$out/$name.tar.gz" --owner=0 --group=0 --sort=name "$name"
printf 'package: %s bytes, %s unpacked; needs glibc %s\n' "$(stat -c %s "$out/$name.tar.gz")" "$(du -sb "$to" | cut -f 1)" "$oldest" >&2
echo "$out/$name.tar.gz"
