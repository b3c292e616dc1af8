#!/bin/sh
# tests/cuda/gpu.sh - everything that needs a GPU, in an order for 900 seconds in all, without a network: what says most comes first.  Each
# command has a limit of its own.  The table grows row by row; however the script ends, what is there goes to tests/cuda/gpu-results.md
# and, with all logs in few files, to $OUT if that is set.
#
#   tests/cuda/gpu.sh [SECONDS]     SECONDS: time for all steps (870); steps for which there is no time are left out, and the table names them
#   GPU_STEPS="build smoke speed kernels roof papers memcheck"     the default, and its order; also: tests sanitizer small
#   GPU_TYPES="Q4_K F16"   GPU_DIR=/tmp   BUILD=build/gpu
#   GPU_PLUGIN=FILE   another plugin: the emulated one, to try this script without a GPU
#   GPU_TINY=1        tiny models and short caches in place of the 8B shape, to try this script
#   GPU_RESULTS=FILE  in place of tests/cuda/gpu-results.md
#
#   smoke     the check of the device, NMSE and greedy tokens of all tiny models, perplexity of stories260K          60 s
#   speed     8B shapes at depths 0, 16K, 32K, 128K under full, sift, refresh; a document with evidence             200 s
#   kernels   time of each kernel (ncu or nsys)                                                                     60 s
#   roof      copies, an 8192 x 8192 product by cuBLAS, attention by torch                                          20 s
#   papers    a cascade's cache operation, entries in host memory, h2o, snapkv, quest, predict at 16K and 32K      120 s
#   memcheck  compute-sanitizer over four policies                                                                 100 s
#   tests     the unit tests on the device; sanitizer: races and what is not initialised, too; small: the 135M shape
#
# Where a machine lends a GPU for at most ten minutes a command, two commands do it: GPU_STEPS="smoke speed kernels", then "roof papers memcheck".
#
# A machine with a GPU may lack the libraries of readline, SQLite and so on, and their headers.  Then the programs are built elsewhere, into a
# kit, one file of at most 30 MiB with these libraries:
#
#   GPU_STEPS=kit GPU_ARCH=sm_90 tests/cuda/gpu.sh            here: $GPU_KIT.tar.xz (build/gpu-kit.tar.xz)
#   BUILD=build/gpu-kit tests/cuda/gpu.sh                     on the GPU machine, which unpacks it
#
# Models for speed are made on the spot with random weights (tests/measure/mkmodel.c): an 8B Llama's shape in f16 takes 16 GB of $GPU_DIR, or of
# memory if there is room.  Deep caches are filled with random rows (weir bench --fill random).
set -u
cd "$(dirname "$0")/../.." || exit 1
limit=${1:-870}
start=$(date +%s)
build=${BUILD:-build/gpu}
built=build # a kit needs no building
[ ! -e "$build.tar.xz" ] && [ ! -e "$build/commit" ] || built=
[ -z "${GPU_PLUGIN:-}" ] || built=
steps=${GPU_STEPS:-$built smoke speed kernels roof papers memcheck}
types=${GPU_TYPES:-Q4_K F16}
tiny=${GPU_TINY:-}
results=${GPU_RESULTS:-tests/cuda/gpu-results.md}
dir=${GPU_DIR:-}
[ -n "$dir" ] || { dir=/tmp; [ "$(df -Pk /dev/shm 2>/dev/null | awk 'END { print int($4 / 1048576) }')" -lt 24 ] 2>/dev/null || dir=/dev/shm; }
scratch=$(mktemp -d "$dir/weir-gpu-XXXXXX") || exit 1
table=${OUT:-$scratch}/table
device=
# Append the table to the results, however the script ends.
ended() {
  if [ -s "$table" ] && [ -n "$device" ]; then
    [ "$done" = 1 ] || echo "ended early: $(( $(date +%s) - start )) s" >>"$table"
    { echo; echo "## $(date -u +%Y-%m-%d), $device"; echo; echo '```'; cat "$table"; echo '```'; } >"$scratch/section"
    if [ -n "${GPU_RESULTS:-}" ] || [ -z "${GPU_PLUGIN:-}" ]; then cat "$scratch/section" >>"$results"; fi
    [ -z "${OUT:-}" ] || cp "$scratch/section" "$OUT/gpu-results.md" 2>/dev/null
  fi
  rm -rf "$scratch"
}
done=0
trap ended EXIT
trap 'exit 130' INT TERM
export XDG_DATA_HOME="$scratch/data" XDG_CONFIG_HOME="$scratch/config" XDG_STATE_HOME="$scratch/state" TMPDIR="$scratch"
unset WEIR_MODEL WEIR_CTX WEIR_KV WEIR_DEVICE
export WEIR_ENCODER=off
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
  make -s -j"$jobs" CUDA=1 CUDA_ARCH="$1" BUILD="$build" PROGRAM="$build/weir" "$build/weir" "$build/weir-lab" "$build/weir-cuda.so" "$build/mkmodel" \
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
  mkdir -p "$kit/tests/cuda" "$kit/tests/measure" "$kit/lib" || exit 1
  for f in weir weir-lab weir-cuda.so weir-cuda-host.so mkmodel; do strip -o "$kit/$f" "$build/$f" || exit 1; done
  strip -o "$kit/tests/measure/kv_host" "$build/tests/measure/kv_host" || exit 1
  for f in $units; do [ ! -e "$f" ] || strip -o "$kit/tests/cuda/$(basename "$f")" "$f"; done
  # Copy every library except the compiler's and the C library's, which are at least as new on machines with a GPU.
  ldd "$kit/weir" | awk '$3 ~ /^\// && $1 !~ /^lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so/ { print $3 }' | while read -r f; do cp -L "$f" "$kit/lib/"; done
  git rev-parse --short HEAD >"$kit/commit" 2>/dev/null
  tar -C "$(dirname "$kit")" -cf - "$(basename "$kit")" | xz -T0 -9 >"$kit.tar.xz" || exit 1
  bytes=$(wc -c <"$kit.tar.xz")
  echo "$kit.tar.xz: $((bytes / 1048576)) MiB; unpacked $(du -sh "$kit" | cut -f 1)"
  [ "$bytes" -le $((30 << 20)) ] || { echo "gpu.sh: the kit is larger than 30 MiB"; exit 1; }
  [ $bad = 0 ]
  exit
fi
if [ -e "$build.tar.xz" ] && [ ! -e "$build/commit" ]; then
  tar -C "$(dirname "$build")" -xJf "$build.tar.xz" || exit 1
fi
if wants build; then make_all native; fi
weir=${WEIR:-$build/weir}
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
within 120 "$weir" doctor -m /nonexistent >"$scratch/doctor" 2>"$scratch/err"
device=$(sed -n 's/^gpu *//p' "$scratch/doctor")
case $device in
'') echo "gpu.sh: '$weir doctor' says nothing of a GPU: $(head -n 3 "$scratch/err")" >&2; exit 1 ;;
'none used'*) echo "gpu.sh: $device" >&2; device=; exit 1 ;;
esac
# What the check of the device says is a row; everything is measured, whatever it says.
export WEIR_GPU_CHECK=off
row "date    $(date -u +%Y-%m-%d)"
row "commit  $(cat "$build/commit" 2>/dev/null || git rev-parse --short HEAD 2>/dev/null || echo unknown)"
row "device  $device"
row "check   $(sed -n '/^gpu/{n;s/^ *//p;}' "$scratch/doctor")"
grep -q 'its check passed' "$scratch/doctor" || failed "the check of the device"
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
# perplexity MODEL: of a text, on both devices
perplexity() {
  head -c $([ -n "$tiny" ] && echo 800 || echo 6000) README.md >"$scratch/text"
  for d in cpu cuda; do
    within 60 "$weir" eval ppl -q -m "$1" --device $d --ctx 512 --json "$scratch/text" 2>"$scratch/err" | sed -n 's/.*"ppl":\([0-9.]*\).*/\1/p' | tail -n 1 >"$scratch/ppl.$d"
  done
  row "$(printf '%-22s perplexity %s on the CPU, %s here' "$(basename "$1" .gguf)" "$(cat "$scratch/ppl.cpu")" "$(cat "$scratch/ppl.cuda")")"
  awk -v a="$(cat "$scratch/ppl.cpu")" -v b="$(cat "$scratch/ppl.cuda")" 'BEGIN { exit !(a > 0 && b > 0 && b / a < 1.01 && a / b < 1.01) }' ||
    failed "perplexity of $(basename "$1"): $(tail -n 1 "$scratch/err")"
}

if wants smoke; then
  models=$(ls tests/vectors/models/*.gguf)
  [ -z "$tiny" ] || models="tests/vectors/models/llama-block32.gguf tests/vectors/models/qwen3.gguf"
  for m in $models; do case $m in *bert*) ;; *) ! room 10 "$m" || parity "$m" "${m%.gguf}.ids" ;; esac; done # bert: encoders
  for m in tests/vectors/stories260K/stories260K-*.gguf; do
    [ -e "$m" ] && room 10 "$m" || continue
    "$weir" inspect tokens -m "$m" README.md 2>/dev/null | head -n 200 >"$scratch/ids"
    parity "$m" "$scratch/ids"
    case $m in *f16*) ! room 20 "perplexity" || perplexity "$m" ;; esac
    [ -z "$tiny" ] || break
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

# sanitise_policies CHECK...
sanitise_policies() {
  for check in "$@"; do
    for kv in full cascade:size=32,n=4,sinks=2,stride=8 sift:k=16 refresh:k=16,qc=3; do
      sanitise "$check" "$kv" "$weir" bench -m tests/vectors/models/llama-block32.gguf --device cuda --kv "$kv" --prefill 24 --decode 6 \
        --depth 40 --fill random --reps 1 --json
    done
  done
}

run_memcheck() { sanitise_policies memcheck; }
run_sanitizer() {
  sanitise_policies racecheck initcheck
  export WEIR_TEST_CUDA=device # unusual shapes
  for check in memcheck racecheck; do
    for name in t_cuda_attn t_cuda_select_ops t_cuda_matmul t_cuda_ops; do
      sanitise $check $name "$build/tests/cuda/$name"
    done
  done
}

# ---- unit tests ----

# Tests that compare results run on the device. t_cuda_device (with a fake runtime) and t_cuda_host (with the emulated
# device) run without the GPU. In all other suites, checks that only the emulated device can make (launches, guards)
# count as skipped.
run_tests() {
  for f in tests/cuda/t_cuda_*.c; do
    name=$(basename "$f" .c)
    room 10 "$name" || continue
    WEIR_TEST_CUDA=device within 120 "$build/tests/cuda/$name" >"$scratch/$name" 2>&1
    rc=$?
    row "$(printf '%-22s %s' "$name" "$(tail -n 1 "$scratch/$name")")"
    case $rc in
    0) ;;
    124|137) row "$name: not done in the time" ;;
    *) failed "$name, status $rc"; grep -aE '^    |FAIL' "$scratch/$name" | head -n 20 ;;
    esac
    keep tests.log "$scratch/$name" "$name"
  done
}

# ---- speed ----

# figures MODEL NAME OPTIONS...: rows "NAME kv depth t/s GB/s share-of-copy-bandwidth"
figures() {
  m=$1 name=$2
  shift 2
  within 160 "$weir" bench -q -m "$m" --device cuda --fill random --json "$@" >"$scratch/bench" 2>"$scratch/err" ||
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

# model TYPE: make the model of this type for speed, $big, unless it is there.
big=
model() {
  [ "$big" != "$scratch/8b-$1.gguf" ] || return 0
  rm -f "$scratch"/8b-*.gguf
  big=$scratch/8b-$1.gguf
  if [ -n "$tiny" ]; then cp tests/vectors/models/llama-block32.gguf "$big"
  else "$build/mkmodel" llama-3.1-8b "$1" "$big"; fi || { failed "no model of $1 could be made"; rm -f "$big"; big=; return 1; }
}
depths=0,16384,32768,131072 mid=16384,32768 prefill=512,4096 decode=32 reps=3 k=4096 size=4096
[ -z "$tiny" ] || { depths=0,40 mid=40 prefill=24 decode=4 reps=1 k=16 size=32; }

# A document with evidence, as users have it; the random weights answer nonsense.
asked() {
  printf 'A line of a document about ships and harbours, number %s.\n' $(seq 400) >"$scratch/document.txt"
  [ -z "$tiny" ] || head -n 2 "$scratch/document.txt" >"$scratch/short" && [ -z "$tiny" ] || mv "$scratch/short" "$scratch/document.txt"
  within 90 "$weir" -q -m "$big" --device cuda --private --json --temp 0 -n $((decode * 4)) -p 'What is in the harbour?' "$scratch/document.txt" \
    >"$scratch/asked" 2>"$scratch/err" || failed "a question about a document: $(tail -n 1 "$scratch/err")"
  row "$(printf '%-10s auto, a document with evidence: %s t/s' "8B-$1" "$(sed -n 's/.*"decode_tps":\([0-9.]*\).*/\1/p' "$scratch/asked")")"
}

run_speed() {
  for type in $types; do
    room 60 "the 8B shape in $type" && model "$type" || continue
    figures "$big" "8B-$type" --kv full --kv sift:k=$k --kv refresh:k=1/8,qc=10 --prefill $prefill --depth $depths --decode $decode --reps $reps
    ! room 30 "a document with evidence, $type" || asked "$type"
    ! room 30 "auto and a cascade, $type" ||
      figures "$big" "8B-$type" --kv auto:k=$k --kv cascade:size=$size,n=4 --prefill 24 --depth ${mid%%,*} --decode $decode --reps $reps
  done
}

# Time of each kernel, by the first tool that is there.
run_kernels() {
  room 60 "the time of each kernel" && model "${types%% *}" || return
  set -- "$weir" bench -q -m "$big" --device cuda --kv "sift:k=$k" --fill random --prefill 24 --depth "${mid%%,*}" --decode 4 --reps 1 --json
  if command -v nsys >/dev/null 2>&1; then
    within 60 nsys profile -o "$scratch/nsys" --cuda-graph-trace=node "$@" >"$scratch/prof" 2>&1 &&
      within 30 nsys stats --report cuda_gpu_kern_sum "$scratch/nsys.nsys-rep" >"$scratch/prof" 2>&1
  elif command -v ncu >/dev/null 2>&1; then
    within 60 ncu --metrics gpu__time_duration.sum --launch-skip 600 --launch-count 300 "$@" >"$scratch/prof" 2>&1
  else
    row "neither nsys nor ncu is installed: no times of kernels"
    return
  fi
  keep kernels.log "$scratch/prof" "kernels"
  head -n 30 "$scratch/prof" | while IFS= read -r line; do row "$line"; done
}

# What the machine can do, by others' libraries.
run_roof() {
  room 20 "the roof" || return
  cat >"$scratch/roof.py" <<'END'
import time
import torch
def best(f, n=10):
    f(); torch.cuda.synchronize(); t = []
    for _ in range(n):
        a = time.time(); f(); torch.cuda.synchronize(); t.append(time.time() - a)
    return min(t)
x = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
print("cuBLAS    8192^3 in f16: %.0f TFLOPS" % (2 * 8192 ** 3 / best(lambda: x @ x) / 1e12))
b = torch.empty(1 << 30, device="cuda", dtype=torch.uint8); c = torch.empty_like(b)
print("torch     copies %.0f GB/s" % (2 * b.numel() / best(lambda: c.copy_(b)) / 1e9))
for n in (32768, 131072):
    q = torch.randn(1, 32, 1, 128, device="cuda", dtype=torch.float16); k = torch.randn(1, 32, n, 128, device="cuda", dtype=torch.float16)
    g = torch.cuda.CUDAGraph(); f = torch.nn.functional.scaled_dot_product_attention; f(q, k, k); torch.cuda.synchronize()
    with torch.cuda.graph(g): f(q, k, k)
    s = best(g.replay)
    print("torch     attention of one token to %d, 32 KV heads of 128: %.1f us, %.0f GB/s" % (n, s * 1e6, 2 * k.numel() * 2 / s / 1e9))
END
  if python3 -c 'import torch' 2>/dev/null; then
    within 40 python3 "$scratch/roof.py" >"$scratch/roof" 2>"$scratch/err" || row "torch: $(tail -n 1 "$scratch/err")"
    while IFS= read -r line; do row "$line"; done <"$scratch/roof"
  else
    row "torch is not installed: no roof by others"
  fi
}

# The papers' rows: F T1 (decode at 16K and 32K), C T4 (a cascade's cache operation), A T5 (entries in host memory).
run_papers() {
  room 60 "the papers' rows" && model "${types%% *}" || return
  for kv in streaming++:size=$size h2o:k=$k snapkv:k=$k recycled:k=$k quest:k=$k; do
    ! room 25 "$kv" || figures "$big" "8B-${types%% *}" --kv "$kv" --prefill 24 --depth $mid --decode $decode --reps $reps
  done
  ! room 25 "a cascade" || figures "$big" "8B-${types%% *}" --kv cascade:size=$size,n=4 --prefill 24 --depth "${mid%%,*}" --decode 64 --reps $reps
  [ -x "$build/tests/measure/kv_host" ] || { row "entries in the machine's memory: kv_host is not built"; return; }
  for depth in $(echo "$mid" | tr , ' '); do
    room 60 "entries in the machine's memory at depth $depth" || continue
    # KV entries in three ways: in the memory of the machine and prefetched, fetched when selected, all on the device.
    within 100 "$build/tests/measure/kv_host" "$big" "$depth" $((decode * 2)) '' sift:k=$((k / 4)) >"$scratch/kv_host" 2>"$scratch/err" ||
      failed "entries in the machine's memory at depth $depth: $(tail -n 1 "$scratch/err")"
    while read -r line; do row "8B         $line"; done <"$scratch/kv_host"
  done
}

run_small() {
  for type in Q4_1 F16; do
    room 40 "the 135M shape" || continue
    "$build/mkmodel" smollm2-135m $type "$scratch/small.gguf" &&
      figures "$scratch/small.gguf" "135M-$type" --kv full --kv cascade:size=1024 --kv sift:k=512 --prefill 512,4096 --depth 0,2048,7680 \
        --decode 64 --reps 3
    rm -f "$scratch/small.gguf"
  done
}

for step in $steps; do
  case $step in
  speed|kernels|roof|papers|tests|small)
    row "---- $step, at $(( $(date +%s) - start )) s"
    "run_$step" ;;
  memcheck|sanitizer)
    row "---- $step, at $(( $(date +%s) - start )) s"
    tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda/compute-sanitizer/compute-sanitizer 2>/dev/null | head -n 1)
    if [ -n "$tool" ]; then "run_$step"; else row "compute-sanitizer is not installed: not run"; fi ;;
  esac
done

row "$bad failures, $(( $(date +%s) - start )) s in all"
done=1
echo
echo "==== $device"
cat "$table"
[ $bad = 0 ]
