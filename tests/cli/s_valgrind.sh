#!/bin/sh
# tests/cli/s_valgrind.sh - answers under valgrind with tiny models: load, tokenise, prefill, sample, print, close; and
# the same with drafted tokens, a share of attention, and the cache on disk. The AVX2 level, because valgrind does not
# know AVX-512.
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}

. tests/lib/count.sh
command -v valgrind >/dev/null || { skip valgrind "valgrind is not installed"; finish; }
[ -z "${SANITIZE:-}" ] || { skip valgrind "the program carries a sanitizer"; finish; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
[ "$(uname -m)" != x86_64 ] || export WEIR_CPU=avx2
export XDG_CACHE_HOME="$dir/cache"

# under NAME OPTION...: check that an answer has no error or leak.  A new model file is first checked in the jail, by a
# program that valgrind cannot start, so the same answer runs once without valgrind.
under() {
	name=$1
	shift
	"$weir" -t 2 --temp 0 "$@" </dev/null >"$dir/log" 2>&1 || { bad "$name" "without valgrind: $(tail -n 3 "$dir/log")"; return; }
	if valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect \
		"$weir" -t 2 --temp 0 "$@" </dev/null >"$dir/log" 2>&1; then ok "$name"
	else bad "$name" "status $?: $(tail -n 30 "$dir/log")"; fi
}

under "an answer" -m tests/vectors/models/llama-block32.gguf -p Hello -n 3 -q
model=tests/vectors/stories260K/stories260K-q8_0.gguf
tale=
for _ in 1 2 3 4 5 6 7 8 9 10; do tale="$tale Once upon a time there was a little girl named Lily. She liked to play in the park."; done
# The tale repeats itself, so that some drafts are right and some wrong.
under "guessed tokens" -m $model -p "$tale" -n 24 --speculate on -v
under "a share of attention" -m $model -p "$tale $tale $tale" -c 1200 -n 4 --read-share 0.9
under "the cache on disk" -m $model -p "$tale $tale" -c 1200 -n 4 --kv full --kv-memory 2M
under "selected entries from the cache on disk" -m $model -p "$tale $tale" -c 1200 -n 8 --kv sift:k=16 --kv-memory 1M
under "rings" -m $model -p "$tale $tale" -n 8 --kv cascade:size=128,stride=64
finish
