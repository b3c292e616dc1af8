#!/bin/sh
# tests/measure/summarize.sh BOOK [SECONDS] - checks that /summarize of a whole book ends, and that kill -9 loses no
# finished work.
#
# Summarizes BOOK with WEIR (default ./weir) once without a break, and once in a session that is killed after SECONDS
# (default 20) and started again until the summary is complete. Prints for each run the seconds and the seconds of
# processor time; then the number of results that the session stores (one for each section, and those that join
# sections); and whether the two summaries are equal. Needs python3 and GNU time.
set -u
weir=${WEIR:-./weir} book=$1 after=${2:-20}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export XDG_STATE_HOME="$dir/state" XDG_CONFIG_HOME="$dir/config"

# one NAME DATA [SECONDS]: summarize in the session of directory DATA; killed after SECONDS if given
one() {
	XDG_DATA_HOME=$dir/$2 /usr/bin/time -f '%e %U %S' -o "$dir/time" sh -c '
		if [ -n "$3" ]; then timeout -s KILL "$3" "$1" "$2" --each-line -s book --temp 0 >"$4" 2>"$5"
		else exec "$1" "$2" --each-line -s book --temp 0 >"$4" 2>"$5"; fi' sh "$weir" "$book" "${3:-}" "$dir/$1.out" "$dir/$1.err" <<-END2
	/summarize
	END2
	status=$?
	awk -v name="$1" -v status=$status 'NF == 3 { printf "%s: status %d, %.0f s, %.0f s of the processor\n", name, status, $1, $2 + $3 }' "$dir/time"
	python3 -c "
import sqlite3, sys
print('    results kept:', sqlite3.connect(sys.argv[1]).execute(\"SELECT count(*) FROM setting WHERE key LIKE 'summary/%'\").fetchone()[0])" "$dir/$2/weir/chat.db"
}

one whole whole
one killed broken "$after"
one again broken
one repeated broken
cmp -s "$dir/whole.out" "$dir/again.out" && echo "the summary of the session that was killed is that of the run without a break" || echo "the summaries differ"
cmp -s "$dir/again.out" "$dir/repeated.out" && echo "the repeated one, too" || echo "the repeated one differs"
echo; tail -n 12 "$dir/whole.out"
