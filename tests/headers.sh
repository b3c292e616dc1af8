#!/bin/sh
# tests/headers.sh - checks that every header compiles alone, and every fuzz target, which `make test` does not build;
# run by `make check-headers` and `make check`.
#
# CC and FLAGS come from the Makefile; the defaults are for a run by hand.  Prints each offender with the compiler's
# message and exits 1, or prints "headers: ok".
set -u
cd "$(dirname "$0")/.." || exit 1
CC=${CC:-cc}
FLAGS=${FLAGS:--std=gnu11 -D_GNU_SOURCE -I. -Wall -Wextra -Wno-unused-parameter}

bad=0
for header in kernels/*.h kernels/*/*.h engine/*.h engine/*/*.h sessions/*.h sessions/*/*.h ui/*.h ui/*/*.h app/*.h app/*/*.h \
  tests/*/*.h tests/cuda/emulator/*.h tests/fuzz/*.c; do
  [ -f "$header" ] || continue
  # CC and FLAGS are lists of words.
  # shellcheck disable=SC2086
  if ! said=$($CC $FLAGS -Werror -fsyntax-only -x c "$header" 2>&1); then
    echo "$header does not compile alone:"
    printf '%s\n' "$said" | grep -E 'error|warning' | head -5 | sed 's/^/    /'
    bad=1
  fi
done
[ $bad = 0 ] && echo "headers: ok"
exit $bad
