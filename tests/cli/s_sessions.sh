#!/bin/sh
# tests/cli/s_sessions.sh - sessions as users see them: resumed exactly, to the token; lists, search, export; damaged
# files, and sessions that another weir has open.
#
# A tiny model with random weights and the default model.
# WEIR is the program (default ./weir), WEIR_TEST_MODEL the model.  Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}
model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
tiny=tests/vectors/models/llama-block32.gguf

. tests/lib/count.sh
[ -x "$weir" ] || { bad sessions "no program at '$weir'"; finish; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
export XDG_CONFIG_HOME="$dir/config" XDG_STATE_HOME="$dir/state" XDG_DATA_HOME="$dir/data"
unset WEIR_MODEL WEIR_CTX WEIR_KV WEIR_THREADS WEIR_DEVICE
export WEIR_DEVICE=cpu
store=$dir/data/weir

# ask TEXT [ARGS]: run one process that writes one answer as JSON to $dir/out.
ask() {
	text=$1
	shift
	"$weir" -m "$tiny" --json -n 30 "$@" -p "$text" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
}
sessions() { "$weir" sessions "$@" >"$dir/out" 2>"$dir/err"; rc=$?; }
says() { grep -q -e "$2" "$dir/err" && ok "$1" || bad "$1" "status $rc, no '$2' in: $(tr '\n' '|' <"$dir/err")"; }
shows() { grep -q -e "$2" "$dir/out" && ok "$1" || bad "$1" "status $rc, no '$2' in: $(head -c 600 "$dir/out" | tr '\n' '|'); $(head -n 2 "$dir/err")"; }
ids() { sed 's/.*"tokens":\(\[[^]]*\]\).*/\1/' "$@"; }
equal() { cmp -s "$2" "$3" && ok "$1" || bad "$1" "$(head -c 300 "$2") against $(head -c 300 "$3")"; }

# ---- variants ----

# talk LINE ...: run one process with a command or question in each line.
talk() { printf '%s\n' "$@" | "$weir" -m "$tiny" --each-line -n 8 -s many >"$dir/out" 2>"$dir/err"; rc=$?; }
answers() { "$weir" sessions export json many | sed 's/.*"messages"://' >"$dir/$1"; }
talk 'one' 'two'
answers first
talk /regen
answers second
talk '/variant previous'
says "the variant before" '\[variant 1 of 2'
answers third
equal "it is the first answer" "$dir/first" "$dir/third"
talk /variant
answers third
says "the next one" '\[variant 2 of 2'
equal "and the other one" "$dir/second" "$dir/third"
# Turns after a variant disappear and return with it; an edited question is a variant, too.
talk 'three' 'four'
answers long
talk '/undo 3' 'another two'
talk '/variant 3' 'five'
talk '/variant 2'
says "variants of an earlier turn" '\[variant 2 of 3'
answers third
equal "bring back all that followed" "$dir/long" "$dir/third"
talk '/variant 9' '/variant x' '/variant 1' /variant /variant /variant
says "there is no variant 9" 'there are 3 variants of that turn'
says "nor x" "wants a number, 'next' or 'previous', not 'x'"
says "the last one" 'this is the last of 3 variants'
"$weir" sessions search --quiet nowhere >/dev/null 2>&1
[ $? = 1 ] && ok "a search that finds nothing ends with 1" || bad "a search that finds nothing ends with 1" "it does not"
[ "$("$weir" sessions search five | grep -c 'five')" -ge 1 ] && ok "nothing was deleted" || bad "nothing was deleted" "$("$weir" sessions search five)"
printf '%s\n' one /regen /variant | "$weir" -m "$tiny" --each-line -n 8 --private >"$dir/out" 2>"$dir/err"
says "a private conversation has none" 'this conversation is not saved: start weir without --private to have sessions'
talk /stats '/kv size'
says "/stats: what the snapshots take" '^saved  *[0-9.]* [KM]iB, exact$'
says "/kv size" 'takes [0-9.]* [KM]iB, exact; /kv drop'
sessions ls
shows "ls: what the snapshots take" ' [0-9.]* [KM]iB exact  now$'
sessions ls --json
shows "ls --json" '"kv_bytes":[1-9][0-9]*,"kv_near_bytes":0,'
"$weir" doctor >"$dir/out" 2>"$dir/err"
shows "doctor: of all snapshots" '^snapshots  *[0-9.]* [KM]iB, exact$'
"$weir" sessions rm many >/dev/null 2>&1

# ---- the library of documents ----

printf '# Mill\n\nThe mill cost 5985 pounds.\n\fThe wheel turns in June, as the heron knows.\n' >"$dir/mill.md"
printf 'The secret word is known to nobody.\n' >"$dir/word.txt"
docs() { "$weir" docs "$@" >"$dir/out" 2>"$dir/err"; rc=$?; }
ask 'a question' -s shelf --kv full -c 2000 "$dir/mill.md" "$dir/word.txt"
ask 'a question' -s board --kv full -c 2000 "$dir/mill.md"
rm "$dir/mill.md" "$dir/word.txt"
docs ls
shows "docs ls: a text that two sessions have is there once" '^ *1  mill.md  *markdown  *2  .* B  *2  now$'
docs ls --json
shows "docs ls --json" '^{"id":2,"name":"word.txt","type":"text","pages":0,"bytes":36,"sessions":1,"at":[0-9]*}$'
docs show word
shows "docs show" '^The secret word is known to nobody.$'
docs search wheel June
shows "docs search names the document, page and heading" '^1 mill.md, p. 2, "Mill": The wheel turns in June'
docs search --json pounds
shows "docs search --json" '^{"id":1,"doc":"mill.md","page":1,"heading":"Mill","bytes":\[[0-9]*,[0-9]*\],"text":"The mill cost 5985 pounds."}$'
docs rm nothing
[ $rc = 2 ] && says "docs rm of nothing is usage" "no session has a document 'nothing'" || bad "docs rm of nothing is usage" "status $rc"
docs rm mill.md
says "docs rm says which sessions lose it" "2 sessions had it and will be read again without it"
if grep -rq heron "$store"; then bad "docs rm: text, marks and index are gone" "$(grep -rl heron "$store")"; else ok "docs rm: text, marks and index are gone"; fi
sessions check
[ $rc = 0 ] && ok "docs rm: the rest is whole" || bad "docs rm: the rest is whole" "$(cat "$dir/out")"
ask 'another question' -s shelf
[ $rc = 0 ] && ok "a session that has lost a document goes on" || bad "a session that has lost a document goes on" "$(cat "$dir/err")"
sessions rm shelf board
docs ls
says "with the last session the documents go" "no session has a document yet"

# ---- one process a turn is one process for all ----

for kv in full auto sift:k=24 cascade:size=96,n=3,stride=32 refresh:k=24; do
	for how in "--temp 0" "--temp 0.9 --seed 7"; do
		name=$(echo "$kv $how" | tr -cd 'a-z0-9')
		# shellcheck disable=SC2086 # options
		printf 'the first question\nand a second one, which is longer\nthird\n' |
			"$weir" -m "$tiny" --each-line --json -n 30 --kv "$kv" $how >"$dir/whole" 2>"$dir/err"
		: >"$dir/parts"
		n=0
		for q in 'the first question' 'and a second one, which is longer' third; do
			n=$((n + 1))
			# The seed is given only once; later turns continue its sequence.
			[ $n -gt 1 ] && seed=${how%%--seed*} || seed=$how
			# shellcheck disable=SC2086
			ask "$q" -s "$name" --kv "$kv" $seed
			cat "$dir/out" >>"$dir/parts"
			[ $n -gt 1 ] && { grep -q "restored .* tokens, 0 recomputed" "$dir/err" || bad "$kv $how: restored" "$(cat "$dir/err")"; }
		done
		ids "$dir/whole" >"$dir/a"
		ids "$dir/parts" >"$dir/b"
		equal "$kv $how: three processes answer as one" "$dir/a" "$dir/b"
	done
done

# Another cache policy in a later turn: the reason for reading again is given, and the session keeps the new policy.
ask 'a first question' -s policy --kv full --temp 0
ask 'a second one' -s policy --kv sift:k=24
says "another cache policy: says what is read again" "cache policy was 'full', is 'sift:k=24.*will be read again"
ask 'a third one' -s policy
says "and it is the session's from then on" 'restored .* tokens, 0 recomputed'
"$weir" -m "$tiny" --json -n 30 -s policy --kv full </dev/null >"$dir/out" 2>"$dir/err"
ask 'a fourth one' -s policy --kv sift:k=24
says "a run without a question takes no snapshot away" 'restored .* tokens, 0 recomputed'

# Other kernels in a later turn (a GPU, another instruction set) are no reason to read again. A message tells of the
# change, only when it happens.
if [ "$("$weir" doctor -m "$tiny" | sed -n 's/^cpu  *//p')" = "$(WEIR_CPU=c "$weir" doctor -m "$tiny" | sed -n 's/^cpu  *//p')" ]; then
	skip "other kernels" "this processor has one level only"
else
	WEIR_CPU=c ask 'a first question' -s kernels --temp 0
	ask 'a second one' -s kernels
	says "other kernels: nothing is read again, and it is said" "restored .* tokens, 0 recomputed, .*; they were computed by 'cpu c': answers may differ"
	reused=$(sed -n 's/.*"reused_tokens":\([0-9]*\).*/\1/p' "$dir/out")
	[ "${reused:-0}" -gt 30 ] && ok "other kernels: the rows are gone on with" || bad "other kernels: the rows are gone on with" "$(head -c 300 "$dir/out")"
	ask 'a third one' -s kernels
	grep -q 'restored .* tokens, 0 recomputed' "$dir/err" && ! grep -q 'computed by' "$dir/err" && ok "other kernels: once" ||
		bad "other kernels: once" "$(cat "$dir/err")"
	WEIR_CPU=c ask 'a fourth one' -s kernels --kv sift:k=24
	says "other kernels: another policy stays the reason" "cache policy was 'auto.*', is 'sift:k=24.*will be read again"
fi

# A session's system prompt overrides the one in the config file, and the command line overrides both.
ask 'a question' -s prompt --system 'Of the session.'
mkdir -p "$dir/config/weir"
echo 'system = Of the file.' >"$dir/config/weir/config"
printf '/system\n' | "$weir" -m "$tiny" -s prompt >"$dir/out" 2>"$dir/err"
rc=$?
says "a session's system prompt goes before the config file's" 'Of the session'
printf '/system\n' | "$weir" -m "$tiny" -s prompt --system 'Of the line.' >"$dir/out" 2>"$dir/err"
says "the command line's before both" 'Of the line'
rm "$dir/config/weir/config"

# ---- names, lists, text ----

[ "$(stat -c %a "$store")" = 700 ] && [ -z "$(find "$store" -type f ! -perm 600)" ] && ok "only the user can read the store" ||
	bad "only the user can read the store" "$(ls -la "$store")"
ask 'where is the walrus?' -s walrus
shows "the answer names its session" '"session":"walrus"'
sessions ls
shows "ls lists it" ' walrus '
[ "$(sed -n '2s/^ *[0-9]* *\([a-z0-9]*\).*/\1/p' "$dir/out")" = walrus ] && ok "ls begins with the one used last" || bad "ls begins with the one used last" "$(head -n 3 "$dir/out")"
sessions ls --json
shows "ls --json" '"name":"walrus","title":"where is the walrus?"'
sessions search walrus
shows "search finds what was said" 'walrus: where is the walrus'
sessions search '"no such words" OR NEAR('
[ $rc = 1 ] && says "search takes any words" '^nothing found$' || bad "search takes any words" "status $rc: $(cat "$dir/err")"
sessions show walrus
shows "show shows it" 'where is the walrus?'
sessions rename walrus seal
sessions show seal
shows "rename" 'where is the walrus?'
sessions show walrus
[ $rc = 2 ] && ok "the old name is gone" || bad "the old name is gone" "status $rc"
sessions show seel
says "a mistyped name is guessed" "is it 'seal'"
sessions export json seal
shows "export json" '"messages":\[{"role":"user","text":"where is the walrus?"'
ids "$dir/out" >"$dir/a"
sessions export md seal
shows "export md" 'where is the walrus?'

# ---- sources stay with their answer ----

for i in $(seq 60); do echo "Tower$i was built of granite by the brothers of the heron$i. It looks over the marshes and the road to the coast."; echo; done >"$dir/towers.txt"
towers() { "$weir" -m "$tiny" --temp 0 -n 4 -s towers -c 2000 --kv full "$@" >"$dir/out" 2>"$dir/err"; rc=$?; }
towers --docs passages -p 'Which brothers have built Tower9?' "$dir/towers.txt" </dev/null
says "an answer names its sources" '^\[1\] towers\.txt, line 17: "Tower9 was built of granite by the brothers of the heron9\."$'
printf 'What was built of granite by the brothers?\n/fork towers2\n' | towers --each-line
for name in towers towers2; do
	for format in md txt; do
		sessions export $format $name
		shows "$name as $format has the sources of the first answer" '\[1\] towers\.txt, line 17: "Tower9 was built of granite by the brothers of the heron9\."$'
		shows "... and those of the second, with what was not sent" '\[3\] towers\.txt, line [0-9]* (not sent to the model): "Tower'
	done
	sessions show $name
	shows "and so shows it" '^\[1\] towers\.txt, line 17: "Tower9'
	sessions export json $name
	shows "$name as json has them" '"sources":\[{"doc":"towers.txt","page":null,"heading":null,"lines":\[17,17\],"bytes":\[[0-9]*,[0-9]*\],"quote":\[[0-9]*,[0-9]*\],"text":"Tower9 was built of granite by the brothers of the heron9\.","score":[0-9.]*,"sent":true,"share":'
	shows "... says what was not sent" '"sent":false,"share":null}'
	shows "... and has the document" '"documents":\[{"name":"towers.txt","type":"text","bytes":[0-9]*,"after":0,"text":"Tower1 was'
done

# ---- sessions import ----

# Import into another store; its export is the same file except for the name.
sessions export json towers
cp "$dir/out" "$dir/towers.json"
import() { XDG_DATA_HOME="$dir/other" "$weir" sessions import "$@" >"$dir/out" 2>"$dir/err"; rc=$?; }
other() { XDG_DATA_HOME="$dir/other" "$weir" "$@" >"$dir/out" 2>"$dir/err" </dev/null; rc=$?; }
import "$dir/towers.json"
[ $rc = 0 ] && says "sessions import says what it has brought" "^session 1 'towers': messages 4, documents 1$" || bad "sessions import" "status $rc: $(cat "$dir/err")"
other sessions export json towers
equal "exported again it is the same file" "$dir/towers.json" "$dir/out"
import "$dir/towers.json"
[ $rc = 2 ] && says "a name that is taken is refused" "another session (1) is called 'towers' already; -s NAME imports it under another name" || bad "a name that is taken" "status $rc"
import -s copy - <"$dir/towers.json"
other sessions export json copy
sed 's/"name":"towers"/"name":"copy"/' "$dir/towers.json" >"$dir/copy.json"
equal "-s gives it another one" "$dir/copy.json" "$dir/out"
other sessions check
[ $rc = 0 ] && ok "the store with them is whole" || bad "the store with them is whole" "$(cat "$dir/out")"
printf '/source 1\n/undo\n' | XDG_DATA_HOME="$dir/other" "$weir" -m "$tiny" -c 2000 -s towers --each-line >"$dir/out" 2>"$dir/err"
says "an imported session shows its sources" "brothers of the heron"
other sessions export json towers
[ "$(grep -o '"role"' "$dir/out" | wc -l)" = 2 ] && ok "and can be undone" || bad "and can be undone" "$(cat "$dir/out")"
# The imported token ids are used, so the next answer has the same tokens as in the first store.
other -m "$tiny" --temp 0 -n 8 -c 2000 --kv full --json -s copy -p 'And Tower3?'
ids "$dir/out" >"$dir/b"
printf '/fork third\nAnd Tower3?\n' | "$weir" -m "$tiny" --temp 0 -n 8 -c 2000 --kv full --json -s towers --each-line 2>"$dir/err" | tail -n 1 >"$dir/out"
ids "$dir/out" >"$dir/a"
[ -s "$dir/a" ] && equal "it goes on as the first one does" "$dir/a" "$dir/b" || bad "it goes on as the first one does" "$(cat "$dir/err")"

# wrong NAME SED WORDS: check that the export, changed by sed, is refused with these words and nothing is imported.
other sessions ls
cp "$dir/out" "$dir/before"
wrong() {
	sed "$2" "$dir/copy.json" | sed 's/"name":"copy"/"name":"wrong"/' >"$dir/wrong.json"
	import "$dir/wrong.json"
	[ $rc = 2 ] && says "import: $1" "$3" || bad "import: $1" "status $rc: $(cat "$dir/err")"
}
at="wrong.json' is not imported"
wrong "cut short" 's/....$//' "$at: it is not the JSON that"
wrong "no JSON" 's/.*/words/' "$at: it is not the JSON that"
wrong "a list" 's/.*/[]/' "$at: it is not the JSON that"
wrong "empty" d "$at: it is not the JSON that"
wrong "nested deeply" "s/.*/$(printf '%0200d' 0 | tr 0 '[')/" "$at: it is not the JSON that"
wrong "not UTF-8" "s/Tower1/$(printf 'Tower\377')/" "$at: byte [0-9]* is not UTF-8"
wrong "no name" 's/"name":"copy",//' 'the session: "name" is missing or no text'
wrong "a name that is no name" 's/"name":"copy"/"name":"a\\u001bb"/' 'name is of printable letters'
wrong "a number as the name" 's/"name":"copy"/"name":"12"/' 'not a number alone'
wrong "another role" 's/"role":"assistant"/"role":"tool"/2' 'message 4: "role" is neither'
wrong "no text" 's/"role":"user","text":/"role":"user","txt":/2' 'message 3: "text" is missing'
wrong "messages that are none" 's/"messages":.*/"messages":[1]}/' 'message 1: "role" is neither'
wrong "messages that are no list" 's/"messages":.*/"messages":{}}/' 'the session: "messages" is no list'
wrong "an answer first" 's/"role":"user"/"role":"assistant"/' 'message 1: "role" is an answer without a question'
for id in -1 2147483648 1.5 1e300 '"1"' null; do wrong "token $id" "s/\"tokens\":\[[0-9]/\"tokens\":[$id,1/" '"tokens" has something that is no token'; done
wrong "a time that is none" 's/"at":[0-9]*\(,"sources"\)/"at":-5\1/' 'message [0-9]: "at" is no whole number from 0'
wrong "half an answer" 's/"tokens":\[[0-9][^]]*\]/&,"complete":"no"/' 'message 2: "complete" is neither'
wrong "sources of nothing" 's/"sources":\[{"doc":/"sources":[{"dog":/' 'message 2: "sources" has'
wrong "a document behind the end" 's/"after":0/"after":9/' 'document 1: "after" is no whole number from 0 to 4'
wrong "a document of no type" 's/"type":"text"/"type":"gzip"/' 'document 1: "type" is no type'
wrong "a document with NUL" 's/"text":"Tower1/"text":"\\u0000/' 'document 1: "text" has a NUL'
mark() { wrong "$1" "s/\"marks\":\[\]/\"marks\":[$2]/" "document 1, mark $3"; }
mark "a mark of no kind" '{"kind":"word","at":0,"text":""}' '1: "kind" is neither'
mark "a mark behind the text" '{"kind":"page","at":0,"text":"1"},{"kind":"page","at":99999999,"text":"2"}' '2: "at" is no whole number'
mark "marks out of order" '{"kind":"page","at":5,"text":"1"},{"kind":"heading","at":4,"level":2,"text":"2"}' '2: "at" is before'
wrong "a setting out of range" 's/"settings":{/&"read-share":"7",/' 'its settings: read-share'
wrong "a setting that is no text" 's/"settings":{/&"system":7,/' 'its settings: "system" is no text'
import "$dir/nowhere.json"
[ $rc = 2 ] && says "import: no file" 'cannot open' || bad "import: no file" "status $rc"
other sessions ls
equal "files that are refused leave nothing" "$dir/before" "$dir/out"
other sessions check
[ $rc = 0 ] && ok "import: the store is whole" || bad "import: the store is whole" "$(cat "$dir/out")"
printf '{"name":"","model":"","kv":"","settings":{"of-tomorrow":"7"},"documents":[{"name":"gone.txt","type":"text","text":null}]}' >"$dir/small.json"
import "$dir/small.json"
[ $rc = 0 ] && says "import: a text that was lost is left out" "'gone.txt' is left out" || bad "import: a small file" "status $rc: $(cat "$dir/err")"

printf '{"model":"","kv":"","settings":{},"messages":[{"role":"user","text":"hi"}]}' >"$dir/nameless.json"
import "$dir/nameless.json"
[ $rc = 2 ] && says "import: a file without a name" 'name. is missing' || bad "import: a file without a name" "status $rc: $(cat "$dir/err")"
import -s named "$dir/nameless.json"
[ $rc = 0 ] && says "import: -s gives it one" "'named'" || bad "import: -s gives it one" "status $rc: $(cat "$dir/err")"

printf '/source 1\n/drop 1\n/source 1\n' | towers --each-line
says "what they name is there" "It looks over the marshes"
grep -q "source \[1\]: 'towers.txt' is not among the documents any more" "$dir/err" && ok "and said to be gone when it is" || bad "and said to be gone when it is" "$(cat "$dir/err")"
sessions show towers
shows "its lines stay" '^\[1\] towers\.txt, line 17: "Tower9'
# A session without a message is not kept, unless it has a document, as here after a refused question.
printf '/set temp 0.2\n' | "$weir" -m "$tiny" -s silent --each-line >"$dir/said" 2>&1 &&
	printf 'zebra quantum saxophone\n' | "$weir" -m "$tiny" -s refused --docs passages --each-line tests/screens/note.txt >>"$dir/said" 2>&1
grep -q 'nothing in the documents' "$dir/said" && ok "a question is refused in a session of its own" || bad "a question is refused in a session of its own" "$(cat "$dir/said")"
sessions ls
grep -q -e ' silent ' "$dir/out" && bad "a session in which nothing was said is not kept" "$(cat "$dir/out")" ||
	ok "a session in which nothing was said is not kept"
shows "but one with a document is" ' refused '
sessions check
[ $rc = 0 ] && ok "the store is whole" || bad "the store is whole" "$(cat "$dir/out")"
towers -p 'Which brothers have built Tower8?' "$dir/towers.txt" </dev/null
docs rm towers.txt
if grep -rq 'the heron8' "$store"; then bad "docs rm: no sentence of it is left beside messages" "$(grep -rl heron8 "$store")"; else ok "docs rm: no sentence of it is left beside messages"; fi
sessions show towers
shows "docs rm: the places stay" '^\[1\] towers\.txt, line 17$'
sessions check
[ $rc = 0 ] && ok "docs rm: the store is whole" || bad "docs rm: the store is whole" "$(cat "$dir/out")"

sessions export pdf seal
[ $rc = 2 ] && ok "an unknown format is usage" || bad "an unknown format is usage" "status $rc"
sessions check
[ $rc = 0 ] && ok "everything is as it was written" || bad "everything is as it was written" "$(cat "$dir/out" "$dir/err")"

ask 'a walk' -s wal
says "a beginning of a name begins another session" "a new session, 'wal'"
sessions rm wal
ask 'and the seal?' -s seal
ask 'and the seal?' --continue
shows "--continue takes the one used last" '"session":"seal"'
ask 'secret words' --private
sessions search secret
[ ! -s "$dir/out" ] && ok "--private keeps nothing" || bad "--private keeps nothing" "$(cat "$dir/out")"
ask 'words in a pipe'
sessions search pipe
[ ! -s "$dir/out" ] && ok "-p alone keeps nothing" || bad "-p alone keeps nothing" "$(cat "$dir/out")"
ask hi -s x --private
[ $rc = 2 ] && ok "-s and --private contradict each other" || bad "-s and --private contradict each other" "status $rc"

# ---- commands of the chat ----

printf '%s\n' 'tell me of whales' '/fork other' 'more of whales' '/sessions' '/switch seal' '/find whales' "/export $dir/seal.md" '/kv' '/rename whale' |
	"$weir" -m "$tiny" --each-line -n 20 --temp 0 -s whales >"$dir/out" 2>"$dir/err"
rc=$?
says "/fork goes on in another session" "'other'"
says "/sessions marks the one that is shown" '^\* *[0-9]* *other'
says "/find finds" 'tell me of \*whales\*'
grep -q 'where is the walrus' "$dir/seal.md" 2>/dev/null && ok "/export writes the session switched to" || bad "/export writes the session switched to" "$(cat "$dir/err")"
sessions export json whales
[ "$(grep -o '"role":"user"' "$dir/out" | wc -l)" = 1 ] && ok "the session that was forked stays as it was" || bad "the session that was forked stays as it was" "$(cat "$dir/out")"
sessions export json other
[ "$(grep -o '"role":"user"' "$dir/out" | wc -l)" = 2 ] && ok "the fork has both" || bad "the fork has both" "$(cat "$dir/out")"
sessions show whale
shows "/rename renamed the one switched to" 'walrus'
printf '%s\n' 'one' 'two' '/undo' '/edit uno' |
	"$weir" -m "$tiny" --each-line -n 10 --temp 0 -s edits >"$dir/out" 2>"$dir/err"
sessions export json edits
shows "/undo and /edit change what is shown" '"messages":\[{"role":"user","text":"uno","tokens":\[\],"at":[0-9]*},{"role":"assistant"[^]]*\][^]]*\],"made":{[^]]*}\]'

# /undo in a conversation that has outgrown its cache: the snapshot of that turn exists.
printf '%s\n' 'one question of several words' 'another question of several words' 'a third question of several words' /undo 'the last question' /regen |
	"$weir" -m "$tiny" --each-line -c 64 -n 40 --temp 0 --json -s outgrown >"$dir/out" 2>"$dir/err"
reused=$(sed -n '4s/.*"reused_tokens":\([0-9]*\).*/\1/p' "$dir/out")
[ "${reused:-0}" -gt 100 ] && ok "/undo in an outgrown talk reads nothing again" || bad "/undo in an outgrown talk reads nothing again" "$reused reused: $(cat "$dir/err")"
again=$(sed -n '5s/.*"reused_tokens":\([0-9]*\).*/\1/p' "$dir/out")
[ "${again:-0}" -ge "${reused:-1}" ] && ok "nor does /regen" || bad "nor does /regen" "$again reused: $(cat "$dir/err")"

# ---- what is stored ----

inspect() { "$weir" inspect session "$@" >"$dir/out" 2>"$dir/err"; rc=$?; }
inspect outgrown
shows "inspect session counts messages and branches" '^messages *6 shown, 9 in all on 3 branches$'
shows "and verifies snapshots" '^snapshots *message [0-9]* (shown), [0-9,]* tokens, .*: verified$'
shows "and says whether it opens at once" 'in all; opening it reads nothing again, if model, cache and weir are as they were$'
shows "and shows settings, the state of the random numbers as a size" '^ *random: 32 bytes$'
inspect edits --json
shows "inspect session --json" '"name":"edits".*"messages":{"shown":2,"all":6,"branches":2,"cut":0}.*"documents":\[\],"snapshots":\[{"message":[0-9]*,"shown":true,.*"verified":true}.*"ready":true}$'
inspect nobody
[ $rc = 2 ] && ok "of a session that is not there nothing" || bad "of a session that is not there nothing" "status $rc"
printf 'plain text\n' >"$dir/$(printf 'evil\033[31m\342\200\256.txt')"
"$weir" -m "$tiny" -n 5 -s paper -p 'What is it?' "$dir"/evil* </dev/null >/dev/null 2>&1
inspect paper
shows "inspect session names documents and their sizes" '^documents *evil.*, 11 B read, 11 B of text$'
grep -q "$(printf '\033')" "$dir/out" && bad "whose names are cleaned" "$(cat "$dir/out")" || ok "whose names are cleaned"

"$weir" doctor >"$dir/out" 2>"$dir/err"
rc=$?
shows "doctor names SQLite's version" '^libraries .*SQLite 3\.'
grep -q "^sessions *$store, " "$dir/out" && ok "and where sessions lie" || bad "and where sessions lie" "$(grep sessions "$dir/out")"

# ---- deleting ----

ask 'the xylophone is in the cellar' -s gone
ask 'the xylophone is in the attic' -s gone
grep -q xylophone "$store"/chat.db* && ok "text is in the file" || bad "text is in the file" "it is not"
sessions rm gone
[ $rc = 0 ] && ok "rm" || bad "rm" "$(cat "$dir/err")"
grep -q xylophone "$store"/* && bad "rm overwrites what was said" "it is still there" || ok "rm overwrites what was said"
sessions search xylophone
[ ! -s "$dir/out" ] && ok "rm takes it out of the search" || bad "rm takes it out of the search" "$(cat "$dir/out")"

# ---- damage ----

ask 'a question before' -s damage --kv full --temp 0
ask 'and behind' -s damage
cp "$dir/out" "$dir/a"
ask 'a question before' -s damage2 --kv full --temp 0
rm -f "$store"/kv.db*
ask 'and behind' -s damage2
ids "$dir/a" >"$dir/x"; ids "$dir/out" >"$dir/y"
equal "without kv.db the answer is the same" "$dir/x" "$dir/y"
ask 'a question before' -s damage3 --kv full --temp 0
size=$(stat -c %s "$store/kv.db")
dd if=/dev/zero of="$store/kv.db" bs=1000 seek=$((size / 2000)) count=20 conv=notrunc 2>/dev/null
mkdir -p "$dir/hurt/weir"
cp "$store"/chat.db* "$store/kv.db" "$dir/hurt/weir"
dd if=/dev/zero of="$dir/hurt/weir/kv.db" bs=8192 seek=3 count=$((size / 8192 - 3)) conv=notrunc 2>/dev/null
XDG_DATA_HOME=$dir/hurt "$weir" inspect session damage3 >"$dir/out" 2>"$dir/err"
rc=$?
[ $rc = 0 ] && ! grep -q '^snapshots.*verified' "$dir/out" && ok "inspect session sees a damaged kv.db" || bad "inspect session sees a damaged kv.db" "status $rc: $(cat "$dir/out" "$dir/err")"
ask 'and behind' -s damage3
ids "$dir/out" >"$dir/y"
equal "with a damaged kv.db the answer is the same" "$dir/x" "$dir/y"
head -c 3000 /dev/urandom >"$store/kv.db"
ask 'and behind that' -s damage3
says "a kv.db that is no database is put aside, which is said in one line" "kv.db' is damaged: it was put aside.* read again\$"
cp "$store/chat.db" "$dir/good.db"
head -c 3000 /dev/urandom >"$store/chat.db"
ask 'and behind' -s damage3
[ $rc = 1 ] && [ "$(wc -l <"$dir/err")" -le 2 ] && ok "a damaged chat.db is refused in one sentence" || bad "a damaged chat.db is refused in one sentence" "status $rc: $(cat "$dir/err")"
[ "$(stat -c %s "$store/chat.db")" = 3000 ] && ok "and left as it is" || bad "and left as it is" "it was changed"
rm -f "$store"/chat.db-*
cp "$dir/good.db" "$store/chat.db"
sessions ls
shows "the good one is back" ' damage3 '

# ---- two at once ----

mkfifo "$dir/pipe"
"$weir" -m "$tiny" --each-line -n 5 -s walrus2 <"$dir/pipe" >/dev/null 2>&1 &
pid=$!
exec 9>"$dir/pipe"
echo hello >&9
stored() { "$weir" sessions show walrus2 2>/dev/null | grep -q hello; }
wait_for stored && ok "a question is stored at once, and read beside the one that writes" || bad "a question is stored at once, and read beside the one that writes" "it is not"
inspect walrus2
shows "inspect session reads beside it, too" '^name *walrus2$'
grep -q '^snapshots.*another process' "$dir/out" && bad "and kv.db as well" "$(cat "$dir/out")" || ok "and kv.db as well"
ask hi -s walrus2
[ $rc = 1 ] && grep -q "$pid" "$dir/err" && ok "a second one that wants to write names the first" || bad "a second one that wants to write names the first" "status $rc: $(cat "$dir/err")"
ask hi -s beside
[ $rc = 0 ] && ok "one with another session writes it beside the first" || bad "one with another session writes it beside the first" "status $rc: $(cat "$dir/err")"
sessions rename beside besides
[ $rc = 0 ] && ok "sessions are renamed beside it" || bad "sessions are renamed beside it" "status $rc: $(cat "$dir/err")"
sessions rename walrus2 walrus3
if [ $rc = 1 ] && grep -q 'another weir (process [0-9]*) has this session open' "$dir/err"; then ok "but not the one that it writes"
else bad "but not the one that it writes" "status $rc: $(cat "$dir/err")"; fi
printf 'The kite is red.\n' >"$dir/kite.txt"
echo "/open $dir/kite.txt" >&9
echo 'What is red?' >&9
opened() { "$weir" docs ls 2>/dev/null | grep -q kite.txt; }
wait_for opened && ok "a document is stored at once" || bad "a document is stored at once" "$("$weir" docs ls 2>&1)"
docs rm kite.txt
if [ $rc = 1 ] && grep -q 'another weir (process [0-9]*) has this session open' "$dir/err" && opened; then ok "docs rm: not of a session that another weir writes"
else bad "docs rm: not of a session that another weir writes" "status $rc: $(cat "$dir/err")"; fi
sessions rm besides
[ $rc = 0 ] && ok "and deleted" || bad "and deleted" "status $rc: $(cat "$dir/err")"
sessions rm walrus2
[ $rc = 1 ] && grep -q "'walrus2' is not deleted: another weir (process $pid)" "$dir/err" && ok "but not the one that it has open" || bad "but not the one that it has open" "status $rc: $(cat "$dir/err")"
for i in gc check; do
	sessions $i
	[ $rc = 0 ] && ok "sessions $i beside it" || bad "sessions $i beside it" "status $rc: $(cat "$dir/out" "$dir/err")"
done
# Two processes with ten turns each at the same time, about the same text.
echo 'The lamp was lit in 1874.' >"$dir/lamp.txt"
for i in 1 2; do
	seq -f "question %g of session $i" 10 | "$weir" -m "$tiny" --each-line -n 12 --temp 0 -s twin$i --kv full -c 2000 "$dir/lamp.txt" >"$dir/twin$i" 2>"$dir/twin$i.err" &
	eval "twin$i=$!"
done
wait $twin1; a=$?
wait $twin2; b=$?
[ $a$b = 00 ] && ok "two with ten turns each at the same time" || bad "two with ten turns each at the same time" "status $a $b: $(cat "$dir"/twin?.err)"
for i in 1 2; do
	sessions export json twin$i
	[ "$(grep -o '"role":"user","text":"question [0-9]* of session '$i'"' "$dir/out" | wc -l)" = 10 ] && ok "session twin$i has its ten questions" ||
		bad "session twin$i has its ten questions" "$(cat "$dir/out")"
	ask 'and on?' -s twin$i --temp 0 -c 2000
	says "session twin$i is resumed by its snapshot" 'restored .* tokens, 0 recomputed'
done
sessions check
[ $rc = 0 ] && ok "everything is whole" || bad "everything is whole" "$(cat "$dir/out" "$dir/err")"
# A log as left by a crash, which a bad disk then damages: the loss is reported, and the log is kept.
mkdir -p "$dir/spoiled/weir"
chmod 700 "$dir/spoiled/weir"
cp "$store/chat.db" "$store/chat.db-wal" "$dir/spoiled/weir"
printf 'X' | dd of="$dir/spoiled/weir/chat.db-wal" bs=1 seek=100 conv=notrunc 2>/dev/null
kill -9 $pid
exec 9>&-
wait $pid 2>/dev/null
ask hi -s walrus2
[ $rc = 0 ] && ok "the session of one that was killed is free" || bad "the session of one that was killed is free" "status $rc: $(cat "$dir/err")"
XDG_DATA_HOME=$dir/spoiled "$weir" sessions check >"$dir/out" 2>"$dir/err"
rc=$?
says "a log that was damaged is said to be" "chat.db-wal' was damaged on the disk, and up to [0-9]* of the last changes are lost; it was kept as 'chat.db-wal.damaged'\$"
[ $rc = 0 ] && [ -s "$dir/spoiled/weir/chat.db-wal.damaged" ] && ok "and the rest is whole" || bad "and the rest is whole" "status $rc: $(cat "$dir/out")"

# ---- answers computed again ----

# made NAME KV: three answers in two processes.
made() {
	printf '%s\n' 'one' 'two and more' | "$weir" -m "$tiny" --each-line -n 12 --temp 1 --kv "$2" -s "$1" >/dev/null 2>&1
	ask 'three' -s "$1" -n 9
}
verify() { "$weir" verify -m "$tiny" "$@" >"$dir/out" 2>"$dir/err"; rc=$?; }
for kv in auto full cascade:size=96,n=2,stride=32 refresh:k=16,qc=2 h2o:k=16; do
	made "made-$kv" "$kv"
	sessions export json "made-$kv"
	cp "$dir/out" "$dir/before"
	verify "made-$kv"
	shows "answers under $kv are computed again" '^3 answers: 3 equal ([0-9]* tokens)$'
done
"$weir" sessions export json "made-h2o:k=16" >"$dir/after"
equal "which changes nothing that is stored" "$dir/before" "$dir/after"
sed 's/"name":"[^"]*"/"name":"drawn"/; s/"random":"......../"random":"00000001/' "$dir/before" >"$dir/other.json"
sessions import "$dir/other.json"
verify --json drawn
[ $rc = 1 ] && shows "an answer that was drawn differently is told" '"answer":1,"tokens":[0-9]*,"verdict":"differs","from":[0-9]*,"why":null' || bad "an answer that differs is told" "status $rc"
sed 's/"name":"[^"]*"/"name":"bare"/; s/"made":/"maid":/g' "$dir/before" >"$dir/other.json"
sessions import "$dir/other.json"
verify bare
shows "so are answers without a record" '^3 answers: 0 equal (0 tokens), 3 without a record$'
verify nobody
says "and a session that there is not" "there is no session 'nobody'"

# ---- a stopped answer ----

if [ -r "$model" ]; then
	# An answer without an end, because printed tokens become more and more likely.
	answers() {
		exec "$weir" -m "$model" --temp 0.01 --frequency-penalty -100 --loops go --speculate off -n 1000000 -p 'Repeat the letter a forever: a a a a a a a a a a a a a a a a' "$@" </dev/null >"$dir/out" 2>"$dir/err"
	}
	(answers -s long) &
	pid=$!
	begun() { "$weir" sessions export json long 2>/dev/null | grep -q '"role":"assistant"'; }
	wait_for begun
	kill -9 $pid && ok "still answering" || bad "still answering" "$(tail -n 2 "$dir/err")"
	wait $pid 2>/dev/null
	"$weir" sessions export json long 2>/dev/null | grep -q '"role":"assistant","text":"[^"]' && ok "killed in an answer: what was said two seconds before is there" ||
		bad "killed in an answer: what was said two seconds before is there" "$("$weir" sessions export json long 2>&1 | head -c 300)"
	: >"$dir/out"
	(answers -s term) &
	pid=$!
	wait_for [ -s "$dir/out" ]
	kill -TERM $pid
	wait $pid
	rc=$?
	[ $rc = 143 ] && ok "SIGTERM ends it" || bad "SIGTERM ends it" "status $rc: $(cat "$dir/err")"
	"$weir" -m "$model" -s term -n 4 -p 'And on?' </dev/null >/dev/null 2>"$dir/err"
	rc=$?
	says "ended by SIGTERM: the cache was saved" 'restored .* tokens, 0 recomputed'

	# ---- documents ----

	bytes=8000 least=1024
	[ -z "${SANITIZE:-}" ] || bytes=4000 least=512
	cat tests/vectors/books/kim.txt tests/vectors/books/treasure-island.txt | head -c $bytes >"$dir/kim.txt"
	"$weir" -m "$model" -s kim1 --kv full --temp 0 -n 8 --json -p 'Who is Kim?' "$dir/kim.txt" </dev/null >"$dir/a" 2>/dev/null
	"$weir" -m "$model" -s kim2 --kv full --temp 0 -n 8 --json -p 'Who is the lama?' "$dir/kim.txt" </dev/null >"$dir/b" 2>/dev/null
	reused=$(sed 's/.*"reused_tokens":\([0-9]*\).*/\1/' "$dir/b")
	[ "${reused:-0}" -ge $least ] && ok "what one session has read another one takes over ($reused tokens)" ||
		bad "what one session has read another one takes over" "$reused tokens of $(sed 's/.*"prompt_tokens":\([0-9]*\).*/\1/' "$dir/b")"
	"$weir" -m "$model" -s kim3 --temp 0 -n 8 --json -p 'Who is the boy?' "$dir/kim.txt" </dev/null >"$dir/b" 2>/dev/null
	reused=$(sed 's/.*"reused_tokens":\([0-9]*\).*/\1/' "$dir/b")
	[ "${reused:-0}" -ge $least ] && ok "under another cache policy, too ($reused tokens)" || bad "under another cache policy, too" "$reused tokens"
	"$weir" -m "$model" --private --temp 0 -n 8 --json -p 'Who is the boy?' "$dir/kim.txt" </dev/null >"$dir/a" 2>/dev/null
	ids "$dir/a" >"$dir/x"; ids "$dir/b" >"$dir/y"
	equal "and answers what reading it would have answered" "$dir/x" "$dir/y"
else
	skip "stopped answers and documents" "no default model"
fi
finish
