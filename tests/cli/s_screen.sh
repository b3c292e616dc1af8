#!/bin/sh
# tests/cli/s_screen.sh - the full screen on a real terminal: tmux plays the user at 80x24 and other sizes.
#
# WEIR is the program (default ./weir), WEIR_TEST_MODEL the model; with WEIR_SOAK=1 it is killed in every state by every
# signal. Closes with "N passed, M failed, K skipped".
# Awaits a terminal: what is shown in time is tested.
set -u
weir=${WEIR:-./weir}
model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
how=

. "$(dirname "$0")/../lib/count.sh"
. "$(dirname "$0")/../lib/terminal.sh"

hides() { ! shows "$1"; }
# left_clean: the terminal is as before, and nothing of the program is left on it.
left_clean() { all wait_for ended -- cmp -s "$dir/before" "$dir/after" -- hides 'F1 Help'; }
# answering: an answer without an end is running, and other keys can be tried meanwhile.
answering() { wait_for shows ' answering '; }
# escape: leave a pane or a search, or stop what runs.
escape() { key Escape; wait_for at_rest; }

# ---- typed before the screen is up ----

touch "$dir/hold"
start --private --temp 0 -n 8
type_text 'What is the capital of Spain?'
key Enter
type_text 'and then'
wait_for shows '^and then'   # the terminal echoes it
rm "$dir/hold"
name="what is typed before the screen is up is sent, and the rest is the draft"
pass all wait_for answered 'What is the capital of Spain?' -- wait_for shows '^> and then'
empty_line
leave C-d

# ---- said before the screen is up ----

printf 'Caf\351 au lait costs 3 euros, na\357ve or not.\n' >"$dir/latin.txt"
start --private --temp 0 -n 8 "$dir/latin.txt"
wait_for at_rest
name="what is said before the screen is up stands on it"; pass shows 'not UTF-8'
name="the first screen says what the model is good for"; pass shows '^Good for .*quoting the sentence that answers'
leave C-d
how=--inline
start --private --temp 0 -n 8 "$dir/latin.txt"
wait_for at_rest
name="inline it stands once, above the screen"; pass test "$(screen | grep -c 'not UTF-8')" = 1
leave C-d
how=

# ---- copying, and the mouse ----

touch "$dir/in_tmux"
start --private --temp 0 -n 8
ask 'What is the capital of Spain?'
wait_for answered 'What is the capital of Spain?'
ask '/copy all'
name="inside tmux a copy says that tmux has it"; pass wait_for shows ' copied .* by tmux'
name="... and is in its buffer"
case $(mux show-buffer) in '> What is the capital of Spain?'*) ok "$name" ;; *) bad "$name" "$(mux list-buffers)" ;; esac
type_text "$esc[<0;2;24M"
name="the row of keys is clicked, without F8"; pass wait_for shows 'Keys everywhere'
escape
key F8
wait_for shows "the mouse is the terminal's"
name="... in private the config file is left alone"; pass test ! -e "$dir/config/weir/config"
leave C-d
rm "$dir/in_tmux"
start --temp 0 -n 8
ask 'What is the capital of Spain?'
wait_for answered 'What is the capital of Spain?'
ask '/copy'
name="elsewhere it says that the terminal may ignore it"; pass wait_for shows ' sent .* to the terminal.s clipboard, which it may ignore'
key F8
wait_for shows "the mouse is the terminal's"
name="F8 is remembered"; pass wait_for grep -q '^mouse = off' "$dir/config/weir/config"
leave C-d
rm "$dir/config/weir/config"

# ---- a first talk ----

start -s first $without_end -n 24
name="the screen comes up"; pass wait_for at_rest
name="it greets and says what the keys are"; pass shows 'Ctrl-D quits'
ask 'What is the capital of France?'
name="a question is answered"; pass wait_for answered 'What is the capital of France?'
name="the status row names session and tokens"; pass shows '^ first .* context [0-9]*% ([0-9]'
ask '/nonsense'
name="an unknown command is an error with advice"; pass wait_for shows "unknown command '/nonsense'"
write '/se'
name="commands are offered while one types"; pass wait_for shows '/sessions  *list sessions'
empty_line
ask '/set n 1000000'
wait_for shows '^\[n 1000000\]'
wait_for at_rest

ask "$endless"
name="while it answers the keys say how to stop"; pass wait_for busy
write 'typed meanwhile'
name="typing goes on while it answers"; pass all shows '^> typed meanwhile' -- busy
key Enter
name="what is sent meanwhile waits and is seen to"; pass wait_for shows '^queued: typed meanwhile'
key Up
name="and can be taken back"; pass all wait_for shows '^> typed meanwhile' -- hides '^queued:'
answering   # if stopped earlier, the question would be taken back
key C-c
wait_for at_rest
empty_line
name="Ctrl-C stops the answer, which stays"; pass all at_rest -- shows '\[stopped\]'
ask "$endless"
answering
ask '/stop'
name="/stop stops it as well"; pass wait_for at_rest

# ---- sizes ----

ask "$endless"
answering
name="resizing while it answers"
for size in 40x10 20x6 10x3 1x1 200x50 120x40 80x24; do
	mux resize-window -x "${size%x*}" -y "${size#*x}"
	case $size in
	*x[2-5][0-9]) wait_for busy ;;
	*) sleep 0.1 ;;   # too small for hints, so there is nothing to wait for
	esac
done
pass escape
mux resize-window -x 20 -y 6
name="20x6 shows prompt and tokens"; pass wait_for shows 'context [0-9]*%\|evicted'
mux resize-window -x 80 -y 24
wait_for at_rest

# ---- panes ----

key F2
name="F2 shows the cache below the talk"; pass all wait_for shows 'remembers ' -- shows 'forgot '
key F2
name="F2 again: the whole screen, explained"; pass wait_for shows 'panel .* ms'
key F2
name="and away"; pass all wait_for hides 'remembers ' -- wait_for at_rest
key F3
type_text 'letter a'
name="F3 finds words in the talk"; pass wait_for shows '^?letter a .* [1-9][0-9]* of [1-9]'
escape
ask '/fork second'
name="a fork has its own name"; pass wait_for shows '^ second '
wait_for at_rest
key F4
name="F4 lists the sessions"; pass all wait_for shows '^│\* second' -- wait_for shows '^│  first'
type_text 'firs'
name="which are filtered"; pass all wait_for hides '^│\* second' -- wait_for shows '^│> first'
key Enter
name="and gone on in, without reading again"; pass all wait_for shows '^ first ' -- wait_for shows 'restored .* 0 recomputed'
wait_for at_rest
ask '/set n 4'
wait_for shows '^\[n 4\]'
wait_for at_rest

# ---- a long paste ----

seq -f 'line %g of the paste' 200 >"$dir/paste"
mux load-buffer "$dir/paste"
mux paste-buffer -p
name="a paste of 200 lines is one character of the draft"; pass wait_for shows '> .pasted 200 lines.'
key Enter
one_message() { at_rest && shows '^\[4 tokens, ' && shows '^> line 1 of the paste \[+199 lines\]' && hides 'line 200 of the paste'; }
name="and one message, folded"; pass wait_for one_message
key F6
wait_for shows 'browse mode'
key z
name="which z unfolds"; pass wait_for shows '^  line 200 of the paste'
escape

# ---- coming and going ----

key F10
name="F10 ends with status 0, terminal as before"; pass all left_clean -- status_is 0
name="it says how to go on"; pass wait_for shows "^kept as '.*'; weir --continue goes on with it"
start --continue --temp 0 -n 24
name="--continue shows what was said, at once"; pass all wait_for shows 'line [0-9]* of the paste' -- wait_for at_rest
key C-d
name="Ctrl-D ends with status 0, terminal as before"; pass all left_clean -- status_is 0

# ---- killed with a draft ----

kept_draft() { [ "$(cat "$dir/state/weir/draft" 2>/dev/null)" = "$1" ]; }
start -s first --temp 0 -n 8
wait_for at_rest
type_text 'never sent'
wait_for kept_draft 'never sent'
kill -KILL "$(program)"
wait_for test -e "$dir/status"
start -s first --temp 0 -n 8
name="the draft of a killed weir is the draft again"; pass wait_for shows '^> never sent'
type_text ', or so'
wait_for kept_draft 'never sent, or so'
key F10
name="leaving in the ordinary way leaves none"; pass all left_clean -- test ! -e "$dir/state/weir/draft"

# ---- deleting, and undoing it ----

listed() { XDG_DATA_HOME="$dir/data" "$weir" sessions ls | grep -q " $1 "; }
not_listed() { ! listed "$1"; }
# Deleting can be undone for ten seconds. If the machine takes longer for the steps between, the test is repeated with
# another session.
late() { [ $(($(now_ms) - from)) -gt 9000 ]; }
or_late() { "$@" || late; }
begin() { start -s first --temp 0 -n 8; wait_for at_rest; }
# another NAME: make a session to delete.
another() {
	begin
	ask "/fork $1"
	wait_for shows "^ $1 "
	leave C-d
}
for doomed in second third fourth fifth; do
	listed $doomed || another $doomed
	begin
	ask "/delete $doomed"
	wait_for shows "^│delete '$doomed'? y/n"; asks=$?
	from=$(now_ms)
	type_text y
	all wait_for shows "^│deleted .$doomed.: Ctrl-U restores it" -- wait_for or_late hides "^│[ >*] $doomed"; gone=$?
	kill -KILL "$(program)"
	wait_for test -e "$dir/status"
	late || break
done
name="/delete asks where the name can be seen"; pass test $asks = 0
name="a deleted session is out of sight, and how to undo it is not"; pass test $gone = 0
name="killed within ten seconds it is still there"; pass listed $doomed
for doomed in "$doomed" sixth seventh eighth; do
	listed "$doomed" || another "$doomed"
	begin
	key F4
	wait_for shows "^│  $doomed"
	type_text "$doomed"
	wait_for shows "^│> $doomed"
	key C-d
	wait_for shows "^│delete '$doomed'"
	from=$(now_ms)
	type_text y
	# the row stays for a moment after the offer to undo is shown
	all wait_for shows "^│deleted '$doomed'" -- wait_for or_late hides "^│[ >] $doomed"
	key C-u
	wait_for or_late shows "^│[ >] $doomed"
	late || break
done
name="Ctrl-U brings it back"; pass shows "^│[ >] $doomed"
key Escape
wait_for shows '^│filter  *type to filter'
escape
ask "/delete $doomed"
wait_for shows "^│delete '$doomed'"
type_text y
wait_for shows "^│deleted '$doomed'"
name="ten seconds later it is gone"; pass all wait_for not_listed $doomed -- wait_for shows '^│filter'
escape
ask "/model $dir/none.gguf"
name="a model that cannot be opened leaves the one that is there"; pass wait_for shows '\[the model is as before: '"$(basename "$model" .gguf)"
wait_for at_rest
ask "/model $model"
name="another model says what it costs"; pass wait_for shows 'tokens will be recomputed'
wait_for at_rest
ask 'Still there?'
name="and goes on"; pass wait_for answered 'Still there?'
screen >"$dir/cut"
ask '/continue'
gone_on() { at_rest && ! screen | cmp -s - "$dir/cut"; }
name="an answer that was cut goes on"; pass all wait_for gone_on -- shows '^> Still there?' -- hides '^/continue'
ask '/undo'
name="/undo takes it back"; pass all wait_for shows '/redo restores' -- hides '^> Still there?'
wait_for at_rest
ask '/redo'
name="/redo brings it back"; pass wait_for shows '^> Still there?'
leave F10

cat >"$dir/editor" <<'EOF'
#!/bin/sh
echo 'and from the editor' >>"$1"
EOF
chmod +x "$dir/editor"
export EDITOR="$dir/editor"
start --private --temp 0 -n 8
wait_for at_rest
write 'from the line'
key C-g
name="Ctrl-G hands the draft to the editor"; pass all wait_for shows '  and from the editor' -- shows '> from the line'
empty_line
key C-l
name="Ctrl-L draws everything anew"; pass wait_for at_rest
# Two keys must come within a second and a half. If the machine paused between them, try again.
for _ in 1 2 3 4 5; do
	key C-c C-c
	soon ended || at_rest || wait_for ended
	! ended || break
done
name="Ctrl-C twice at an empty line ends"; pass all left_clean -- status_is 0
echo 'set editing-mode vi' >"$dir/.inputrc"
start --private --temp 0 -n 8
wait_for at_rest
write 'from vi'
key C-g
name="and in vi's insert mode, too"; pass all wait_for shows '> from vi' -- wait_for shows '  and from the editor'
key Escape
name="vi's command mode is seen"; pass wait_for shows '^: from vi'
type_text i
name="and so is insert mode"; pass wait_for shows '^> from vi'
empty_line
write '/editor some words'
key Enter
name="/editor begins with what stands behind it"; pass all wait_for shows '^> some words' -- shows '  and from the editor'
leave F10
rm "$dir/.inputrc"
unset EDITOR

# ---- signals ----

# die STATE SIGNAL STATUS: kill the program in that state and check that the terminal is as before.
die() {
	name="$2 $1: terminal as before"
	case ${SANITIZE:-}:$2 in
	*address*:QUIT|*address*:SEGV|*address*:ABRT|*address*:FPE)
		skip "$name" "where addresses are checked these signals are left to the checker"
		return ;;
	esac
	# shellcheck disable=SC2086 # words
	start --private $without_end
	wait_for at_rest || { bad "$name" "$(tail_of_screen)"; return; }
	case $1 in
	answering) ask "$endless"; answering ;;
	'beside the cache') key F2; wait_for shows 'remembers ' ;;
	'in the help') key F1; wait_for shows 'Keys everywhere' ;;
	esac
	kill "-$2" "$(program)"
	# SIGINT acts like the key: it stops or closes something or asks for a second one, but does not end the program
	if [ "$2" = INT ]; then
		case $1 in
		'at rest') soon shows 'Ctrl-C again quits' ;;   # for a second and a half
		answering) wait_for at_rest ;;
		*) wait_for hides 'remembers \|Keys everywhere' ;;
		esac
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
name="120x40"; pass wait_for at_rest
key F2
name="the cache stands beside the talk"; pass wait_for shows '│─ memory of the model'
key F10
left_clean
columns=80 rows=24
cat >"$dir/dumb" <<'EOF'
TERM=dumb exec "$weir" -m "$model" --private
EOF
mux kill-server
turn=$((turn + 1)) socket=${socket%-*}-$turn
env -u TMUX LC_ALL=C.UTF-8 XDG_CONFIG_HOME="$dir/config" tmux -u -L "$socket" -f /dev/null new-session -d -x 80 -y 24 "sh '$dir/dumb'"
name="TERM=dumb falls back to the line mode"; pass all wait_for shows '^>' -- hides 'F1 Help'

finish
