#!/bin/sh
# tests/cli/s_eval.sh - weir eval as scripts see it: usage, JSON, several policies and texts at once, seeds, stopping
# and resuming; and the smallest run of tests/measure/results.sh.
#
# WEIR is the program (default ./weir), WEIR_TEST_MODEL the model.
# Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}
model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
case $weir in /*) ;; *) weir=$PWD/$weir ;; esac

. tests/lib/count.sh
[ -x "$weir" ] || { bad eval "no program at '$weir'"; finish; }

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
export XDG_CONFIG_HOME="$dir/config" XDG_STATE_HOME="$dir/state" XDG_DATA_HOME="$dir/data"
unset WEIR_MODEL WEIR_KV WEIR_CTX WEIR_THREADS WEIR_DEVICE
export WEIR_DEVICE=cpu
run() {
	"$weir" "$@" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
}
out() { cat "$dir/out"; }
lines() { wc -l <"$dir/out" | tr -d ' '; }
# expect NAME RC [PATTERN]: check the status, that standard error has one line if RC is not 0, and that a line matches.
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
run eval plot "$0";                  expect "plot wants a place for the picture" 2 'PICTURE.pgm'
run eval plot;                       expect "plot wants a text" 2 'wants a text'
echo '{"no":"curve"}' >"$dir/none.jsonl"
run eval plot "$dir/none.jsonl" --out "$dir/p.pgm"; expect "lines are drawn by the script" 2 'wants a text; .*plot.py'
run eval plot "$dir/none.jsonl" --draw ratio; expect "what the script draws is not drawn by weir" 2 'matrix'
run eval plot "$dir/nothing" --out "$dir/p.pgm"; expect "a text that is not there" 4 'nothing'
run eval plot "$0" --draw span --out "$dir/p.pgm"; expect "a span is no picture" 2 'plot.py draws'
# shellcheck disable=SC2046 # options
run eval ppl x $(seq 33 | sed 's/.*/--kv full/'); expect "too many policies are refused" 2 'more than 32'

# ---- the second program: weir starts weir-lab ----

# started PROGRAM [ARGS]: like run.
started() {
	"$@" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
}
mkdir -p "$dir/home/bin" "$dir/home/lib/weir" "$XDG_CONFIG_HOME/weir"
cp "$weir" "$dir/home/bin/weir"
started "$dir/home/bin/weir" eval ppl x;      expect "without weir-lab the error names it" 1 "'weir eval ppl' is run by the program weir-lab, which cannot be started from '$dir/home/bin'"
started "$dir/home/bin/weir" train x;         expect "so it does for weir train" 1 'weir-lab'
started "$dir/home/bin/weir" help eval;       expect "help needs no weir-lab" 0 'weir eval ruler'
started "$dir/home/bin/weir" eval ppl --window 8 x; expect "weir-lab is missed, not its options" 1 "'weir eval ppl' is run by the program weir-lab"
started "$weir" eval ppl --bogus;             expect "a mistake in an option is told" 2 "unknown option '--bogus'"
started "$weir" eval ppl --windw 8 x;         expect "the option that is meant is named" 2 "is it '--window'?"
started "$weir" --window 8 -q eval ppl "$dir/nothing"; expect "an option of weir-lab may stand before the command" 4 'nothing'
started "$weir" -p eval train;                expect "a prompt is no command" 4 "'train'"
cp "$(dirname "$weir")/weir-lab" "$dir/home/lib/weir/weir-lab"
echo 'no-such-key = 1' >"$XDG_CONFIG_HOME/weir/config"
started "$dir/home/bin/weir" eval ppl "$dir/nothing" -m tests/vectors/models/llama-block32.gguf
[ $rc = 4 ] && [ "$(grep -c no-such-key "$dir/err")" = 1 ] && ok "weir-lab is found in ../lib/weir, and settings are read once" ||
	bad "weir-lab is found in ../lib/weir, and settings are read once" "status $rc: $(cat "$dir/err")"
rm "$XDG_CONFIG_HOME/weir/config"
# The second program gets the arguments, standard input and the process number; weir exits with its status.
cat >"$dir/home/bin/weir-lab" <<'END'
#!/bin/sh
printf '<%s>' "$$" "$@"
cat
echo said >&2
[ "$1" = train ] && kill -TERM $$
exit 7
END
chmod +x "$dir/home/bin/weir-lab"
sh -c 'echo $$ >"$0"; exec "$@"' "$dir/pid" "$dir/home/bin/weir" -q eval ppl 'a b' '' <"$dir/none.jsonl" >"$dir/out" 2>"$dir/err"
rc=$?
wanted="<$(cat "$dir/pid")><-q><eval><ppl><a b><>$(cat "$dir/none.jsonl")"
[ "$(out)" = "$wanted" ] && [ "$(cat "$dir/err")" = said ] && ok "weir-lab beside weir comes first; words and streams reach it" ||
	bad "weir-lab beside weir comes first; words and streams reach it" "$(out), expected $wanted"
[ $rc = 7 ] && ok "its status is the status" || bad "its status is the status" "$rc"
started "$dir/home/bin/weir" train x
[ $rc = 143 ] && ok "and its death by a signal" || bad "and its death by a signal" "$rc"
lab=$(dirname "$weir")/weir-lab
started "$lab" --help
[ $rc = 0 ] && [ "$(grep -c '^  weir \(eval\|train\) ' "$dir/out")" = "$(grep -c '^  weir ' "$dir/out")" ] && ok "weir-lab --help lists its own commands" ||
	bad "weir-lab --help lists its own commands" "$(head -n 3 "$dir/out")"
started "$lab" eval ppl --help; expect "and the options of one" 0 '[-]-window'
started "$lab" bench;           expect "weir-lab runs no command of weir" 2 "runs 'eval' and 'train' alone"
started "$lab";                 expect "and no chat" 2 "runs 'eval' and 'train' alone"
# The network of `predict` is a file that is installed.
if [ -e "$model" ]; then
	started "$dir/home/bin/weir" -m "$model" --kv predict -c 512 -p Hello -n 1 -q --private
	expect "without its file predict says where it belongs" 2 "has no predictor.*share/weir/predict"
	mkdir -p "$dir/home/share/weir"
	cp -r engine/policies/predict "$dir/home/share/weir/"
	started "$dir/home/bin/weir" -m "$model" --kv predict -c 512 -p Hello -n 1 -q --private
	expect "with it predict runs" 0
else
	skip "the files of predict" "there is no default model"
fi
rm -rf "$dir/home"

# ---- sweeps, and going on after a stop: with a model of random weights, so that nothing takes long ----

i=0
while [ $i -lt 80 ]; do
	echo "The ship number $i left the harbour on a cold morning, and nobody on the quay knew where the wind would carry her."
	i=$((i + 1))
done >"$dir/text"
random="$PWD/tests/vectors/models/llama-block32.gguf"
export WEIR_MODEL="$random"
run eval needle "$dir/text" --depths 1;       expect "a sweep wants two depths" 2 'from 2'
run eval needle "$dir/text" --len 300;        expect "a needle without room is usage" 2 'at least'
run eval needle "$dir/text" --len 900,1200 --depths 3 --samples 2 --kv full --kv sift:k=32
[ "$rc" = 0 ] && [ "$(grep -c '^needle under ' "$dir/out")" = 2 ] && [ "$(grep -c '^ *0%  50% 100%    mean$' "$dir/out")" = 2 ] &&
	[ "$(grep -c '^ *\(900\|1200\)\( *[0-9]*\)\{3\} .* n=6$' "$dir/out")" = 4 ] &&
	ok "a table a policy, a row a length, a column a depth" || bad "a table a policy, a row a length, a column a depth" "$(out)"
run eval needle --len 900,1200 --depths 3 --samples 2 --kv full --kv sift:k=32 --json
[ "$rc" = 0 ] && [ "$(grep -c '"depths":\[0,0.5,1,0,0.5,1\],"scores":\[[01],[01],[01],[01],[01],[01]\]' "$dir/out")" = 4 ] &&
	ok "the depth of every score, in random words, too" || bad "the depth of every score, in random words, too" "$(out)"

cat >"$dir/given.jsonl" <<'END'
{"question":"How many are two and two?","answer":"#### 4","task":"sums"}
{"question":"How many are two and three?","answer":"#### 5","task":"sums"}
{"context":"The mill stands by the river. It is old.","input":"Where does the mill stand?","answers":["by the river"],"dataset":"hotpotqa"}
{"context":"x","input":"y","answers":["z"],"dataset":"dureader"}
END
run eval answers;                             expect "answers want a file" 2 'wants a file of questions'
run eval answers "$dir/text";                 expect "answers want JSON" 4 "'text', line 1: it is no JSON"
run eval answers "$dir/given.jsonl" --len 900 --kv full --kv sift:k=32
[ "$rc" = 0 ] && [ "$(grep -c '^sums .* n=2 ' "$dir/out")" = 2 ] && [ "$(grep -c '^hotpotqa .* n=1 ' "$dir/out")" = 2 ] && grep -q "1 records of sets .* such as 'dureader'" "$dir/err" &&
	ok "a row for each task of a file and each policy" || bad "a row for each task of a file and each policy" "$(out)"

shown() { sed 's/"\(seconds\|answering\)":[0-9.]*//g' "$1"; }
# goes_on NAME PIECES ARGS...: the output is the same without a file, with an empty one, and with half of one that ends
# in a torn line.
goes_on() {
	name=$1 pieces=$2
	shift 2
	rm -f "$dir/kept"
	run eval "$@" --json
	shown "$dir/out" >"$dir/alone"
	run eval "$@" --json --resume "$dir/kept"
	shown "$dir/out" >"$dir/first"
	[ "$rc" = 0 ] && cmp -s "$dir/alone" "$dir/first" && [ "$(wc -l <"$dir/kept" | tr -d ' ')" = "$pieces" ] ||
		{ bad "$name" "kept $(wc -l <"$dir/kept") pieces, not $pieces: $(head -n 2 "$dir/err" "$dir/out")"; return; }
	cp "$dir/kept" "$dir/all"
	head -n $((pieces / 2)) "$dir/all" >"$dir/kept"
	sed -n $((pieces / 2 + 1))p "$dir/all" | head -c 150 >>"$dir/kept"
	run eval "$@" --json --resume "$dir/kept"
	shown "$dir/out" >"$dir/second"
	grep -q "holds $((pieces / 2)) finished result" "$dir/err" &&
		grep -q "^results: $((pieces / 2)) were there, $((pieces - pieces / 2)) are new$" "$dir/err" ||
		{ bad "$name" "$(cat "$dir/err")"; return; }
	cmp -s "$dir/alone" "$dir/second" || { bad "$name" "$(diff "$dir/alone" "$dir/second" | head -n 2)"; return; }
	shown "$dir/kept" >"$dir/kept.a"
	shown "$dir/all" >"$dir/kept.b"
	cmp -s "$dir/kept.a" "$dir/kept.b" && ok "$name" || bad "$name" "the file differs: $(diff "$dir/kept.a" "$dir/kept.b" | head -n 2)"
}
# ---- training what `predict` selects by ----

run eval predictor "$dir/text";               expect "predictor wants the word train" 2 'train FILE'
run eval predictor train;                     expect "predictor wants a text" 2 'wants a text'
run eval predictor train "$dir/none";         expect "a text to train on that is not there" 4 'none'
run eval predictor train "$dir/text" --window 20000
expect "a text shorter than a window" 2 'one window takes 20000'
run eval recovery "$dir/text" --kv predict:k=64,first=16,last=16,dense=0 --window 200 --last 8 --samples 1
expect "without a predictor the command is named" 2 'weir eval predictor train'
run eval predictor train "$dir/text" --window 400 --last 16 --crops 40 --epochs 2 --samples 3 --json
[ "$rc" = 0 ] && [ "$(lines)" = 3 ] && grep -q '"task":"predictor","block":16,"rows":64,"epoch":2,"loss":[0-9.e-]*,"found":0\.[0-9]*,' "$dir/out" &&
	grep -q 'stored in' "$dir/err" && ok "training stores a predictor" || bad "training stores a predictor" "$(cat "$dir/err" "$dir/out")"
cp "$dir/out" "$dir/alone"
run eval predictor train "$dir/text" --window 400 --last 16 --crops 40 --epochs 2 --samples 3 --json -t 3
cmp -s "$dir/out" "$dir/alone" && ok "the same with other threads" || bad "the same with other threads" "$(diff "$dir/out" "$dir/alone")"
run eval recovery "$dir/text" --kv predict:k=64,first=16,last=16,dense=0 --window 200 --last 8 --samples 1
expect "and predict finds it" 0 '^predict:k=64'
run eval recovery "$dir/text" --kv predict:k=64,block=4,first=16,last=16,dense=0 --window 200 --last 8 --samples 1
expect "a predictor serves its own block alone" 2 '\-\-block 4'

goes_on "passkey goes on" 6 passkey --len 900 --samples 3 --kv full --kv sink:size=64,stride=32
goes_on "chain goes on" 4 chain --len 900 --samples 2 --kv sift:k=32 --kv h2o:k=32
goes_on "ruler goes on" 4 ruler --tasks niah_single_1,fwe --len 1200 --samples 2
goes_on "needle goes on" 12 needle "$dir/text" --len 900,1200 --depths 3 --kv full --kv cascade:size=64,stride=32
goes_on "answers go on" 6 answers "$dir/given.jsonl" --len 900 --kv full --kv sift:k=32
goes_on "recovery goes on" 9 recovery "$dir/text" --window 200 --last 8 --samples 3 --kv sift:k=16 --kv refresh:k=16
goes_on "ppl in windows goes on, its curve, too" 12 ppl "$dir/text" --tokens 900 --window 150 --curve 40 --kv full --kv sink:size=64,stride=32
goes_on "ppl of a stream goes on" 2 ppl "$dir/text" --tokens 600 --kv sift:k=16 --kv cascade:size=64,stride=32
goes_on "ppl of the last tokens goes on" 2 ppl "$dir/text" --tokens 300 --last 20 --kv full --kv snapkv:k=32

# Results in the file are shown; another setting does not use them.
rm -f "$dir/kept"
run eval passkey --len 900 --samples 2 --resume "$dir/kept"
sed '2s/"score":[0-9.]*/"score":0.75/' "$dir/kept" >"$dir/all"
cp "$dir/all" "$dir/kept"
run eval passkey --len 900 --samples 2 --json --resume "$dir/kept"
expect "what is kept is shown" 0 '"scores":\[0,0.75\]'
cmp -s "$dir/all" "$dir/kept" && ok "what is complete is not written" || bad "what is complete is not written" "$(diff "$dir/all" "$dir/kept" | head -n 2)"
for other in "--seed 1" "--len 901" "--kv sift:k=16" "--kv-type f32" "--chunk 64" "--ctx 1000" "-m tests/vectors/models/llama-block256.gguf"; do
	cp "$dir/all" "$dir/kept"
	# shellcheck disable=SC2086 # options
	run eval passkey --len 900 --samples 2 $other --resume "$dir/kept"
	grep -q '^results: 0 were there, 2 are new$' "$dir/err" && [ "$(wc -l <"$dir/kept" | tr -d ' ')" = 4 ] && ok "another piece: $other" ||
		bad "another piece: $other" "$(cat "$dir/err")"
done
# The file has all settings of a policy: a changed setting is another result, an explicit default is not.
rm -f "$dir/kept"
run eval passkey --len 900 --samples 2 --kv sift:k=16 --resume "$dir/kept"
[ "$(grep -c '"kv":"sift:k=16,bits=2,split=need,' "$dir/kept")" = 2 ] && ok "a piece says all settings of its policy" ||
	bad "a piece says all settings of its policy" "$(cat "$dir/kept")"
run eval passkey --len 900 --samples 2 --kv sift:bits=2,k=16 --resume "$dir/kept"
grep -q '^results: 2 were there, 0 are new$' "$dir/err" && ok "a default that is given is the same piece" ||
	bad "a default that is given is the same piece" "$(cat "$dir/err")"
cp "$dir/all" "$dir/kept"
run eval passkey --len 900 --samples 2 -q --resume "$dir/kept"
[ "$rc" = 0 ] && [ ! -s "$dir/err" ] && ok "-q says nothing of it" || bad "-q says nothing of it" "$(cat "$dir/err")"

# Killed in the middle, then resumed.
run eval passkey --len 900 --samples 40 --kv full --kv sink:size=64,stride=32
cp "$dir/out" "$dir/alone"
for signal in INT KILL; do
	rm -f "$dir/kept"
	"$weir" eval passkey --len 900 --samples 40 --kv full --kv sink:size=64,stride=32 --resume "$dir/kept" >"$dir/out" 2>"$dir/err" &
	pid=$!
	five_kept() { [ -r "$dir/kept" ] && [ "$(wc -l <"$dir/kept")" -ge 5 ]; }
	wait_for five_kept
	kill -$signal $pid 2>/dev/null
	wait $pid 2>/dev/null
	there=$(wc -l <"$dir/kept" | tr -d ' ')
	run eval passkey --len 900 --samples 40 --kv full --kv sink:size=64,stride=32 --resume "$dir/kept"
	sed -i 's/ [0-9.]* s an answer.*//' "$dir/alone" "$dir/out"
	[ "$rc" = 0 ] && cmp -s "$dir/alone" "$dir/out" && [ "$there" -ge 5 ] && grep -q "holds $there finished results" "$dir/err" &&
		ok "the same after kill -$signal" || bad "the same after kill -$signal" "$there were there: $(cat "$dir/err" "$dir/out" | head -n 4)"
done

# Other files are refused.
for foreign in text all; do
	cp "$dir/$foreign" "$dir/kept"
	[ $foreign = all ] && echo "a note" >>"$dir/kept"
	cp "$dir/kept" "$dir/before"
	run eval passkey --resume "$dir/kept"
	expect "a foreign file is refused ($foreign)" 2 'give --resume another file'
	cmp -s "$dir/kept" "$dir/before" && ok "and left as it is ($foreign)" || bad "and left as it is ($foreign)" "$(head -n 2 "$dir/kept")"
done
run eval passkey --resume "$dir";    expect "a folder is refused" 2 'not a regular file'
unset WEIR_MODEL

# ---- the tables: every part of tests/measure/results.sh at its smallest, on a small model and a book made here ----

mkdir -p "$dir/shared/data/books"
awk 'BEGIN { for (i = 0; i < 1000; i++) printf "The ship number %d left the harbour in the year %d, and nobody on the quay knew why.\n", i, 1200 + i * 7 % 600 }' \
	>"$dir/shared/data/books/stevenson-treasure-island.txt"
results() {
	WEIR_RESULTS_SMOKE=1 WEIR_RESULTS_RAW="$dir/raw" WEIR_RESULTS_OUT="$dir/page.md" WEIR="$weir" WEIR_SHARED="$dir/shared" \
		WEIR_TEST_MODEL="$PWD/tests/vectors/stories260K/stories260K-q8_0.gguf" tests/measure/results.sh >"$dir/out" 2>&1
	rc=$?
}
echo 'of the last run' >"$dir/page.md"
results
[ "$rc" = 0 ] && ok "results.sh runs" || bad "results.sh runs" "status $rc: $(tail -n 2 "$dir/out")"
[ "$(grep -c '^## ' "$dir/page.md")" = 9 ] && ! grep -q 'nan\|inf ' "$dir/page.md" && ok "its page has all parts" ||
	bad "its page has all parts" "$(grep -n 'nan\|inf \|^## ' "$dir/page.md" | head)"
[ "$(head -n 1 "$dir/page.md")" = '# What the cache policies lose and cost' ] && ! grep -q 'of the last run' "$dir/page.md" && ok "it takes the place of the last page" ||
	bad "it takes the place of the last page" "$(head -n 3 "$dir/page.md")"
started=$(cat "$dir"/raw/*.jsonl | wc -l)
results
[ "$(cat "$dir"/raw/*.jsonl | wc -l)" = "$started" ] && [ "$(wc -l <"$dir/out")" = 1 ] && ok "it goes on where it was" ||
	bad "it goes on where it was" "$(head -n 2 "$dir/out")"

if [ ! -r "$model" ]; then
	skip "evaluations" "no model at '$model' (make model fetches it)"
	finish
fi
export WEIR_MODEL="$model"
run eval ruler --tasks nope;         expect "an unknown task is named" 2 "unknown task 'nope'"
run eval ruler --tasks niah_singel_1; expect "a mistyped task is named" 2 "is it 'niah_single_1'"
run eval ruler --len 64 -q;          expect "tasks longer than --len are left out" 2 'no task is as short'
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
run eval ppl "$dir/text" --tokens 300 --last 40 --json
one=$(nll 1)
expect "the keys of one text are the short ones" 0 '^{"tokens":300,"scored":40,"nll"'
run eval plot "$dir/text" --tokens 90 --kv full --kv sink:size=32,stride=1 --layer 3 --out "$dir/p.pgm" --json
expect "plot says what it has drawn" 0 '"kv":"full","layer":3,"head":-1,"tokens":90,"tokens_a_pixel":1,"seen":1.000000,"x":0,"side":90'
# 90 * 91 / 2 pairs; from the 38th token on, 36 tokens and the token itself are visible.
[ "$(sed -n '2s/.*"seen":\([0-9.]*\).*/\1/p' "$dir/out")" = "$(awk 'BEGIN { for (t = 1; t <= 90; t++) n += t < 37 ? t : 37; printf "%.6f", n / 4095 }')" ] &&
	ok "a window of 32 and 4 sinks is in sight" || bad "a window of 32 and 4 sinks is in sight" "$(cat "$dir/out")"
[ "$(wc -c <"$dir/p.pgm")" -eq $((14 + 188 * 90)) ] && ok "the picture is there" || bad "the picture is there" "$(ls -l "$dir/p.pgm")"
# Row 60 of the second matrix: 4 sinks, hidden tokens, a window of 33, later tokens.
[ "$(tail -c +15 "$dir/p.pgm" | tail -c +$((60 * 188 + 98 + 1)) | head -c 90 | od -An -v -tu1 | tr -s ' \n' '\n\n' | awk 'NF { printf "%s", $1 ? "x" : "-" }')" = \
	"$(awk 'BEGIN { for (i = 0; i < 90; i++) printf "%s", i < 4 || (i > 27 && i <= 60) ? "x" : "-" }')" ] &&
	ok "its pixels are what is in sight" || bad "its pixels are what is in sight" "$(tail -c +$((15 + 60 * 188 + 98)) "$dir/p.pgm" | head -c 90 | od -v -tu1)"
cp "$dir/out" "$dir/matrix"
run eval plot "$dir/text" --tokens 20 --layer 99 --out "$dir/p.png"; expect "a layer that is not there is usage" 2 'layers 0 to'
run eval plot "$dir/text" --tokens 20 --out /nowhere/at/all.pgm; expect "a picture that cannot be written is named" 1 "cannot write '/nowhere/at/all.pgm': No such file"
run eval ppl "$dir/text" --tokens 600 --curve 50 --kv full --kv sink:size=64,stride=50 --json
cp "$dir/out" "$dir/curves"
for k in 1 2 3 4 5; do cat "$dir/curves"; done >"$dir/many"
run eval ppl "$dir/text" --tokens 300 --last 40 --kv full --kv sift:k=300 --kv refresh:k=64 --json
[ "$(lines)" = 3 ] && ok "a line a policy" || bad "a line a policy" "$(out)"
[ "$(nll 1)" = "$one" ] && ok "full beside others is full" || bad "full beside others is full" "$(nll 1), alone $one"
[ "$(nll 2)" = "$one" ] && ok "sift that reads everything is full" || bad "sift that reads everything is full" "$(nll 2), not $one"
three=$(nll 3)
run eval ppl "$dir/text" --tokens 300 --last 40 --kv refresh:k=64 --json
[ "$(nll 1)" = "$three" ] && ok "a policy after others gives what it gives alone" ||
	bad "a policy after others gives what it gives alone" "$three, alone $(nll 1)"
run eval ppl "$dir/text" --tokens 150 --last 40 --kv refresh:k=64 --json
one=$(nll 1)
run eval ppl "$dir/text" --offset 150 --tokens 150 --last 40 --kv refresh:k=64 --json
two=$(nll 1)
run eval ppl "$dir/text" --tokens 300 --window 150 --last 40 --kv refresh:k=64 --json
grep -q '"scored":80,' "$dir/out" && awk "BEGIN { d = $(nll 1) - $one - $two; exit d > 1e-5 || d < -1e-5 }" && ok "the last tokens of each window" ||
	bad "the last tokens of each window" "$(out); alone $one and $two"
run eval ppl "$dir/text" "$dir/other" --tokens 300 --offset 20 --curve 100 --json
[ "$rc" = 0 ] && [ "$(lines)" = 2 ] && [ "$(grep -c '"offset":20,"kv":"full","tokens":300,"scored":299.*"every":100,"curve":\[[0-9.]*,[0-9.]*\]' "$dir/out")" = 2 ] &&
	ok "several texts from an offset, with curves" || bad "several texts from an offset, with curves" "$(out)"
run eval ppl "$dir/text" --tokens 150 --kv sink:size=64,stride=32 --kv cascade:size=64,stride=32 --json
expect "bounded caches read in their stride" 0 '"kv":"cascade:size=64,stride=32","tokens":150,"scored":149,'
run eval ppl "$dir/text" --tokens 150 --kv sink:size=400 --kv cascade:size=400 --kv full --json
[ "$(sed 's/.*"ppl":\([0-9]*\.[0-9][0-9]\).*/\1/' "$dir/out" | sort -u | wc -l)" = 1 ] && ok "bounded caches that hold all are full" ||
	bad "bounded caches that hold all are full" "$(out)"

# ---- recovery ----

run eval recovery "$dir/text" --window 300 --last 8 --samples 2 --kv sift:k=32 --kv refresh:k=32 --kv sift:k=300 --json
expect "recovery" 0 '"task":"recovery","kv":"sift:k=32","len":300,'
awk -F'[:,]' '{ for (i = 1; i < NF; i++) if ($i == "\"score\"") s = $(i + 1); else if ($i == "\"oracle\"") o = $(i + 1); if (s > o + 0.02 || s <= 0 || o > 1.0001) exit 1 }' \
	"$dir/out" && ok "nothing recovers more than the oracle" || bad "nothing recovers more than the oracle" "$(out)"
sed -n 3p "$dir/out" | grep -q '"score":\(1\.000\|0\.999\)' && ok "all rows recover all" || bad "all rows recover all" "$(sed -n 3p "$dir/out")"
run eval recovery "$dir/text" --window 300 --last 20 --samples 2 --entries 60 --kv recycled:stride=10 --kv h2o+:k=1/4,dense=1 --kv streaming++ \
	--kv sift:sample=20 --kv recycled:stride=2 --json
[ "$rc" = 0 ] && [ "$(grep -c '"fitted":.*"entries":60,"equal":true' "$dir/out")" = 4 ] && grep -q '"kv":"recycled:stride=10","fitted":"recycled:k=[0-9]*",' "$dir/out" &&
	awk -F'"k":' '/"equal":true/ { split($2, x, ","); if (x[1] < 58.8 || x[1] > 61.2) exit 1 }' "$dir/out" && ok "policies are made to read equally many entries" ||
	bad "policies are made to read equally many entries" "$(out)"
run eval recovery "$dir/text" --window 300 --last 20 --samples 1 --entries 60 --kv recycled:stride=2
expect "what cannot read so few says why" 0 'reads [0-9]* entries, not 60: steps and layers that read everything take 1[0-9]* alone'
run eval recovery "$dir/text" --window 300 --entries 60 --kv sink; expect "entries are fitted where policies select" 2
run eval recovery "$dir/text" --window 300 --last 20 --samples 2 --kv recycled:k=32,stride=4 --kv refresh:k=32 --kv sift:k=32 --json
grep -q '"kv":"recycled:k=32,stride=4".*"ages":\[1.00000,0[0-9.]*,0[0-9.]*,0[0-9.]*,null.*"strides":\[4.000,.*,4.000\]' "$dir/out" && ok "recovery by the age of a set" ||
	bad "recovery by the age of a set" "$(out)"
[ "$(grep -c '"ages"' "$dir/out")" = 2 ] && ok "ages are of policies with sets" || bad "ages are of policies with sets" "$(out)"
grep -q '"task":"queries","len":300,"layers":[0-9]*,"heads":[0-9]*,"cosine":\[[0-9.-]*,' "$dir/out" && ok "queries of consecutive tokens" || bad "queries of consecutive tokens" "$(out)"
cp "$dir/out" "$dir/found"
run eval plot -m "$random" "$dir/text" --draw span --tokens 400 --kv full --kv sink:size=64,stride=32 --kv cascade:size=64,n=4,stride=16
expect "full reaches the beginning" 0 'full: of 400 tokens read it reaches back 400, and keeps 100.0 %'
expect "sinks reach back as far as their size" 0 'sink:size=64,stride=32: of 400 tokens read it reaches back 64,'
# Four rings of 16 slots reach back 16 * (1 + 2 + 4 + 8) = 240 tokens, minus those that their last swaps left out.
n=$(sed -n 's/cascade.*back \([0-9]*\),.*/\1/p' "$dir/out")
[ "${n:-0}" -ge 225 ] && [ "$n" -le 240 ] && ok "four rings reach as far as published" || bad "four rings reach as far as published" "$(out)"
run eval plot -m "$random" "$dir/text" --draw span --tokens 400 --kv full --kv sink:size=64,stride=32 --json; cp "$dir/out" "$dir/span"
expect "the span by age" 0 '"kv":"sink:size=64,stride=32","tokens":400,"span":64,"kept":0.1[0-9]*,"every":4,"ages":\[1.00000,.*0.00000,1.00000\]'
run eval recovery "$dir/text" --window 300 --last 8 --kv sink;   expect "a bounded cache cannot be watched" 2
run eval recovery "$dir/text" --window 30000 --kv sift;          expect "a text without a window is usage" 2 'one window'

# ---- pictures of what was written ----

draw() {
	python3 app/lab/plot.py "$@" >"$dir/out" 2>"$dir/err"
	rc=$?
}
if command -v python3 >/dev/null; then
	draw "$dir/none.jsonl" "$dir/p.svg"; expect "lines without curves are refused" 1 'holds no curves'
	[ ! -e "$dir/p.svg" ] && ok "and leave no picture" || bad "and leave no picture" "it is there"
	draw "$dir/nothing" "$dir/p.svg"; expect "lines that are not there" 1 'nothing'
	draw "$dir/matrix" "$dir/m.svg"; expect "the script draws the matrices" 0 'full: 100.0 % of the pairs in sight'
	[ "$(grep -c '<image [^>]*width="90" height="90"' "$dir/m.svg")" = 2 ] && ok "a square a policy" || bad "a square a policy" "$(cut -c 1-200 "$dir/m.svg")"
	draw "$dir/curves" "$dir/c.svg"; expect "curves are drawn" 0 'sink:size=64,stride=50: [0-9.]* after [0-9]* tokens'
	draw "$dir/many" "$dir/many.svg"; expect "curves that are left out are named" 0 'holds 8 curves; 2 more'
	[ "$(grep -c '<path fill="none" stroke="#[0-9a-f]*" d="M[0-9.]* [0-9.]*L' "$dir/c.svg")" = 2 ] && ok "their picture is there" || bad "their picture is there" "$(cat "$dir/c.svg")"
	draw "$dir/found" "$dir/c.svg"; expect "ages are drawn" 0 'recycled:k=32,stride=4: 100.00 at 0, [0-9.]* at 3'
	draw --draw stride "$dir/found" "$dir/c.svg"; expect "strides are drawn" 0 'recycled:k=32,stride=4: 4.00 at 0, 4.00 at 29'
	draw --draw queries "$dir/found" "$dir/q.svg"; expect "queries are drawn" 0 'layer 29: 0.[0-9]*'
	grep -q "<image x=\"0\" y=\"14\" width=\"$((9 * 24))\" height=\"$((30 * 24))\"" "$dir/q.svg" && ok "their picture is there, too" || bad "their picture is there, too" "$(cut -c 1-200 "$dir/q.svg")"
	draw --draw queries "$dir/curves" "$dir/c.svg"; expect "lines without queries are refused" 1 'holds no queries'
	draw --draw ratio "$dir/found" "$dir/c.svg"; expect "lines without curves are refused, too" 1 'holds no curves'
	draw --draw ratio "$dir/curves" "$dir/c.svg"; expect "perplexity against full by position" 0 'sink:size=64,stride=50: 100.00 at 50, [0-9.]* at'
	draw "$dir/span" "$dir/c.svg"; expect "spans are drawn" 0 'sink:size=64,stride=32: 100.00 at 0, 100.00 at 396'
	# The contents of a picture: every pixel of two matrices of 3 tokens, every point of a curve.
	printf 'P5\n14 3\n255\n' >"$dir/small.pgm"
	printf '\377\000\000........\377\000\000' >>"$dir/small.pgm"
	printf '\001\200\000........\377\001\000' >>"$dir/small.pgm"
	printf '\000\100\300........\000\000\377' >>"$dir/small.pgm"
	for x in 0 11; do
		echo '{"task":"plot","draw":"matrix","kv":"a<b","layer":0,"head":-1,"tokens":3,"tokens_a_pixel":1,"seen":0.5,"x":'$x',"side":3,"picture":"'"$dir/small.pgm"'"}'
	done >"$dir/small"
	echo '{"task":"plot","draw":"span","kv":"x","every":2,"ages":[1,null,0.5,0,null]}' >"$dir/points"
	draw "$dir/small" "$dir/small.svg" && draw "$dir/points" "$dir/points.svg" && python3 - "$dir" <<'END' >"$dir/out" 2>&1 && ok "every pixel and point is where it belongs" ||
import base64, re, struct, sys, xml.dom.minidom, zlib
def pixels(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, parts = 8, {}
    while at < len(png):
        n, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + n]
        assert struct.unpack(">I", png[at + 8 + n:at + 12 + n])[0] == zlib.crc32(kind + body)
        parts[kind], at = body, at + 12 + n
    w, h = struct.unpack(">II", parts[b"IHDR"][:8])
    assert parts[b"IHDR"][8:] == b"\x08\x03\0\0\0" and len(parts[b"PLTE"]) == 768 and list(parts) == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    rows = zlib.decompress(parts[b"IDAT"])
    assert len(rows) == h * (w + 1) and not any(rows[::w + 1])
    light = [sum(parts[b"PLTE"][3 * i:3 * i + 3]) for i in range(256)]
    assert light[0] == 0 and light[2:] == sorted(light[2:]) and light[255] == 3 * 255
    return [list(rows[y * (w + 1) + 1:][:w]) for y in range(h)]
page = xml.dom.minidom.parse(sys.argv[1] + "/small.svg")
images = page.getElementsByTagName("image")
assert [(i.getAttribute("x"), i.getAttribute("y")) for i in images] == [("0", "14"), ("11", "14")]
found = [pixels(base64.b64decode(i.getAttribute("href").split(",")[1])) for i in images]
assert found == [[[255, 1, 1], [2, 128, 1], [0, 64, 192]], [[255, 1, 1], [255, 2, 1], [0, 0, 255]]], found
assert [t.firstChild.data for t in page.getElementsByTagName("text")] == ["a<b", "a<b"]
curve = re.search('fill="none" stroke="#[0-9a-f]*" d="([^"]*)"', open(sys.argv[1] + "/points.svg").read()).group(1)
# A gap is a new beginning; the tail of gaps is left out: 6 tokens over 880 pixels, 0 to 100 over 554.
assert curve == "M64.0 14.0M650.7 291.0L944.0 568.0", curve
END
		bad "every pixel and point is where it belongs" "$(tail -n 1 "$dir/out")"
	echo '{"curve":5,"every":1}' >"$dir/bad"; draw "$dir/bad" "$dir/p.svg"; expect "a broken line is one line on stderr" 1 'no evaluation wrote'
	echo 'not JSON' >"$dir/bad"; draw "$dir/bad" "$dir/p.svg"; expect "what is no JSON, too" 1 'no evaluation wrote'
else
	skip pictures "python3 is not installed"
fi

# ---- tuning a setting ----

run eval tune;                                    expect "tune wants a text" 2 'wants a text'
run eval tune "$dir/text" --kv sift --try s=0.5;  expect "tune names a setting that the policy lacks" 2 "no setting 's'"
run eval tune "$dir/text" --try 0.5;              expect "tune wants a setting and values" 2 'KEY=VALUE'
run eval tune "$dir/text" --kv refresh:k=24,qc=1 --try s=-2,0.8,2 --window 200 --last 12 --samples 3 --json
[ "$rc" = 0 ] && [ "$(lines)" = 4 ] && [ "$(grep -c '"take":true' "$dir/out")" = 1 ] &&
	[ "$(sed -n 's/.*"value":"\([^"]*\)".*"n":3.*"read":\([0-9]*\).*/\2/p' "$dir/out" | sort -n | tr '\n' ' ')" = \
	"$(sed -n 's/.*"value":"\([^"]*\)".*"n":3.*"read":\([0-9]*\).*/\2/p' "$dir/out" | tr '\n' ' ')" ] && ok "a higher threshold reads more" ||
	bad "a higher threshold reads more" "$(out)"
run eval tune -m "$random" "$dir/text" --kv sift --try k=16,200 --window 200 --last 12 --samples 2
expect "tune says what to take and how to set it" 0 'Set it: --kv sift:k=[0-9]*, or kv = sift:k=[0-9]* in'
goes_on "tune goes on" 9 tune -m "$random" "$dir/text" --kv refresh:k=24 --try s=0.8,0.9 --window 200 --last 8 --samples 3

# ---- questions about documents ----

for i in $(seq 7 18); do printf 'Tower%d was built by the brothers of the heron%d, who came from the marshes.\n\n' "$i" "$i"; done >"$dir/towers.txt"
echo '[{"question":"Which brothers built Tower17?","answers":["heron17"]},{"question":"Who painted Tower8?","answers":["heron8"]},
  {"question":"quantum saxophones?","answers":[]}]' >"$dir/questions.json"
run eval ask "$dir/towers.txt" --questions "$dir/questions.json" --json
expect "questions about documents" 0 '"what":"first","share":1.0000,"error":0.0000,"questions":2}'
grep -q '"what":"not_found","share":1.0000,"error":0.0000,"questions":1}' "$dir/out" && ok "what is not there is not found" ||
	bad "what is not there is not found" "$(out)"
[ "$(grep -c '"with":.*"questions":2}' "$dir/out")" -ge 5 ] && ok "a line a setting" || bad "a line a setting" "$(out)"
run eval ask "$dir/towers.txt" --questions "$dir/questions.json" --samples 1; expect "as a table" 0 '^3 passages  *[0-9.]* % '
expect "the table says how it was sampled" 0 '^sampling: temp .*; 1 seed a question$'
# The same seeds give the same shares of right answers.
hot='--samples 1 --temp 2 --top-k 0 --top-p 1 --min-p 0 --json --seeds'
shares() { grep -o '"with":"[^"]*","right":[0-9.]*' "$dir/out"; }
run eval ask "$dir/towers.txt" --questions "$dir/questions.json" $hot 2; shares >"$dir/first"
expect "several seeds" 0 '"seeds":2,"sampling":{"temp":{"value":2,"from":"yours"}'
run eval ask "$dir/towers.txt" --questions "$dir/questions.json" $hot 2; shares >"$dir/second"
cmp -s "$dir/first" "$dir/second" && ok "the same seeds, the same shares" || bad "the same seeds, the same shares" "$(cat "$dir/first" "$dir/second")"
run eval ask "$dir/towers.txt" --questions "$dir/questions.json" --samples 1 --temp 0 --seeds 4 --json; expect "greedily once is enough" 0 '"seeds":1,'
run eval ask "$dir/towers.txt";                                    expect "questions are wanted" 2 'wants --questions FILE'
run eval ask "$dir/towers.txt" --questions "$dir/towers.txt";      expect "a file without questions is refused" 4 'holds no questions'

# ---- tasks ----

run eval ruler --tasks niah_single_1,vt --len 400 --samples 2 --kv full --kv sift:k=1/4 --json
cp "$dir/out" "$dir/first"
[ "$rc" = 0 ] && [ "$(lines)" = 4 ] && ok "a line a task and policy" || bad "a line a task and policy" "status $rc: $(cat "$dir/err" "$dir/out")"
grep -q '^{"task":"vt","kv":"sift:k=1/4","len":400,"k":100,"n":2,"score":[01]\.[0-9]*,"error":[0-9.]*,"scores":\[[0-9.]*,[0-9.]*\],"seconds":[0-9.]*,"answering":[0-9.]*,"generated":[1-9][0-9]*}$' "$dir/out" &&
	ok "keys of a task's line" || bad "keys of a task's line" "$(out | tail -n 1)"
run eval ruler --tasks niah_single_1,vt --len 400 --samples 2 --kv full --kv sift:k=1/4 --json
sed 's/"seconds".*//' "$dir/first" >"$dir/a"
sed 's/"seconds".*//' "$dir/out" >"$dir/b"
cmp -s "$dir/a" "$dir/b" && ok "tasks repeat" || bad "tasks repeat" "$(diff "$dir/a" "$dir/b" | head -n 2)"
# With --late-question the question comes after the selection: what is selected once, at the end of the reading, then
# does not depend on it. Full attention answers as before.
answered() { grep -F "400/" "$dir/err" | grep -F " $1: "; }
run eval ruler --tasks niah_single_1 --len 400 --samples 2 --kv full --kv snapkv:k=32 --resume "$dir/late" -v
answered full >"$dir/first"; answered snapkv:k=32 >"$dir/a"
run eval ruler --tasks niah_single_1 --len 400 --samples 2 --kv full --kv snapkv:k=32 --resume "$dir/late" -v --late-question
answered full >"$dir/second"; answered snapkv:k=32 >"$dir/b"
[ "$(wc -l <"$dir/b" | tr -d ' ')" = 2 ] && cmp -s "$dir/first" "$dir/second" &&
	ok "a late question: full attention answers as before" || bad "a late question: full attention answers as before" "$(diff "$dir/first" "$dir/second" | head -n 4)"
cmp -s "$dir/a" "$dir/b" && bad "a late question: the selection does not know it" "the same answers: $(head -n 2 "$dir/b")" ||
	ok "a late question: the selection does not know it"
run eval passkey --len 300 --samples 2 --json; expect "passkey" 0 '"task":"passkey","kv":"full","len":300,"k":null,"n":2,"score".*"by_depth":\['
run eval chain --len 300 --samples 1;          expect "chain, as a table" 0 '^chain  *300  full '
"$weir" eval passkey --len 8000 --samples 50 -q >"$dir/out" 2>"$dir/err" &
pid=$!
sleep 1
kill -INT $pid
wait $pid
rc=$?
# While the model loads, there may be no message.
[ "$rc" = 130 ] && ok "Ctrl-C stops an evaluation" || bad "Ctrl-C stops an evaluation" "status $rc: $(cat "$dir/err")"

finish
