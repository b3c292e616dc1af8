#!/bin/sh
# tests/cli/s_valgrind.sh - one short flow under valgrind, on a tiny model: load, tokenise, prefill, sample, print, close.
# The AVX2 level, because valgrind does not know AVX-512.
set -u
weir=${WEIR:-./weir}
model=tests/vectors/models/llama-block32.gguf
if ! command -v valgrind >/dev/null; then echo "  skip  an answer under valgrind: valgrind is not installed"; echo "0 passed, 0 failed, 1 skipped"; exit 0; fi
if [ -n "${SANITIZE:-}" ]; then echo "  skip  an answer under valgrind: the program carries a sanitizer"; echo "0 passed, 0 failed, 1 skipped"; exit 0; fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
[ "$(uname -m)" != x86_64 ] || export WEIR_CPU=avx2
if valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect \
  "$weir" -m $model -t 2 -p "Hello" -n 3 --temp 0 -q >"$log" 2>&1; then
  echo "  ok    an answer under valgrind: no error, no leak"; echo "1 passed, 0 failed, 0 skipped"
else
  echo "  FAIL  an answer under valgrind: status $?"; sed 's/^/        /' "$log" | tail -n 30 >&2; echo "0 passed, 1 failed, 0 skipped"; exit 1
fi
