#!/bin/sh
# tests/cli/s_read.sh - weir read: files, pipes and standard input of any length, stopped, asked about and continued, in
# constant memory.
#
# WEIR is the program (default ./weir). It uses a tiny model whose answers make no sense, but which reads 50,000 tokens
# a second. Closes with "N passed, M failed, K skipped".
# Awaits a terminal: what is shown in time is tested.
# shellcheck disable=SC2086,SC2154 # $how is several words; dir comes from terminal.sh
set -u
weir=${WEIR:-./weir}
model=tests/vectors/models/llama-block32.gguf
how='--chat-template chatml --temp 0 -n 8'

. "$(dirname "$0")/../lib/count.sh"
. "$(dirname "$0")/../lib/terminal.sh"

# text BYTES: print words from a simple generator, always the same.
text() {   # BYTES
	awk -v most="$1" 'BEGIN {
		split("water wheel miller stone river grain over under beside slowly turned carried went found", w, " ")
		for (x = 7; n < most; n += length(line) + 1) {
			line = ""
			for (i = 0; i < 12; i++) { x = (x * 1103 + 12345) % 65521; line = line (i ? " " : "") w[x % 14 + 1] }
			print line "."
		}
	}'
}
reads() { XDG_DATA_HOME=$dir/data XDG_STATE_HOME=$dir/state XDG_CONFIG_HOME=$dir/config "$weir" read -m "$model" $how "$@"; }
is() {   # NAME WANTED GOT
	if [ "$2" = "$3" ]; then ok "$1"; else bad "$1" "wanted '$2', got '$3': $(head -c 300 "$dir/err" | tr '\n' '|')"; fi
}
says() {   # NAME PATTERN
	if grep -q -e "$2" "$dir/err"; then ok "$1"; else bad "$1" "$(head -c 300 "$dir/err" | tr '\n' '|')"; fi
}

# pour: write text into the FIFO and keep it open, so that the reader waits for more.  Empties $dir/err, so that earlier
# messages are not taken for those of the next reader.
pour() {   # BYTES [LINE AFTER THEM]
	: >"$dir/err"
	(text "$1"; [ -z "${2:-}" ] || echo "$2"; exec sleep 3600) >"$dir/slow" &
	writer=$!
}
stop_pouring() { kill "$writer"; wait "$writer" 2>/dev/null; }
# program_of: the program is the shell's child or has replaced the shell.
program_of() {
	child=$(child_of "$1")
	echo "${child:-$1}"
}

text 30000 >"$dir/text"
mkfifo "$dir/slow"

# ---- without a terminal ----

reads "$dir/text" -p 'What turned?' >"$dir/one" 2>"$dir/err" </dev/null
is "one answer behind a whole file" 0 $?
reads - -p 'What turned?' <"$dir/text" >"$dir/two" 2>"$dir/err"
is "standard input is the text" 0 $?
cat "$dir/text" | reads - -p 'What turned?' >"$dir/three" 2>"$dir/err"
if [ -s "$dir/one" ] && cmp -s "$dir/one" "$dir/two" && cmp -s "$dir/one" "$dir/three"; then ok "the answer is the same from a file, as input and from a pipe"
else bad "the answer is the same from a file, as input and from a pipe" "$(head -c 100 "$dir/one" "$dir/two" "$dir/three")"; fi
printf 'What turned?\n\nWho?\n' | reads --each-line --json "$dir/text" >"$dir/two" 2>"$dir/err"
is "lines of standard input are questions" "0 2" "$? $(grep -c '"text"' "$dir/two")"
reads "$dir/text" -p 'What turned?' --json >"$dir/one" 2>"$dir/err" </dev/null
reused=$(sed 's/.*"reused_tokens":\([0-9]*\).*/\1/' "$dir/one") prompt=$(sed 's/.*"prompt_tokens":\([0-9]*\).*/\1/' "$dir/one")
if [ "$reused" -gt 20000 ] && [ $((prompt - reused)) -lt 200 ]; then ok "the question reads nothing again"
else bad "the question reads nothing again" "$reused of $prompt tokens were there"; fi

# ---- sources: passages of what was read ----

(text 90000; echo 'The rabbi found a silver spoon under the bridge.'; text 70000) >"$dir/spoon.txt"
reads "$dir/spoon.txt" -p 'What of the silver spoon, rabbi?' >"$dir/one" 2>"$dir/err" </dev/null
line=$(grep -n rabbi "$dir/spoon.txt" | cut -d: -f1)
says "an answer names the passage and its line" "^\[1\] spoon.txt, lines $line-[0-9]*: \"The rabbi found a silver spoon"
reads --each-line - -p 'What of the silver spoon, rabbi?' <"$dir/spoon.txt" >"$dir/one" 2>"$dir/err"
says "of standard input, too" "^\[1\] standard input, lines $line-[0-9]*: \"The rabbi"
printf 'What of the silver spoon, rabbi?\nWho?\nAnd the spoon of silver, the rabbi found?\n' | reads --each-line --json "$dir/spoon.txt" >"$dir/two" 2>"$dir/err"
is "and in JSON, for later questions, too" 2 "$(grep -c '"passages":\[{"doc":"spoon.txt",.*rabbi' "$dir/two")"

reads "$weir" -p x >"$dir/one" 2>"$dir/err" </dev/null
is "a program is no text" 4 $?
says "and that is said" 'is a program'
head -c 20000 /dev/zero | reads - -p x >"$dir/one" 2>"$dir/err"
is "nor are zeros" 4 $?
reads --kv full "$dir/text" -p x >"$dir/one" 2>"$dir/err" </dev/null
is "a cache that ends is refused" 2 $?
says "with advice" '--kv auto'
reads -p x >"$dir/one" 2>"$dir/err" </dev/null
is "it wants a file" 2 $?
reads "$dir/text" "$dir/text" -p x >"$dir/one" 2>"$dir/err" </dev/null
is "and one alone" 2 $?

# Documents of other formats are imported first: the answer about a page is that about its text.
{ printf '<html><body><p>'; text 9000; printf '</p></body></html>'; } >"$dir/page.html"
printf %s "$("$weir" inspect document "$dir/page.html" 2>"$dir/err")" >"$dir/page.txt"
reads "$dir/page.txt" --json -p 'What turned?' >"$dir/one" 2>"$dir/err" </dev/null
reads "$dir/page.html" --json -p 'What turned?' >"$dir/two" 2>"$dir/err" </dev/null
is "a page of HTML is read" 0 $?
gzip -c "$dir/page.html" | reads - --json -p 'What turned?' >"$dir/three" 2>"$dir/err"
is "also compressed and from a pipe" 0 $?
tokens_of() { sed 's/.*"prompt_tokens":\([0-9]*\).*/\1/' "$1"; }
is "as its text" "$(tokens_of "$dir/one") $(tokens_of "$dir/one")" "$(tokens_of "$dir/two") $(tokens_of "$dir/three")"
reads tests/fuzz/documents/package.epub -p x >"$dir/one" 2>"$dir/err" </dev/null
is "an EPUB is read" 0 $?
printf '%%PDF-1.7 nothing' | reads - -p x >"$dir/one" 2>"$dir/err"
is "a broken PDF is refused" 4 $?
is "in one line" 1 "$(grep -c . "$dir/err")"
(text 3000; sleep 0.5; text 3000; sleep 0.5; echo the end) >"$dir/slow" &
reads "$dir/slow" -p 'Who?' >"$dir/one" 2>"$dir/err" </dev/null
is "a pipe that grows slowly is read to its end" 0 $?
wait
pour 200000
reads "$dir/slow" -v -p 'Who?' >"$dir/one" 2>"$dir/err" </dev/null &
reader=$!
wait_for grep -q 'waiting for more' "$dir/err"
kill -INT "$(program_of "$reader")"
wait "$reader"
is "Ctrl-C while it waits ends it" 130 $?
stop_pouring

# ---- memory: the text and its tokens may grow, nothing else ----

tokens_waited() { grep 'waiting for more' "$dir/err" | tail -n 1 | sed 's/.*more, \([0-9,]*\) tokens.*/\1/; s/,//g'; }
# has_read BYTES: one token for each byte.  When text comes slowly, weir also waits for more in between.
has_read() { [ "$(tokens_waited)" -ge "$1" ] 2>/dev/null; }
rss_at() {   # BYTES: sets rss (in KiB, after everything was read) and tokens
	pour "$1"
	reads "$dir/slow" -v -p x >/dev/null 2>"$dir/err" </dev/null &
	reader=$!
	wait_for has_read "$1"
	rss=$(awk '/^VmRSS/ { print $2 }' "/proc/$(program_of "$reader")/status")
	tokens=$(tokens_waited)
	stop_pouring
	wait "$reader"
}
# This model makes one token of each byte: 1 byte of text, 4 of its id, 1 of its mark, and a quarter more that growing
# lists leave unused.  The number of pages touched varies by some hundred KiB, so several tries are allowed: real growth
# shows each time.  Both texts are long enough that everything that happens once has happened.
for try in 1 2 3; do
	rss_at 110000; rss_small=$rss tokens_small=$tokens
	rss_at 310000; rss_large=$rss tokens_large=$tokens
	own=$(((tokens_large - tokens_small) * 6 * 5 / 4 / 1024))
	echo "    RSS $rss_small KiB after $tokens_small tokens, $rss_large KiB after $tokens_large; text and tokens are $own KiB at most"
	[ $((rss_large - own)) -le $((rss_small * 102 / 100)) ] && break
done
if [ "${tokens_large:-0}" -gt 180000 ] && [ $((rss_large - own)) -le $((rss_small * 102 / 100)) ]; then ok "memory does not grow with the text"
elif [ -n "${SANITIZE:-}" ]; then skip "memory does not grow with the text" "a sanitizer keeps what was freed"
else bad "memory does not grow with the text" "$rss_small KiB, then $rss_large KiB"; fi

# ---- line mode ----

start_read() {
	sub=$how
	how="read $sub"
	sed -i 's/"\$weir" \$how -m/"$weir" $how -m/' "$dir/run"
	start "$@"
	how=$sub
}
pour 3000
start_read --line --private "$dir/slow"
name="line mode waits for more"; pass wait_for shows 'waiting for more, [0-9,]* tokens'
key C-c
name="Ctrl-C gives the prompt and says how far it is"; pass all wait_for shows 'paused after [0-9,]* tokens' -- wait_for at_prompt
send_line 'Who turned?'
name="a question is answered"; pass all wait_for shows '^\[[0-9]* tokens, ' -- wait_for at_prompt
send_line '/pause'
name="/pause has nothing to pause"; pass all wait_for shows 'paused already' -- wait_for at_prompt
clear_screen
send_line "/more"
name="/more reads on"; pass wait_for shows 'waiting for more'
stop_pouring
name="the end is said"; pass all wait_for shows "the end of '.*slow'" -- wait_for at_prompt
key C-d
name="Ctrl-D quits"; pass wait_for ended

# ---- questions beside a text, in a session: each is stored, the text once ----

answers() { [ "$(screen | grep -c '^\[[0-9]* tokens, ')" = "$1" ]; }
pour 9000
start_read --line -s beside "$dir/slow"
wait_for shows 'waiting for more'
key C-c
wait_for shows 'paused after'
wait_for at_prompt
send_line 'Who turned?'
wait_for answers 1
wait_for at_prompt
clear_screen
send_line "/more"
wait_for shows 'waiting for more, 9,[0-9]* tokens'   # all of it
key C-c
wait_for at_prompt
send_line 'What turned?'
name="a second question is answered beside the text"; pass all wait_for answers 1 -- wait_for at_prompt
stop_pouring
key C-d
wait_for ended
stored=$(find "$dir" -name chat.db)
is "its text is stored once" 1 "$(grep -ao "$(text 500 | sed -n 4p)" "$stored" | wc -l)"
XDG_DATA_HOME=${stored%/weir/chat.db} "$weir" sessions export txt beside >"$dir/one" 2>"$dir/err" </dev/null
text 9000 >"$dir/two"
if grep -q 'What turned?' "$dir/one" && [ "$(grep -cFf "$dir/two" "$dir/one")" -ge "$(wc -l <"$dir/two")" ]; then ok "and the session has all of it before the last question"
else bad "and the session has all of it before the last question" "$(head -c 300 "$dir/one"; cat "$dir/err")"; fi

# ---- the full screen ----

pour 3000 'The rabbi found a silver spoon.'
start_read --private "$dir/slow"
name="the screen shows what is read"; pass wait_for shows 'miller'
name="and how far"; pass wait_for shows 'waiting [0-9,]*'
ask 'Who turned?'
name="a question does not wait"; pass wait_for shows '^\[[0-9]* tokens, '
name="and reading goes on by itself"; pass wait_for shows 'waiting [0-9,]*'
ask 'What of the silver spoon, rabbi?'
name="its source is shown on the screen"; pass wait_for shows '\[1\] slow, line [0-9]*: "The rabbi'
wait_for shows 'waiting [0-9,]*'
key F7
name="F7 opens the text there"; pass wait_for shows 'slow.*searched for each question'
key Escape
wait_for shows '> What of'
key Escape
name="Esc stops it"; pass wait_for shows 'paused after'
name="and it is at rest"; pass wait_for at_rest
ask "/more"
name="/more goes on"; pass wait_for shows 'waiting [0-9,]*'
ask '/pause'
name="/pause stops it, too"; pass wait_for at_rest
ask "/on"
name="and /on, its other name, goes on again"; pass wait_for shows 'waiting [0-9,]*'
stop_pouring
name="the end is said on the screen"; pass all wait_for shows 'the end of' -- wait_for at_rest
key C-d
name="the screen is left"; pass wait_for ended

# ---- stopping an import ----

# A page that takes four seconds to parse on an idle machine.  Its parser is stopped as soon as it is found, so that it
# never ends by itself.
awk 'BEGIN { print "<html><body>"; for (i = 0; i < 1200000; i++) printf "<div><p>Some <b>words</b> of <i>a</i> page &amp; more" }' >"$dir/big.html"
parses() {   # PID: true if it has a child in the jail
	for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do
		case $(tr '\0' ' ' <"/proc/$child/cmdline") in
		*'parse-document-in-jail model '*) ;;   # not this: it checks the model's file, which is new here
		*parse-document-in-jail*) kill -STOP "$child" && return 0 ;;
		esac
	done
	return 1
}
parses_there() { parses "$(child_of "$(mux list-panes -F '#{pane_pid}')")"; }
stops_at_start() {   # NAME PROGRAM ARGUMENT...
	name=$1; shift
	"$@" -p x >"$dir/one" 2>"$dir/err" </dev/null &
	reader=$!
	wait_for parses "$reader"
	before=$(now_ms)
	kill -INT "$reader"
	wait "$reader"
	is "$name: Ctrl-C ends it" 130 $?
	echo "    after $(($(now_ms) - before)) ms"
	is "$name: with one line" "1 1" "$(grep -c . "$dir/err") $(grep -c "big.html' was not read: stopped" "$dir/err")"
}
stops_at_start "a document is imported" "$weir" -m "$model" $how --private "$dir/big.html"
stops_at_start "a text is imported" "$weir" read -m "$model" $how --private "$dir/big.html"
start --line --private
wait_for at_prompt
send_line "/read $dir/big.html"
name="line mode parses"; pass wait_for parses_there
key C-c
name="Ctrl-C stops /read"; pass wait_for shows "big.html' was not read: stopped"
name="and gives the prompt"; pass wait_for at_prompt
send_line '/docs'
name="the document is not there"; pass all wait_for shows 'there is no document' -- wait_for at_prompt
key C-d
wait_for ended
start --private
wait_for at_rest
ask "/read $dir/big.html"
name="the screen parses"; pass wait_for parses_there
key Escape
name="Esc stops /read on the screen"; pass wait_for shows "big.html' was not read: stopped"
name="and it is at rest again"; pass wait_for at_rest
key C-d
wait_for ended

finish
