#!/bin/sh
# tests/s_setup.sh - app/setup.sh on machines that lack things: it says what, and installs nothing here.
#
# The machine is made poor by a PATH of a few tools: no package manager, no python, no network.
# Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/.." || exit 1

. tests/count.sh
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin" "$dir/home"
for tool in sh id uname wc tr find grep cut sha256sum mkdir mktemp rm mv cat; do
	ln -s "$(command -v $tool)" "$dir/bin/$tool"
done

# setup NAME RC PATTERN TARGET [VAR=VALUE ...]: runs with the poor PATH and an empty home.
setup() {
	name=$1 want=$2 pattern=$3 target=$4
	shift 4
	env -i PATH="$dir/bin" HOME="$dir/home" "$@" sh app/setup.sh "$target" </dev/null >"$dir/out" 2>"$dir/err"
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
rm -r "$dir/home/.cache"
[ -z "$(ls -A "$dir/home")" ] && ok "nothing is left behind" || bad "nothing is left behind" "$(ls -A "$dir/home")"
setup "a wrong word is usage" 2 'usage' something

# With everything here it is quick and says nothing.
app/setup.sh build </dev/null >"$dir/out" 2>&1
rc=$?
if [ $rc = 0 ] && [ ! -s "$dir/out" ]; then ok "a complete machine is left alone"; else bad "a complete machine is left alone" "status $rc: $(head -n 2 "$dir/out")"; fi
finish
