#!/bin/sh
# tests/cli/s_memory.sh - facts that are remembered in all conversations: /remember and /memory in line mode, on the full
# screen and inline; --json; what is left of a forgotten fact; private conversations.
#
# WEIR is the program (default ./weir).  Closes with "N passed, M failed, K skipped".
# Awaits a terminal: what is shown in time is tested.
set -u
weir=${WEIR:-./weir}
model=tests/vectors/models/llama-linear.gguf
how=

. "$(dirname "$0")/../lib/count.sh"
. "$(dirname "$0")/../lib/terminal.sh"
export WEIR_ENCODER=off
columns=120
begin() { start "$@" --temp 0 -n 6; }
alone() { env HOME="$dir" XDG_STATE_HOME="$dir/state" XDG_CONFIG_HOME="$dir/config" XDG_CACHE_HOME="$dir/cache" XDG_DATA_HOME="$dir/data" "$weir" -m "$model" -n 6 --temp 0 "$@"; }
today=$(LC_ALL=C date '+%e %B' | sed 's/^ //')

# ---- line mode ----

how=--line
begin -s garden
wait_for at_prompt
send_line '/memory'
name="nothing is remembered at first"; pass wait_for shows 'memory is off; nothing is remembered yet: /remember TEXT'
wait_for at_prompt
send_line '/remember'
name="/remember before anything was said is an error"; pass wait_for shows 'nothing was said yet to remember'
wait_for at_prompt
send_line 'My bicycle lock opens with quagga4711.'
wait_for shows '^\[[0-9][0-9]* tokens'
wait_for at_prompt
clear_screen
send_line '/remember'
name="/remember takes what was said last and switches the memory on"; pass wait_for shows 'remembered: "My bicycle lock opens with quagga4711."'
name="in the config file, too"; pass wait_for grep -q '^memory = on$' "$dir/config/weir/config"
wait_for at_prompt
send_line '/remember   The soil of the garden is heavy clay.'
name="/remember TEXT"; pass wait_for shows '\[remembered: "The soil of the garden is heavy clay."; /memory\]'
wait_for at_prompt
send_line '/remember The soil of the garden is heavy clay.'
name="not twice"; pass wait_for shows 'it was remembered already'
wait_for at_prompt
clear_screen
send_line '/memory forget'
name="/memory forget without a number is an error"; pass wait_for shows "there is no fact ''; /memory numbers them"
wait_for at_prompt
send_line '/memory frobnicate'
name="an unknown word is an error"; pass wait_for shows "/memory takes on, off, edit N or forget N"
wait_for at_prompt
key C-d
wait_for ended
name="what is to be remembered is not in the input history"
if grep -q '/remember' "$dir/state/weir/history"; then bad "$name" "$(cat "$dir/state/weir/history")"; else ok "$name"; fi

begin -s other
wait_for at_prompt
send_line 'What opens my bicycle lock?'
name="another conversation finds it and says where it is from"
pass wait_for shows "\[from 'garden', $today: \"My bicycle lock opens with quagga4711.\"\]"
wait_for shows '^\[[0-9][0-9]* tokens'
wait_for at_prompt
clear_screen
send_line 'Why is the sky blue?'
wait_for shows '^\[[0-9][0-9]* tokens'
name="a question about something else finds none"; if shows '^\[from '; then bad "$name" "$(tail_of_screen)"; else ok "$name"; fi
wait_for at_prompt
key C-d
wait_for ended

# ---- without a terminal ----

json=$(alone --json -p 'What opens my bicycle lock?' </dev/null 2>/dev/null)
name="--json lists it"
case $json in *'"facts":[{"id":1,"at":'*'"from":"garden","text":"My bicycle lock opens with quagga4711."}]'*) ok "$name" ;; *) bad "$name" "$json" ;; esac
alone -p 'What opens my bicycle lock?' </dev/null 2>"$dir/err" >/dev/null
name="so does standard error"; pass grep -q "^weir: from 'garden', $today: \"My bicycle lock" "$dir/err"
json=$(alone --json --private -p 'What opens my bicycle lock?' </dev/null 2>/dev/null)
name="a private conversation reads nothing"
case $json in *'"facts":[]'*) ok "$name" ;; *) bad "$name" "$json" ;; esac
before=$(cksum "$dir/data/weir/chat.db")
printf '/remember My pin is okapi5985.\n/memory\n/memory on\n/memory off\n/memory forget 1\n' | alone --private --each-line >"$dir/out" 2>"$dir/err"
name="and keeps nothing"
if [ "$(grep -c 'a private conversation neither reads nor keeps' "$dir/err")" = 5 ] && [ "$(cksum "$dir/data/weir/chat.db")" = "$before" ] &&
	! grep -rq okapi5985 "$dir/data" "$dir/state" "$dir/config"; then ok "$name"; else bad "$name" "$(cat "$dir/err")"; fi
json=$(alone --json --memory off -p 'What opens my bicycle lock?' </dev/null 2>/dev/null)
name="--memory off"
case $json in *'"facts":[]'*) ok "$name" ;; *) bad "$name" "$json" ;; esac

# ---- the full screen, inline ----

how=
begin
wait_for at_rest
ask 'What opens my bicycle lock?'
wait_for answered 'What opens my bicycle lock?'
name="screen: the fact is shown"; pass shows "from 'garden', $today: \"My bicycle lock"
leave F10
how=--inline
begin
wait_for at_rest
type_text 'What opens my bicycle lock?'
wait_for shows '^> What opens my bicycle lock?'
key Enter
name="inline: the fact is shown"; pass wait_for shows "from 'garden', $today: \"My bicycle lock"
wait_for at_rest
leave F10
how=
begin -s third
wait_for at_rest
ask '/memory'
name="screen: /memory lists the facts"; pass wait_for shows "  2  \"The soil of the garden is heavy clay.\" from 'garden'"
write '/memory edit 2' # not ask(), which waits for an empty input line
key Enter
name="screen: /memory edit N brings the fact into the input line"; pass wait_for written 'The soil of the garden is heavy clay.'
key BSpace
type_text ' and stones.'
wait_for written 'clay and stones.'
key Enter
name="screen: an edited fact"; pass wait_for shows '\[remembered: "The soil of the garden is heavy clay and stones."\]'
ask 'What opens my bicycle lock?'
wait_for answered 'What opens my bicycle lock?'

# ---- forgetting ----

ask '/memory forget 1'
name="screen: /memory forget"; pass wait_for shows 'forgotten for good: "My bicycle lock opens with quagga4711."'
ask 'What opens my bicycle lock?'
wait_for at_rest
leave F10
name="a forgotten fact is in no prompt that is kept"
"$weir" --version >/dev/null
left=$(for s in other third; do XDG_DATA_HOME="$dir/data" "$weir" sessions export json "$s"; done | grep -c quagga4711)
if [ "$left" = 0 ]; then ok "$name"; else bad "$name" "$left"; fi
XDG_DATA_HOME="$dir/data" "$weir" sessions rm garden >/dev/null 2>&1
name="nor in any file, once the session that told it is deleted"
if grep -rq quagga4711 "$dir/data" "$dir/state" "$dir/config"; then
	# what was said stays in the input history
	if [ "$(grep -rl quagga4711 "$dir/data" "$dir/state" "$dir/config")" = "$dir/state/weir/history" ]; then ok "$name"; else bad "$name" "$(grep -rl quagga4711 "$dir/data" "$dir/state" "$dir/config")"; fi
else ok "$name"; fi
XDG_DATA_HOME="$dir/data" "$weir" sessions check >"$dir/out" 2>&1
rc=$?
name="the store is whole"; if [ $rc = 0 ]; then ok "$name"; else bad "$name" "$(cat "$dir/out")"; fi
finish
