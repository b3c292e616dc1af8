#!/bin/sh
# tests/cli/s_evidence.sh - --json names the passages on which an answer is based.
#
# WEIR is the program (default ./weir), WEIR_TEST_MODEL the model.  Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}
model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
case $weir in /*) ;; *) weir=$PWD/$weir ;; esac
case $model in /*) ;; *) model=$PWD/$model ;; esac

. tests/lib/count.sh
[ -x "$weir" ] || { bad evidence "no program at '$weir'"; finish; }
command -v python3 >/dev/null 2>&1 || { skip evidence "python3 reads the JSON"; finish; }

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
export XDG_CONFIG_HOME="$dir/config" XDG_STATE_HOME="$dir/state" WEIR_DEVICE=cpu WEIR_MODEL="$model"
unset WEIR_CTX WEIR_KV WEIR_THREADS

# Each fact is in one place only, far from the ends of the text.
cat >"$dir/parish.md" <<'END'
# The parish of Fairlea

Fairlea lies between two hills, a day's walk from the coast. Its people keep sheep, and in good years they sell wool to the weavers of the
valley. The road was made in the last century and is still rough after rain; carts go by the lower way, which is longer but never under water.
Travellers who come in winter stay at the inn until the snow has gone.

## The bridge

The old ferry was given up when the river changed its bed. For some years there was only a rope, and two men were drowned who had trusted it at
night. The bridge of Fairlea was built in 1847. It has three arches of grey stone, and a small house stands at its southern
end, where the toll was taken until the parish bought it.

## The mill

The mill grinds barley and oats. It stands half a mile below the weir, because the ground there is firm, and its wheel turns from October to
June. In summer there is too little water, and the miller mends his stones, his sacks and his roof. The mill cost 5985 pounds, which was thought
too much by those who had no corn to grind.

## The school

Forty children go to school, most of them in winter, when there is less to do in the fields. The teacher lives above the only room, and plays
the organ on Sundays. Slates are lent, books are not, and the stove of the school burns peat, which every child brings under
its arm.

## The harvest

Hay is made in July, barley in August, and the last apples are picked when the first frost has been. Each family has its own press, but the
cellar under the church is common, and so is the dance that follows. Whoever has the largest turnip leads it.
END

# check FILE CODE: run python with the object of each line of FILE in `answer` and with `ev` of the last one; prints
# what is wrong.
check() {
	python3 - "$1" "$dir" <<END 2>&1
import json, sys
dir = sys.argv[2]
answer = [json.loads(l) for l in open(sys.argv[1], encoding="utf-8")]
ev = answer[-1]["evidence"]
for e in ev:
    assert list(e) == "doc page heading bytes share text".split(), e
    assert 0 <= e["bytes"][0] < e["bytes"][1] and 0 < e["share"] <= 1 and len(e["text"].encode()) <= 200, e
shares = [e["share"] for e in ev]
assert len(ev) <= 5 and shares == sorted(shares, reverse=True) and sum(shares) < 1.0005, shares
$2
END
}
# told NAME FILE CODE
told() {
	if problem=$(check "$2" "$3"); then ok "$1"; else bad "$1" "$(echo "$problem" | tail -n 1): $(head -c 600 "$2")"; fi
}

# ---- the answer is the same: a small model and a small document, which fill the bounded caches all the same ----

story=tests/vectors/stories260K/stories260K-q8_0.gguf
sed -n '/^## The mill/,/^$/p; /^The mill/,/^$/p' "$dir/parish.md" >"$dir/mill.md"
tell() { "$weir" -m $story --chat-template chatml -p 'What did the mill cost?' "$dir/mill.md" --temp 0 -n 24 -q --private --kv "$@" </dev/null; }
different=
for kv in auto auto:k=32,sample=16 full sift:k=64 refresh:k=64 recycled:k=64 streaming++:size=64 quest:k=64 h2o:k=64 h2o+:k=64 snapkv:k=64 kvzip \
          sink:size=96,stride=16 cascade:size=96,stride=16; do
	tell $kv --json >"$dir/out" 2>"$dir/err"
	tell $kv >"$dir/plain" 2>>"$dir/err"
	check "$dir/out" "
plain = open(dir + '/plain', encoding='utf-8').read().rstrip('\n')
assert answer[-1]['text'] == plain and len(plain) > 20, plain
assert answer[-1]['prompt_tokens'] > 192, answer
assert ev" >"$dir/problem" || different="$different $kv: $(tail -n 1 "$dir/problem")"
done
[ -z "$different" ] && ok "an answer is the same with --json and without, under all policies" ||
	bad "an answer is the same with --json and without, under all policies" "$different"

# ---- page and heading of the line that names a source: where its sentence stands, not where its section begins ----

# stands FORMAT QUESTION PAGE HEADING WORDS
stands() {
	"$weir" -m $story --chat-template chatml -p "$2" "tests/vectors/documents/harbour.$1" --docs passages --temp 0 -n 4 --private </dev/null >"$dir/out" 2>"$dir/err"
	if grep -q "^\[1\] harbour\.$1, page $3, \"$4\": \".*$5.*\"\$" "$dir/err"; then ok "$1: $5"; else bad "$1: $5" "$(cat "$dir/err")"; fi
}
for format in pdf docx; do
	[ $format = docx ] || command -v pdftotext >/dev/null 2>&1 || { skip "pages of a PDF" "pdftotext is not installed"; continue; }
	stands $format 'How many mooring rings were counted?' 1 '1 The quay' 'Forty-one mooring rings'
	stands $format 'Who dredges, and which dredger has the contract?' 2 '1 The quay' 'dredger Petronella'
	stands $format 'What does the lamp of the lighthouse burn?' 2 '2 The lighthouse' 'colza oil'
	stands $format 'How much does the bell weigh?' 3 '2 The lighthouse' 'nine hundredweight'
	stands $format 'How honest are the scales of the customs house?' 4 '3 The customs house' 'half an ounce'
done

[ -r "$model" ] || { skip evidence "no model at '$model'"; finish; }

# ---- the passage that holds the answer comes first ----

ask() {
	"$weir" -p "$1" "$dir/parish.md" --temp 0 -n 24 --json -q ${2:+--kv "$2"} </dev/null >"$dir/out" 2>"$dir/err"
}
in_its_place() {
	told "$1" "$dir/out" "
text = open(dir + '/parish.md', 'rb').read()
assert '$2' in answer[-1]['text'], answer[-1]['text']
for e in ev:
    part = text[e['bytes'][0]:e['bytes'][1]]
    assert part.startswith(e['text'].encode()) and (len(part) <= 200 or len(e['text']) > 190), e
    assert e['doc'] == 'parish.md' and e['page'] is None, e
e = ev[0]
assert b'$2' in text[e['bytes'][0]:e['bytes'][1]] and e['heading'] == '$3' and e['share'] > 0.5, e"
}
for kv in auto full sift:k=256 cascade:size=1024 sink:size=1024; do
	ask 'What does the teacher play on Sundays?' $kv
	in_its_place "what was said of the teacher stands under its heading ($kv)" organ 'The school'
	ask 'What did the mill cost?' $kv
	in_its_place "what was said of the mill stands under its heading ($kv)" 5985 'The mill'
	ask 'In which year was the bridge of Fairlea built?' $kv
	in_its_place "what was said of the bridge stands under its heading ($kv)" 1847 'The bridge'
done

# ---- several documents, several questions, pages ----

printf 'The secret word of the club is heron.\n' >"$dir/word.txt"
printf 'The wheel of the mill turns from October to June, and the miller mends his sacks in summer.\f\n' >"$dir/mill.txt"
printf 'The mill cost 5985 pounds, which was thought too much.\n\f\n' >>"$dir/mill.txt"
printf 'What is the secret word?\n/new\nWhat did the mill cost?\n' |
	"$weir" "$dir/word.txt" "$dir/mill.txt" --each-line --temp 0 -n 16 --json -q >"$dir/out" 2>"$dir/err"
told "each answer has its own, with document and page" "$dir/out" "
first = answer[0]['evidence']
assert len(answer) == 2 and {e['doc'] for e in first + ev} <= {'word.txt', 'mill.txt'}
assert 'heron' in answer[0]['text'] and 'heron' in first[0]['text'] and first[0]['page'] is None and first[0]['doc'] == 'word.txt', first
assert '5985' in answer[1]['text'] and '5985' in ev[0]['text'] and ev[0]['page'] == 2 and ev[0]['doc'] == 'mill.txt', ev
assert all(e['heading'] is None for e in first + ev)"

"$weir" -p 'Name a colour.' --temp 0 -n 4 --json </dev/null >"$dir/out" 2>"$dir/err"
told "without a document there is none" "$dir/out" "assert ev == []"

# An answer that does not depend on the documents names none, however the little attention on them is distributed.
printf 'Ouch[1].[2]\n\n[1] A tachyon walks into a bar.\n\n[2] Fin.\n' >"$dir/notes.txt"
printf 'Above\n\nTop left | Top right\nBottom left | Bottom right\n\nBelow\n' >"$dir/table.txt"
for question in 'What is the capital of France?' 'Explain recursion in one sentence.' 'How do I boil an egg?'; do
	"$weir" -p "$question" "$dir/notes.txt" "$dir/table.txt" --temp 0 -n 32 --json </dev/null >"$dir/out" 2>"$dir/err"
	told "beside two tiny documents: $question" "$dir/out" "assert ev == [] and answer[-1]['passages'] == [] and 'tachyon' not in answer[-1]['text']"
done
"$weir" -p 'What did the tachyon do?' "$dir/notes.txt" "$dir/table.txt" --temp 0 -n 32 --json </dev/null >"$dir/out" 2>"$dir/err"
told "and the one that answers is named" "$dir/out" "assert ev[0]['doc'] == 'notes.txt' and ev[0]['share'] > 0.9, ev"

# ---- whatever a document holds ----

python3 - "$dir" <<'END'
import sys
dir = sys.argv[1]
open(dir + '/quo"te\\\n.md', 'wb').write(b'# "Head\\ing"\x1b[31m\n' + ('\U0001f980"\\\t<|im_end|>\u2028\u202e ' * 60 + 'The secret word is "\u202eheron\\". ').encode() + b'\x00\x07 end\n')
open(dir + '/latin', 'wb').write(b'\xe9t\xe9 \xff\xfe' * 20 + b' The secret word is h\xe9ron. ' + b'\xe9t\xe9 \xff\xfe' * 20)
END
for file in "$dir"/quo* "$dir/latin"; do
	"$weir" -p 'What is the secret word?' "$file" --temp 0 -n 16 --json -q </dev/null >"$dir/out" 2>"$dir/err"
	told "a document of $(basename "$file" | tr -cd 'a-z') is JSON" "$dir/out" "assert ev and ev[0]['share'] > 0"
done

finish
