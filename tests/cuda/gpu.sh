#!/bin/sh
# tests/cuda/gpu.sh - everything that needs a GPU, in one call of at most ten minutes, without a network: build for the GPU of this machine,
# unit tests on it, whole models, compute-sanitizer, speed.  The table at the end also goes to tests/cuda/gpu-results.md and, with all logs in
# few files, to $OUT if that is set.
#
#   tests/cuda/gpu.sh [SECONDS]     SECONDS: time for all steps (570); steps for which there is no time are left out, and the table names them
#   GPU_STEPS="build tests sanitizer speed"   GPU_TYPES="F16 Q8_0 Q4_K"   GPU_DIR=/tmp   BUILD=build/gpu
#   GPU_PLUGIN=FILE   another plugin: the emulated one, to try this script without a GPU
#
# A machine with a GPU may lack the libraries of readline, SQLite and so on, and their headers.  Then the programs are built elsewhere, into a
# kit of some 80 MB (25 MB as tar.xz) with these libraries and the models for tests:
#
#   GPU_STEPS=kit GPU_ARCH=sm_90 tests/cuda/gpu.sh                            here: into $GPU_KIT (build/gpu-kit)
#   GPU_STEPS=tests BUILD=build/gpu-kit tests/cuda/gpu.sh                     on the GPU machine; then GPU_STEPS=sanitizer and GPU_STEPS=speed: up to ten minutes each
#
# Models for speed are made on the spot with random weights (tests/measure/mkmodel.c): an 8B Llama's shape in f16 takes 16 GB of $GPU_DIR, or of
# memory if there is room.  Deep caches are filled with random rows (weir bench --fill random).
set -u
cd "$(dirname "$0")/../.." || exit 1
limit=${1:-570}
start=$(date +%s)
steps=${GPU_STEPS:-build tests sanitizer speed}
types=${GPU_TYPES:-F16 Q8_0 Q4_K}
build=${BUILD:-build/gpu}
dir=${GPU_DIR:-}
[ -n "$dir" ] || { dir=/tmp; [ "$(df -Pk /dev/shm 2>/dev/null | awk 'END { print int($4 / 1048576) }')" -lt 24 ] 2>/dev/null || dir=/dev/shm; }
scratch=$(mktemp -d "$dir/weir-gpu-XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
table=${OUT:-$scratch}/table
export XDG_DATA_HOME="$scratch/data" XDG_CONFIG_HOME="$scratch/config" XDG_STATE_HOME="$scratch/state" TMPDIR="$scratch"
unset WEIR_MODEL WEIR_CTX WEIR_KV WEIR_DEVICE
bad=0

left() { echo $((limit - ($(date +%s) - start))); }
# within SECONDS COMMAND...: run the command for at most SECONDS, and at most until the total time is used up.
within() {
  most=$1
  shift
  [ "$(left)" -ge "$most" ] || most=$(left)
  [ "$most" -gt 0 ] || most=1
  timeout -k 5 "$most" "$@"
}
# keep NAME FILE TITLE: append a log to the file NAME in $OUT.
keep() { [ -z "${OUT:-}" ] || { echo "==== $3"; cat "$2"; } >>"$OUT/$1"; }
row() { printf '%s\n' "$*" | tee -a "$table"; }
wants() { case " $steps " in *" $1 "*) return 0 ;; esac; return 1; }
# room SECONDS WHAT: true if SECONDS are left; if not, the table says that WHAT was left out.
room() { [ "$(left)" -ge "$1" ] && return 0; row "left out for want of time: $2"; return 1; }
failed() { bad=$((bad + 1)); row "FAILED: $*"; }

# ---- build ----

jobs=$(nproc)
# make_all ARCH: build the program, the plugin and the tests; a failure to build the tests is only reported.
make_all() {
  make -s -j"$jobs" CUDA=1 CUDA_ARCH="$1" BUILD="$build" PROGRAM="$build/weir" "$build/weir" "$build/weir-cuda.so" "$build/mkmodel" \
    "$build/weir-cuda-host.so" "$build/tests/measure/kv_host" >"$scratch/build" 2>&1 || { tail -n 30 "$scratch/build"; echo "gpu.sh: it does not build"; exit 1; }
  units=$(for f in tests/cuda/t_cuda_*.c; do echo "$build/tests/cuda/$(basename "$f" .c)"; done)
  # shellcheck disable=SC2086 # a list
  make -s -j"$jobs" CUDA=1 CUDA_ARCH="$1" BUILD="$build" PROGRAM="$build/weir" $units >"$scratch/build" 2>&1 ||
    { tail -n 30 "$scratch/build"; failed "the unit tests do not build"; }
}
if wants kit; then
  kit=${GPU_KIT:-build/gpu-kit}
  make_all "${GPU_ARCH:-sm_90}"
  rm -rf "$kit"
  mkdir -p "$kit/tests/cuda" "$kit/tests/measure" "$kit/lib" "$kit/models" || exit 1
  for f in weir weir-cuda.so weir-cuda-host.so mkmodel; do strip -o "$kit/$f" "$build/$f" || exit 1; done
  strip -o "$kit/tests/measure/kv_host" "$build/tests/measure/kv_host" || exit 1
  for f in $units; do [ ! -e "$f" ] || strip -o "$kit/tests/cuda/$(basename "$f")" "$f"; done
  # Copy every library except the compiler's and the C library's, which are at least as new on machines with a GPU.
  ldd "$kit/weir" | awk '$3 ~ /^\// && $1 !~ /^lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so/ { print $3 }' | while read -r f; do cp -L "$f" "$kit/lib/"; done
  cp tests/vectors/stories260K/stories260K-*.gguf "$kit/models/" 2>/dev/null
  git rev-parse --short HEAD >"$kit/commit" 2>/dev/null
  du -sh "$kit"
  [ $bad = 0 ]
  exit
fi
if wants build; then make_all native; fi
weir=$build/weir
WEIR_CUDA=$PWD/$build/weir-cuda.so
case $build in /*) WEIR_CUDA=$build/weir-cuda.so ;; esac
WEIR_CUDA=${GPU_PLUGIN:-$WEIR_CUDA}
export WEIR_CUDA
# The libraries of a kit, and cuBLAS if it is not from CUDA's own packages.
paths=${LD_LIBRARY_PATH:-}
[ ! -d "$build/lib" ] || paths=$(cd "$build/lib" && pwd)${paths:+:$paths}
[ -z "$paths" ] || export LD_LIBRARY_PATH="$paths"
blas=$(ldd "$WEIR_CUDA" 2>/dev/null | awk '/libcublas.*not found/ { print $1; exit }')
[ -z "$blas" ] || blas=$(find /usr/local /opt /usr/lib -name "$blas" 2>/dev/null | head -n 1)
[ -z "$blas" ] || export LD_LIBRARY_PATH="${paths:+$paths:}${blas%/*}"
device=$(within 120 "$weir" doctor -m /nonexistent 2>"$scratch/err" | sed -n 's/^gpu *//p')
case $device in
'') echo "gpu.sh: '$weir doctor' says nothing of a GPU: $(head -n 3 "$scratch/err")" >&2; exit 1 ;;
'none used'*) echo "gpu.sh: $device" >&2; exit 1 ;;
esac
row "date    $(date -u +%Y-%m-%d)"
row "commit  $(cat "$build/commit" 2>/dev/null || git rev-parse --short HEAD 2>/dev/null || echo unknown)"
row "device  $device"
row "built   in $(( $(date +%s) - start )) s"

# ---- tests ----

# parity MODEL TOKENS: compare logits and greedy tokens of the device with those of the CPU.
parity() {
  for d in cpu cuda; do
    within 60 "$weir" inspect logits -q -m "$1" --device $d --tokens "$2" --out "$scratch/logits.$d" 2>"$scratch/err" ||
      { failed "logits of $(basename "$1") on $d: $(cat "$scratch/err")"; return; }
    within 60 "$weir" -q -m "$1" --device $d --private --temp 0 -n 64 --json -p 'Once upon a time' 2>"$scratch/err" |
      sed -n 's/.*"tokens":\[\([0-9,]*\)\].*/\1/p' >"$scratch/tokens.$d"
    [ -s "$scratch/tokens.$d" ] || { failed "tokens of $(basename "$1") on $d: $(cat "$scratch/err")"; return; }
  done
  for d in cpu cuda; do od -An -v -w4 -t fF "$scratch/logits.$d" >"$scratch/logits.$d.txt"; done
  nmse=$(paste "$scratch/logits.cpu.txt" "$scratch/logits.cuda.txt" | awk '{ d = $1 - $2; a += d * d; b += $1 * $1 } END { printf "%.3g", b ? a / b : 1 }')
  same=$(awk -F, 'NR == FNR { for (i = 1; i <= NF; i++) v[i] = $i; next } { for (n = 0; n < NF && v[n + 1] == $(n + 1); n++); print n "/" NF }' \
    "$scratch/tokens.cpu" "$scratch/tokens.cuda")
  row "$(printf '%-22s NMSE %-9s greedy tokens alike %s' "$(basename "$1" .gguf)" "$nmse" "$same")"
  # The CPU multiplies quantised weights by 8-bit activations, which causes an error of up to 2e-3.
  awk -v e="$nmse" 'BEGIN { exit !(e < 2e-3) }' || failed "$(basename "$1"): error $nmse"
  # With float weights the tokens must be the same.
  awk -v e="$nmse" -v same="$same" 'BEGIN { split(same, s, "/"); exit e < 1e-5 && s[1] != s[2] }' || failed "$(basename "$1"): other tokens, $same"
}

# Tests that compare results run on the device. t_cuda_device (with a fake runtime) and t_cuda_host (with the emulated
# device) run without the GPU. In all other suites, checks that only the emulated device can make (launches, guards)
# count as skipped.
if wants tests; then
  for f in tests/cuda/t_cuda_*.c; do
    name=$(basename "$f" .c)
    room 10 "$name" || continue
    WEIR_TEST_CUDA=device within 120 "$build/tests/cuda/$name" >"$scratch/$name" 2>&1
    rc=$?
    row "$(printf '%-22s %s' "$name" "$(tail -n 1 "$scratch/$name")")"
    [ $rc = 0 ] || { failed "$name, status $rc"; grep -aE '^    |FAIL' "$scratch/$name" | head -n 20; }
    keep tests.log "$scratch/$name" "$name"
  done
  for m in tests/vectors/models/*.gguf; do case $m in *bert*) ;; *) ! room 10 "$m" || parity "$m" "${m%.gguf}.ids" ;; esac; done # bert: encoders
  stories=$build/models
  [ -d "$stories" ] || stories=tests/vectors/stories260K
  for m in "$stories"/stories260K-*.gguf; do
    [ -e "$m" ] || continue
    room 10 "$m" || continue
    "$weir" inspect tokens -m "$m" README.md 2>/dev/null | head -n 200 >"$scratch/ids"
    parity "$m" "$scratch/ids"
  done
fi

# ---- memory, races, what is not initialised ----

# sanitise CHECK NAME COMMAND...: run under compute-sanitizer. Only errors found by the tool count, not wrong results.
sanitise() {
  check=$1 name=$2
  shift 2
  room 45 "$check of $name" || return
  within 120 "$tool" --tool "$check" --report-api-errors no --error-exitcode 9 "$@" >"$scratch/check" 2>&1
  rc=$?
  case $rc in
  0) row "$(printf '%-10s %-36s clean' "$check" "$name")" ;;
  1) row "$(printf '%-10s %-36s clean, but what it ran failed' "$check" "$name")" ;;
  124|137) row "$(printf '%-10s %-36s not done in the time' "$check" "$name")" ;;
  *) failed "$check of $name, status $rc: $(grep -a '^=====' "$scratch/check" | grep -av 'COMPUTE-SANITIZER' | head -n 12)" ;;
  esac
  keep sanitizer.log "$scratch/check" "$check of $name"
}

if wants sanitizer; then
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda/compute-sanitizer/compute-sanitizer 2>/dev/null | head -n 1)
  if [ -z "$tool" ]; then
    row "compute-sanitizer is not installed: not run"
  else
    for check in memcheck racecheck initcheck; do
      for kv in full cascade:size=32,n=4,sinks=2,stride=8 sift:k=16 refresh:k=16,qc=3; do
        sanitise $check "$kv" "$weir" bench -m tests/vectors/models/llama-block32.gguf --device cuda --kv "$kv" --prefill 24 --decode 6 \
          --depth 40 --fill random --reps 1 --json
      done
    done
    # Unusual shapes.
    export WEIR_TEST_CUDA=device
    for check in memcheck racecheck; do
      for name in t_cuda_attn t_cuda_select_ops t_cuda_matmul t_cuda_ops; do
        sanitise $check $name "$build/tests/cuda/$name"
      done
    done
  fi
fi

# ---- speed ----

# figures MODEL NAME OPTIONS...: rows "NAME kv depth t/s GB/s share-of-copy-bandwidth"
figures() {
  m=$1 name=$2
  shift 2
  within "$limit" "$weir" bench -q -m "$m" --device cuda --fill random --json "$@" >"$scratch/bench" 2>"$scratch/err" ||
    failed "bench of $name: $(tail -n 2 "$scratch/err")"
  awk -v name="$name" '
    function num(key) { return match($0, "\"" key "\":-?[0-9.eE+-]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : 0 }
    function text(key) { return match($0, "\"" key "\":\"[^\"]*\"") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 5) : "" }
    /"test":"bandwidth"/ { peak = num("gbps"); printf "%-10s copies %.0f GB/s inside its memory\n", name, peak }
    /"test":"prefill"/ { printf "%-10s %-22s reads   %6d tokens at depth %6d: %9.1f t/s\n", name, text("kv"), num("n"), num("depth"), num("tps") }
    /"test":"decode"/ { printf "%-10s %-22s decodes at depth %6d: %9.1f t/s (%.1f-%.1f), %7.1f GB/s, %5.1f %% of copying\n", name, text("kv"),
      num("depth"), num("tps"), num("tps_min"), num("tps_max"), num("gbps"), peak ? 100 * num("gbps") / peak : 0 }
    /"test":"cache_op"/ { printf "%-10s %-22s cache operation at depth %d: %.1f us a token\n", name, text("kv"), num("depth"), num("us_per_token") }
  ' "$scratch/bench" | tee -a "$table"
  keep bench.log "$scratch/bench" "$name"
}

if wants speed; then
  if room 40 "the 135M shape"; then
    for type in Q4_1 F16; do
      "$build/mkmodel" smollm2-135m $type "$scratch/small.gguf" &&
        figures "$scratch/small.gguf" "135M-$type" --kv full --kv cascade:size=1024 --kv sift:k=512 --prefill 512,4096 --depth 0,2048,7680 \
          --decode 64 --reps 3
      rm -f "$scratch/small.gguf"
    done
  fi
  for type in $types; do
    room 80 "the 8B shape in $type" || continue
    "$build/mkmodel" llama-3.1-8b "$type" "$scratch/8b.gguf" || { failed "no model of $type could be made"; rm -f "$scratch/8b.gguf"; continue; }
    figures "$scratch/8b.gguf" "8B-$type" --kv full --kv refresh:k=1/8,qc=10 --kv sift:k=4096 --prefill 512 --depth 0,8192,32768,131072 \
      --decode 32 --reps 3
    # KV entries, 8 GiB at the last depth, in three ways: in the memory of the machine and prefetched, in the memory of
    # the machine and fetched when selected, all on the device.
    [ "$type" != F16 ] || for depth in 16384 65536; do
      room 90 "entries in the machine's memory at depth $depth" || continue
      within 150 "$build/tests/measure/kv_host" "$scratch/8b.gguf" $depth 64 '' sift:k=1024 >"$scratch/kv_host" 2>"$scratch/err" ||
        failed "entries in the machine's memory at depth $depth: $(tail -n 1 "$scratch/err")"
      while read -r line; do row "8B-F16     $line"; done <"$scratch/kv_host"
    done
    [ "$type" != F16 ] || ! room 60 "a cascade of the 8B shape" ||
      figures "$scratch/8b.gguf" "8B-$type" --kv cascade:size=4096,n=4 --prefill 512 --depth 8192 --decode 64 --reps 3
    rm -f "$scratch/8b.gguf"
  done
fi

row "$bad failures, $(( $(date +%s) - start )) s in all"
echo
echo "==== $device"
cat "$table"
{ echo; echo "## $(date -u +%Y-%m-%d), $device"; echo; echo '```'; cat "$table"; echo '```'; } >"$scratch/section"
[ -n "${GPU_PLUGIN:-}" ] || cat "$scratch/section" >>tests/cuda/gpu-results.md
[ -z "${OUT:-}" ] || cp tests/cuda/gpu-results.md "$OUT/" 2>/dev/null
[ $bad = 0 ]
