#!/bin/sh
# tests/cli/s_screen.sh - the full screen on a real terminal, as a user has it: tmux plays the user at 80x24 and other sizes.
#
# WEIR is the program (default ./weir), WEIR_TEST_MODEL the model; WEIR_SOAK=1 kills it in every state by every signal.  Closes with
# "N passed, M failed, K skipped".
# Awaits a terminal: what is shown in time is tested.
set -u
weir=${WEIR:-./weir}
model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
how=

. "$(dirname "$0")/../lib/count.sh"
. "$(dirname "$0")/../lib/terminal.sh"

hides() { ! shows "$1"; }
# The terminal as it was, and nothing of the program left on it.
left_clean() { all wait_for 20 ended -- cmp -s "$dir/before" "$dir/after" -- hides 'F1 Help'; }
# What follows too soon would be Alt and that key.
escape() { key Escape; sleep 0.2; }

# ---- typed before the screen is up ----

late=1
start --private --temp 0 -n 8
late=0
sleep 0.3
ask 'What is the capital of Spain?'
type_text 'and then'
name="what is typed before the screen is up is sent, and the rest is the draft"
pass all wait_for 60 shows '^> What is the capital of Spain?' -- wait_for 60 shows '^\[[0-9][0-9]* tokens, ' -- wait_for 5 shows '^> and then'
key C-c
key C-d
left_clean

# ---- said before the screen is up ----

printf 'Caf\351 au lait costs 3 euros, na\357ve or not.\n' >"$dir/latin.txt"
start --private --temp 0 -n 8 "$dir/latin.txt"
name="what is said before the screen is up stands on it"; pass wait_for 60 shows 'not UTF-8'
key C-d
left_clean

# ---- a first talk ----

start -s first --temp 0 --seed 1 -n 24
name="the screen comes up"; pass wait_for 60 at_rest
name="it greets and says what the keys are"; pass shows 'Ctrl-D quits'
ask 'What is the capital of France?'
name="a question is answered"; pass all wait_for 60 shows '^\[[0-9][0-9]* tokens, ' -- wait_for 20 at_rest
name="the status row names session and tokens"; pass shows '^ first .* context [0-9]*% ([0-9]'
ask '/nonsense'
name="an unknown command is an error with advice"; pass wait_for 10 shows "unknown command '/nonsense'"
type_text '/se'
name="commands are offered while one types"; pass wait_for 10 shows '/sessions  *list sessions'
key C-c
ask '/set n -1'
wait_for 10 at_rest

ask 'Write a very long story about a mill, a weir and a miller, with many chapters.'
name="while it answers the keys say how to stop"; pass wait_for 30 busy
type_text 'typed meanwhile'
name="typing goes on while it answers"; pass all wait_for 5 shows '^> typed meanwhile' -- busy
key Enter
name="what is sent meanwhile waits and is seen to"; pass wait_for 5 shows '^queued: typed meanwhile'
key Up
name="and can be taken back"; pass all wait_for 5 shows '^> typed meanwhile' -- hides '^queued:'
wait_for 30 shows ' answering '   # stopped before that, the question would be taken back
key C-c
wait_for 30 at_rest
key C-c
name="Ctrl-C stops the answer, which stays"; pass all wait_for 5 at_rest -- shows '\[stopped\]'

# ---- sizes ----

ask 'Tell it again, longer.'
wait_for 30 busy
name="resizing while it answers"
for size in 40x10 20x6 10x3 1x1 200x50 120x40 80x24; do
	mux resize-window -x "${size%x*}" -y "${size#*x}"
	sleep 0.1
done
escape
pass wait_for 10 at_rest
mux resize-window -x 20 -y 6
name="20x6 shows prompt and tokens"; pass wait_for 5 shows 'context [0-9]*%'
mux resize-window -x 80 -y 24
wait_for 5 at_rest

# ---- panes ----

key F2
name="F2 shows the cache below the talk"; pass all wait_for 10 shows 'remembers ' -- shows 'forgot '
key F2
name="F2 again: the whole screen, explained"; pass wait_for 10 shows 'panel .* ms'
key F2
name="and away"; pass all wait_for 10 hides 'remembers ' -- wait_for 5 at_rest
key F3
type_text 'capital'
name="F3 finds words in the talk"; pass wait_for 10 shows '[12] of [12]'
escape
ask '/fork second'
name="a fork has its own name"; pass wait_for 10 shows '^ second '
key F4
name="F4 lists the sessions"; pass all wait_for 10 shows '^│\* second' -- shows '^│  first'
type_text 'firs'
name="which are filtered"; pass all wait_for 5 hides '^│\* second' -- wait_for 5 shows '^│> first'
key Enter
name="and gone on in, without reading again"; pass all wait_for 10 shows '^ first ' -- wait_for 10 shows 'restored .* 0 recomputed'

# ---- a long paste ----

seq -f 'line %g of the paste' 200 >"$dir/paste"
mux load-buffer "$dir/paste"
mux paste-buffer -p
name="a paste of 200 lines is one character of the draft"; pass wait_for 10 shows '> .pasted 200 lines.'
key Enter
name="and one message"; pass wait_for 60 shows ' answering '
escape
wait_for 30 at_rest

# ---- coming and going ----

key F10
name="F10 ends with status 0, terminal as before"; pass all left_clean -- status_is 0
name="it says how to go on"; pass wait_for 5 shows "^kept as '.*'; weir --continue goes on with it"
start --continue --temp 0 -n 24
name="--continue shows what was said, at once"; pass all wait_for 30 shows 'line [0-9]* of the paste' -- wait_for 10 at_rest
key C-d
name="Ctrl-D ends with status 0, terminal as before"; pass all left_clean -- status_is 0

# ---- killed with a draft ----

kept_draft() { [ "$(cat "$dir/state/weir/draft" 2>/dev/null)" = "$1" ]; }
start -s first --temp 0 -n 8
wait_for 30 at_rest
type_text 'never sent'
wait_for 10 kept_draft 'never sent'
kill -KILL "$(program)"
wait_for 10 test -e "$dir/status"
start -s first --temp 0 -n 8
name="the draft of a killed weir is the draft again"; pass wait_for 30 shows '^> never sent'
type_text ', or so'
wait_for 10 kept_draft 'never sent, or so'
key F10
name="leaving in the ordinary way leaves none"; pass all left_clean -- test ! -e "$dir/state/weir/draft"

# ---- deleting, and undoing it ----

listed() { XDG_DATA_HOME="$dir/data" "$weir" sessions ls | grep -q " $1 "; }
not_listed() { ! listed "$1"; }
start -s first --temp 0 -n 8
wait_for 30 at_rest
ask '/delete second'
name="/delete asks where the name can be seen"; pass wait_for 10 shows "^│delete 'second' for good? y/n"
type_text y
name="a deleted session is out of sight, and how to undo it is not"; pass all wait_for 5 shows '^│deleted .second.: Ctrl-U restores it' -- wait_for 5 hides '^│[ >*] second'
kill -KILL "$(program)"
name="killed within ten seconds it is still there"; pass all wait_for 10 test -e "$dir/status" -- listed second
start -s first --temp 0 -n 8
wait_for 30 at_rest
key F4
wait_for 10 shows '^│  second'
key Down
wait_for 5 shows '^│> second' || key Down
wait_for 5 shows '^│> second'
key C-d
wait_for 5 shows "^│delete 'second'"
type_text y
wait_for 5 shows "^│deleted 'second'"
key C-u
name="Ctrl-U brings it back"; pass wait_for 5 shows '^│[ >] second'
escape
ask '/delete second'
wait_for 10 shows "^│delete 'second'"
type_text y
wait_for 5 shows "^│deleted 'second'"
name="ten seconds later it is gone"; pass all wait_for 20 not_listed second -- wait_for 5 shows '^│filter'
escape
wait_for 5 at_rest
ask "/model $dir/none.gguf"
name="a model that cannot be opened leaves the one that is there"; pass wait_for 20 shows '\[the model is as before: '
ask "/model $model"
name="another model says what it costs"; pass wait_for 60 shows 'tokens will be recomputed'
ask 'Still there?'
name="and goes on"; pass all wait_for 60 shows '^\[[0-9][0-9]* tokens, ' -- wait_for 20 at_rest
ask '/continue'
name="an answer that was cut goes on"; pass all wait_for 60 shows '^> Still there?' -- wait_for 20 at_rest -- hides '^/continue'
ask '/undo'
name="/undo takes it back"; pass all wait_for 10 hides '^> Still there?' -- shows '/redo restores'
ask '/redo'
name="/redo brings it back"; pass wait_for 10 shows '^> Still there?'
key F10
left_clean

cat >"$dir/editor" <<'EOF'
#!/bin/sh
echo 'and from the editor' >>"$1"
EOF
chmod +x "$dir/editor"
export EDITOR="$dir/editor"
start --private --temp 0 -n 8
wait_for 30 at_rest
type_text 'from the line'
wait_for 5 shows '^> from the line'
key C-g
name="Ctrl-G hands the draft to the editor"; pass all wait_for 10 shows '  and from the editor' -- shows '> from the line'
key C-c
key C-l
name="Ctrl-L draws everything anew"; pass wait_for 5 at_rest
key C-c
key C-c
name="Ctrl-C twice at an empty line ends"; pass all left_clean -- status_is 0
echo 'set editing-mode vi' >"$dir/.inputrc"
start --private --temp 0 -n 8
wait_for 30 at_rest
type_text 'from vi'
wait_for 5 shows '^> from vi'
key C-g
name="and in vi's insert mode, too"; pass all wait_for 10 shows '> from vi' -- shows '  and from the editor'
escape
name="vi's command mode is seen"; pass wait_for 5 shows '^: from vi'
type_text i
name="and so is insert mode"; pass wait_for 5 shows '^> from vi'
key C-c
ask '/editor some words'
name="/editor begins with what stands behind it"; pass all wait_for 10 shows '^> some words' -- shows '  and from the editor'
key F10
left_clean
rm "$dir/.inputrc"
unset EDITOR

# ---- signals ----

# die STATE SIGNAL STATUS: the program in that state is killed; whatever it was, the terminal is as before.
die() {
	name="$2 $1: terminal as before"
	case ${SANITIZE:-}:$2 in
	*address*:QUIT|*address*:SEGV|*address*:ABRT|*address*:FPE)
		skip "$name" "where addresses are checked these signals are left to the checker"
		return ;;
	esac
	start --private --temp 0 -n -1
	wait_for 30 at_rest || { bad "$name" "$(tail_of_screen)"; return; }
	case $1 in
	answering) ask 'Write a very long story.'; wait_for 20 busy ;;
	'beside the cache') key F2; wait_for 10 shows 'remembers ' ;;
	'in the help') key F1; wait_for 10 shows 'Keys everywhere' ;;
	esac
	kill "-$2" "$(program)"
	if [ "$2" = INT ]; then   # as the key: it stops, it does not end
		sleep 0.3
		key F10
	fi
	pass all left_clean -- status_is "$3"
}
for s in "TERM 143" "HUP 129" "INT 0" "QUIT 131" "SEGV 139" "ABRT 134" "FPE 136" "BUS 135"; do
	# shellcheck disable=SC2086 # two words
	die "at rest" $s
done
for s in "TERM 143" "SEGV 139" ${WEIR_SOAK:+"HUP 129" "INT 0" "QUIT 131" "ABRT 134" "FPE 136" "BUS 135"}; do
	for state in answering "beside the cache" "in the help"; do
		# shellcheck disable=SC2086 # two words
		die "$state" $s
	done
done

# ---- other terminals ----

columns=120 rows=40
start --private --temp 0 -n 8
name="120x40"; pass wait_for 30 at_rest
key F2
name="the cache stands beside the talk"; pass wait_for 10 shows '│─ memory of the model'
key F10
left_clean
columns=80 rows=24
cat >"$dir/dumb" <<'EOF'
TERM=dumb exec "$weir" -m "$model" --private
EOF
mux kill-server
turn=$((turn + 1)) socket=${socket%-*}-$turn
env -u TMUX LC_ALL=C.UTF-8 XDG_CONFIG_HOME="$dir/config" tmux -u -L "$socket" -f /dev/null new-session -d -x 80 -y 24 "sh '$dir/dumb'"
name="TERM=dumb falls back to the line mode"; pass all wait_for 30 shows '^>' -- hides 'F1 Help'

finish
