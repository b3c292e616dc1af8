# tests/count.sh - how a script of tests keeps its count; read by tests/s_*.sh with `.`.
# shellcheck shell=sh

passed=0 failed=0 skipped=0
ok() { echo "  ok    $1"; passed=$((passed + 1)); }
bad() { echo "  FAIL  $1: $2"; failed=$((failed + 1)); }
skip() { echo "  skip  $1: $2"; skipped=$((skipped + 1)); }
# The line that tests/run.sh adds up; ends the script.
finish() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
	exit
}
