#!/bin/sh
# tests/cli/s_house.sh - do layers.sh, headers.sh, words.sh, run.sh and .ci/run find what they should find?
#
# Makes a small source tree, puts one offence at a time into it, and runs the scripts.
set -u
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

. "$here/../lib/count.sh"

# fresh: make a tree without offences.
fresh() {
  rm -rf "$dir/tree"
  mkdir -p "$dir/tree/tests/unit" "$dir/tree/tests/cli" "$dir/tree/build/tests/unit"
  cd "$dir/tree" || exit 1
  mkdir -p app/tools engine/base engine/gguf engine/cache kernels/common ui/text ui/screen sessions/import sessions/store man
  cp "$here/../layers.sh" "$here/../headers.sh" "$here/../words.sh" "$here/../run.sh" tests/
  echo '# none' > tests/words.txt
  echo 'int kernels_one(void);' > kernels/backend.h
  echo '#include "kernels/backend.h"' > engine/engine.h
  echo 'int gguf_one(void);' > engine/gguf/gguf.h
  echo '#include <stdint.h>' > engine/base/base.h
  echo '#include "engine/base/base.h"' > sessions/sessions.h
  echo '#include <stddef.h>' > ui/ui.h
  # Words in comments and strings are not offences.
  printf '%s\n' '/* never strcpy(a, b) or' ' * atoi(c) */' 'const char *s = "gets(x) /* not a comment";' \
    "char quote = '\"'; // localtime(t)" 'int my_atoi(int);' > app/main.c
  touch Makefile README.md
}

# refuses NAME FILE WHY TEXT: append TEXT to FILE; layers.sh must name FILE and WHY.
refuses() {
  fresh
  mkdir -p "$(dirname "$2")"
  printf '%s\n' "$4" >> "$2"
  if said=$(tests/layers.sh 2>&1); then
    bad "$1" "not seen"
  elif printf '%s\n' "$said" | grep -q "^$2:[0-9]*: .*$3" && [ "$(printf '%s\n' "$said" | wc -l)" = 1 ]; then
    ok "$1"
  else
    bad "$1" "said: $said"
  fi
}

allows() {
  fresh
  mkdir -p "$(dirname "$2")"
  printf '%s\n' "$3" >> "$2"
  if said=$(tests/layers.sh 2>&1); then ok "$1"; else bad "$1" "$said"; fi
}

allows layers_good_tree README.md 'nothing'
refuses layers_kernels_up kernels/a.c 'kernels may not include engine/base/base.h' '#include "engine/base/base.h"'
refuses layers_engine_private engine/a.c 'engine may not include kernels/common/quant.h' '#include "kernels/common/quant.h"'
refuses layers_sessions_kernels sessions/a.c 'may not include kernels/backend.h' '#include "kernels/backend.h"'
refuses layers_sessions_private sessions/a.c 'may not include engine/gguf/gguf.h' '# include "engine/gguf/gguf.h"'
refuses layers_room_up engine/gguf/a.c 'engine/gguf may not include engine/cache/cache.h' '#include "engine/cache/cache.h"'
refuses layers_room_beside kernels/cpu/a.c 'kernels/cpu may not include kernels/cuda/gpu.h' '#include "kernels/cuda/gpu.h"'
refuses layers_room_no_door sessions/store/a.c 'may not include sessions/import/import_private.h' '#include "sessions/import/import_private.h"'
refuses layers_room_unknown engine/attic/a.c 'has no place in the order of rooms' 'int a;'
refuses layers_room_private engine/cache/a.c 'may not include engine/engine_private.h' '#include "engine/engine_private.h"'
allows layers_room_down engine/cache/a.c '#include "engine/gguf/gguf.h"'
allows layers_room_door sessions/store/a.c '#include "sessions/import/import.h"'
allows layers_room_known sessions/snap/a.c '#include "sessions/store/store_private.h"'
allows layers_turn_hook app/retrieval/a.c '#include "app/conversation/turn_hook.h"'
refuses layers_turn_hook_alone app/chat/a.c 'may not include app/conversation/turn_hook.h' '#include "app/conversation/turn_hook.h"'
refuses layers_turn_hook_up app/conversation/a.c 'may not include app/retrieval/retrieval.h' '#include "app/retrieval/retrieval.h"'
refuses layers_ui_engine ui/a.c 'may not include engine/engine.h' '#include "engine/engine.h"'
refuses layers_app_private app/a.c 'may not include ui/cells.h' '#include "ui/cells.h"'
refuses layers_app_upward app/term/a.c 'app/term may not include app/options/options.h' '#include "app/options/options.h"'
refuses layers_app_conversation app/conversation/a.c 'app/conversation may not include sessions/sessions.h' '#include "sessions/sessions.h"'
refuses layers_app_beside app/line/a.c 'app/line may not include app/tui/tui.h' '#include "app/tui/tui.h"'
refuses layers_app_no_door app/chat/a.c 'app/chat may not include app/conversation/turn.h' '#include "app/conversation/turn.h"'
refuses layers_app_main_no_door app/a.c 'app may not include app/chat/private.h' '#include "app/chat/private.h"'
allows layers_app_downward app/tui/a.c '#include "app/term/term.h"'
refuses layers_bare_name engine/a.c 'may not include gguf.h' '#include "gguf.h"'
refuses layers_dots engine/a.c 'may not include engine/../app/x.h' '#include "engine/../app/x.h"'
refuses layers_angle_brackets ui/a.c 'project header in <>' '#include <engine/engine.h>'
refuses layers_curses ui/a.c 'curses outside' '#include <ncurses.h>'
refuses layers_sqlite app/a.c 'SQLite outside' '#include <sqlite3.h>'
refuses layers_cuda engine/a.c 'CUDA outside' '#include <cuda_runtime.h>'
for name in strcpy strcat sprintf vsprintf strtok atoi localtime gets; do
  refuses "layers_$name" app/b.c "banned function $name" "void f(void) { $name(x); }"
done
refuses layers_after_comment app/b.c 'banned function atoi' '/* a */ int x = atoi ("1"); /* b */'
refuses layers_length engine/long.c 'more than 1500 lines' "$(seq 1501 | sed 's/.*/;/')"
refuses layers_top_level notes.txt 'top level' 'x'
allows layers_own_folder engine/a.c '#include "engine/gguf/gguf.h"'
allows layers_tests_may tests/unit/t_a.c '#include "kernels/common/quant.h"'
allows layers_curses_home ui/screen/display.c '#include <curses.h>'
allows layers_safe_cousins app/b.c 'void f(void) { snprintf(a, 1, "b"); strtok_r(a, b, c); localtime_r(a, b); fgets(a, 1, f); }'

# ---- headers.sh ----

fresh
if said=$(tests/headers.sh 2>&1) && [ "$said" = "headers: ok" ]; then ok headers_good; else bad headers_good "$said"; fi
echo 'int f(size_t n);' > ui/cells.h
if said=$(tests/headers.sh 2>&1); then bad headers_bad "not seen"; else
  case $said in *ui/cells.h*size_t*) ok headers_bad ;; *) bad headers_bad "$said" ;; esac
fi

# ---- words.sh ----

# says NAME FILE WANTED TEXT: TEXT appended to FILE makes words.sh print a line that begins with WANTED ("" = nothing but "words: ok").
says() {
  printf '%s\n' "$4" >> "$2"
  said=$(tests/words.sh 2>&1)
  status=$?
  if [ -z "$3" ]; then
    if [ $status = 0 ] && [ "$said" = "words: ok" ]; then ok "$1"; else bad "$1" "$said"; fi
  elif [ $status = 1 ] && printf '%s\n' "$said" | grep -q "^$3"; then ok "$1"; else bad "$1" "status $status: $said"; fi
}
fresh
says words_plain app/a.c '' '/* Talk to the user; the two exchange a message.  Rows of a matrix are chosen by hand.  Go on. */'
says words_code app/a.c '' 'struct talk *a_talk(void) { return the_talk(cached_rows); } int thoughts;'
says words_comment app/a.c 'app/a.c:3: say conversation' '/* What the talk holds. */'
fresh
says words_string ui/a.c 'ui/a.c:1: say reasoning' 'const char *s = "x", *t = "shows its thoughts";'
fresh
says words_long_comment engine/a.c 'engine/a.c:2: say KV entries' "$(printf '/* One\n * of the cached rows. */')"
fresh
says words_page README.md 'README.md:1: say key sketch' 'It reads a 2-bit copy of all keys.'
fresh_words='/* the talk */'
fresh
echo 'ui talk 2' > tests/words.txt
printf '%s\n%s\n' "$fresh_words" "$fresh_words" > ui/a.c
if tests/words.sh > said 2>&1; then ok words_allowed; else bad words_allowed "$(cat said)"; fi
says words_too_many ui/b.c "ui: 3 lines with 'talk', allowed are 2" "$fresh_words"
rm ui/b.c
echo '// the talk, and nothing else' > ui/a.c
tests/words.sh --lower
if [ "$(cat tests/words.txt)" = 'ui talk 1' ]; then ok words_lower; else bad words_lower "$(cat tests/words.txt)"; fi
printf '%s\n' "$fresh_words" >> ui/a.c
tests/words.sh --lower
if [ "$(cat tests/words.txt)" = 'ui talk 1' ] && ! tests/words.sh > said 2>&1; then ok words_never_rise; else bad words_never_rise "$(cat tests/words.txt)"; fi

# ---- run.sh ----

# suite NAME SCRIPT: a unit test that is a shell script.
suite() {
  touch "tests/unit/$1.c"
  printf '#!/bin/sh\n%s\n' "$2" > "build/tests/unit/$1"
  chmod +x "build/tests/unit/$1"
}

# sums NAME STATUS CLOSING PATTERN: run the tree's suites, with a limit of $limit seconds, and check what run.sh prints.
limit=300
sums() {
  said=$(env -u SANITIZE -u V BUILD=build WEIR=./weir TEST_TIMEOUT=$limit JOBS=2 tests/run.sh t_a t_b s_c 2>&1)
  status=$?
  if [ $status != "$2" ]; then
    bad "$1" "exit status $status"
  elif [ "$(printf '%s\n' "$said" | grep -c ' passed, ')" != 1 ]; then
    bad "$1" "not exactly one closing line"
  elif [ "$(printf '%s\n' "$said" | tail -n 1)" != "$3" ]; then
    bad "$1" "closed with: $(printf '%s\n' "$said" | tail -n 1)"
  elif ! printf '%s\n' "$said" | grep -q "$4"; then
    bad "$1" "no '$4' in: $said"
  else
    ok "$1"
  fi
}

good='echo "  ok    one"; echo "1 passed, 0 failed, 0 skipped"'
fresh
suite t_a "$good"
suite t_b 'echo "  ok    x"; echo "  skip  y: no such file"; echo "1 passed, 0 failed, 1 skipped"'
# A script test gets the absolute path of the program.
# shellcheck disable=SC2016
printf '#!/bin/sh\ncase $WEIR in /*/weir) ;; *) exit 1 ;; esac\n%s\n' "$good" > tests/cli/s_c.sh
chmod +x tests/cli/s_c.sh
sums run_adds_up 0 '3 passed, 0 failed, 1 skipped' '^  t_b: y: no such file'
suite t_b 'echo "    t_b.c:1: 1 is 2" >&2; echo "  FAIL  y"; echo "0 passed, 1 failed, 0 skipped"; exit 1'
sums run_failure 1 '2 passed, 1 failed, 0 skipped' '^  t_b: y$'
sums run_failure_reason 1 '2 passed, 1 failed, 0 skipped' 't_b.c:1: 1 is 2'
# The suite kills itself, not this shell.
# shellcheck disable=SC2016
suite t_b 'echo "  ok    x"; kill -SEGV $$'
sums run_crash 1 '3 passed, 1 failed, 0 skipped' 't_b: crashed with signal 11'
suite t_b 'echo "  ok    x"'
sums run_no_closing_line 1 '3 passed, 1 failed, 0 skipped' 't_b: ended without its closing line'
suite t_b "$good; exit 23"
sums run_leak 1 '3 passed, 1 failed, 0 skipped' 't_b: exit status 23'
suite t_b 'echo "  FAIL  x: y"; echo "0 passed, 1 failed, 0 skipped"'
sums run_liar 1 '2 passed, 2 failed, 0 skipped' 't_b: exit status 0 although 1 failed'
suite t_b 'echo "  ok    x"; sleep 300'
limit=5
sums run_hang 1 '3 passed, 1 failed, 0 skipped' 't_b: stopped after 5 s'
limit=300
rm build/tests/unit/t_b
sums run_not_built 1 '2 passed, 1 failed, 0 skipped' 't_b: ended without its closing line'


# Three suites, two at a time; every suite has its own home. met NAME: wait until the suite NAME has begun, too.
# shellcheck disable=SC2016 # expanded by the suites
met='met() { i=0; while [ $i -lt 600 ]; do [ -e "$1.began" ] && return; sleep 0.1; i=$((i + 1)); done; echo "  FAIL  $1 is not there"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }'
suite t_a "$met; touch a.began; met b; mkdir -p \"\$XDG_DATA_HOME\"; sleep 0.3; $good"
suite t_b "$met; touch b.began; met a; sleep 0.2; [ ! -e \"\$XDG_DATA_HOME\" ] || exit 1; $good"
sums run_together 0 '3 passed, 0 failed, 0 skipped' '^t_b '
if [ "$(printf '%s\n' "$said" | sed -n 's/ .* ok$//p' | tr '\n' ' ')" = 't_a t_b s_c ' ]; then ok run_in_order; else bad run_in_order "$said"; fi
rm -f ./*.began
suite t_a "$met; touch busy a.began; met b; rm busy; $good"
suite t_b "$met; met a; there=\$(ls busy); touch b.began; [ ! \"\$there\" ] || exit 1; $good"
sums run_at_once 1 '2 passed, 1 failed, 0 skipped' 't_b: ended without'
rm -f ./*.began
suite t_a "touch busy; sleep 0.4; rm busy; $good"
suite t_b "[ ! -e busy ] || exit 1; $good"
echo '/* Runs alone: it measures time. */' > tests/unit/t_b.c
sums run_alone 0 '3 passed, 0 failed, 0 skipped' '^t_b '
if [ "$(printf '%s\n' "$said" | sed -n 's/ .* ok$//p' | tr '\n' ' ')" = 't_a s_c t_b ' ]; then ok run_alone_last; else bad run_alone_last "$said"; fi
echo '/* Awaits a terminal: it is shown. */' > tests/unit/t_b.c
sums run_awaiting 0 '3 passed, 0 failed, 0 skipped' '^t_b '
cp tests/unit/t_a.c t_a.kept
echo '/* Runs alone: it measures time. */' > tests/unit/t_a.c
suite t_b "$good"
sums run_awaiting_and_alone 0 '3 passed, 0 failed, 0 skipped' '^t_b '
if [ "$(printf '%s\n' "$said" | sed -n 's/ .* ok$//p' | tr '\n' ' ')" = 's_c t_b t_a ' ]; then ok run_awaiting_between; else bad run_awaiting_between "$said"; fi
mv t_a.kept tests/unit/t_a.c

# The slowest tests are listed above the closing line, slowest first.
suite t_a 'echo "  ok    one (0.7 s)"; echo "  ok    two (12.0 s)"; echo "  ok    three"; echo "3 passed, 0 failed, 0 skipped"'
sums run_slowest 0 '5 passed, 0 failed, 0 skipped' '^ *12.0 s   t_a: two$'
if [ "$(printf '%s\n' "$said" | sed -n 's/.* s   t_a: //p' | tr '\n' ' ')" = 'two one ' ]; then ok run_only_slow; else bad run_only_slow "$said"; fi

# A folder means its suites; an unknown name is an error, not an empty run.
said=$(BUILD=build tests/run.sh unit 2>&1)
if [ "$(printf '%s\n' "$said" | tail -n 1)" = '4 passed, 0 failed, 0 skipped' ]; then ok run_folder; else bad run_folder "$said"; fi
said=$(BUILD=build tests/run.sh units 2>&1)
if [ $? = 2 ] && [ "$said" = "tests/run.sh: no suite and no folder of suites is called 'units'" ]; then ok run_unknown; else bad run_unknown "$said"; fi

# The explanation of a failure, such as the screen of a terminal, is repeated with it.
suite t_a 'seq 1 30 | sed "s/^/    | row /"; echo "  FAIL  it is shown: no"; echo "0 passed, 1 failed, 0 skipped"; exit 1'
said=$(BUILD=build tests/run.sh t_a 2>&1)
if [ "$(printf '%s\n' "$said" | sed -n '/^failed:/,$p' | grep -c '^    | row ')" = 30 ]; then ok run_shows_why; else bad run_shows_why "$said"; fi

# Ctrl-C ends the running suites.  The run is in the foreground, because a shell makes background processes ignore the
# signal, and timeout passes that on.
# shellcheck disable=SC2016
suite t_a 'echo $$ > pid; exec sleep 300'
rm -f pid leader
(wait_for [ -s pid ] && kill -INT "$(cat leader)") &
BUILD=build sh -c 'echo $$ > leader; exec timeout -s INT 600 tests/run.sh t_a' > said 2>&1
status=$?
wait
gone() { ! kill -0 "$(cat pid)" 2> /dev/null; }
if [ -s pid ] && wait_for gone && ! grep -q ' passed, ' said; then ok run_interrupted; else bad run_interrupted "status $status: $(cat said)"; fi

# Continuous integration: the tests, a build by plain POSIX, strict by gcc, a strict build by clang, the short suites under
# sanitizers, then the plugin where nvcc is on PATH; the status is that of the first step that failed.
fresh
mkdir .ci bin nvcc compilers
cp "$here/../../.ci/run" .ci/
# shellcheck disable=SC2016
printf '%s\n' '#!/bin/sh' 'case $* in *DEV=1*OS=posix) set -- strict-posix ;; *OS=posix) set -- posix ;; esac' 'echo "$CI $1" >> made' \
  'case $1 in *posix) exit "$POSIX" ;; test) exit "$TESTS" ;; all) exit "$STRICT" ;; check-short) exit "$SHORT" ;; cuda) exit "$PLUGIN" ;; esac' > bin/make
printf '%s\n' '#!/bin/sh' | tee nvcc/nvcc compilers/gcc > compilers/clang
chmod +x bin/make nvcc/nvcc compilers/*
ln -s "$(command -v bash)" "$(command -v dirname)" bin/

# ci NAME STATUS TARGETS PATH TESTS STRICT SHORT PLUGIN [POSIX]: check status and targets made when the steps end with
# these statuses.
ci() {
  : > made
  TESTS=$5 STRICT=$6 SHORT=$7 PLUGIN=$8 POSIX=${9:-0} PATH=$4 bin/bash .ci/run
  status=$?
  if [ "$status" = "$2" ] && [ "$(sed 's/^true //' made | tr '\n' ' ')" = "$3 " ]; then ok "$1"; else bad "$1" "status $status: $(cat made)"; fi
}
ci ci_no_nvcc 0 'test posix check-short' "$PWD/bin" 0 9 0 9
ci ci_no_nvcc_fails 3 'test posix check-short' "$PWD/bin" 3 0 0 0
ci ci_short_fails 4 'test posix check-short' "$PWD/bin" 0 0 4 0
ci ci_posix_fails 6 'test posix check-short' "$PWD/bin" 0 0 0 0 6
ci ci_compilers 0 'test strict-posix all check-short' "$PWD/bin:$PWD/compilers" 0 0 0 9
ci ci_a_warning_fails 5 'test strict-posix all check-short' "$PWD/bin:$PWD/compilers" 0 5 4 0
ci ci_a_warning_by_gcc_fails 6 'test strict-posix all check-short' "$PWD/bin:$PWD/compilers" 0 5 0 0 6
ci ci_plugin 0 'test posix check-short cuda' "$PWD/bin:$PWD/nvcc" 0 0 0 0
ci ci_plugin_fails 2 'test posix check-short cuda' "$PWD/bin:$PWD/nvcc" 0 0 0 2
ci ci_both_fail 3 'test strict-posix all check-short cuda' "$PWD/bin:$PWD/compilers:$PWD/nvcc" 3 0 0 2

finish
