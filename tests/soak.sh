#!/bin/sh
# tests/soak.sh [MINUTES] - `make soak`: tests that take too long for every run. Sanitizer builds of all unit tests, one
# flow under valgrind, every fuzz target for its share of the minutes (default 30). Prints its figures and closes with
# "N passed, M failed, K skipped".
set -u
minutes=${1:-30}
passed=0 failed=0 skipped=0
ok() { echo "  ok    $1"; passed=$((passed + 1)); }
bad() { echo "  FAIL  $1"; failed=$((failed + 1)); }
skip() { echo "  skip  $1"; skipped=$((skipped + 1)); }

for s in address,undefined thread; do
  log=$(mktemp)
  if nice make --no-print-directory check SANITIZE=$s >"$log" 2>&1; then ok "all tests under $s: $(tail -n 1 "$log")"
  else bad "tests under $s: $(tail -n 1 "$log") (see $log)"; continue; fi
  rm -f "$log"
done

model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
if ! command -v valgrind >/dev/null; then skip "valgrind flow: valgrind is not installed"
elif [ ! -e "$model" ]; then skip "valgrind flow: no default model"
elif WEIR_CPU=$([ "$(uname -m)" != x86_64 ] || echo avx2) valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,indirect ./weir -m "$model" -c 64 -p Hi -n 2 \
  --temp 0 -q >/dev/null 2>valgrind.log; then ok "one answer under valgrind: no error, no leak"; rm -f valgrind.log
else bad "one answer under valgrind (see valgrind.log)"; fi

# The random parts of saved sequences, chat.db and kv.db, keys and pictures run many times as long.  10,000 kills of
# each file, 6,000 power failures.
for run in t_snapshot:7 t_families:1 t_rollback:65 t_reference:1 t_token:1 t_snaps:1 t_killed_step:40 t_cache_view:20 t_store_harm:46 t_snaps_damage:84 t_store_power:20 t_keys:50 t_display:20 t_ui_random:20 t_markdown:30 t_transcript:50 t_input:10 t_input_vi:10 \
           t_panes_random:30 t_filter_pty:500 t_store:10 t_lag:1 t_endless:1 t_kv_memory:1 \
           t_patterns_import:1 t_patterns_screen:1 t_patterns_answers:1; do
  t=${run%:*}
  log=$(mktemp)
  if WEIR_SOAK=${run#*:} nice "${BUILD:-build}"/tests/*/"$t" >"$log" 2>&1
  then ok "$t: $(grep '^    [0-9]' "$log" | sed 's/^ *//' | tr '\n' ';')"; rm -f "$log"
  else bad "$t (see $log)"; fi
done

# Hostile documents in full size.
dir=$(mktemp -d)
if nice python3 tests/cli/hostile.py "$dir" ./weir all >"$dir.log" 2>&1 && ! grep -q '^bad ' "$dir.log"
then ok "hostile documents: $(sed -n '$s/^note //p' "$dir.log")"; rm -f "$dir.log"
else bad "hostile documents (see $dir.log)"; fi
rm -rf "$dir"

# The whole program in a storm of 100,000 keys and 10,000 sizes, with the sanitizers that were built above.
for s in address-undefined:20 thread:4; do
  t=build/${s%:*}/tests/app/t_storm
  [ -x "$t" ] || continue
  log=$(mktemp)
  if WEIR_TEST_SLOW_BUILD=1 TSAN_OPTIONS=halt_on_error=1 WEIR_SOAK=${s#*:} nice "$t" >"$log" 2>&1
  then ok "t_storm under ${s%:*}: $(grep '^    [0-9]' "$log" | sed 's/^ *//' | tr '\n' ';')"; rm -f "$log"
  else bad "t_storm under ${s%:*} (see $log)"; fi
done

# Packages on bare systems.
log=$(mktemp)
if nice tests/package/try.sh >"$log" 2>&1; then ok "packages on bare systems: $(tail -n 1 "$log")"; rm -f "$log"
else bad "packages on bare systems (see $log)"; fi

# All tests of kernels and models on an emulated ARM processor.
log=$(mktemp)
if WEIR_SOAK=1 nice tests/kernels/s_neon.sh >"$log" 2>&1
then ok "kernels for ARM: $(tail -n 1 "$log")"; rm -f "$log"
else bad "kernels for ARM (see $log)"; fi

# The full screen killed in every state by every signal.
log=$(mktemp)
if ! command -v tmux >/dev/null; then skip "signals on the full screen: tmux is not installed"
elif WEIR_SOAK=1 tests/cli/s_screen.sh >"$log" 2>&1; then ok "8 signals in 4 states of the full screen: $(tail -n 1 "$log")"; rm -f "$log"
else bad "s_screen (see $log)"; fi

targets=$(ls tests/fuzz/fuzz_*.c 2>/dev/null)
if ! command -v clang >/dev/null; then skip "fuzzing: clang is not installed"
elif ! nice make --no-print-directory fuzz >/dev/null || ! nice make --no-print-directory fuzz FUZZ_COMPARE=0 >/dev/null
then bad "fuzz targets do not build"
else
  # Half of the time is for finding inputs that reach new code, half for many runs on what was found.
  n=$(echo "$targets" | wc -w)
  seconds=$((minutes * 30 / (n > 0 ? n : 1)))
  for t in $targets; do
    name=$(basename "$t" .c)
    corpus=build/fuzz/corpus_$name
    mkdir -p "$corpus"
    for seeds in build/fuzz/seeds tests/fuzz; do
      [ ! -d "$seeds/${name#fuzz_}" ] || cp -n "$seeds/${name#fuzz_}"/* "$corpus"/
    done
    for dir in build/fuzz build/fuzz-fast; do
      log=$dir/$name.log
      if nice "$dir/$name" -max_total_time=$seconds -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 "$corpus" >"$log" 2>&1
      then ok "$dir/$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") runs, $(sed -n 's/^stat::average_exec_per_sec: *//p' "$log") a second"
      else bad "$dir/$name (see $log)"; fi
    done
  done
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
