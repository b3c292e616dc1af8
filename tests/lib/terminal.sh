# tests/lib/terminal.sh - a real terminal for tests: tmux plays the user.  Sourced after count.sh, with $weir, $model and $how set
# ($how: options that select line mode or full screen).
#
# Every terminal is a private tmux server that ends with the script.
#
# The machine may pause the program, tmux or the script for seconds at any time.  So:
#   - a step waits for the result of the previous step; no result depends on a pause;
#   - the text that a step waits for must not be on the screen already;
#   - a key after Escape is sent only when the screen shows what Escape did, because Escape and the key together are Alt with the key;
#   - an answer during which something is to happen has no end ($endless).
# shellcheck shell=sh disable=SC2154 # weir, model, how, name come from who sources this
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
	rm -rf "$dir" "${TMUX_TMPDIR:-/tmp}/tmux-$(id -u)/${socket%-*}"-*
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

esc=$(printf '\033')
nl='
'

# The script that runs in the terminal: saves its state, runs the program, saves the status and the state again.  The
# home is empty.  The program is told of tmux only if $dir/in_tmux exists.
cat >"$dir/run" <<'EOF'
unset WEIR_MODEL DISPLAY WAYLAND_DISPLAY
[ -e "$dir/in_tmux" ] || unset TMUX
export HOME="$dir" XDG_STATE_HOME="$dir/state" XDG_CONFIG_HOME="$dir/config" XDG_CACHE_HOME="$dir/cache" XDG_DATA_HOME="$dir/data"
trap : INT   # Ctrl-C is for the program alone
stty -a >"$dir/before"
while [ -e "$dir/hold" ]; do sleep 0.05; done
"$weir" $how -m "$model" "$@"
echo $? >"$dir/status"
stty -a >"$dir/after"
echo "=== over ==="
exec cat
EOF

# start [ARGS]: open a new terminal of $columns x $rows that runs weir with these arguments, as soon as there is no file
# $dir/hold.
columns=80 rows=24
start() {
	mux kill-server
	turn=$((turn + 1))   # a server that is ending still has its socket for a moment
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
# ends_like ROW TEXT: true if the row ends like the text, which may be wrapped.
ends_like() {
	end=$2
	case $end in ????*) end=${end#"${end%???}"} ;; esac
	case $1 in *"$end") ;; *) return 1 ;; esac
}

# ---- the full screen ----

# input_row: the last row of the input line, above the hints.
input_row() { screen | tail -n 2 | head -n 1; }
written() { ends_like "$(input_row)" "$1"; }
# taken: the input line is empty, so the program has taken the text; from now on the hints tell whether it is working.
taken() { case $(input_row) in '>' | '> ') ;; *) return 1 ;; esac; }
# write TEXT: type it into the input line.  ask TEXT: also press Enter.
write() { type_text "$1"; wait_for written "$1"; }
ask() { write "$1"; key Enter; wait_for taken; }
# empty_line: Ctrl-C empties the input line.
empty_line() { key C-c; wait_for taken; }
# answered QUESTION: the line of figures is below it, and nothing runs.
answered() {
	at_rest && screen | awk -v asked="> $1" 'index($0, asked) == 1 { seen = 1; done = 0 } seen && /^\[[0-9]+ tokens, / { done = 1 } END { exit !done }'
}
# The state that the hints show.
at_rest() { case $(last_line) in 'F1 Help'*) ;; *) return 1 ;; esac; }
busy() { case $(last_line) in 'Esc Stop'*) ;; *) return 1 ;; esac; }
# leave KEY: quit with this key, at rest.
leave() { wait_for at_rest; key "$1"; wait_for ended; }

# ---- line mode ----

at_prompt() { [ "$(last_line)" = ">" ]; }
typed() { ! at_prompt && ends_like "$(last_line)" "$1"; }
# send_line TEXT: type it, wait until it is shown, press Enter.  The next prompt then comes after the output.
send_line() {
	type_text "$1"
	wait_for typed "$1" || return 1
	key Enter
}
# clear_screen: with Ctrl-L, so that no old text is taken for the next output.
clear_screen() { key C-l; wait_for only_a_prompt; }
only_a_prompt() { case $(screen | grep -v '^ *$') in '>' | '> ') ;; *) return 1 ;; esac; }

# ---- both ----

# With these options the default model's answer has no end: its first token becomes so likely that it is repeated.
endless='Repeat the letter a forever: a a a a a a a a a a a a a a a a'
without_end='--temp 0.01 --frequency-penalty -100 --loops go --speculate off -n 1000000'

# child_of PID: its first child, from /proc, because not every machine has pgrep.
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

# explain: print the screen. Each line begins with the four blanks that mark explanations for tests/run.sh.
explain() {
	[ -z "$explained" ] || { explained=; return 0; }
	screen | grep -v '^ *$' | tail -n 30 | sed 's/^/    | /'
	[ ! -e "$dir/status" ] || echo "    it ended with status $(cat "$dir/status")"
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
		if [ "$w" = -- ]; then
			eval "$words" || { echo "    it does not hold: $words"; return 1; }
			words=
		else words="$words '$(printf '%s\n' "$w" | sed "s/'/'\\\\''/g")'"; fi
	done
}
program() { child_of "$(mux display-message -p '#{pane_pid}')"; }

