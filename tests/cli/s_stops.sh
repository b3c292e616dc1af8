#!/bin/sh
# tests/cli/s_stops.sh - Ctrl-C and SIGTERM end the import and the indexing of a document within a second of processor time, whatever it is made of.
#
# WEIR is the program (default ./weir).  Closes with "N passed, M failed, K skipped".
set -u
weir=${WEIR:-./weir}
model=tests/vectors/models/llama-linear.gguf

. "$(dirname "$0")/../lib/count.sh"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
export HOME="$dir" XDG_CACHE_HOME="$dir/cache" XDG_DATA_HOME="$dir/data" XDG_STATE_HOME="$dir/state" XDG_CONFIG_HOME="$dir/config"
unset WEIR_MODEL

# cpu PID: hundredths of a second of processor time that a process has used; prints nothing if it has ended.
cpu() {
	{ read -r line <"/proc/$1/stat"; } 2>/dev/null || return 0
	# shellcheck disable=SC2086 # words
	set -- ${line##*) }
	[ "$1" = Z ] || echo $((${12} + ${13}))
}

begin() { exec "$weir" -m "$model" --private -n 1 -q -p 'zebra quagga' --docs passages "$1" </dev/null >/dev/null 2>&1; }
# half_of FILE: half of the processor time that a whole run with this file takes.
half_of() {
	begin "$1" &
	pid=$! last=0
	while took=$(cpu $pid) && [ -n "$took" ]; do last=$took; sleep 0.01; done
	wait $pid
	half=$((last / 2))
}
# stops NAME SIGNAL AFTER FILE: check that the signal, sent after AFTER hundredths of a second of processor time, ends
# the run before it is done.
stops() {
	begin "$4" &
	pid=$! before=
	until [ "${before:-0}" -ge "$3" ]; do
		before=$(cpu $pid)
		[ -n "$before" ] || break
		sleep 0.01
	done
	kill "-$2" $pid 2>/dev/null
	last=$before
	while took=$(cpu $pid) && [ -n "$took" ] && [ $((took - before)) -lt 500 ]; do last=$took; sleep 0.01; done
	kill -KILL $pid 2>/dev/null
	wait $pid 2>/dev/null
	status=$?
	name="$1: SIG$2 after $3 hundredths of a second"
	if [ -z "$before" ]; then bad "$name" "it was done before"
	elif [ $((last - before)) -gt $((100 * slow)) ]; then bad "$name" "$((last - before)) hundredths later it still ran"
	elif [ $status = 130 ] || [ $status = 143 ]; then ok "$name"
	else bad "$name" "status $status, as if nothing had stopped it"; fi
}

# repeat UNIT BYTES FILE
repeat() { { printf b; yes "$(printf '%bx' "$1")" | sed 's/x$//' | tr -d '\n' | tr '~' '\n' | head -c "$2"; } >"$3"; }
repeat 'a\f' 8000000 "$dir/pages.txt"
repeat 'a~~' 8000000 "$dir/paragraphs.txt"
repeat '# a~' 8000000 "$dir/headings.md"
repeat 'word ' 8000000 "$dir/words.txt"
repeat '<p>a' 8000000 "$dir/paragraphs.html"

for file in pages.txt paragraphs.txt headings.md words.txt paragraphs.html; do
	half_of "$dir/$file"
	for signal in TERM INT; do
		stops "$file at once" $signal 5 "$dir/$file"
		stops "$file in the middle" $signal $half "$dir/$file"
	done
done
finish
