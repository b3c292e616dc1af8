#!/bin/sh
# tests/run.sh - runs the suites, as many at once as there are processors, and adds up their counts; called by `make
# check`.
#
#   BUILD=build WEIR=./weir SANITIZE= CC=cc JOBS=2 tests/run.sh [NAME ...]      NAME: a suite (t_kv, s_cli, layers) or a folder (engine, cli)
#
# A suite is a script tests/NAME.sh named in `checks` below, a unit test $BUILD/tests/FOLDER/t_NAME that has a
# tests/FOLDER/t_NAME.c, or a script tests/FOLDER/s_NAME.sh.  Unit and script tests print "  ok    NAME",
# "  FAIL  NAME: WHY" and "  skip  NAME: WHY", and close with "N passed, M failed, K skipped".  A suite that crashes, hangs, or
# ends in any other way than its counts say is one more failure.
#
# A suite whose first lines say "Awaits a terminal:" runs after the others, together with its like: it tests what is
# shown in time, and mostly waits. One that says "Runs alone:" and why (it measures time) runs last and alone.  Results
# are printed in the order of the list, whichever suite ends first, then the slowest, the skipped and the failed tests.
# Logs stay in $BUILD/tests/log. V=1 shows the lines of passed tests too; TEST_TIMEOUT is the limit for one suite in
# seconds, JOBS the number of suites at once.
set -u
cd "$(dirname "$0")/.." || exit 1

checks='layers headers words circles format'

BUILD=${BUILD:-build}
WEIR=${WEIR:-./weir}
SANITIZE=${SANITIZE:-}
CC=${CC:-cc}
case $WEIR in /*) ;; *) WEIR=$PWD/${WEIR#./} ;; esac
limit=${TEST_TIMEOUT:-1200}
[ -n "$SANITIZE" ] && limit=${TEST_TIMEOUT:-2400}
logs=$BUILD/tests/log

now() { date +%s.%N; }

# suite_of tests/FOLDER/NAME.c: set $suite to NAME.
suite_of() {
  suite=${1##*/}
  suite=${suite%.*}
}

# ---- one suite: tests/run.sh --suite SOURCE, for the pool below ----

# fail WHY: count a failure that the suite itself did not report.
fail() {
  failed=$((failed + 1))
  echo "  FAIL  $1" >> "$log"
}

# run_check: a script whose only result is its status counts as one test.
run_check() {
  if "$1" > "$out" 2>&1 < /dev/null; then
    passed=1
    mv "$out" "$log"
  else
    sed 's/^/    /' "$out" > "$log"
    fail "$suite"
  fi
}

# run_tests: run a unit test or a script test.
run_tests() {
  status=0
  # timeout leads its own process group; stop() finds it by its process number.
  # shellcheck disable=SC2016 # expanded by the inner shell
  sh -c 'echo $$ > "$0"; exec "$@"' "$RUN_WORK/$suite.pid" timeout -k 10 "$limit" "$1" > "$log" 2>&1 < /dev/null || status=$?
  rm -f "$RUN_WORK/$suite.pid"
  closing=$(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
  if [ -n "$closing" ]; then
    passed=${closing%% passed*}
    failed=${closing#*passed, } failed=${failed%% failed*}
    skipped=${closing#*failed, } skipped=${skipped%% skipped*}
  else
    # Of a suite that was cut off, count the tests that ran.
    passed=$(grep -ac '^  ok  ' "$log")
    failed=$(grep -ac '^  FAIL  ' "$log")
    skipped=$(grep -ac '^  skip  ' "$log")
  fi
  if [ $status = 124 ] || [ $status = 137 ]; then
    fail "$suite: stopped after $limit s"
  elif [ $status -gt 128 ]; then
    fail "$suite: crashed with signal $((status - 128))"
  elif [ -z "$closing" ]; then
    fail "$suite: ended without its closing line, exit status $status"
  elif [ $status != 0 ] && [ "$failed" = 0 ]; then
    fail "$suite: exit status $status although nothing failed (a leak?)"
  elif [ $status = 0 ] && [ "$failed" != 0 ]; then
    fail "$suite: exit status 0 although $failed failed"
  fi
}

# run_suite: writes the log, and "PASSED FAILED SKIPPED SECONDS" to $RUN_WORK/SUITE; prints the suite's name when both
# exist.
run_suite() {
  suite_of "$1"
  log=$logs/$suite.log out=$RUN_WORK/$suite.out
  started=$(now) passed=0 failed=0 skipped=0
  # No test may read or write the user's sessions and settings, or another suite's.  The cache directory is the user's,
  # because the model is in it.
  export XDG_DATA_HOME="$RUN_WORK/$suite.home/data" XDG_STATE_HOME="$RUN_WORK/$suite.home/state" XDG_CONFIG_HOME="$RUN_WORK/$suite.home/config"
  case $1 in
  tests/cuda/t_*)
    program=$BUILD/${1%.c}
    if [ -x "$program" ]; then
      run_tests "$program"
    else
      echo "  skip  $suite: kernels for GPUs are tested where there is a C++ compiler" > "$log"
      skipped=1
    fi ;;
  *.c) run_tests "$BUILD/${1%.c}" ;;
  tests/*/*) run_tests "$1" ;;
  *) run_check "$1" ;;
  esac
  rm -rf "$RUN_WORK/$suite.home"
  now | awk -v from="$started" -v counts="$passed $failed $skipped" '{ printf "%s %.1f\n", counts, $1 - from }' > "$out"
  mv "$out" "$RUN_WORK/$suite"   # complete, or not there
  echo "$suite"
}

if [ "${1:-}" = --suite ]; then
  run_suite "$2"
  exit 0
fi

# ---- which suites, in which order ----

for name; do
  case " $checks " in *" $name "*) continue ;; esac
  for source in "tests/$name"/t_*.c "tests/$name"/s_*.sh "tests"/*/"$name.c" "tests"/*/"$name.sh"; do
    [ -f "$source" ] && continue 2
  done
  echo "tests/run.sh: no suite and no folder of suites is called '$name'" >&2
  exit 2
done

# wanted SOURCE NAME...: true if its suite or its folder is among the names, or if there are none.
wanted() {
  source=$1
  suite_of "$source"
  folder=${source%/*} folder=${folder##*/}
  shift
  [ $# = 0 ] && return 0
  for name; do
    [ "$name" = "$suite" ] || [ "$name" = "$folder" ] && return 0
  done
  return 1
}

together='' awaiting='' alone=''
for check in $checks; do
  [ -f "tests/$check.sh" ] && wanted "tests/$check.sh" "$@" && together="$together tests/$check.sh"
done
for source in tests/*/t_*.c tests/*/s_*.sh; do
  { [ -f "$source" ] && wanted "$source" "$@"; } || continue
  case $(head -n 12 "$source") in
  *'Runs alone:'*) alone="$alone $source" ;;
  *'Awaits a terminal:'*) awaiting="$awaiting $source" ;;
  *) together="$together $source" ;;
  esac
done

# ---- the run ----

RUN_WORK=$(mktemp -d) || exit 1
export BUILD WEIR SANITIZE CC RUN_WORK
unset WEIR_MODEL WEIR_KV WEIR_CTX WEIR_CUDA
# Tests compare bit for bit, so they run on the CPU; tests of a GPU name it.
export WEIR_DEVICE=cpu WEIR_ENCODER=off
case $SANITIZE in *address*) export ASAN_OPTIONS="detect_leaks=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}" ;; esac
case $SANITIZE in *thread*) export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1${TSAN_OPTIONS:+ $TSAN_OPTIONS}" ;; esac
case $SANITIZE in *undefined*) export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}" ;; esac

# A suite that is still running has its own process group: Ctrl-C reaches it from here.
stop() {
  for pid in "$RUN_WORK"/*.pid; do
    [ -f "$pid" ] && kill "$(cat "$pid")" 2> /dev/null
  done
  rm -rf "$RUN_WORK"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir -p "$logs" || exit 1
: > "$RUN_WORK/.skipped"
: > "$RUN_WORK/.failed"
: > "$RUN_WORK/.slow"
total_passed=0 total_failed=0 total_skipped=0

if [ -t 1 ]; then
  red=$(printf '\033[31m') plain=$(printf '\033[0m')
else
  red='' plain=''
fi

# report SUITE: print one line of figures, then the important lines of the log.
report() {
  log=$logs/$1.log
  read -r passed failed skipped seconds < "$RUN_WORK/$1"
  counts="$passed ok"
  [ "$failed" -gt 0 ] && counts="$counts, $red$failed FAILED$plain"
  [ "$skipped" -gt 0 ] && counts="$counts, $skipped skipped"
  printf '%-20s %8s s   %s\n' "$1" "$seconds" "$counts"
  if [ "${V:-0}" = 1 ]; then
    cat "$log"
  else
    grep -avE '^  ok  |^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$|: ok$' "$log"
  fi
  sed -n "s/^  skip  /  $1: /p" "$log" >> "$RUN_WORK/.skipped"
  sed -n "s|^  ok    \(.*\) (\([0-9.]*\) s)\$|\2 $1: \1|p" "$log" >> "$RUN_WORK/.slow"
  # Each failure again, with the lines before it in the log that explain it.
  awk -v suite="$1" '
    /^  (ok|skip)  / { n = 0; next }
    /^  FAIL  / { sub(/^  FAIL  /, ""); print "  " suite ": " $0; for (i = 0; i < n; i++) print line[i]; n = 0; next }
    (/^    / || /^==[0-9]+==|^SUMMARY:|^WARNING:|runtime error:/) && n < 60 { line[n++] = $0 }
  ' "$log" >> "$RUN_WORK/.failed"
  total_passed=$((total_passed + passed))
  total_failed=$((total_failed + failed))
  total_skipped=$((total_skipped + skipped))
}

# pool JOBS SOURCE...: run the suites and print the name of each that has ended.
pool() {
  jobs=$1
  shift
  [ $# = 0 ] || printf '%s\n' "$@" | xargs -n 1 -P "$jobs" tests/run.sh --suite
}

# report_all SOURCE...: read such names, and report every suite of the list as soon as all before it are reported.
report_all() {
  while read -r _; do
    while [ $# -gt 0 ] && suite_of "$1" && [ -f "$RUN_WORK/$suite" ]; do
      report "$suite"
      shift
    done
  done
  # The pool was stopped before these began or ended.
  for source; do
    suite_of "$source"
    echo "0 1 0 0" > "$RUN_WORK/$suite"
    echo "  FAIL  $suite: was not run to its end" > "$logs/$suite.log"
    report "$suite"
  done
  if [ -s "$RUN_WORK/.slow" ]; then
    printf '\nslowest:\n'
    sort -rn "$RUN_WORK/.slow" | head -n 10 | awk '{ seconds = $1; sub(/^[^ ]* /, ""); printf "%8s s   %s\n", seconds, $0 }'
  fi
  if [ -s "$RUN_WORK/.skipped" ]; then
    printf '\nskipped:\n'
    cat "$RUN_WORK/.skipped"
  fi
  if [ -s "$RUN_WORK/.failed" ]; then
    printf '\nfailed:\n'
    cat "$RUN_WORK/.failed"
  fi
  echo
  echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
  [ "$total_failed" = 0 ]
}

# The lists consist of words.
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN)}
# shellcheck disable=SC2086
{ pool "$JOBS" $together; pool "$JOBS" $awaiting; pool 1 $alone; } | report_all $together $awaiting $alone
