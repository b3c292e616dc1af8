#!/bin/sh
# tests/soak.sh [MINUTES [PART ...]] - `make soak`: the tests that take too long for every run. MINUTES is the time for
# fuzzing (default 30). PART chooses among the functions part_NAME below (default: all, in their order), so that a run
# that was interrupted goes on where it ended. Prints the commit, the figures and the time of each part; closes with
# "N passed, M failed, K skipped".
set -u
minutes=${1:-30}
jobs=-j$(getconf _NPROCESSORS_ONLN)
[ $# = 0 ] || shift
passed=0 failed=0 skipped=0
ok() { echo "  ok    $1"; passed=$((passed + 1)); }
bad() { echo "  FAIL  $1"; failed=$((failed + 1)); }
skip() { echo "  skip  $1"; skipped=$((skipped + 1)); }

# check TITLE FIGURES COMMAND...: one test, passed if COMMAND succeeds. FIGURES is a shell function that reads the log of
# COMMAND and prints what to show; the log of a failed test is kept.
check() {
  title=$1 figures=$2
  shift 2
  log=$(mktemp)
  if nice "$@" >"$log" 2>&1; then ok "$title: $($figures <"$log")"; rm -f "$log"
  else bad "$title: $(tail -n 1 "$log") (see $log)"; fi
}
last_line() { tail -n 1; }
indented() { grep '^    [0-9]' | sed 's/^ *//' | tr '\n' ';'; }

# All tests under AddressSanitizer and UndefinedBehaviorSanitizer, under ThreadSanitizer
part_address() { check "all tests under address,undefined" last_line make --no-print-directory "$jobs" check SANITIZE=address,undefined; }
part_thread() { check "all tests under thread" last_line make --no-print-directory "$jobs" check SANITIZE=thread; }

part_valgrind() {
  model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
  command -v valgrind >/dev/null || { skip "valgrind flow: valgrind is not installed"; return; }
  [ -e "$model" ] || { skip "valgrind flow: no default model"; return; }
  no_error() { echo "no error, no leak"; }
  check "one answer under valgrind" no_error env WEIR_CPU="$([ "$(uname -m)" != x86_64 ] || echo avx2)" \
    valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,indirect \
    ./weir -m "$model" -c 64 -p Hi -n 2 --temp 0 -q
}

# The random parts of saved sequences, chat.db and kv.db, keys and pictures run many times as long.  10,000 kills of
# each file, 6,000 power failures.
part_random() {
  for run in t_snapshot:7 t_families:1 t_rollback:65 t_reference:1 t_token:1 t_snaps:1 t_killed_step:40 t_cache_view:20 \
    t_store_harm:46 t_snaps_damage:84 t_store_power:20 t_keys:50 t_display:20 t_ui_random:20 t_markdown:30 \
    t_transcript:50 t_input:10 t_input_vi:10 t_panes_random:30 t_filter_pty:500 t_store:10 t_lag:1 t_endless:1 \
    t_kv_memory:1 t_patterns_import:1 t_patterns_screen:1 t_patterns_answers:1; do
    check "${run%:*}" indented env WEIR_SOAK="${run#*:}" "${BUILD:-build}"/tests/*/"${run%:*}"
  done
}

# Hostile documents in full size.
part_hostile() {
  dir=$(mktemp -d)
  hostile() { python3 tests/cli/hostile.py "$dir" ./weir all >"$dir.log" 2>&1 && ! grep '^bad ' "$dir.log"; }
  if hostile; then ok "hostile documents: $(sed -n '$s/^note //p' "$dir.log")"; rm -f "$dir.log"
  else bad "hostile documents (see $dir.log)"; fi
  rm -rf "$dir"
}

# The whole program in a storm of 100,000 keys and 10,000 sizes, built by the parts address and thread.
part_storm() {
  for s in address-undefined:20 thread:4; do
    t=build/${s%:*}/tests/app/t_storm
    [ -x "$t" ] || { skip "t_storm under ${s%:*}: not built"; continue; }
    check "t_storm under ${s%:*}" indented env WEIR_TEST_SLOW_BUILD=1 TSAN_OPTIONS=halt_on_error=1 WEIR_SOAK="${s#*:}" "$t"
  done
}

part_packages() { check "packages on bare systems" last_line tests/package/try.sh; }

# All tests of kernels and models on an emulated ARM processor
part_arm() { check "kernels for ARM" last_line env WEIR_SOAK=1 tests/kernels/s_neon.sh; }

# The full screen killed in every state by every signal
part_signals() {
  command -v tmux >/dev/null || { skip "signals on the full screen: tmux is not installed"; return; }
  check "8 signals in 4 states of the full screen" last_line env WEIR_SOAK=1 tests/cli/s_screen.sh
}

# Every fuzz target: half of its time to find inputs that reach new code, half for many runs on what was found.
part_fuzz() {
  command -v clang >/dev/null || { skip "fuzzing: clang is not installed"; return; }
  if ! nice make --no-print-directory "$jobs" fuzz >/dev/null || ! nice make --no-print-directory "$jobs" fuzz FUZZ_COMPARE=0 >/dev/null
  then bad "fuzz targets do not build"; return; fi
  targets=$(ls tests/fuzz/fuzz_*.c)
  seconds=$((minutes * 30 / $(echo "$targets" | wc -w)))
  for t in $targets; do
    name=$(basename "$t" .c)
    corpus=build/fuzz/corpus_$name
    mkdir -p "$corpus"
    for seeds in build/fuzz/seeds tests/fuzz; do
      [ ! -d "$seeds/${name#fuzz_}" ] || cp -n "$seeds/${name#fuzz_}"/* "$corpus"/
    done
    for dir in build/fuzz build/fuzz-fast; do
      runs() { sed -n 's/^stat::number_of_executed_units: *\(.*\)/\1 runs/p'; }
      check "$dir/$name" runs "$dir/$name" -max_total_time=$seconds -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 "$corpus"
    done
  done
}

all='address thread valgrind random hostile storm packages arm signals fuzz'
# shellcheck disable=SC2086 # one word a part
[ $# -gt 0 ] || set -- $all
for part; do
  case " $all " in *" $part "*) ;; *) echo "soak: no part \"$part\"; there are: $all" >&2; exit 2 ;; esac
done
echo "commit $(git rev-parse --short HEAD 2>/dev/null), parts: $*"
for part; do
  start=$(date +%s)
  "part_$part"
  echo "        part $part took $((($(date +%s) - start) / 60)) minutes"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
