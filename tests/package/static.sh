#!/bin/sh
# tests/package/static.sh SOURCE [amd64|arm64] - one file that runs on every Linux: build/static-ARCH/weir, linked to nothing that the machine
# must have.  tests/package/package.sh calls it with the archive of the source (`make static`, `make static ARCH=arm64`).
#
# The C library is musl, of Debian's packages for either processor; gcc becomes a compiler for it by a file of specs, which musl-dev has.
# The other libraries are built from Debian's sources with the parts that weir uses.
#
# Needs Debian or a relative with apt, dpkg-dev, tcl and Debian's keys, for arm64 gcc-aarch64-linux-gnu, and no root.  Prints the path of the file.
set -eu
arch=${2:-$(dpkg --print-architecture)}
case $arch in
amd64) processor=x86_64 ;;
arm64) processor=aarch64 ;;
*) echo "package: static files are for amd64 and arm64, not for $arch" >&2; exit 1 ;;
esac
# A call by make must not hand on its variables (ARCH).
unset MAKEFLAGS MFLAGS MAKEOVERRIDES
out=$PWD/build/static-$arch
w=$out/build
musl=$processor-linux-musl
root=$w/root
lib=$root/usr/lib/$musl
. tests/package/debian.sh

gcc=$processor-linux-gnu-gcc
command -v $gcc >/dev/null || die "run this first: apt-get install gcc-$(echo $processor | tr _ -)-linux-gnu"
command -v tclsh >/dev/null || die "run this first: apt-get install tcl"
fetch "" "musl-dev:$arch linux-libc-dev:$arch" 'ncurses readline sqlite3 libxml2 libarchive libseccomp curl' 'openssl zlib xxhash md4c utf8proc rpm'
# Debian 12's gumbo is of 2015; Debian 13 has what became of it.
build download-gumbo "$w/get" "sed -i 's,^deb-src \(.*\) bookworm main,&\ndeb-src \1 trixie main,' $w/apt/sources.list
  export APT_CONFIG=$w/apt/conf; apt-get -q update && apt-get -q source --download-only --tar-only gumbo-parser"

# ---- the compiler ----

for p in musl-dev linux-libc-dev; do
	dpkg-deb -x "$w/get/$p"_*.deb "$root"
done
sed "s,/usr/,$root/usr/,g; s,Scrt1,rcrt1,; s,^-dynamic-linker [^ ]*,-static --no-dynamic-linker -z text," "$lib/musl-gcc.specs" >"$w/specs"
for f in linux asm-generic; do
	ln -s "../$f" "$root/usr/include/$musl/$f"
done
ln -s "../$processor-linux-gnu/asm" "$root/usr/include/$musl/asm"
ln -s . "$root/usr/include/$musl/$musl"   # ncurses' headers name this folder
cat >"$w/cc" <<END
#!/bin/sh
exec $gcc -specs=$w/specs "\$@"
END
chmod +x "$w/cc"
cc=$w/cc
export AR=$processor-linux-gnu-ar RANLIB=$processor-linux-gnu-ranlib

# ---- the libraries ----

flags='-O2 -fstack-protector-strong'
configure="./configure -q --build=$(gcc -dumpmachine) --host=$musl CC='$cc' CFLAGS='$flags' --prefix=/usr --libdir=/usr/lib/$musl --includedir=/usr/include/$musl --disable-shared"
terminals=xterm,xterm-256color,xterm-direct,screen,screen-256color,tmux,tmux-256color,linux,vt100,vt220,rxvt,rxvt-unicode,rxvt-unicode-256color,alacritty,foot,konsole,ansi,dumb
# few NAME SOURCES HEADERS [FLAGS]: libNAME.a of a few files in the folder of the source.
few() {
	build "lib$1" "$w/$source" "$cc $flags ${4:-} -c $2 && $AR rcs $lib/lib$1.a *.o && cp $3 $root/usr/include/$musl/"
}
of() { source=$1; source_of "$@"; }
of zlib
few z '*.c' 'zlib.h zconf.h' -D_LARGEFILE64_SOURCE=1
of xxhash
few xxhash xxhash.c xxhash.h
of md4c
few md4c src/md4c.c src/md4c.h -DMD4C_USE_UTF8
of utf8proc
few utf8proc utf8proc.c utf8proc.h
of gumbo-parser
few gumbo 'src/*.c' 'src/gumbo.h src/tag_enum.h'
# musl has no fts.h. rpm's is glibc's.
of rpm
sed 's/Fts_/fts_/; /rpmutil/d; /RPM_GNUC/d' "$w/rpm/misc/rpmfts.h" >"$w/rpm/fts.h"
sed 's/Fts_/fts_/; s,"system.h",<unistd.h>,; s,misc/rpmfts,fts,' "$w/rpm/misc/fts.c" >"$w/rpm/fts.c"
few fts fts.c fts.h '-I. -D_GNU_SOURCE -D_LARGEFILE64_SOURCE'
# The descriptions of the usual terminals are in the file; a system's are read first.
of ncurses
build ncurses "$w/ncurses" "$configure --enable-widec --with-normal --without-debug --without-ada --without-cxx --without-cxx-binding --without-tests --without-progs \
  --without-manpages --without-gpm --disable-pc-files --with-termlib=tinfo --with-default-terminfo-dir=/usr/share/terminfo \
  --with-terminfo-dirs=/etc/terminfo:/lib/terminfo:/usr/share/terminfo:/usr/lib/terminfo --with-fallbacks=$terminals &&
  make -s $jobs libs && make -s install.libs install.includes DESTDIR=$root"
of readline
build readline "$w/readline" "$configure --with-curses bash_cv_termcap_lib=libtinfo && make -s $jobs static && make -s install-static install-headers DESTDIR=$root"
of sqlite3
build sqlite3 "$w/sqlite3" "./configure -q --disable-tcl --disable-readline && make -s sqlite3.c &&
  $cc $flags -DSQLITE_ENABLE_FTS5 -DSQLITE_SECURE_DELETE -DSQLITE_LIKE_DOESNT_MATCH_BLOBS -DSQLITE_USE_URI -DSQLITE_MAX_VARIABLE_NUMBER=250000 \
  -DSQLITE_MAX_SCHEMA_RETRY=25 -DSQLITE_OMIT_LOAD_EXTENSION -c sqlite3.c && $AR rcs $lib/libsqlite3.a sqlite3.o && cp sqlite3.h $root/usr/include/$musl/"
of libxml2
build libxml2 "$w/libxml2" "$configure --without-icu --without-lzma --without-zlib --without-python --without-http --without-ftp --without-legacy &&
  make -s $jobs libxml2.la && make -s install-libLTLIBRARIES DESTDIR=$root && make -s -C include install DESTDIR=$root"
of libarchive
build libarchive "$w/libarchive" "$configure --without-xml2 --without-expat --without-nettle --without-openssl --without-bz2lib --without-lzma --without-zstd \
  --without-lz4 --without-libb2 --disable-acl --disable-xattr --disable-bsdtar --disable-bsdcpio --disable-bsdcat && make -s $jobs && make -s install DESTDIR=$root"
of libseccomp
build libseccomp "$w/libseccomp" "$configure GPERF=: ac_cv_prog_GPERF=: && make -s $jobs -C include && make -s $jobs -C src libseccomp.la && make -s -C src install-libLTLIBRARIES DESTDIR=$root && make -s -C include install DESTDIR=$root"
of openssl
build openssl "$w/openssl" "CC=$cc CFLAGS='$flags' perl Configure linux-$processor --prefix=/usr --openssldir=/etc/ssl --libdir=lib/$musl no-shared no-tests no-engine no-dso no-module \
  no-legacy no-async no-comp no-aria no-bf no-camellia no-cast no-cms no-ct no-des no-dtls no-gost no-idea no-md4 no-mdc2 no-psk no-rc2 no-rc4 no-rmd160 no-seed no-sm2 no-sm3 \
  no-sm4 no-srp no-srtp no-ts no-whirlpool && make -s $jobs build_generated libcrypto.a libssl.a && cp libcrypto.a libssl.a $lib/ && cp -r include/openssl $root/usr/include/$musl/"
# weir itself finds the certificates (sessions/fetch/http.c).
of curl 2
build libcurl "$w/curl" "$configure LIBS='-lssl -lcrypto' PKG_CONFIG=false --with-openssl --without-ca-bundle --without-ca-path --without-zlib --without-brotli --without-zstd \
  --without-libpsl --without-nghttp2 --without-libidn2 --without-librtmp --without-libssh2 --disable-ldap --disable-manual --disable-ftp --disable-file --disable-dict \
  --disable-telnet --disable-tftp --disable-pop3 --disable-imap --disable-smb --disable-smtp --disable-gopher --disable-mqtt --disable-rtsp --disable-ntlm &&
  make -s $jobs -C lib && make -s -C lib install DESTDIR=$root && make -s -C include install DESTDIR=$root"

# ---- the program ----

mkdir "$w/weir"
tar -xzf "$1" -C "$w/weir" --strip-components=1
# musl gives threads 128 KiB of stack, or what the program's header asks for: glibc's 8 MiB.
build weir "$w/weir" "make -s $jobs weir STATIC=1 CUDA=0 LIBRARIES= CC='$cc' CFLAGS='-O2' LDFLAGS='-Wl,-z,relro,-z,now,-z,stack-size=8388608' \
  packages='-I$root/usr/include/$musl/libxml2 -lncursesw -lreadline -ltinfo -lmd4c -lsqlite3 -lxxhash -lxml2 -lgumbo -lutf8proc -larchive -lcurl -lssl -lcrypto -lz -lseccomp -lfts'"
$processor-linux-gnu-strip -o "$out/weir" "$w/weir/weir"
printf 'package: %s bytes\n' "$(stat -c %s "$out/weir")" >&2
echo "$out/weir"
