#!/bin/sh
# tests/cuda/s_gpu.sh - rehearses tests/cuda/gpu.sh on the emulated device, with tiny models and short caches: all its steps run, the table is
# appended to the results, also where it is stopped early.
#
# WEIR is the program, BUILD its folder. Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}
build=${BUILD:-build}
. tests/lib/count.sh
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/out"
export BUILD="$build" WEIR="$weir" GPU_TINY=1 GPU_TYPES=F16 GPU_DIR="$dir" GPU_RESULTS="$dir/results" OUT="$dir/out"
case $build in /*) GPU_PLUGIN=$build/weir-cuda-host.so ;; *) GPU_PLUGIN=$PWD/$build/weir-cuda-host.so ;; esac
export GPU_PLUGIN

tests/cuda/gpu.sh 1000 >"$dir/said" 2>&1
rc=$?
[ $rc = 0 ] && ok "the whole script, on the emulated device" || bad "the whole script, on the emulated device" "status $rc: $(tail -n 5 "$dir/said")"
for what in "^check   its check passed" "^llama-block32 .*greedy tokens alike 64/64" "^stories260K.*perplexity" "^8B-F16 .*full .*decodes at depth" \
	"^8B-F16 .*refresh.*decodes" "^8B-F16 .*auto, a document with evidence: [0-9.]* t/s" "^8B-F16 .*auto:k=16 .*decodes" \
	"^8B-F16 .*quest:k=16 .*decodes" "cache operation at depth" "^0 failures"; do
	grep -q -e "$what" "$dir/results" && ok "a row $what" || bad "a row $what" "not in the table"
done
grep -q '^FAILED' "$dir/results" && bad "nothing failed" "$(grep '^FAILED' "$dir/results" | head -n 3)" || ok "nothing failed"
[ -s "$dir/out/table" ] && [ -s "$dir/out/gpu-results.md" ] && ok "table and results are in \$OUT" || bad "table and results are in \$OUT" "$(ls "$dir/out")"

# Stopped early: what was measured is kept.
rm -rf "$dir/results" "$dir/out/"*
timeout 20 tests/cuda/gpu.sh 1000 >"$dir/said" 2>&1
grep -q '^ended early' "$dir/results" 2>/dev/null && grep -q '^device  cuda host' "$dir/results" && ok "a table that ends early is kept" ||
	bad "a table that ends early is kept" "$(tail -n 3 "$dir/said")"
finish
