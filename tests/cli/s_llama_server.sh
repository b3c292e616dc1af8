#!/bin/sh
# tests/cli/s_llama_server.sh - a chat with a real llama-server and the default model: turns, documents with their
# sources, Ctrl-C, a restart of the server, a full context, and switching between the server and the model in this
# process.
#
# WEIR_LLAMA_SERVER is a command that takes -m MODEL --port PORT -c CONTEXT: llama-server where that is on PATH, or, with a Python that has
# the wheel xllamacpp, "PYTHON tests/cli/llama_server.py".  WEIR is the program (default ./weir).  Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}
case $weir in /*) ;; *) weir=$PWD/$weir ;; esac

. tests/lib/count.sh
[ -x "$weir" ] || { bad llama-server "no program at '$weir'"; finish; }
model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
serves=${WEIR_LLAMA_SERVER:-}
[ -z "$serves" ] && command -v llama-server >/dev/null 2>&1 && serves=llama-server
[ -z "$serves" ] && python3 -c 'import xllamacpp' 2>/dev/null && serves="python3 tests/cli/llama_server.py"
[ -n "$serves" ] || { skip llama-server "there is none: WEIR_LLAMA_SERVER names one"; finish; }
[ -f "$model" ] || { skip llama-server "the default model is not here"; finish; }
command -v python3 >/dev/null 2>&1 || { skip llama-server "python3 is not installed"; finish; }

dir=$(mktemp -d) || exit 1
server=
trap '[ -n "$server" ] && kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
unset WEIR_MODEL WEIR_KV WEIR_CTX WEIR_THREADS WEIR_COLOR NO_COLOR WEIR_API_KEY
export WEIR_DEVICE=cpu HOME="$dir/home" XDG_CACHE_HOME="$dir/cache" XDG_CONFIG_HOME="$dir/config" XDG_STATE_HOME="$dir/state" XDG_DATA_HOME="$dir/data"
mkdir -p "$HOME"

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
at=http://127.0.0.1:$port
# begin: start the server and wait until the model is loaded; weir asks again until then.
begin() {
	# shellcheck disable=SC2086 # a command with its words
	$serves -m "$model" --port "$port" -c 512 >"$dir/server" 2>&1 &
	server=$!
	for _ in $(seq 600); do
		python3 -c "import sys, urllib.request as u; sys.exit(u.urlopen('$at/health', timeout=2).status != 200)" 2>/dev/null && return 0
		kill -0 $server 2>/dev/null || break
		sleep 0.3
	done
	return 1
}
begin || { skip llama-server "'$serves' does not start: $(tail -n 1 "$dir/server")"; finish; }
shows() { "$weir" sessions show "$1" 2>&1; }

"$weir" -p 'What is the capital of France?' --remote "$at" --temp 0 -n 12 -v </dev/null >"$dir/out" 2>"$dir/err"; rc=$?
[ $rc = 0 ] && [ -s "$dir/out" ] && grep -q 'llama-server, context 512' "$dir/err" && ok "a question" || bad "a question" "$rc $(cat "$dir/out" "$dir/err")"
printf 'My name is Ada.\nSay hello.\n' | "$weir" --each-line --remote "$at" --temp 0 -n 8 -s kept >"$dir/out" 2>"$dir/err"
[ "$(shows kept | grep -c .)" -ge 4 ] && [ -s "$dir/out" ] && ok "two turns" || bad "two turns" "$(cat "$dir/out" "$dir/err")"
printf 'And more.\n' | "$weir" --each-line --remote "$at" --temp 0 -n 8 -s kept --json >"$dir/out" 2>"$dir/err"
grep -q '"reused_tokens":[1-9]' "$dir/out" && ok "the server has cached the turns before" || bad "the server has cached the turns before" "$(cat "$dir/out" "$dir/err")"
printf 'Count to twenty: 1, 2, 3\n/continue\n' | "$weir" --each-line --remote "$at" --temp 0 -n 5 -s goes-on >"$dir/out" 2>"$dir/err"
[ ! -s "$dir/err" ] && [ "$(wc -l <"$dir/out")" -ge 2 ] && ok "an answer is extended" || bad "an answer is extended" "$(cat "$dir/out" "$dir/err")"

python3 - "$dir/long.txt" <<'P'
import sys
topics = ["harbour", "library", "bakery", "museum", "station", "garden", "market", "theatre"]
with open(sys.argv[1], "w") as f:
    for i in range(200):
        f.write(f"Paragraph {i}. The {topics[i % 8]} number {i} is open on weekdays and closed on Sundays, and many visitors like it.\n\n")
    f.write("The lighthouse keeper is called Ottilie Brandauer.\n")
P
"$weir" -p 'What is the lighthouse keeper called?' --remote "$at" --temp 0 -n 12 "$dir/long.txt" </dev/null >"$dir/out" 2>"$dir/err"; rc=$?
[ $rc = 0 ] && grep -q 'Ottilie' "$dir/out" && grep -q 'long.txt' "$dir/err" && ok "a document with its sources" || bad "a document with its sources" "$rc $(cat "$dir/out" "$dir/err")"
printf 'The ferry sails at nine from pier seven.\n' >"$dir/ferry.txt"
"$weir" -p 'From which pier does the ferry sail?' --remote "$at" --temp 0 -n 12 -v "$dir/ferry.txt" </dev/null >"$dir/out" 2>"$dir/err"; rc=$?
[ $rc = 0 ] && [ -s "$dir/out" ] && grep -q 'ferry.txt, line 1: "The ferry sails' "$dir/err" && grep -q '^[5-9][0-9] tokens read' "$dir/err" && ok "a document that is read whole" || bad "a document that is read whole" "$rc $(cat "$dir/out" "$dir/err")"

"$weir" -p 'Write a long story about the sea.' --remote "$at" --temp 0 -n 100000 -s stopped </dev/null >"$dir/out" 2>"$dir/err" &
pid=$!
longer_than() { [ "$(wc -c <"$2")" -gt "$1" ]; }
wait_for longer_than 20 "$dir/out"
kill -INT $pid
wait $pid; rc=$?
[ $rc = 130 ] && [ "$(shows stopped | wc -c)" -gt 60 ] && ok "Ctrl-C keeps the answer" || bad "Ctrl-C keeps the answer" "$rc $(shows stopped)"

kill $server
wait $server 2>/dev/null
"$weir" -p Hello --remote "$at" </dev/null >"$dir/out" 2>"$dir/err"; rc=$?
[ $rc = 1 ] && [ "$(grep -c . "$dir/err")" = 1 ] && ok "a server that has ended" || bad "a server that has ended" "$rc $(cat "$dir/err")"
begin || bad "the server starts again" "$(tail -n 2 "$dir/server")"
printf 'What is my name?\n' | "$weir" --each-line --remote "$at" --temp 0 -n 8 -s kept --json >"$dir/out" 2>"$dir/err"
grep -q '"reused_tokens":[0-9]' "$dir/out" && [ "$(shows kept | grep -c 'My name is Ada')" = 1 ] && ok "a session goes on after the server's restart" || bad "a session goes on after the server's restart" "$(cat "$dir/out" "$dir/err")"

words='Some words that fill the context of this server with text that has been said before in this conversation and is not needed again at all, number'
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "$words $i $words $i."; done | "$weir" --each-line --remote "$at" --temp 0 -n 4 -s full >"$dir/out" 2>"$dir/err"
[ ! "$(grep -v 'not sent any more' "$dir/err")" ] && grep -q 'the context of 512 tokens is full: the first [0-9]* messages are not sent any more$' "$dir/err" && [ "$(wc -l <"$dir/out")" -ge 12 ] &&
	ok "a full context" || bad "a full context" "$(cat "$dir/out" "$dir/err")"

printf 'One.\n/model %s\nTwo.\n/model %s\nThree.\n' "$at" "$model" | "$weir" --each-line -m "$model" --temp 0 -n 4 -s both >"$dir/out" 2>"$dir/err"
[ "$(wc -l <"$dir/out")" -ge 3 ] && grep -q "^\[model SmolLM2-135M-Instruct.Q4_1" "$dir/err" && [ "$(grep -c '^\[model' "$dir/err")" = 2 ] && ok "to the server and back" || bad "to the server and back" "$(cat "$dir/out" "$dir/err")"
printf 'Four.\n' | "$weir" --each-line -m "$model" --temp 0 -n 4 -s both --json >"$dir/out" 2>"$dir/err"
grep -q 'restored [0-9]* tokens' "$dir/err" || grep -q '"reused_tokens":[1-9][0-9]' "$dir/out" && ok "the snapshots of the model here stay" || bad "the snapshots of the model here stay" "$(cat "$dir/out" "$dir/err")"
finish
