#!/bin/sh
# tests/run.sh - runs every test and adds them up; called by `make check`.
#
#   BUILD=build WEIR=./weir SANITIZE= CC=cc tests/run.sh [NAME ...]      NAME: t_gguf, s_cli, layers ...
#
# A suite is tests/layers.sh, tests/headers.sh, each unit test $BUILD/tests/t_NAME that has a tests/t_NAME.c, and each
# script tests/s_NAME.sh.  Unit and script tests print "  ok    NAME", "  FAIL  NAME: WHY" and "  skip  NAME: WHY", and
# close with "N passed, M failed, K skipped".  A suite that crashes, hangs, or ends in any other way than its counts say
# is one more failure.  Logs stay in $BUILD/tests/log.  V=1 shows the lines of passed tests too;
# TEST_TIMEOUT is the limit for one suite in seconds.
set -u
cd "$(dirname "$0")/.." || exit 1

BUILD=${BUILD:-build}
WEIR=${WEIR:-./weir}
SANITIZE=${SANITIZE:-}
CC=${CC:-cc}
case $WEIR in /*) ;; *) WEIR=$PWD/${WEIR#./} ;; esac
export BUILD WEIR SANITIZE CC

case $SANITIZE in *address*) export ASAN_OPTIONS="detect_leaks=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}" ;; esac
case $SANITIZE in *thread*) export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1${TSAN_OPTIONS:+ $TSAN_OPTIONS}" ;; esac
case $SANITIZE in *undefined*) export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}" ;; esac

limit=${TEST_TIMEOUT:-600}
[ -n "$SANITIZE" ] && limit=${TEST_TIMEOUT:-1800}

logs=$BUILD/tests/log
mkdir -p "$logs" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# No test may read or write the user's own sessions and settings.  The cache stays: the model lies there.
export XDG_DATA_HOME="$work/data" XDG_STATE_HOME="$work/state" XDG_CONFIG_HOME="$work/config"
unset WEIR_MODEL WEIR_KV WEIR_CTX WEIR_CUDA
# What is compared bit for bit is computed where that holds; tests of a GPU name it.
export WEIR_DEVICE=cpu

: > "$work/skipped"
: > "$work/failed"
total_passed=0
total_failed=0
total_skipped=0

if [ -t 1 ]; then
  red=$(printf '\033[31m') plain=$(printf '\033[0m')
else
  red='' plain=''
fi

now() { date +%s.%N; }

# fail SUITE TEXT: a failure that the suite itself did not report.
fail() {
  failed=$((failed + 1))
  echo "  FAIL  $2" >> "$logs/$1.log"
}

# report SUITE STARTED: one line of figures, then what is worth reading in the log.
report() {
  counts="$passed ok"
  [ "$failed" -gt 0 ] && counts="$counts, $red$failed FAILED$plain"
  [ "$skipped" -gt 0 ] && counts="$counts, $skipped skipped"
  seconds=$(now | awk -v from="$2" '{ printf "%.1f", $1 - from }')
  printf '%-20s %8s s   %s\n' "$1" "$seconds" "$counts"
  if [ "${V:-0}" = 1 ]; then
    cat "$logs/$1.log"
  else
    grep -avE '^  ok  |^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$|: ok$' "$logs/$1.log"
  fi
  sed -n "s/^  skip  /  $1: /p" "$logs/$1.log" >> "$work/skipped"
  # Each failure again, with the lines that explain it: they stand before it in the log.
  awk -v suite="$1" '
    /^  (ok|skip)  / { n = 0; next }
    /^  FAIL  / { sub(/^  FAIL  /, ""); print "  " suite ": " $0; for (i = 0; i < n; i++) print line[i]; n = 0; next }
    (/^    / || /^==[0-9]+==|^SUMMARY:|^WARNING:|runtime error:/) && n < 24 { line[n++] = $0 }
  ' "$logs/$1.log" >> "$work/failed"
  total_passed=$((total_passed + passed))
  total_failed=$((total_failed + failed))
  total_skipped=$((total_skipped + skipped))
}

# run_check NAME: a script that says only good or bad is one test.
run_check() {
  started=$(now) passed=0 failed=0 skipped=0
  if "tests/$1.sh" > "$work/out" 2>&1 < /dev/null; then
    passed=1
    cp "$work/out" "$logs/$1.log"
  else
    sed 's/^/    /' "$work/out" > "$logs/$1.log"
    fail "$1" "$1"
  fi
  report "$1" "$started"
}

# run_suite NAME COMMAND: a unit test or a script test.
run_suite() {
  started=$(now) passed=0 failed=0 skipped=0
  status=0
  case $1 in t_cuda_*)
    if [ ! -x "$2" ]; then
      echo "  skip  $1: kernels for GPUs are tested where there is a C++ compiler" > "$logs/$1.log"
      skipped=1
      report "$1" "$started"
      return
    fi ;;
  esac
  timeout -k 10 "$limit" "$2" > "$logs/$1.log" 2>&1 < /dev/null || status=$?
  closing=$(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$logs/$1.log" | tail -n 1)
  if [ -n "$closing" ]; then
    passed=${closing%% passed*}
    failed=${closing#*passed, } failed=${failed%% failed*}
    skipped=${closing#*failed, } skipped=${skipped%% skipped*}
  fi
  # A run that was cut off still counts what it did.
  if [ -z "$closing" ]; then
    passed=$(grep -ac '^  ok  ' "$logs/$1.log")
    failed=$(grep -ac '^  FAIL  ' "$logs/$1.log")
    skipped=$(grep -ac '^  skip  ' "$logs/$1.log")
  fi
  if [ $status = 124 ] || [ $status = 137 ]; then
    fail "$1" "$1: stopped after $limit s"
  elif [ $status -gt 128 ]; then
    fail "$1" "$1: crashed with signal $((status - 128))"
  elif [ -z "$closing" ]; then
    fail "$1" "$1: ended without its closing line, exit status $status"
  elif [ $status != 0 ] && [ "$failed" = 0 ]; then
    fail "$1" "$1: exit status $status although nothing failed (a leak?)"
  elif [ $status = 0 ] && [ "$failed" != 0 ]; then
    fail "$1" "$1: exit status 0 although $failed failed"
  fi
  report "$1" "$started"
}

wanted() {
  [ -z "$names" ] && return 0
  case " $names " in *" $1 "*) return 0 ;; esac
  return 1
}

names=$*
for name in layers headers; do
  wanted $name && run_check $name
done
for source in tests/t_*.c; do
  name=$(basename "$source" .c)
  [ -f "$source" ] && wanted "$name" && run_suite "$name" "$BUILD/tests/$name"
done
for script in tests/s_*.sh; do
  name=$(basename "$script" .sh)
  [ -f "$script" ] && wanted "$name" && run_suite "$name" "$script"
done

if [ -s "$work/skipped" ]; then
  printf '\nskipped:\n'
  cat "$work/skipped"
fi
if [ -s "$work/failed" ]; then
  printf '\nfailed:\n'
  cat "$work/failed"
fi
echo
echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
[ "$total_failed" = 0 ]
