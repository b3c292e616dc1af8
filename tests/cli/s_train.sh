#!/bin/sh
# tests/cli/s_train.sh - weir train: errors, a training that is stopped and resumed, and its output files.
#
# WEIR is the program (default ./weir).  Closes with "N passed, M failed, K skipped".
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}
model=tests/vectors/stories260K/stories260K-f16.gguf

. tests/lib/count.sh
[ -x "$weir" ] || { bad train "no program at '$weir'"; finish; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

run() { "$weir" train -m "$model" "$@" >"$dir/out" 2>"$dir/err" </dev/null; rc=$?; }
expect() {
	if [ "$rc" = "$2" ] && cat "$dir/out" "$dir/err" | grep -q -e "$3"; then ok "$1"
	else bad "$1" "exit code $rc: $(cat "$dir/err" "$dir/out" | head -n 3)"; fi
}
i=0
while [ $i -lt 60 ]; do
	echo "Once upon a time there was a cat number $i. It liked to sit in the sun, and it had $((i * 7 % 13)) friends."
	i=$((i + 1))
done >"$dir/text"
small="--context 48 --batch 2 --warmup 2"

run;                                                           expect "a text is wanted" 2 'wants a text'
run "$dir/text";                                               expect "a place for the result is wanted" 2 '\-\-out FILE'
run "$dir/none" --out "$dir/a";                                expect "a text that is not there" 4 'none'
run "$dir/text" --out "$dir/a" --context 40000;                expect "a text shorter than a window" 2 'smaller --context'
run "$dir/text" --out "$dir/a" --mask half;                    expect "an unknown mask" 2 'is no mask'
run "$dir/text" --out "$dir/a" --context 32 --fixed 32;        expect "nothing but a prefix" 2 'leaves nothing'
model=tests/vectors/models/qwen3.gguf
run "$dir/text" --out "$dir/a" --context 32;                   expect "a family that cannot be trained" 3 'cannot be trained'
model=tests/vectors/stories260K/stories260K-f16.gguf
run "$dir/text" --out "$dir/none/a" $small --steps 1;          expect "a place that cannot be written" 1 'cannot write'
[ ! -s "$dir/out" ] && ok "which is said before the first step" || bad "which is said before the first step" "$(cat "$dir/out")"
run "$dir/text" --out "$dir/a" --resume "$dir/none/b" $small --steps 1;   expect "no place to store the training" 1 'cannot write'
[ ! -e "$dir/a" ] && ok "nothing is left of the attempt" || bad "nothing is left of the attempt" "$(ls "$dir")"

run "$dir/text" --out "$dir/a" $small --steps 6 --held "$dir/text" --samples 3 --mask recycled:prefill=20,k=8,stride=5,pool=3 --json
[ "$rc" = 0 ] && [ "$(grep -c '"step"' "$dir/out")" = 6 ] && [ "$(grep -c '"change":-' "$dir/out")" = 2 ] &&
	ok "an adapter is trained, and lowers the loss" || bad "an adapter is trained, and lowers the loss" "$(cat "$dir/err" "$dir/out")"
"$weir" -m "$model" --lora "$dir/a" -p 'Once' -n 4 >"$dir/out" 2>"$dir/err"; rc=$?
expect "the adapter loads" 0 .
run "$dir/text" --out "$dir/full" $small --steps 4 --full --type f16 -q
"$weir" -m "$dir/full" -p 'Once' -n 4 >"$dir/out" 2>"$dir/err"; rc=$?
expect "the model that was trained loads" 0 .

# Stopped after a while and resumed: the result is the same.
run "$dir/text" --out "$dir/whole" $small --steps 400 -q
mkfifo "$dir/steps"
"$weir" train -m "$model" "$dir/text" --out "$dir/parts" $small --steps 400 --resume "$dir/point" -q >"$dir/steps" 2>"$dir/err" &
pid=$!
i=0
while read -r line; do
	case $line in step*) i=$((i + 1)); [ $i != 3 ] || kill -INT $pid ;; esac
	echo "$line"
done <"$dir/steps" >"$dir/out"
wait $pid; rc=$?
expect "a training is stopped" 130 'goes on'
run "$dir/text" --out "$dir/parts" $small --steps 400 --resume "$dir/point" -q -t 1
if [ "$rc" = 0 ] && cmp -s "$dir/whole" "$dir/parts"; then ok "a stopped training goes on with the same bits"
else bad "a stopped training goes on with the same bits" "exit code $rc: $(head -n 2 "$dir/err")"; fi
run "$dir/text" --out "$dir/parts" $small --steps 401 --resume "$dir/point"
expect "a stored training of other settings is refused" 2 'another training'
finish
