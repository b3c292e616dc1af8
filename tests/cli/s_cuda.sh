#!/bin/sh
# tests/cli/s_cuda.sh - weir-cuda.so compiled by nvcc for one kind of device, linked, and loaded, with a GPU or without.
#
# Its results are tested by t_cuda_* on the processor, and by tests/cuda/gpu.sh on a machine with a GPU. WEIR is the
# program, BUILD its folder. Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}
build=${BUILD:-build}
. tests/lib/count.sh
unset WEIR_MODEL WEIR_CTX WEIR_KV WEIR_THREADS WEIR_DEVICE WEIR_CUDA
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
tiny=tests/vectors/models/llama-block32.gguf

# The devices for which make lets nvcc compile, with a fake nvcc.
printf '%s\n' '#!/bin/sh' 'printf "compute_%s\n" 75 80 86 87 89 90 90a' >"$dir/nvcc"
chmod +x "$dir/nvcc"
said=$(kernels/cuda/arch.sh "$dir/nvcc")
[ "$said" = "-gencode arch=compute_80,code=sm_80 -gencode arch=compute_86,code=sm_86 -gencode arch=compute_89,code=sm_89 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90" ] &&
	ok "all devices that nvcc knows, and PTX of the newest" || bad "all devices that nvcc knows, and PTX of the newest" "$said"
said=$(kernels/cuda/arch.sh "$dir/nvcc" sm_90)
[ "$said" = "-gencode arch=compute_90,code=sm_90" ] && ok "CUDA_ARCH narrows them" || bad "CUDA_ARCH narrows them" "$said"
kernels/cuda/arch.sh "$dir/nvcc" 90 >"$dir/out" 2>"$dir/err" && bad "a wrong CUDA_ARCH is refused" "accepted" || ok "a wrong CUDA_ARCH is refused"

# What a plain make builds, with a fake nvcc and nvidia-smi: all commands that make would run from scratch.
would() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u CUDA -u CUDA_ARCH PATH="$dir:$PATH" make -n SANITIZE= NVCC="$dir/nvcc" BUILD="$dir/none" PROGRAM="$dir/none/weir" "$@" 2>&1
}
left_out="no NVIDIA device: left out ('make cuda' builds it for all devices)"
printf '%s\n' '#!/bin/sh' 'exit 9' >"$dir/nvidia-smi"
chmod +x "$dir/nvidia-smi"
said=$(would all)
case $said in *weir-cuda.so*) bad "without a device make leaves the plugin out" "$(printf '%s\n' "$said" | grep weir-cuda.so | head -n 1)" ;;
*"$left_out"*) ok "without a device make leaves the plugin out" ;;
*) bad "without a device make leaves the plugin out" "it does not say so" ;; esac
said=$(would CUDA=1 all)
case $said in *"arch.sh $dir/nvcc )"*-o" $dir/none/weir-cuda.so "*) ok "CUDA=1 builds it for all devices" ;;
*) bad "CUDA=1 builds it for all devices" "$(printf '%s\n' "$said" | grep -E 'arch.sh|weir-cuda.so' | head -n 2)" ;; esac
case $said in *"$left_out"*) bad "CUDA=1 leaves nothing out" "$left_out" ;; *) ok "CUDA=1 leaves nothing out" ;; esac
said=$(would CUDA=0 all)
case $said in *weir-cuda.so*|*"left out"*) bad "CUDA=0 says nothing about GPUs" "$(printf '%s\n' "$said" | grep -E 'left|cuda.so')" ;;
*) ok "CUDA=0 says nothing about GPUs" ;; esac
printf '%s\n' '#!/bin/sh' 'echo "GPU 0: NVIDIA H100"' >"$dir/nvidia-smi"
said=$(would all)
case $said in *"arch.sh $dir/nvcc native)"*-o" $dir/none/weir-cuda.so "*) ok "with a device make builds the plugin for that one" ;;
*) bad "with a device make builds the plugin for that one" "$(printf '%s\n' "$said" | grep -E 'arch.sh|weir-cuda.so' | head -n 2)" ;; esac
env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make NVCC= cuda >"$dir/out" 2>&1 && bad "make cuda wants nvcc" "accepted" ||
	{ grep -q "make: nvcc is not found: 'make setup-cuda' fetches it" "$dir/out" && ok "make cuda wants nvcc" || bad "make cuda wants nvcc" "$(head -n 2 "$dir/out")"; }

# Without the plugin, or without a driver: one line, exit status 3; "auto" uses the CPU.
one_line() {
	"$weir" --device cuda -m "$tiny" -p hi -n 1 --private >"$dir/out" 2>"$dir/err" </dev/null
	rc=$?
	if [ $rc = 3 ] && [ "$(wc -l <"$dir/err")" = 1 ] && grep -q "cannot use device 'cuda'" "$dir/err" && [ ! -s "$dir/out" ]; then ok "$1"
	else bad "$1" "status $rc: $(cat "$dir/err")"; fi
	"$weir" doctor -m "$tiny" >"$dir/out" 2>&1
	grep -q '^gpu *none used: ' "$dir/out" && ok "$1: the doctor says why" || bad "$1: the doctor says why" "$(grep gpu "$dir/out")"
	"$weir" doctor --json -m "$tiny" 2>/dev/null | grep -q '"gpu":{"found":false,"why":"' && ok "$1: for programs, too" || bad "$1: for programs, too" "$(cat "$dir/out")"
	"$weir" --device auto -q -m "$tiny" -p hi -n 1 --private >"$dir/out" 2>"$dir/err" </dev/null
	rc=$?
	if [ $rc = 0 ] && [ ! -s "$dir/err" ]; then ok "$1: auto goes on with the CPU, without a word"
	else bad "$1: auto goes on with the CPU, without a word" "status $rc: $(cat "$dir/err")"; fi
}
WEIR_CUDA="$dir/nothing.so"
export WEIR_CUDA
one_line "no plugin"
unset WEIR_CUDA

# Trust by test, on the emulated device. WEIR_CUDA_WRONG: kernels that do nothing there.
checked() { "$weir" "$@" -m "$tiny" -p hi -n 4 --temp 0 >"$dir/out" 2>"$dir/err" </dev/null; }
XDG_STATE_HOME=$dir/state WEIR_CUDA=$build/weir-cuda-host.so
export XDG_STATE_HOME WEIR_CUDA
kept=$XDG_STATE_HOME/weir/gpu-checks
wrong="computing on the CPU: the check of the GPU failed: rmsnorm differs from the CPU's result"
checked --device cpu && cp "$dir/out" "$dir/cpu"
checked --device cuda --private && [ ! -e "$kept" ] && ok "a private conversation keeps no check" || bad "a private conversation keeps no check" "$(cat "$dir/err" "$kept")"
checked --device cuda && [ "$(wc -l <"$kept")" = 1 ] && grep -q "^passed	weir .*, host, sm_90, driver 13000, runtime 13000, plugin " "$kept" &&
	ok "the first use checks the device" || bad "the first use checks the device" "$(cat "$dir/err" "$kept")"
checked --device cuda && [ "$(wc -l <"$kept")" = 1 ] && ok "the second does not" || bad "the second does not" "$(cat "$dir/err" "$kept")"
rm -f "$kept"
WEIR_CUDA_WRONG=head_args checked --device cuda
grep -q "^$wrong" "$dir/err" && cmp -s "$dir/out" "$dir/cpu" && ok "wrong results: the CPU computes, and one sentence says so" ||
	bad "wrong results: the CPU computes, and one sentence says so" "$(cat "$dir/err")"
checked -q --device cuda && grep -q "^$wrong" "$dir/err" && ok "-q does not hide that from who asked for the GPU" || bad "-q does not hide that from who asked for the GPU" "$(cat "$dir/err")"
checked && grep -q "^$wrong" "$dir/err" && ok "the result is kept" || bad "the result is kept" "$(cat "$dir/err")"
WEIR_GPU_CHECK=off checked --device cuda && ! grep -q "$wrong" "$dir/err" && ok "WEIR_GPU_CHECK=off trusts every device" || bad "WEIR_GPU_CHECK=off trusts every device" "$(cat "$dir/err")"
WEIR_CUDA_WRONG=head_args "$weir" doctor -m "$tiny" 2>&1 | grep -q "its check failed: rmsnorm differs from the CPU's result (error .*); weir computes on the CPU" &&
	ok "the doctor says what is wrong" || bad "the doctor says what is wrong" "$("$weir" doctor -m "$tiny" | grep -A2 '^gpu')"
"$weir" doctor -m "$tiny" 2>&1 | grep -q "its check passed" && checked --device cuda && ! grep -q "$wrong" "$dir/err" &&
	ok "the doctor checks again" || bad "the doctor checks again" "$(cat "$dir/err" "$kept")"
head -c 100000 /dev/zero | tr '\0' x >"$kept"
checked --device cuda && [ "$(wc -l <"$kept")" = 1 ] && [ "$(wc -c <"$kept")" -lt 1000 ] && ok "a file of results that is too long begins anew" ||
	bad "a file of results that is too long begins anew" "$(head -c 200 "$kept")"
unset XDG_STATE_HOME WEIR_CUDA

# Help, doctor and manual say that no GPU has run it, as long as gpu-results.md has no section of one.
unproven="not yet run on a real GPU"
said=$("$weir" help options 2>/dev/null | tr -s " \n" " ")
for place in "help:$said" "manual:$(tr '\n' ' ' <man/weir.1)" "doctor:$(WEIR_CUDA=$build/weir-cuda-host.so "$weir" doctor -m "$tiny" 2>/dev/null)"; do
	case $place in *"$unproven"*) says=1 ;; *) says=0 ;; esac
	proven=$(grep -c '^## 20' tests/cuda/gpu-results.md)
	[ "$((proven > 0))" != $says ] && ok "${place%%:*}: whether a real GPU has run weir" || bad "${place%%:*}: whether a real GPU has run weir" "$proven runs"
done

case ${SANITIZE:-} in ?*) skip "compiled by nvcc" "a build with a sanitizer"; finish ;; esac
nvcc=${NVCC:-$(command -v nvcc || ls /usr/local/cuda/bin/nvcc "${XDG_CACHE_HOME:-$HOME/.cache}/weir/cuda/bin/nvcc" 2>/dev/null | head -n 1)}
[ -n "$nvcc" ] || { skip "compiled by nvcc" "nvcc is not found ('make setup-cuda' fetches it)"; finish; }
# With less optimisation, which takes a quarter of the time and finds the same errors of compiling and linking.  The
# outer make's flags are removed, because they refer to job slots that it does not pass on.
if env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -j2 CUDA=1 NVCC="$nvcc" NVCCFLAGS="-Xcicc -O1 -Xptxas -O1" CUDA_ARCH="${CUDA_ARCH:-sm_90}" BUILD="$build/one-device" \
	PROGRAM="$build/one-device/weir" "$build/one-device/weir-cuda.so" \
	>"$dir/out" 2>&1; then ok "compiled and linked by nvcc"
else bad "compiled and linked by nvcc" "$(tail -n 5 "$dir/out")"; finish; fi
grep -qi 'warning' "$dir/out" && bad "without a warning" "$(grep -i warning "$dir/out" | head -n 3)" || ok "without a warning"
plugin=$build/one-device/weir-cuda.so
if command -v nm >/dev/null 2>&1; then
	shown=$(nm -D --defined-only "$plugin" | awk '{ print $3 }')
	[ "$shown" = weir_cuda_open ] && ok "it shows its door alone" || bad "it shows its door alone" "$shown"
else
	skip "it shows its door alone" "there is no nm"
fi
case $plugin in /*) WEIR_CUDA=$plugin ;; *) WEIR_CUDA=$PWD/$plugin ;; esac
export WEIR_CUDA
if "$weir" doctor --json -m "$tiny" | grep -q '"gpu":{"found":true'; then
	"$weir" --device cuda -q -m "$tiny" -p hi -n 4 --temp 0 --private >"$dir/out" 2>"$dir/err" </dev/null
	rc=$?
	[ $rc = 0 ] && [ ! -s "$dir/err" ] && ok "it answers on this GPU" || bad "it answers on this GPU" "status $rc: $(cat "$dir/err")"
else
	one_line "without a GPU"
fi
finish
