#!/bin/sh
# tests/s_house.sh - do layers.sh, headers.sh and run.sh see what they are there to see?
#
# Builds a small tree of its own, puts one offence into it at a time, and asks the scripts.
set -u
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

passed=0 failed=0
ok() {
  passed=$((passed + 1))
  echo "  ok    $1"
}
bad() {
  failed=$((failed + 1))
  echo "  FAIL  $1: $2"
}

# A tree that is in order.
fresh() {
  rm -rf "$dir/tree"
  mkdir -p "$dir/tree/tests" "$dir/tree/build/tests"
  cd "$dir/tree" || exit 1
  mkdir app engine kernels ui sessions man
  cp "$here/layers.sh" "$here/headers.sh" "$here/run.sh" tests/
  echo 'int kernels_one(void);' > kernels/backend.h
  echo '#include "kernels/backend.h"' > engine/engine.h
  echo '#include <stdint.h>' > engine/base.h
  echo '#include "engine/base.h"' > sessions/sessions.h
  echo '#include <stddef.h>' > ui/ui.h
  # Words in comments and strings are no offences.
  printf '%s\n' '/* never strcpy(a, b) or' ' * atoi(c) */' 'const char *s = "gets(x) /* not a comment";' \
    "char quote = '\"'; // localtime(t)" 'int my_atoi(int);' > app/main.c
  touch Makefile README.md
}

# refuses NAME FILE WHY TEXT: TEXT appended to FILE makes layers.sh name FILE and WHY.
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
refuses layers_kernels_up kernels/a.c 'kernels may not include engine/base.h' '#include "engine/base.h"'
refuses layers_engine_private engine/a.c 'engine may not include kernels/quant.h' '#include "kernels/quant.h"'
refuses layers_sessions_kernels sessions/a.c 'may not include kernels/backend.h' '#include "kernels/backend.h"'
refuses layers_sessions_private sessions/a.c 'may not include engine/gguf.h' '# include "engine/gguf.h"'
refuses layers_ui_engine ui/a.c 'may not include engine/engine.h' '#include "engine/engine.h"'
refuses layers_app_private app/a.c 'may not include ui/cells.h' '#include "ui/cells.h"'
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
allows layers_own_folder engine/a.c '#include "engine/gguf.h"'
allows layers_tests_may tests/t_a.c '#include "kernels/quant.h"'
allows layers_curses_home ui/display.c '#include <curses.h>'
allows layers_safe_cousins app/b.c 'void f(void) { snprintf(a, 1, "b"); strtok_r(a, b, c); localtime_r(a, b); fgets(a, 1, f); }'

# ---- headers.sh ----

fresh
if said=$(tests/headers.sh 2>&1) && [ "$said" = "headers: ok" ]; then ok headers_good; else bad headers_good "$said"; fi
echo 'int f(size_t n);' > ui/cells.h
if said=$(tests/headers.sh 2>&1); then bad headers_bad "not seen"; else
  case $said in *ui/cells.h*size_t*) ok headers_bad ;; *) bad headers_bad "$said" ;; esac
fi

# ---- run.sh ----

# suite NAME SCRIPT: a unit test that is a shell script.
suite() {
  touch "tests/$1.c"
  printf '#!/bin/sh\n%s\n' "$2" > "build/tests/$1"
  chmod +x "build/tests/$1"
}

# sums NAME STATUS CLOSING PATTERN: what run.sh makes of the suites in the tree.
sums() {
  said=$(env -u SANITIZE -u V BUILD=build WEIR=./weir TEST_TIMEOUT=2 tests/run.sh t_a t_b s_c 2>&1)
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
# The script test is handed the absolute path of the program.
# shellcheck disable=SC2016
printf '#!/bin/sh\ncase $WEIR in /*/weir) ;; *) exit 1 ;; esac\n%s\n' "$good" > tests/s_c.sh
chmod +x tests/s_c.sh
sums run_adds_up 0 '3 passed, 0 failed, 1 skipped' '^  t_b: y: no such file'
suite t_b 'echo "    t_b.c:1: 1 is 2" >&2; echo "  FAIL  y"; echo "0 passed, 1 failed, 0 skipped"; exit 1'
sums run_failure 1 '2 passed, 1 failed, 0 skipped' '^  t_b: y$'
sums run_failure_reason 1 '2 passed, 1 failed, 0 skipped' 't_b.c:1: 1 is 2'
# The suite is killed by itself, not this shell.
# shellcheck disable=SC2016
suite t_b 'echo "  ok    x"; kill -SEGV $$'
sums run_crash 1 '3 passed, 1 failed, 0 skipped' 't_b: crashed with signal 11'
suite t_b 'echo "  ok    x"'
sums run_no_closing_line 1 '3 passed, 1 failed, 0 skipped' 't_b: ended without its closing line'
suite t_b "$good; exit 23"
sums run_leak 1 '3 passed, 1 failed, 0 skipped' 't_b: exit status 23'
suite t_b 'echo "  FAIL  x: y"; echo "0 passed, 1 failed, 0 skipped"'
sums run_liar 1 '2 passed, 2 failed, 0 skipped' 't_b: exit status 0 although 1 failed'
suite t_b 'echo "  ok    x"; sleep 30'
sums run_hang 1 '3 passed, 1 failed, 0 skipped' 't_b: stopped after 2 s'
rm build/tests/t_b
sums run_not_built 1 '2 passed, 1 failed, 0 skipped' 't_b: ended without its closing line'

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
