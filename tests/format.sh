#!/bin/sh
# tests/format.sh - checks that every C, C++ and CUDA file has the layout of .clang-format; run by `make check`.
#
#   tests/format.sh          print the first files that differ and exit 1, or print "format: ok"
#   tests/format.sh --write  lay them out
#
# Versions of clang-format differ in details, so only version 14, Debian 12's, is used.  Generated tables keep their
# layout; a table with meaningful columns is put between "clang-format off" and "clang-format on".
set -u
cd "$(dirname "$0")/.." || exit 1
format=$(command -v clang-format-14 || command -v clang-format)
case $("${format:-false}" --version 2>/dev/null) in
*"version 14."*) ;;
*)
  echo "format: ok (not looked at: there is no clang-format 14)"
  exit 0
  ;;
esac
files=$(git ls-files --cached --others --exclude-standard '*.c' '*.h' '*.cu' '*.cuh' |
  grep -v -e engine/token/unicode_data -e ui/text/chars.c)
if [ "${1:-}" = --write ]; then
  echo "$files" | xargs -P 2 -n 40 "$format" -i
  exit
fi
if said=$(echo "$files" | xargs -P 2 -n 40 "$format" --dry-run -Werror 2>&1); then
  echo "format: ok"
  exit 0
fi
echo "$said" | grep 'error: ' | cut -d : -f 1 | sort -u | head -20
echo "format: lay these files out by tests/format.sh --write"
exit 1
