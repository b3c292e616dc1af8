#!/bin/sh
# tests/s_eval.sh - weir eval as scripts see it: usage, JSON, several policies and texts at once, seeds, a stop; and the smallest
# run of tests/results.sh.
#
# WEIR is the program (default ./weir), WEIR_TEST_MODEL the model, WEIR_SHARED the reference data.
# Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/.." || exit 1
weir=${WEIR:-./weir}
model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
shared=${WEIR_SHARED:-../shared}
case $weir in /*) ;; *) weir=$PWD/$weir ;; esac

. tests/count.sh
[ -x "$weir" ] || { bad eval "no program at '$weir'"; finish; }

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
export XDG_CONFIG_HOME="$dir/config" XDG_STATE_HOME="$dir/state"
unset WEIR_MODEL WEIR_KV WEIR_CTX WEIR_THREADS WEIR_DEVICE
export WEIR_DEVICE=cpu
run() {
	"$weir" "$@" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
}
out() { cat "$dir/out"; }
lines() { wc -l <"$dir/out" | tr -d ' '; }
# expect NAME RC [PATTERN]: status, and where RC is not 0 one line on stderr; a line that matches.
expect() {
	if [ "$rc" != "$2" ]; then
		bad "$1" "status $rc, expected $2: $(head -n 2 "$dir/err")"
	elif [ "$2" != 0 ] && [ "$(wc -l <"$dir/err" | tr -d ' ')" != 1 ]; then
		bad "$1" "not one line on stderr: $(head -n 3 "$dir/err")"
	elif [ -n "${3:-}" ] && ! cat "$dir/out" "$dir/err" | grep -q -e "$3"; then
		bad "$1" "no '$3' in: $(cat "$dir/out" "$dir/err" | head -n 3)"
	else
		ok "$1"
	fi
}

# ---- usage ----

run eval;                            expect "eval alone lists its tasks" 2 'second word'
run eval recovery;                   expect "recovery wants a text" 2 'wants a text'
run eval recovery x;                 expect "recovery wants policies" 2 'policies to watch'
run eval recovery x --kv sift --window 64 --last 64
expect "recovery wants something to read first" 2 'smaller --last'
run eval ppl x --kv sifd;            expect "a mistyped policy is named" 2 "unknown cache policy 'sifd'"
run eval ruler a b;                  expect "ruler takes one folder" 2 "'b'"
run eval passkey --len 10;           expect "a length out of range is usage" 2 'from 64'
run eval plot x;                     expect "plot wants a place for the picture" 2 'PICTURE.png'
run eval plot;                       expect "plot wants a text" 2 'wants a text'
echo '{"no":"curve"}' >"$dir/none.jsonl"
run eval plot "$dir/none.jsonl" --out "$dir/p.png"; expect "lines without curves are refused" 4 'holds no curves'
[ ! -e "$dir/p.png" ] && ok "and leave no picture" || bad "and leave no picture" "it is there"
run eval plot "$dir/nothing" --out "$dir/p.png"; expect "a text that is not there" 4 'nothing'
# shellcheck disable=SC2046 # options
run eval ppl x $(seq 33 | sed 's/.*/--kv full/'); expect "too many policies are refused" 2 'more than 32'

if [ ! -r "$model" ]; then
	skip "evaluations" "no model at '$model' (make model fetches it)"
	finish
fi
export WEIR_MODEL="$model"
run eval ruler --tasks nope;         expect "an unknown task is named" 2 "unknown task 'nope'"
run eval ruler --tasks niah_singel_1; expect "a mistyped task is named" 2 "is it 'niah_single_1'"
run eval ruler --tasks qa_1;         expect "a task without its material is refused" 2 'squad'
run eval ruler "$dir/none";          expect "a missing folder is a document" 4 'none'
run eval passkey --len 70;           expect "a length that holds no prompt is usage" 2 'at least'

# ---- perplexity ----

i=0
while [ $i -lt 60 ]; do
	echo "The ship number $i left the harbour on a cold morning, and nobody on the quay knew where the wind would carry her."
	i=$((i + 1))
done >"$dir/text"
tail -n 30 "$dir/text" >"$dir/other"
nll() { sed -n "${1}p" "$dir/out" | sed 's/.*"nll":\([0-9.]*\).*/\1/'; }
run eval ppl "$dir/text" --tokens 600 --last 40 --json
one=$(nll 1)
expect "the keys of one text are the short ones" 0 '^{"tokens":600,"scored":40,"nll"'
run eval plot "$dir/text" --tokens 90 --kv full --kv sink:size=32,stride=1 --layer 3 --out "$dir/p.ppm" --json
expect "plot says what it has drawn" 0 '"kv":"full","layer":3,"head":-1,"tokens":90,"tokens_a_pixel":1,"seen":1.000000,"x":0,"y":14,"side":90'
# 90 * 91 / 2 pairs; 36 tokens and itself in sight, from the 38th on.
[ "$(sed -n '2s/.*"seen":\([0-9.]*\).*/\1/p' "$dir/out")" = "$(awk 'BEGIN { for (t = 1; t <= 90; t++) n += t < 37 ? t : 37; printf "%.6f", n / 4095 }')" ] &&
	ok "a window of 32 and 4 sinks is in sight" || bad "a window of 32 and 4 sinks is in sight" "$(cat "$dir/out")"
[ "$(wc -c <"$dir/p.ppm")" -eq $((15 + 3 * 188 * 104)) ] && ok "the picture is there" || bad "the picture is there" "$(ls -l "$dir/p.ppm")"
run eval plot "$dir/text" --tokens 20 --layer 99 --out "$dir/p.png"; expect "a layer that is not there is usage" 2 'layers 0 to'
run eval ppl "$dir/text" --tokens 600 --curve 50 --kv full --kv sink:size=64,stride=50 --json
cp "$dir/out" "$dir/curves"
run eval plot "$dir/curves" --out "$dir/c.png"; expect "curves are drawn" 0 'sink:size=64,stride=50: [0-9.]* after [0-9]* tokens'
[ -s "$dir/c.png" ] && ok "their picture is there" || bad "their picture is there" "none"
run eval ppl "$dir/text" --tokens 600 --last 40 --kv full --kv sift:k=600 --kv refresh:k=64 --json
[ "$(lines)" = 3 ] && ok "a line a policy" || bad "a line a policy" "$(out)"
[ "$(nll 1)" = "$one" ] && ok "full beside others is full" || bad "full beside others is full" "$(nll 1), alone $one"
[ "$(nll 2)" = "$one" ] && ok "sift that reads everything is full" || bad "sift that reads everything is full" "$(nll 2), not $one"
three=$(nll 3)
run eval ppl "$dir/text" --tokens 600 --last 40 --kv refresh:k=64 --json
[ "$(nll 1)" = "$three" ] && ok "a policy after others gives what it gives alone" ||
	bad "a policy after others gives what it gives alone" "$three, alone $(nll 1)"
run eval ppl "$dir/text" "$dir/other" --tokens 300 --offset 20 --curve 100 --json
[ "$rc" = 0 ] && [ "$(lines)" = 2 ] && [ "$(grep -c '"offset":20,"kv":"full","tokens":300,"scored":299.*"every":100,"curve":\[[0-9.]*,[0-9.]*\]' "$dir/out")" = 2 ] &&
	ok "several texts from an offset, with curves" || bad "several texts from an offset, with curves" "$(out)"
run eval ppl "$dir/text" --tokens 300 --kv sink:size=64,stride=32 --kv cascade:size=64,stride=32 --json
expect "bounded caches read in their stride" 0 '"kv":"cascade:size=64,stride=32","tokens":300,"scored":299,'
run eval ppl "$dir/text" --tokens 300 --kv sink:size=400 --kv cascade:size=400 --kv full --json
[ "$(sed 's/.*"ppl":\([0-9]*\.[0-9][0-9]\).*/\1/' "$dir/out" | sort -u | wc -l)" = 1 ] && ok "bounded caches that hold all are full" ||
	bad "bounded caches that hold all are full" "$(out)"

# ---- recovery ----

run eval recovery "$dir/text" --window 300 --last 8 --samples 2 --kv sift:k=32 --kv refresh:k=32 --kv sift:k=300 --json
expect "recovery" 0 '"task":"recovery","kv":"sift:k=32","len":300,'
awk -F'[:,]' '{ for (i = 1; i < NF; i++) if ($i == "\"score\"") s = $(i + 1); else if ($i == "\"oracle\"") o = $(i + 1); if (s > o + 0.02 || s <= 0 || o > 1.0001) exit 1 }' \
	"$dir/out" && ok "nothing recovers more than the oracle" || bad "nothing recovers more than the oracle" "$(out)"
sed -n 3p "$dir/out" | grep -q '"score":\(1\.000\|0\.999\)' && ok "all rows recover all" || bad "all rows recover all" "$(sed -n 3p "$dir/out")"
run eval recovery "$dir/text" --window 300 --last 8 --kv sink;   expect "a bounded cache cannot be watched" 2
run eval recovery "$dir/text" --window 30000 --kv sift;          expect "a text without a window is usage" 2 'one window'

# ---- tasks ----

run eval ruler --tasks niah_single_1,vt --len 400 --samples 2 --kv full --kv sift:k=1/4 --json
cp "$dir/out" "$dir/first"
[ "$rc" = 0 ] && [ "$(lines)" = 4 ] && ok "a line a task and policy" || bad "a line a task and policy" "status $rc: $(cat "$dir/err" "$dir/out")"
grep -q '^{"task":"vt","kv":"sift:k=1/4","len":400,"k":100,"n":2,"score":[01]\.[0-9]*,"error":[0-9.]*,"scores":\[[0-9.]*,[0-9.]*\],"seconds":[0-9.]*}$' "$dir/out" &&
	ok "keys of a task's line" || bad "keys of a task's line" "$(out | tail -n 1)"
run eval ruler --tasks niah_single_1,vt --len 400 --samples 2 --kv full --kv sift:k=1/4 --json
sed 's/"seconds".*//' "$dir/first" >"$dir/a"
sed 's/"seconds".*//' "$dir/out" >"$dir/b"
cmp -s "$dir/a" "$dir/b" && ok "tasks repeat" || bad "tasks repeat" "$(diff "$dir/a" "$dir/b" | head -n 2)"
run eval passkey --len 300 --samples 2 --json; expect "passkey" 0 '"task":"passkey","kv":"full","len":300,"k":null,"n":2,"score".*"by_depth":\['
run eval chain --len 300 --samples 1;          expect "chain, as a table" 0 '^chain  *300  full '
"$weir" eval passkey --len 8000 --samples 50 -q >"$dir/out" 2>"$dir/err" &
pid=$!
sleep 1
kill -INT $pid
wait $pid
rc=$?
# While the model loads there is nothing to say.
[ "$rc" = 130 ] && ok "Ctrl-C stops an evaluation" || bad "Ctrl-C stops an evaluation" "status $rc: $(cat "$dir/err")"

# ---- the tables ----

if [ -d "$shared/data/books" ]; then
	WEIR_RESULTS_SMOKE=1 WEIR_RESULTS_RAW="$dir/raw" WEIR_RESULTS_OUT="$dir/page.md" WEIR="$weir" tests/results.sh >"$dir/out" 2>&1
	rc=$?
	[ "$rc" = 0 ] && ok "results.sh runs" || bad "results.sh runs" "status $rc: $(tail -n 2 "$dir/out")"
	[ "$(grep -c '^## ' "$dir/page.md")" = 6 ] && ! grep -q 'nan\|inf ' "$dir/page.md" && ok "its page has all parts" ||
		bad "its page has all parts" "$(grep -n 'nan\|inf \|^## ' "$dir/page.md" | head)"
	started=$(cat "$dir"/raw/*.jsonl | wc -l)
	WEIR_RESULTS_SMOKE=1 WEIR_RESULTS_RAW="$dir/raw" WEIR_RESULTS_OUT="$dir/page.md" WEIR="$weir" tests/results.sh >"$dir/out" 2>&1
	[ "$(cat "$dir"/raw/*.jsonl | wc -l)" = "$started" ] && [ "$(wc -l <"$dir/out")" = 1 ] && ok "it goes on where it was" ||
		bad "it goes on where it was" "$(head -n 2 "$dir/out")"
else
	skip "results.sh" "no books in '$shared/data/books'"
fi
finish
