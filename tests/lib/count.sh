# tests/lib/count.sh - how a script of tests keeps its count; read by tests/FOLDER/s_NAME.sh with `.`.
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
bad() {
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
