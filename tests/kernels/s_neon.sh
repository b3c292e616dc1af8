#!/bin/sh
# tests/kernels/s_neon.sh - the kernels for 64-bit ARM, cross-compiled and emulated: their results, not their speed.
#
# By default the script runs the most demanding tests of each kernel, with fewer rounds, in a build that compiles
# quickly. With WEIR_SOAK it runs all tests of kernels/ and the tests of engine/ on models, in an optimised build.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/count.sh
packages='gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user'
cc=aarch64-linux-gnu-gcc
run='qemu-aarch64 -L /usr/aarch64-linux-gnu'
# The limit of one program in seconds, about ten times the usual time.
limit=${WEIR_SOAK:+7200} limit=${limit:-400}

if [ -n "${SANITIZE:-}" ]; then skip "kernels for ARM" "the build carries a sanitizer"; finish; fi
for tool in $cc qemu-aarch64; do
	if ! command -v $tool >/dev/null; then
		skip "kernels for ARM" "$tool is missing (apt-get install $packages)"
		finish
	fi
done
if ! printf '#include <stdio.h>\n' | $cc -fsyntax-only -x c - 2>/dev/null; then
	skip "kernels for ARM" "$cc has no C library (apt-get install $packages)"
	finish
fi

build=${BUILD:-build}/aarch64
folder=kernels tests='t_short_conv t_conv t_delta_rule t_predicates t_kernels t_matmul t_attn t_select_ops t_fused_select_attn'
optimise=OPTIMISE=-O1
if [ -n "${WEIR_SOAK:-}" ]; then
	build=$build-whole optimise=
	tests="$tests t_pool t_quant"
else
	export WEIR_TEST_FEWER=16
fi
mkdir -p "$build"
# build_all: build the programs of $tests in $folder.
build_all() {
	programs=
	for t in $tests; do programs="$programs $build/tests/$folder/$t"; done
	# shellcheck disable=SC2086 # lists of words
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -j2 CC=$cc AR=aarch64-linux-gnu-ar CFLAGS= BUILD="$build" LIBRARIES= PKG_CONFIG=false CUDA=0 DEV=1 $optimise \
		$programs >"$build.log" 2>&1
}
# emulated PROGRAM [NAME...]: run those tests of the program whose names contain one of the NAMEs.
emulated() {
	t=$1
	shift
	[ -z "${WEIR_SOAK:-}" ] || set --
	# The program's counts are added to those of this script, and its lines are printed unchanged. The emulator may
	# hang when a program starts and ends thousands of threads. So a program that reaches its time limit runs once
	# more, and a note says so.
	timeout -k 10 $limit $run "$build/tests/$folder/$t" "$@" >"$build.out" 2>&1
	status=$?
	if [ $status = 124 ]; then
		echo "    $t: no end after $limit s, run once more; its last line: $(tail -n 1 "$build.out")"
		timeout -k 10 $limit $run "$build/tests/$folder/$t" "$@" >"$build.out" 2>&1
		status=$?
	fi
	counts=$(tail -n 1 "$build.out" | grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$')
	sed '$d' "$build.out"
	if [ -z "$counts" ] || { [ $status != 0 ] && [ "${counts#* passed, 0 }" != "$counts" ]; }; then
		bad "$t on ARM" "ended with exit status $status: $(tail -n 1 "$build.out")"
		return
	fi
	n=${counts%% *}
	passed=$((passed + n))
	n=${counts#*passed, } failed=$((failed + ${n%% *}))
	n=${counts#*failed, } skipped=$((skipped + ${n%% *}))
}

if ! build_all; then bad "kernels for ARM" "they do not build: $(grep -m 1 -E 'error|warning|Error' "$build.log")"; finish; fi
ok "kernels for ARM are built"
emulated t_short_conv
emulated t_conv
emulated t_delta_rule
emulated t_predicates
emulated t_kernels levels match kv_put axpby
emulated t_matmul matmul_ bits_with match glu_ quantize number inputs
emulated t_attn match_double put_ extreme number
emulated t_select_ops steps turned sketch_scans page topk sample numbers
emulated t_fused_select_attn
[ -n "${WEIR_SOAK:-}" ] || finish
emulated t_pool
emulated t_quant
folder=engine tests='t_models t_reference t_arch t_token t_sampler t_chat'
if ! build_all; then bad "the engine for ARM" "it does not build: $(grep -m 1 -E 'error|warning|Error' "$build.log")"; finish; fi
for t in $tests; do emulated "$t"; done
finish
