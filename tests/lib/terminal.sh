# tests/lib/terminal.sh - a real terminal for the tests that want one: tmux plays the user.  Sourced after count.sh, with $weir, $model and $how (options that say which mode) set.
#
# Every terminal here is a private tmux server that ends with the script.
# shellcheck shell=sh disable=SC2154 # weir, model, how, name come from who sources this
slow=${WEIR_TEST_SLOW:-1}   # factor on every time limit, for sanitizer builds and busy machines
[ -z "${SANITIZE:-}" ] || slow=$((slow * 10))

if ! command -v tmux >/dev/null 2>&1; then skip terminal "tmux is not installed"; finish; fi
if [ ! -x "$weir" ]; then bad terminal "no program at '$weir'"; finish; fi
if [ ! -r "$model" ]; then skip terminal "no model at '$model'"; finish; fi

dir=$(mktemp -d) || exit 1
case $weir in /*) ;; *) weir=$PWD/$weir ;; esac
case $model in /*) ;; *) model=$PWD/$model ;; esac
export weir model dir how
socket=weir-test-$$- turn=0
mux() { tmux -L "$socket" -f /dev/null "$@" 2>/dev/null; }
cleanup() {
	mux kill-server
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

esc=$(printf '\033')
nl='
'

# What runs in the terminal: state before, the program, its status, state after.  History and settings go to an
# empty home.
cat >"$dir/run" <<'EOF'
unset TMUX WEIR_MODEL
export HOME="$dir" XDG_STATE_HOME="$dir/state" XDG_CONFIG_HOME="$dir/config" XDG_CACHE_HOME="$dir/cache" XDG_DATA_HOME="$dir/data"
trap : INT   # Ctrl-C is for the program alone
stty -a >"$dir/before"
sleep "${late:-0}"
"$weir" $how -m "$model" "$@"
echo $? >"$dir/status"
stty -a >"$dir/after"
echo "=== over ==="
exec cat
EOF

# A fresh terminal of $columns x $rows running weir with these arguments, after $late seconds.
columns=80 rows=24 late=0
export late
start() {
	mux kill-server
	turn=$((turn + 1))   # a server that is going down still owns its socket for a moment
	socket=${socket%-*}-$turn
	rm -f "$dir/status" "$dir/before" "$dir/after"
	args=
	for a; do args="$args '$a'"; done
	env -u TMUX NO_COLOR=1 LC_ALL=C.UTF-8 tmux -u -L "$socket" -f /dev/null new-session -d -x "$columns" -y "$rows" "sh '$dir/run' $args"
}
screen() { mux capture-pane -p; }
last_line() { screen | sed -n '/[^ ]/h;${x;s/ *$//;p;}'; }
type_text() { mux send-keys -l -- "$1"; }
key() { mux send-keys "$@"; }
ask() { type_text "$1"; key Enter; }

# The first child of a process, by /proc: not every machine has pgrep.
child_of() {
	for stat in /proc/[0-9]*/stat; do
		{ read -r line <"$stat"; } 2>/dev/null || continue
		rest=${line##*) }
		rest=${rest#* }
		[ "${rest%% *}" = "$1" ] || continue
		pid=${stat#/proc/}
		echo "${pid%/stat}"
		return
	done
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
	left=$(($1 * slow * 10))
	shift
	while ! "$@"; do
		left=$((left - 1))
		[ "$left" -gt 0 ] || return 1
		sleep 0.1
	done
}
shows() { screen | grep -q -e "$1"; }
ended() { [ -e "$dir/after" ] && shows '=== over ==='; }
status_is() { [ "$(cat "$dir/status" 2>/dev/null)" = "$1" ]; }
now_ms() {
	t=$(date +%s%N)
	case $t in *N*) echo "$(date +%s)000" ;; *) echo "${t%??????}" ;; esac
}
tail_of_screen() {
	screen | grep -v '^ *$' | tail -n 3 | tr '\n' '|'
	[ ! -e "$dir/status" ] || echo " (it ended with status $(cat "$dir/status"))"
}
pass() { if "$@"; then ok "$name"; else bad "$name" "$(tail_of_screen)"; fi; }
all() {   # COMMAND ... -- COMMAND ...: each must succeed
	words=
	for w in "$@" --; do
		if [ "$w" = -- ]; then eval "$words" || return 1; words=
		else words="$words '$w'"; fi
	done
}
program() { child_of "$(mux display-message -p '#{pane_pid}')"; }

# What the hints of the full screen say.
at_rest() { case $(last_line) in 'F1 Help'*) ;; *) return 1 ;; esac; }
busy() { case $(last_line) in 'Esc Stop'*) ;; *) return 1 ;; esac; }
