#!/bin/sh
# tests/cli/s_summarize.sh - /summarize by pipe, in line mode and on the screen: the summary, Ctrl-C, and the same command again.
#
# WEIR is the program (default ./weir). It uses a tiny model whose answers make no sense. Closes with "N passed, M
# failed, K skipped".
# Awaits a terminal: what is shown in time is tested.
# shellcheck disable=SC2086,SC2154 # $how is several words; dir comes from terminal.sh
set -u
weir=${WEIR:-./weir}
model=tests/vectors/models/llama-block32.gguf
how='--chat-template chatml --kv full -c 300000 -n 8'

. "$(dirname "$0")/../lib/count.sh"
. "$(dirname "$0")/../lib/terminal.sh"

# text BYTES: print words from a simple generator, always the same.
text() {   # BYTES
	awk -v most="$1" 'BEGIN {
		split("water wheel miller stone river grain over under beside slowly turned carried went found", w, " ")
		for (x = 7; n < most; n += length(line) + 1) {
			line = ""
			for (i = 0; i < 12; i++) { x = (x * 1103 + 12345) % 65521; line = line (i ? " " : "") w[x % 14 + 1] }
			print ++k " " line "."   # no two sections are the same
		}
	}'
}
chats() { XDG_DATA_HOME=$dir/data XDG_STATE_HOME=$dir/state XDG_CONFIG_HOME=$dir/config "$weir" -m "$model" --each-line $how "$@"; }
is() {   # NAME WANTED GOT
	if [ "$2" = "$3" ]; then ok "$1"; else bad "$1" "wanted '$2', got '$3': $(head -c 300 "$dir/err" | tr '\n' '|')"; fi
}
says() {   # NAME PATTERN
	if grep -q -e "$2" "$dir/err"; then ok "$1"; else bad "$1" "$(tail -c 300 "$dir/err" | tr '\n' '|')"; fi
}
program_of() {
	child=$(child_of "$1")
	echo "${child:-$1}"
}

text 5000 >"$dir/short.txt"
text 200000 >"$dir/book.txt"
text 2000000 >"$dir/long.txt"   # long enough to be stopped several times

# ---- by pipe ----

echo '/summarize 30' | chats -v -s short "$dir/short.txt" >"$dir/one" 2>"$dir/err"
is "a summary is printed" 0 $?
if [ -s "$dir/one" ]; then ok "on standard output"; else bad "on standard output" "$(cat "$dir/err")"; fi
says "and what it is of" "summary of 'short.txt', [0-9]* sections, in"
echo '/summarize short.txt 30' | chats -v -s short >"$dir/two" 2>"$dir/err"
if cmp -s "$dir/one" "$dir/two"; then ok "the same after a restart"; else bad "the same after a restart" "$(cat "$dir/two" "$dir/err")"; fi
says "without work" 'made before'
echo '/summarize 30' | chats --json -s short >"$dir/two" 2>"$dir/err"
if grep -q '^{.*"summary":"' "$dir/two"; then ok "--json prints an object"; else bad "--json prints an object" "$(cat "$dir/two" "$dir/err")"; fi
printf 'Who turned?\n' | chats --private --temp 0.9 --seed 3 "$dir/short.txt" >"$dir/one" 2>"$dir/err"
printf '/summarize 30\nWho turned?\n' | chats --private --temp 0.9 --seed 3 "$dir/short.txt" >"$dir/two" 2>"$dir/err"
if [ "$(tail -c "$(wc -c <"$dir/one")" "$dir/two")" = "$(cat "$dir/one")" ]; then ok "the answer behind it is the same"
else bad "the answer behind it is the same" "$(cat "$dir/one" "$dir/two")"; fi
echo '/summarize' | chats --private >"$dir/two" 2>"$dir/err"
is "no document is usage" 2 $?
says "and that is said" 'there is no document to summarize'

# A script can ask in words or by the command.
for asked in 'Summarise this.' 'Give me a summary of the document, please' '/summarize'; do
	XDG_DATA_HOME=$dir/data XDG_STATE_HOME=$dir/state XDG_CONFIG_HOME=$dir/config "$weir" -m "$model" $how --docs passages --private -p "$asked" <"$dir/short.txt" >"$dir/two" 2>"$dir/err"
	is "-p '$asked' summarizes standard input" 0 $?
	if [ -s "$dir/two" ]; then ok "and prints it"; else bad "and prints it" "$(cat "$dir/err")"; fi
done
XDG_DATA_HOME=$dir/data XDG_STATE_HOME=$dir/state XDG_CONFIG_HOME=$dir/config "$weir" -m "$model" $how --docs passages --private -p 'tl;dr' --json "$dir/book.txt" >"$dir/two" 2>"$dir/err"
if grep -q '^{"summary":".*,"text":".*,"answered":true}' "$dir/two"; then ok "--json has it as text, too"; else bad "--json has it as text, too" "$(cat "$dir/two" "$dir/err")"; fi
says "and how far it is stands on standard error" 'summarizing: section [0-9]* of [0-9]*'
XDG_DATA_HOME=$dir/data XDG_STATE_HOME=$dir/state XDG_CONFIG_HOME=$dir/config "$weir" -m "$model" $how -q --docs passages --private -p 'tl;dr' "$dir/short.txt" >"$dir/two" 2>"$dir/err"
if [ -s "$dir/err" ]; then bad "-q says nothing of that" "$(cat "$dir/err")"; else ok "-q says nothing of that"; fi

# After a stop it continues with the next section.
mkfifo "$dir/lines"
(echo '/summarize 30'; exec sleep 3600) >"$dir/lines" &
writer=$!
chats -v -s long --docs passages "$dir/long.txt" <"$dir/lines" >"$dir/one" 2>"$dir/err" &
program=$!
wait_for grep -q 'section [3-9][0-9]* of' "$dir/err"
kill -INT "$(program_of "$program")"
wait "$program"
is "Ctrl-C ends a pipe" 130 $?
says "and says how far it was" 'stopped: [0-9]* of [0-9]* sections are done; the same command goes on there'
if [ -s "$dir/one" ]; then bad "without a summary" "$(cat "$dir/one")"; else ok "without a summary"; fi
kill "$writer"
wait "$writer" 2>/dev/null
XDG_DATA_HOME=$dir/data "$weir" inspect session long >"$dir/two" 2>"$dir/err"
if grep -q '[0-9] summaries of sections' "$dir/two"; then ok "what was done is in the session"; else bad "what was done is in the session" "$(cat "$dir/two" "$dir/err")"; fi

# ---- line mode and the screen ----

start --line -s twice --docs passages "$dir/long.txt"
name="the document is searched"; pass all wait_for shows "document 'long.txt': about [0-9,]* tokens; questions search it" -- wait_for at_prompt
send_line '/summarize 30'
name="line mode shows how far it is"; pass wait_for shows 'summarizing: section [0-9]* of [0-9]*, [0-9]* [a-z]* left'
key C-c
name="Ctrl-C stops it"; pass all wait_for shows 'sections are done; the same command goes on there' -- wait_for at_prompt
send_line 'What is this about?'
name="it is offered"; pass all wait_for shows '/summarize reads all of it' -- wait_for at_prompt
key C-d
name="Ctrl-D quits"; pass wait_for ended
start -s twice
name="the screen is there"; pass wait_for at_rest
ask '/summarize 30'
name="the screen shows how far it is"; pass wait_for shows 'summarizing: section [0-9]* of'
key Escape
name="Esc stops it"; pass all wait_for at_rest -- wait_for shows 'sections are done; the same command goes on there'
ask 'Summarize this in 30 words.'
name="a request in words goes on there"; pass all wait_for shows 'summarizing: section' -- wait_for shows 'Summarize this in 30 words.'
key Escape
wait_for at_rest
done_before=$(screen | sed -n 's/.*stopped: \([0-9]*\) of .*/\1/p' | tail -n 1)
goes_on() { [ "$(screen | sed -n 's/.*summarizing: section \([0-9]*\) of.*/\1/p' | tail -n 1)" -gt "$done_before" ] 2>/dev/null; }
ask '/summarize 30'
name="the same command goes on there"; pass wait_for goes_on
key Escape
wait_for at_rest
leave C-d
start -s book --docs passages "$dir/book.txt"
wait_for shows "document 'book.txt': about"
wait_for at_rest
ask '/summarize 30'
name="it ends with a summary"; pass all wait_for 600 shows "summary of 'book.txt', [0-9]* sections" -- wait_for at_rest
key C-d
name="the screen is left"; pass wait_for ended

finish
