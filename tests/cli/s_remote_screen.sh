#!/bin/sh
# tests/cli/s_remote_screen.sh - a model on a server (models.py) on the full screen: tmux plays the user.
#
# WEIR is the program (default ./weir).  Closes with "N passed, M failed, K skipped".
# Awaits a terminal: what is shown in time is tested.
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}
model=tests/vectors/models/qwen3.gguf   # the model in this process
how=

. tests/lib/count.sh
command -v python3 >/dev/null 2>&1 || { skip remote-screen "python3 is not installed"; finish; }
. tests/lib/terminal.sh

unset WEIR_API_KEY http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
python3 tests/cli/models.py "$dir/log" "$dir/ports" 2>"$dir/server" &
server=$!
trap 'kill $server; cleanup' EXIT
wait_for [ -s "$dir/ports" ] || { bad remote-screen "the server does not start: $(cat "$dir/server")"; finish; }
read -r port _ <"$dir/ports"
at=http://127.0.0.1:$port

ready() { wait_for at_rest && wait_for shows "$1"; }
left_clean() { wait_for ended && cmp -s "$dir/before" "$dir/after"; }
logged() { grep -q "$1" "$dir/log"; }

columns=100
start -s elsewhere --remote "$at/llama/v1" -m tiny.Q4
name="the screen comes up"; pass ready "tiny.Q4 at http://127.0.0.1:$port"
ask 'Say hello.'
name="a question is answered"; pass ready 'Hello, world\.'
name="the line below has the server's figures"; pass wait_for shows '^\[4 tokens, 25.0 t/s, context [0-9]* of 300, 7 cached'
name="the status row has the context"; pass wait_for shows 'context [0-9]*% ('
ask '/continue'
name="an answer is extended"; pass ready 'Hello, world\. And more\.'
ask '/stats'
name="/stats says where the model is"; pass wait_for shows "tiny.Q4 at http://127.0.0.1:$port, llama-server"
wait_for at_rest
key F2
hints_change() { ! at_rest || shows 'The server keeps the KV cache'; }
wait_for hints_change
name="the cache pane says whose the cache is"; pass wait_for shows 'The server keeps the KV cache'
key F2
name="the cache pane opens and closes"
wait_for shows '^F2 Close'
key F2
pass wait_for at_rest
ask "/model $model"
name="to a model in this process"; pass wait_for shows 'tokens will be recomputed'
wait_for at_rest
ask '/set n 4'
wait_for shows '^\[n 4\]'
ask 'And here?'
# the server's context has 300 tokens
name="it answers"; pass wait_for shows '^\[4 tokens, .* t/s, context [0-9]* of 216'
wait_for at_rest
ask "/model $at/plain/v1"
name="and back to a server"; pass wait_for shows '^\[model tiny\]'
wait_for at_rest
ask "/model $at/unopened/v1"
wait_for shows 'tiny at\|^\[model tiny\]'
wait_for at_rest
ask 'And what do you wonder?'
name="reasoning that is closed alone is collapsed"; pass ready '^\[it reasoned for 2 words first; /think show\]'
name="... and leaves the screen"
if shows 'I wonder'; then bad "$name" "$(screen)"; else ok "$name"; fi
name="... but for its answer"; pass shows '^Hello, world\.'
ask "/model $at/plain/v1"
wait_for at_rest
ask '/set n -1'
wait_for shows '^\[n -1\]'
wait_for at_rest
ask 'And there?'
name="which has the whole conversation"; pass wait_for logged '"content": "Hello, world. And more."}, {"role": "user", "content": "And here?"}'
wait_for at_rest
ask "/model http://127.0.0.1:1"
name="a server that is not there leaves the one that is"; pass wait_for shows 'the model is as before: tiny'
wait_for at_rest

ask "/model $at/endless/v1"
wait_for at_rest
ask 'Tell me something long.'
wait_for shows 'word word word'
from=$(now_ms)
key Escape
name="Esc stops an answer"; pass all wait_for shows '^\[stopped\]' -- wait_for at_rest
name="and closes its connection"; pass wait_for logged '"what": "closed"'
waited=$(python3 -c "import json, sys; print(int(1000 * [json.loads(l)['at'] for l in open(sys.argv[1]) if '\"closed\"' in l][-1]) - int(sys.argv[2]))" "$dir/log" "$from")
echo "        its connection is closed after $waited ms, of which the terminal waits some for what follows Esc"
ask "/model $at/llamaslow/v1"
wait_for at_rest
ask 'Are you there?'
name="what the server has read is shown"; pass wait_for shows 'reading.*50'
key C-c
name="Ctrl-C before the first token withdraws the question"; pass wait_for shows 'the question is withdrawn'
wait_for at_rest
ask '/system Be kind.'
name="a system prompt is the server's to place"; pass wait_for shows 'system prompt set; it holds from the start of the conversation\]'
wait_for at_rest
key C-d
name="it leaves the terminal as it was"; pass left_clean

# ---- the context ----

start -s tour --remote "$at/llama/v1" -m tiny.Q4
ready 'tiny.Q4'
write /tour   # not ask: the tour proposes a line
key Enter
name="the tour"
for draft in 'Tell me in two' '/open ' 'For how many hours'; do
	wait_for shows "^> $draft"
	key Enter
done
pass wait_for shows '^Tour, 4 of 5'
name="... says what a server does, not what a model here would"; pass wait_for shows '^The server keeps the KV cache, which'
wait_for at_rest
key F2
name="... and ends in the list of sessions"; pass wait_for shows '^ *Tour, 5 of 5'
leave C-d
long='alpha beta gamma delta alpha beta gamma delta alpha beta gamma delta alpha beta gamma delta alpha beta gamma delta alpha beta gamma delta'
rows=60
start --private --remote "$at/llama/v1" -m tiny.Q4
ready 'tiny.Q4'
for i in 1 2 3 4 5 6 7; do
	ask "$i $long $long"
	wait_for answered "$i alpha"
done
name="turns that are not sent any more are told of"; pass wait_for shows 'is full: the first [0-9]* messages are not sent any more; F2 dims them'
dimmed() { mux capture-pane -p -e | grep -q "$esc\[[0-9;]*2m.*$1" ; }
key F2
name="... and dimmed"; pass wait_for dimmed '[1-6] alpha'
leave C-d
finish
