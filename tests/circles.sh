#!/bin/sh
# tests/circles.sh - finds files that need each other in a circle; run by `make check` after the build.
#
# A file needs another one when its object refers to a symbol that the other one's object defines (nm). Files in a
# circle can be understood and tested only together.  So circles between folders are not allowed, and within a folder a
# circle has at most three files.
#
# BUILD is the folder of objects.  Prints each offence as FILE FILE ...: WHY and exits 1, or prints "circles: ok".
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
command -v nm >/dev/null 2>&1 || { echo "circles: ok (not looked at: there is no nm)"; exit 0; }

find kernels engine sessions ui app -name '*.c' | sort | while read -r source; do
  object=$build/${source%.c}.o
  [ -f "$object" ] && printf '%s\n' "$object"
done | xargs nm -A | awk -v build="$build/" '
  function folder_of(file) { sub(/\/[^\/]*$/, "", file); return file }
  # The algorithm of Tarjan: visit everything that this file needs; a path back to it is a circle.
  function visit(v,    n, i, w, list, size, members, folder, mixed) {
    order[v] = low[v] = ++visited
    stack[++top] = v
    on_stack[v] = 1
    n = split(needs[v], list, " ")
    for (i = 1; i <= n; i++) {
      w = list[i]
      if (!(w in order)) {
        visit(w)
        if (low[w] < low[v])
          low[v] = low[w]
      } else if (on_stack[w] && order[w] < low[v]) {
        low[v] = order[w]
      }
    }
    if (low[v] != order[v])
      return
    folder = folder_of(v)
    do {
      w = stack[top--]
      on_stack[w] = 0
      members = w " " members
      size++
      if (folder_of(w) != folder)
        mixed = 1
    } while (w != v)
    sub(/ $/, "", members)
    if (mixed)
      print members ": a circle among files of different folders"
    else if (size > 3)
      print members ": a circle of " size " files"
  }
  # build/kernels/c.o:ADDRESS T SYMBOL
  $(NF - 1) !~ /^[TDBRVWCU]$/ { next }
  { at = substr($1, length(build) + 1); sub(/\.o:.*/, ".c", at); file[at] = 1 }
  $(NF - 1) != "U" { home[$NF] = at }
  $(NF - 1) == "U" { from[++uses] = at; symbol[uses] = $NF }
  END {
    for (i = 1; i <= uses; i++) {
      target = home[symbol[i]]
      if (target != "" && target != from[i] && !seen[from[i], target]++)
        needs[from[i]] = needs[from[i]] " " target
    }
    for (f in file)
      if (!(f in order))
        visit(f)
    files = 0
    for (f in file)
      files++
    if (files < 100)
      print "circles: only " files " objects in the build"
  }
' >"${TMPDIR:-/tmp}/circles.$$"
trap 'rm -f "${TMPDIR:-/tmp}/circles.$$"' EXIT
if [ -s "${TMPDIR:-/tmp}/circles.$$" ]; then
  cat "${TMPDIR:-/tmp}/circles.$$"
  exit 1
fi
echo "circles: ok"
