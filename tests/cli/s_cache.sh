#!/bin/sh
# tests/cli/s_cache.sh - the cache as users see it: conversations that outgrow it, pinned documents, a change of policy,
# and the messages about all that.
#
# A tiny model with random weights generates far beyond its context; questions about a document use the default model.
# WEIR is the program (default ./weir), WEIR_TEST_MODEL the model. Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}
model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
tiny=tests/vectors/models/llama-block32.gguf

. tests/lib/count.sh
[ -x "$weir" ] || { bad cache "no program at '$weir'"; finish; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
export XDG_CONFIG_HOME="$dir/config" XDG_STATE_HOME="$dir/state"
unset WEIR_MODEL WEIR_CTX WEIR_KV WEIR_THREADS WEIR_DEVICE
export WEIR_DEVICE=cpu

# talk [ARGS]: send the lines of $dir/in to the tiny model; sets $rc, $dir/out (one JSON line for each answer),
# $dir/err.
talk() {
	"$weir" -m "$tiny" --each-line --temp 0 --json -n 30 "$@" <"$dir/in" >"$dir/out" 2>"$dir/err"
	rc=$?
}
questions() { i=0; while [ $i -lt "$1" ]; do i=$((i + 1)); echo "question $i, which is about nothing in particular"; done; }
# says NAME PATTERN: check standard error.
says() { grep -q -e "$2" "$dir/err" && ok "$1" || bad "$1" "no '$2' in: $(tr '\n' '|' <"$dir/err")"; }
silent() { grep -q -e "$2" "$dir/err" && bad "$1" "'$2' in: $(tr '\n' '|' <"$dir/err")" || ok "$1"; }
answers() { grep -c '^{"text"' "$dir/out"; }
tokens() { sed 's/.*"tokens":\(\[[^]]*\]\).*/\1/' "$dir/out"; }

# ---- a talk without end ----

for kv in auto cascade:size=64,stride=64 sink:size=64,stride=64 auto:prefix=full cascade:size=96,n=3,heads=layer,reduce=mean,stride=32; do
	{ questions 40; echo /stats; } >"$dir/in"; talk --kv "$kv" -c 256
	[ $rc = 0 ] && [ "$(answers)" = 40 ] && ok "$kv: forty questions, ten times its room" ||
		bad "$kv: forty questions, ten times its room" "status $rc, $(answers) answers: $(tail -n 2 "$dir/err")"
	[ "$(grep -c 'older tokens are evicted' "$dir/err")" = 1 ] && ok "$kv: says once that tokens leave" ||
		bad "$kv: says once that tokens leave" "$(tr '\n' '|' <"$dir/err")"
	says "$kv: /stats counts what left" ' of [0-9],[0-9]* tokens evicted'
	sed -e 's/\([0-9]\),\([0-9]\)/\1\2/g' -n -e 's/^ *ring [0-9]*: \([0-9]*\) of \([0-9]*\), tokens \([0-9]*\) to \([0-9]*\)$/\1 \2 \3 \4/p' "$dir/err" |
		awk '$1 != $2 || $3 > $4 || (NR > 1 && ($3 >= first || $4 >= last)) { bad = 1 } { first = $3; last = $4 } END { exit bad || !NR }' &&
		ok "$kv: full rings, each older than the one before" || bad "$kv: full rings, each older than the one before" "$(grep ' ring ' "$dir/err")"
	says "$kv: /stats shows what is pinned and kept" ' ring 1: [0-9,]* of [0-9,]*, tokens [0-9,]* to [0-9,]*'
done
questions 40 >"$dir/in"; talk --kv auto -c 256
tokens >"$dir/first"
questions 40 >"$dir/in"; talk --kv auto -c 256 -t 1
tokens >"$dir/second"
cmp -s "$dir/first" "$dir/second" && ok "a long talk repeats, on any number of threads" || bad "a long talk repeats, on any number of threads" "it differs"

# While everything fits, answers are those of a cache that keeps everything.
questions 2 >"$dir/in"; talk --kv auto -c 256
tokens >"$dir/first"
silent "a short talk is not told about the cache" 'outgrown'
questions 2 >"$dir/in"; talk --kv full -c 256
tokens >"$dir/second"
cmp -s "$dir/first" "$dir/second" && ok "while all fits, auto answers as full does" || bad "while all fits, auto answers as full does" "$(cat "$dir/first" "$dir/second")"
questions 40 >"$dir/in"; talk --kv full -c 256
[ $rc = 5 ] && ok "full ends where its context ends, with 5" || bad "full ends where its context ends, with 5" "status $rc"
says "and says so" 'do not fit the context of 256'
printf 'hi\n' | "$weir" -m "$tiny" --temp 1 --top-k 0 --top-p 1 --min-p 0 --seed 3 --kv auto -c 256 --json >"$dir/out" 2>"$dir/err"
rc=$?
[ $rc = 0 ] && [ "$(answers)" = 1 ] && ok "an answer without -n ends" || bad "an answer without -n ends" "status $rc: $(cat "$dir/err")"

# ---- changes while talking ----

{ questions 3; echo '/set kv sift:k=32'; questions 1; echo '/set kv quest'; questions 1; echo '/set kv refresh:k=32'; questions 1
  echo '/set kv full'; echo '/set kv'; questions 1; } >"$dir/in"; talk --kv full -c 640
[ $rc = 0 ] && [ "$(answers)" = 7 ] && ok "the policy changes while talking" || bad "the policy changes while talking" "status $rc: $(cat "$dir/err")"
says "/set kv shows it" '^kv full$'
says "/set kv says what it costs" '^\[cache sift:k=32'
# The share of attention that was read: only under sift, and only after tokens were decoded one by one since it was
# asked for.
{ questions 2; echo /stats; echo '/set kv full'; questions 1; echo /stats; } >"$dir/in"; talk --kv sift:k=16,sample=16 -c 640 --speculate off
[ "$(grep -c '"attention":{"exact":0\.[0-9]*,"sampled":0\.[0-9]*,"spread":0\.[0-9]*},"answered"' "$dir/out")" = 2 ] && [ "$(grep -c '"attention":null' "$dir/out")" = 1 ] &&
	ok "--json says what of attention was read" || bad "--json says what of attention was read" "$(tr '\n' '|' <"$dir/out" | cut -c 1-900)"
[ "$(grep -c '^ *[0-9.]*% of attention read exactly, [0-9.]*% by a sample, give or take [0-9.]*%$' "$dir/err")" = 1 ] &&
	ok "/stats says what of attention was read" || bad "/stats says what of attention was read" "$(tr '\n' '|' <"$dir/err")"
{ questions 20; echo '/set kv full'; questions 1; } >"$dir/in"; talk --kv auto -c 256
says "a policy that cannot hold the talk is refused" "the conversation has [0-9]* tokens, more than 'full' can hold"
[ "$(answers)" = 21 ] && ok "and the talk goes on" || bad "and the talk goes on" "$(answers) answers: $(cat "$dir/err")"
{ questions 1; echo '/set kv nonsense'; echo '/set kv sift:z=1'; questions 1; } >"$dir/in"; talk
says "/set kv names an unknown policy" "/set kv: unknown cache policy 'nonsense'"
says "/set kv names an unknown setting" "cache policy 'sift' has no setting 'z'"
{ questions 20; echo /undo 2; echo /regen; echo /new; questions 1; } >"$dir/in"; talk --kv auto -c 256
[ $rc = 0 ] && [ "$(answers)" = 22 ] && ok "/undo, /regen and /new after tokens have left" || bad "/undo, /regen and /new after tokens have left" "status $rc: $(cat "$dir/err")"

# ---- documents ----

printf 'alpha beta\n' >"$dir/a.txt"
printf 'gamma delta\n' >"$dir/b.txt"
seq 1 1000 >"$dir/long.txt"
{ questions 8; echo "/read $dir/a.txt"; questions 8; echo "/read $dir/b.txt"; questions 8; echo /stats; } >"$dir/in"; talk --kv auto -c 256
[ $rc = 0 ] && [ "$(answers)" = 24 ] && ok "documents join a talk that has outgrown the cache" ||
	bad "documents join a talk that has outgrown the cache" "status $rc: $(cat "$dir/err")"
pinned=$(sed -n 's/^ *\([0-9]*\) pinned$/\1/p' "$dir/err")
[ "${pinned:-0}" -gt 40 ] && ok "and are pinned" || bad "and are pinned" "$pinned pinned: $(cat "$dir/err")"
# A document comes first in the context, read at the start or later: the answers have the same tokens.
{ echo "/read $dir/a.txt"; echo "/read $dir/b.txt"; questions 2; } >"$dir/in"; talk --kv full -c 640
tokens >"$dir/first"
questions 2 >"$dir/in"; talk --kv full -c 640 "$dir/a.txt" "$dir/b.txt"
tokens >"$dir/second"
cmp -s "$dir/first" "$dir/second" && ok "/read and FILE are the same" || bad "/read and FILE are the same" "$(cat "$dir/first" "$dir/second")"
{ echo "/read $dir/a.txt"; questions 3; echo /new; echo /undo; echo /undo; } >"$dir/in"; talk --kv auto -c 256
says "/new keeps the document" 'the document stays'
says "/undo drops it" "document 'a.txt' is dropped"
says "and then there is nothing" 'nothing to undo'
for i in $(seq 1 100); do printf 'The key of room %d is kept by warden %d.\n\n' "$i" $((i * 7)); done >"$dir/rooms.txt"
for kv in auto full; do
	{ echo "/read $dir/long.txt"; questions 1; } >"$dir/in"; talk --kv $kv -c 256 --docs whole
	[ $rc = 5 ] && [ "$(answers)" = 1 ] && ok "$kv: a document that does not fit is refused, the talk goes on" ||
		bad "$kv: a document that does not fit is refused, the talk goes on" "status $rc: $(cat "$dir/err")"
	says "$kv: with its tokens" "document 'long.txt' has [0-9]* tokens"
	{ echo "/read $dir/rooms.txt"; echo 'By which warden is the key of room 99 kept?'; } >"$dir/in"; talk --kv $kv -c 256
	[ $rc = 0 ] && [ "$(answers)" = 1 ] && ok "$kv: by default it is searched" ||
		bad "$kv: by default it is searched" "status $rc: $(cat "$dir/err")"
	says "$kv: which is said" "document 'rooms.txt': about [0-9,]* tokens, more than fit the context of [0-9,]* beside a question and its answer; questions search it"
	says "$kv: and the source is shown" '^\[1\] rooms.txt, line 197: ".*room 99 ' 
done

# ---- instruments ----

echo '5 6 7 8 9 10 11 12 13 14 15 16' >"$dir/ids"
"$weir" inspect logits -m "$tiny" --tokens "$dir/ids" --out "$dir/full.f32" --kv full 2>"$dir/err" &&
	"$weir" inspect logits -m "$tiny" --tokens "$dir/ids" --out "$dir/sift.f32" --kv sift:k=512 2>"$dir/err"
cmp -s "$dir/full.f32" "$dir/sift.f32" && ok "inspect logits: sift of all rows is full" || bad "inspect logits: sift of all rows is full" "$(cat "$dir/err")"
"$weir" bench -m "$tiny" --kv sift:k=32 --prefill 32 --decode 8 --depth 100 --reps 1 --json >"$dir/out" 2>"$dir/err"
grep -q '"test":"decode".*"kv":"sift:k=32"' "$dir/out" && grep -q '"test":"cache_op".*"us_per_token":[0-9.]*,"share":' "$dir/out" &&
	ok "bench shows the policy and what it costs" || bad "bench shows the policy and what it costs" "$(cat "$dir/out" "$dir/err")"
bytes() { sed -n 's/.*"test":"decode".*"bytes_per_token":\([0-9]*\).*/\1/p' "$dir/out"; }
sift=$(bytes)
"$weir" bench -m "$tiny" --kv full --kv sift:k=32 --depth 100,0 --decode 4 --turns 3 --json >"$dir/out" 2>"$dir/err"
all='"test":"turns","n":4,"turns":3,"depth":100,"kv":"full",.*"of_first":1.0000,.*"depth":0,"kv":"full",.*"of_first":1.0000,"of_shallow":1.0000'
all="$all.*\"depth\":100,\"kv\":\"sift:k=32\",.*\"tps\":[1-9].*\"depth\":0,\"kv\":\"sift:k=32\",.*\"of_shallow\":1.0000"
tr '\n' ' ' <"$dir/out" | grep -q "$all" && ok "bench compares policies and depths in turns" ||
	bad "bench compares policies and depths in turns" "$(cat "$dir/out" "$dir/err")"
"$weir" bench -m "$tiny" --kv full --prefill 32 --decode 8 --depth 100 --reps 1 --json >"$dir/out" 2>"$dir/err"
[ "${sift:-0}" -gt 0 ] && [ "$(bytes)" -gt "$sift" ] && ok "bench counts the bytes that are read" ||
	bad "bench counts the bytes that are read" "sift $sift, full $(bytes)"

# ---- more than fits memory ----

ask_within() {   # MEMORY [OPTION ...]
	memory=$1; shift
	XDG_CACHE_HOME="$dir/cache" "$weir" -m tests/vectors/models/qwen3.gguf --raw -p 'one two three four five six seven eight nine ten' --temp 0 -n 20 -c 60000 --kv full --json \
		--kv-memory "$memory" "$@" >"$dir/out" 2>"$dir/err"
}
answer() { sed 's/.*"tokens":\(\[[0-9,]*\]\).*/\1/' "$dir/out"; }
ask_within 0 && without=$(answer) && ! grep -q kv_disk "$dir/out" && ask_within 1K
rc=$?
least=$(sed -n 's/.*needs at least \([0-9.]*\) MiB in memory.*/\1/p' "$dir/err")
[ $rc = 5 ] && [ -n "$least" ] && ok "a --kv-memory that is too small is refused with the least" || bad "a --kv-memory that is too small is refused with the least" "status $rc: $(cat "$dir/err")"
ask_within "${least}M"
[ -n "$without" ] && [ "$(answer)" = "$without" ] && grep -q '"kv_disk_bytes":[1-9][0-9]*,"kv_resident_bytes":[1-9]' "$dir/out" && [ -z "$(ls -A "$dir/cache/weir" | grep -v "^read-models$")" ] &&
	ok "a cache on disk gives the same answer and leaves nothing" || bad "a cache on disk gives the same answer and leaves nothing" "$(cat "$dir/out" "$dir/err")"
(ulimit -f 8; ask_within "${least}M")
[ $? = 1 ] && [ "$(grep -c '^weir: ' "$dir/err")" = 1 ] && grep -q '^weir: cannot reserve .* MiB for the KV cache in .*File too large' "$dir/err" &&
	ok "a disk that refuses is one line" || bad "a disk that refuses is one line" "$(cat "$dir/err")"

# ---- with the default model ----

if [ ! -r "$model" ]; then
	skip "questions about a document" "no model at '$model' (make model fetches it)"
	finish
fi
printf 'Orchard diary. On Monday 2 May the water pump was repaired for 84 euros.\nOn Saturday 14 May at 9:00 we prune the trees.\n' >"$dir/note.txt"
for kv in sift:k=64 auto auto:k=64,sample=32 full; do
	"$weir" -m "$model" -p 'How much was paid for the repair of the water pump?' --temp 0 -n 40 --kv "$kv" "$dir/note.txt" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
	[ $rc = 0 ] && grep -q '84 euros' "$dir/out" && ok "$kv: a question about a document" ||
		bad "$kv: a question about a document" "status $rc: $(cat "$dir/out" "$dir/err")"
done
for type in f32 bf16 q8_0 q4_0 k=q8_0,v=q4_0; do
	"$weir" -m "$model" -p 'What was repaired, and for how much?' --temp 0 -n 40 --kv-type $type "$dir/note.txt" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
	[ $rc = 0 ] && grep -q '84 euros' "$dir/out" && ok "a cache of $type" || bad "a cache of $type" "status $rc: $(cat "$dir/out" "$dir/err")"
done
finish
