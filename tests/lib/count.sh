# tests/lib/count.sh - counts the results of a test script, and waits for conditions; sourced by tests/FOLDER/s_NAME.sh.
# shellcheck shell=sh

passed=0 failed=0 skipped=0
# Sets count_now: hundredths of a second since the machine started.
count_clock() {
	read -r count_now _ </proc/uptime
	count_now=${count_now%.*}${count_now#*.}
}
count_clock
count_last=$count_now
# A test that took half a second or longer says so: tests/run.sh lists the slowest.
ok() {
	count_clock
	count_took=$((count_now - count_last)) count_last=$count_now
	if [ "$count_took" -lt 50 ]; then echo "  ok    $1"; else echo "  ok    $1 ($((count_took / 100)).$((count_took % 100 / 10)) s)"; fi
	passed=$((passed + 1))
}
# What explains a failure is printed before it: lines with four blanks in front.
explain() { :; }
bad() {
	explain
	echo "  FAIL  $1: $2"
	failed=$((failed + 1))
	count_clock
	count_last=$count_now
}
skip() { echo "  skip  $1: $2"; skipped=$((skipped + 1)); }
# The line that tests/run.sh adds up; ends the script.
finish() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
	exit
}

# ---- waiting ----

explained=                  # set: what the last wait was in vain for has been shown already
slow=${WEIR_TEST_SLOW:-1}   # factor on every time limit
[ -z "${SANITIZE:-}" ] || slow=$((slow * 3))
# wait_for [SECONDS] COMMAND...: until the command succeeds.  The limit only says when a test gives up: it is never shorter than two minutes,
# counted in looks, so that a machine that stands still is waited for; behind a failure the next ones need not take as long.
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
			explained=1   # who fails because of it need not say so again
			return 1
		fi
		sleep 0.1
	done
}
# soon COMMAND...: whether it succeeds within some seconds, where either is right.
soon() {
	looks=30
	until "$@"; do
		looks=$((looks - 1))
		[ "$looks" -gt 0 ] || return 1
		sleep 0.1
	done
}
