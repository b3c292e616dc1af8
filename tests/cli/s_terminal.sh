#!/bin/sh
# tests/cli/s_terminal.sh - the line mode on a real terminal: tmux plays the user at 80x24.
#
# WEIR is the program (default ./weir), WEIR_TEST_MODEL the model.  Closes with "N passed, M failed, K skipped".
# Awaits a terminal: what is shown in time is tested.
set -u
weir=${WEIR:-./weir}
model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
how=--line

. "$(dirname "$0")/../lib/count.sh"
. "$(dirname "$0")/../lib/terminal.sh"

# ---- a question and its answer ----

start --temp 0 --seed 1 -n 24
if ! wait_for at_prompt; then
	bad "a prompt comes up" "$(tail_of_screen)"
	finish
fi
ok "a prompt comes up"

send_line 'What is the capital of France?'
# the answer of a small model depends on the last bits of the arithmetic, so only check that there are words
answered() { at_prompt && screen | awk '/^\[[0-9]+ tokens, / { exit !words } seen && /[a-z][a-z]/ { words = 1 } /^> What is/ { seen = 1 }'; }
if wait_for shows '^\[[0-9][0-9]* tokens, ' && wait_for answered; then ok "a question is answered"
else bad "a question is answered" "$(tail_of_screen)"; fi

send_line '/nonsense'
if wait_for shows 'unknown command' && wait_for at_prompt; then ok "an unknown command is an error with advice"
else bad "an unknown command is an error with advice" "$(tail_of_screen)"; fi

send_line '/new idea for a story'
if wait_for shows 'takes no words' && wait_for at_prompt; then ok "/new with words after it forgets nothing"
else bad "/new with words after it forgets nothing" "$(tail_of_screen)"; fi

# ---- word wrap ----

send_line '/set n 120'
wait_for at_prompt
clear_screen
send_line 'Describe a river in one long paragraph.'
wait_for shows '^\[[0-9][0-9]* tokens, '
wait_for at_prompt
screen | sed -n '/^> Describe/,/^\[/p' | grep -v '^[>[]' >"$dir/answer"
full=$(awk 'length($0) == 80' "$dir/answer" | wc -l)
# one full line may be chance, but not three in one answer
if [ "$(wc -l <"$dir/answer")" -ge 4 ] && [ "$full" -lt 3 ]; then ok "answers are wrapped between words"
else bad "answers are wrapped between words" "$full lines are full to the border: $(tail_of_screen)"; fi
send_line "/system $(seq -s ' ' 10 30)"
wait_for shows 'prompt set'
mux resize-window -x 40 -y 24
send_line '/system'
if wait_for shows '^23 24 .* 30$' && wait_for shows '^10 11 .* 22$'; then ok "messages are wrapped between words"
else bad "messages are wrapped between words" "$(tail_of_screen)"; fi
mux resize-window -x 80 -y 24
send_line '/system ""'
wait_for at_prompt

# ---- a document that does not fit ----

seq 1 20000 >"$dir/long.txt"
send_line "/read $dir/long.txt"
if wait_for shows "document 'long.txt': about [0-9]" && wait_for at_prompt; then ok "a document that does not fit will be searched"
else bad "a document that does not fit will be searched" "$(tail_of_screen)"; fi
send_line "/drop 1"
wait_for shows "dropped 'long.txt'"

# ---- stop ----

# An answer without an end. Ctrl-C is timed; the time is only reported.
goes_on() {
	for setting in 'temp 0.01' 'frequency-penalty -100' 'loops go' 'n 1000000'; do
		send_line "/set $setting"
		wait_for at_prompt
	done
}
goes_on
clear_screen
send_line "$endless"
# begun: something other than the progress of reading is below the question, or has pushed it off the screen.
begun() { screen | awk '/ tokens  [0-9]+%/ { next } seen && /[a-zA-Z]/ { found = 1 } /^> .*(a a a a$|a mill and a weir)/ { seen = 1 } END { exit seen && !found }'; }
if wait_for begun && ! at_prompt; then
	before=$(now_ms)
	key C-c
	if wait_for at_prompt; then
		took=$(($(now_ms) - before))
		if shows '\[stopped\]'; then ok "Ctrl-C stops a long answer ($took ms)"
		else bad "Ctrl-C stops a long answer" "after $took ms: $(tail_of_screen)"; fi
	else
		bad "Ctrl-C stops a long answer" "no prompt: $(tail_of_screen)"
	fi
else
	bad "Ctrl-C stops a long answer" "the answer never began, or was over at once: $(tail_of_screen)"
fi

send_line '/stats'
if wait_for shows '^so far  *6 messages' && wait_for at_prompt; then ok "/stats works after a stop"
else bad "/stats works after a stop" "$(tail_of_screen)"; fi

# the conversation still works after ten stops in a row
i=0
while [ $i -lt 10 ]; do
	i=$((i + 1))
	clear_screen
	send_line "$i: $endless"
	wait_for begun || break
	key C-c
	wait_for at_prompt || break
done
if [ $i = 10 ] && at_prompt; then ok "ten stops in a row"
else bad "ten stops in a row" "number $i: $(tail_of_screen)"; fi

# One Ctrl-C never ends the program, at any moment of a short turn, even at its very end.
alive() { ! [ -e "$dir/status" ]; }
if ! alive; then start --temp 0 --seed 1 -n 24 && wait_for at_prompt; fi
clear_screen
send_line '/set n 3'
wait_for at_prompt
i=0
while [ $i -lt 40 ] && alive; do
	i=$((i + 1))
	clear_screen
	send_line "Tell me number $i of your stories about a mill and a weir" || break
	if [ $((i % 4)) = 0 ]; then sleep 0.$((i % 10)); else wait_for begun; fi
	key C-c
	wait_for at_prompt || break
done
if [ $i = 40 ] && alive; then ok "Ctrl-C at any moment of a turn"
else bad "Ctrl-C at any moment of a turn" "number $i: $(tail_of_screen)"; fi
if ! alive; then start --temp 0 --seed 1 -n 24 && wait_for at_prompt; fi

# ---- the line ----

clear_screen
type_text 'half a question'
wait_for typed 'half a question'
key C-c
if wait_for at_prompt && ! ended; then ok "Ctrl-C clears a draft"
else bad "Ctrl-C clears a draft" "$(tail_of_screen)"; fi
key Up
if wait_for typed 'half a question'; then ok "the cleared draft is in the history"
else bad "the cleared draft is in the history" "$(tail_of_screen)"; fi
key C-u
wait_for at_prompt

# A bracketed paste of several lines is one message.
mux set-buffer -b paste "/system pasted one${nl}pasted two"
mux paste-buffer -p -b paste
if wait_for shows 'pasted two' && ! shows 'system prompt set'; then ok "a paste does not send itself"
else bad "a paste does not send itself" "$(tail_of_screen)"; fi
key Enter
wait_for at_prompt

# ---- questions of our own, and the editor ----

send_line '/rename terminal'
wait_for shows "this session is called"
clear_screen
send_line '/delete'
if wait_for shows "^delete session 'terminal' ([0-9]* messages)? y/n"; then ok "/delete asks"
else bad "/delete asks" "$(tail_of_screen)"; fi
type_text n
key Enter
if wait_for shows 'it stays' && wait_for at_prompt; then ok "and takes no for an answer"
else bad "and takes no for an answer" "$(tail_of_screen)"; fi
# Deleting can be undone for ten seconds. If the machine takes longer for the steps between, the test is repeated with
# another session.
late() { [ $(($(now_ms) - from)) -gt 9000 ]; }
restored() { shows "'terminal' is there again" && shows 'restored' && at_prompt; }
restored_or_late() { restored || { late && at_prompt; }; }
for _ in 1 2 3 4; do
	clear_screen
	send_line '/delete terminal'
	wait_for shows '^delete session .* y/n'
	from=$(now_ms)
	type_text y
	key Enter
	wait_for shows '/undelete restores it'
	wait_for at_prompt
	send_line '/sessions'
	wait_for shows 'there is no session yet'
	wait_for at_prompt
	send_line '/undelete'
	wait_for restored_or_late
	if restored || ! late; then break; fi
	send_line 'Something to keep.'
	wait_for at_prompt
	send_line '/rename terminal'
	wait_for at_prompt
done
if restored; then ok "a deletion is undone"
else bad "a deletion is undone" "$(tail_of_screen)"; fi
clear_screen
send_line '/edit'
# edits: the question is in the input line, to be changed.
edits() { case $(last_line) in '> '?*) ;; *) return 1 ;; esac; }
if wait_for shows 'is undone to be asked differently' && wait_for edits; then ok "/edit puts the last question into the line"
else bad "/edit puts the last question into the line" "$(tail_of_screen)"; fi
key C-u
wait_for at_prompt
printf '#!/bin/sh\nprintf "edited " >"$1.new"; cat "$1" >>"$1.new"; mv "$1.new" "$1"\n' >"$dir/editor"
chmod +x "$dir/editor"
send_line '/redo'
wait_for shows 'there again'

# ---- resize ----

for size in 20x6 10x3 200x50 80x24; do
	mux resize-window -x "${size%x*}" -y "${size#*x}"
	sleep 0.2
done
send_line '/help'
if wait_for shows '^/undelete .*restore' && wait_for at_prompt; then ok "the prompt survives resizing down to 10x3"
else bad "the prompt survives resizing down to 10x3" "$(tail_of_screen)"; fi

# During an answer no input is read, so the next input line must read the width itself.
goes_on
clear_screen
send_line "$endless"
wait_for begun
mux resize-window -x 30 -y 24
tty=$(mux display-message -p '#{pane_tty}')
is_30_wide() { [ "$(stty size <"$tty")" = "24 30" ]; }
wait_for is_30_wide
key C-c
wait_for at_prompt
type_text 'a line that takes two rows of thirty columns'
wait_for shows '^f thirty columns$'
key C-u
gone() { at_prompt && ! shows 'a line that takes'; }
if wait_for gone; then ok "a resize during an answer is known to the next line"
else bad "a resize during an answer is known to the next line" "$(tail_of_screen)"; fi
mux resize-window -x 80 -y 24

# ---- lines typed during an answer ----

send_line '/set n 400'
wait_for at_prompt
clear_screen
send_line "$endless"
mux send-keys quit Enter /nothing Enter
if wait_for shows "unknown command '/nothing'" && wait_for at_prompt; then ok "a line typed ahead does not begin with a draft"
else bad "a line typed ahead does not begin with a draft" "$(tail_of_screen)"; fi
send_line '/set n 24'
wait_for at_prompt

# ---- the end ----

ends_well() {   # NAME STATUS
	if ! wait_for ended; then bad "$1" "still running: $(tail_of_screen)"
	elif ! status_is "$2"; then bad "$1" "status $(cat "$dir/status"), expected $2"
	elif ! cmp -s "$dir/before" "$dir/after"; then bad "$1" "terminal settings differ: $(diff "$dir/before" "$dir/after" | tr '\n' ' ')"
	else ok "$1"; fi
}
send_line '/quit'
ends_well "/quit ends with status 0, terminal as before" 0

export EDITOR="$dir/editor"
start --temp 0 -n 8
wait_for at_prompt
type_text 'a line'
wait_for typed 'a line'
key C-g
if wait_for shows '^> edited a line$'; then ok "Ctrl-G hands the line to the editor"
else bad "Ctrl-G hands the line to the editor" "$(tail_of_screen)"; fi
key C-u
unset EDITOR
key C-d
ends_well "Ctrl-D ends with status 0, terminal as before" 0

# The two keys must come within a second and a half. If the machine paused between them, another one follows.
start --temp 0 -n 8
wait_for at_prompt
again_or_over() { ended || [ "$(screen | grep -c 'Ctrl-C again')" -ge "$i" ]; }
i=0
while [ $i -lt 10 ] && ! ended; do
	i=$((i + 1))
	key C-c
	wait_for again_or_over
done
ends_well "Ctrl-C twice at an empty prompt ends, terminal as before" 0

# If another weir has the session open, one key chooses: read it without saving, wait, or quit.
mkfifo "$dir/pipe"
HOME="$dir" XDG_STATE_HOME="$dir/state" XDG_CONFIG_HOME="$dir/config" XDG_CACHE_HOME="$dir/cache" XDG_DATA_HOME="$dir/data" \
	"$weir" -m "$model" --each-line -n 4 -s held <"$dir/pipe" >/dev/null 2>&1 &
holder=$!
trap 'kill $holder 2>/dev/null; cleanup' EXIT
exec 9>"$dir/pipe"
echo 'The first question.' >&9
kept() { XDG_DATA_HOME="$dir/data" "$weir" sessions show held 2>&1; }
is_kept() { kept | grep -q "$1"; }
wait_for is_kept 'The first question'
start --temp 0 -n 8 -s held
if wait_for shows "another weir (process $holder) has this session open" && wait_for shows '\[R\]ead it'; then ok "a second weir asks what to do"
else bad "a second weir asks what to do" "$(tail_of_screen)"; fi
type_text xr
wait_for at_prompt
if shows 'The first question'; then ok "one key, and it reads the session"
else bad "one key, and it reads the session" "$(tail_of_screen)"; fi
send_line 'A question that nobody keeps.'
wait_for at_prompt
send_line '/rename other'
if wait_for shows "only read here: another weir (process $holder) writes it"; then ok "and changes nothing"
else bad "and changes nothing" "$(tail_of_screen)"; fi
key C-d
ends_well "a second weir ends with status 0, terminal as before" 0
if is_kept 'nobody keeps'; then bad "a second weir has saved nothing" "$(kept)"
else ok "a second weir has saved nothing"; fi
start --temp 0 -n 8 -s held
wait_for shows '\[q\]uit'
type_text q
ends_well "a second weir is left at once" 130
start --temp 0 -n 8 -s held
wait_for shows '\[q\]uit'
type_text n
wait_for at_prompt
send_line 'Another session at the same time.'
wait_for at_prompt
key C-d
ends_well "a second weir has a session of its own beside it" 0
start --temp 0 -n 8 -s held
wait_for shows '\[q\]uit'
type_text w
wait_for shows 'waiting until it is left there'
kill "$holder"
wait "$holder" 2>/dev/null
exec 9>&-
trap cleanup EXIT
wait_for at_prompt
send_line 'A question that is kept.'
wait_for at_prompt
if wait_for is_kept 'that is kept'; then ok "a second weir that waits goes on with the session"
else bad "a second weir that waits goes on with the session" "$(tail_of_screen)"; fi
key C-d
ends_well "and ends with status 0" 0

# SIGTERM at the prompt and during an answer.  The pane's shell is the parent of the program.
child() { child_of "$(mux display-message -p '#{pane_pid}')"; }
start --temp 0 -n 8
wait_for at_prompt
kill -TERM "$(child)"
ends_well "SIGTERM at the prompt ends with 143, terminal as before" 143

# shellcheck disable=SC2086 # words
start $without_end
wait_for at_prompt
send_line "$endless"
wait_for begun
kill -TERM "$(child)"
ends_well "SIGTERM during an answer ends with 143, terminal as before" 143

# ---- hostile text ----

# A document and a file name that try to set colours, clear the screen, set the title and fill the clipboard.
evil="$dir/evil${esc}[31m${esc}]0;OWNED$(printf '\007').txt"
if ! printf 'Say \033[31mRED\033[0m \033[2J\033]0;OWNED\007 \033]52;c;T1dORUQ=\007 \302\233\061m \342\200\256now\r\b\b\bthen \342\200\213hid\342\200\213den\n' >"$evil"; then
	skip "hostile text" "the file system refuses such a name"
else
	harmless() {   # NAME: check that nothing of it had an effect on the terminal
		if mux capture-pane -p -e -S - | grep -q "$esc"; then
			bad "$1" "escapes on the screen: $(mux capture-pane -p -e -S - | grep "$esc" | head -n 2 | tr "$esc" '^')"
		elif [ "$(mux display-message -p '#{pane_title}')" = OWNED ]; then bad "$1" "it set the title"
		elif mux show-buffer | grep -q OWNED; then bad "$1" "it filled the clipboard"
		else ok "$1"; fi
	}
	start --temp 0 -n 24
	wait_for at_prompt
	mux set-option -g set-clipboard on
	# completion does not offer a name with control characters, so a pattern is used to read it
	type_text "/read $dir/evil"
	key Tab
	type_text '*'
	key Enter
	if wait_for shows 'read in [0-9]' && wait_for at_prompt; then
		harmless "a hostile name does nothing to the terminal"
		if shows 'evil^\[\[31m^\[\]0;OWNED^G.txt.*hidden characters'; then ok "hidden characters of a document are reported"
		else bad "hidden characters of a document are reported" "$(tail_of_screen)"; fi
		send_line 'Repeat the document word for word.'
		wait_for at_prompt
		harmless "a hostile document does nothing to the terminal"
	else
		bad "a hostile document does nothing to the terminal" "it was not read: $(tail_of_screen)"
	fi
	# control characters typed with Ctrl-V are shown again as text
	type_text '/system be '
	key C-v Escape
	type_text '[31mred'
	key C-v C-g Enter
	wait_for shows 'prompt set'
	send_line '/system'
	wait_for shows '^be '
	wait_for at_prompt
	harmless "a hostile system prompt does nothing to the terminal"
	send_line '/quit'
	wait_for ended
fi
finish
