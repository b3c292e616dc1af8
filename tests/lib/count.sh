# tests/lib/count.sh - counts the results of a test script and waits for conditions; sourced by tests/FOLDER/s_NAME.sh.
# shellcheck shell=sh

passed=0 failed=0 skipped=0
# Sets count_now: hundredths of a second since the machine started.
count_clock() {
	read -r count_now _ </proc/uptime
	count_now=${count_now%.*}${count_now#*.}
}
count_clock
count_last=$count_now
# Count a test that passed. If it took half a second or longer, print its time, so that tests/run.sh can list the slowest.
ok() {
	count_clock
	count_took=$((count_now - count_last)) count_last=$count_now
	if [ "$count_took" -lt 50 ]; then echo "  ok    $1"; else echo "  ok    $1 ($((count_took / 100)).$((count_took % 100 / 10)) s)"; fi
	passed=$((passed + 1))
}
# explain: print lines that explain a failure. They come before the line of the failure and begin with four blanks.
explain() { :; }
bad() {
	explain
	echo "  FAIL  $1: $2"
	failed=$((failed + 1))
	count_clock
	count_last=$count_now
}
skip() { echo "  skip  $1: $2"; skipped=$((skipped + 1)); }
# Print the line that tests/run.sh adds up, and end the script.
finish() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
	exit
}

# ---- waiting ----

explained=                  # not empty: the screen was already printed when the last wait failed
slow=${WEIR_TEST_SLOW:-1}   # factor for every time limit
[ -z "${SANITIZE:-}" ] || slow=$((slow * 3))
# wait_for [SECONDS] COMMAND...: wait until the command succeeds.  The limit only tells when to give up: it is at least
# two minutes, counted in tries, so that pauses of the machine do not count; after a failure it is shorter.
wait_for() {
	left=1200
	case $1 in
	*[!0-9]*) ;;
	*)
		[ "$1" -le 120 ] || left=$(($1 * 10))
		shift ;;
	esac
	[ "$failed" = 0 ] || left=$((left / 6))
	left=$((left * slow))
	explained=
	while ! "$@"; do
		left=$((left - 1))
		if [ "$left" -le 0 ]; then
			echo "    in vain it was waited for: $*"
			explain
			explained=1   # the failed test need not show the screen again
			return 1
		fi
		sleep 0.1
	done
}
# soon COMMAND...: true if it succeeds within some seconds, for cases where both outcomes are right.
soon() {
	looks=30
	until "$@"; do
		looks=$((looks - 1))
		[ "$looks" -gt 0 ] || return 1
		sleep 0.1
	done
}
