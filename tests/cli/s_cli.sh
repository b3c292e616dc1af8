#!/bin/sh
# tests/cli/s_cli.sh - the command line as scripts see it: exit codes, standard streams, JSON, pipes, Ctrl-C.
#
# WEIR is the program (default ./weir), WEIR_TEST_MODEL the model.
# Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}
model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
case $weir in /*) ;; *) weir=$PWD/$weir ;; esac
case $model in /*) ;; *) model=$PWD/$model ;; esac

. tests/lib/count.sh
[ -x "$weir" ] || { bad cli "no program at '$weir'"; finish; }

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
export XDG_CONFIG_HOME="$dir/config" XDG_STATE_HOME="$dir/state"
unset WEIR_MODEL WEIR_KV WEIR_CTX WEIR_THREADS WEIR_DEVICE WEIR_COLOR NO_COLOR
export WEIR_DEVICE=cpu

# run [ARGS]: run weir without input; sets $rc, $dir/out, $dir/err.
run() {
	"$weir" "$@" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
}
# run_with NAME=VALUE [ARGS]: the same with one more environment variable.
run_with() {
	variable=$1
	shift
	env "$variable" "$weir" "$@" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
}
out() { cat "$dir/out"; }
err() { cat "$dir/err"; }
err_lines() { wc -l <"$dir/err" | tr -d ' '; }
# expect NAME RC [PATTERN]: check the status and, if RC is not 0, that standard error has exactly one line and matches.
expect() {
	if [ "$rc" != "$2" ]; then
		bad "$1" "status $rc, expected $2: $(err | head -n 2)"
	elif [ "$2" != 0 ] && [ "$(err_lines)" != 1 ]; then
		bad "$1" "$(err_lines) lines on stderr: $(err | head -n 3)"
	elif [ -n "${3:-}" ] && ! cat "$dir/out" "$dir/err" | grep -q -e "$3"; then
		bad "$1" "no '$3' in: $(cat "$dir/out" "$dir/err" | head -n 3)"
	else
		ok "$1"
	fi
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }
same() { cmp -s "$dir/$1" "$dir/$2"; }

# ---- without a model ----

run --version;                  expect "--version" 0 '^weir [0-9]'
run --help;                     expect "--help" 0 'weir sessions ls'
run help options;               expect "help on the options of the chat" 0 '--temp X'
run help bench;                 expect "help on a command" 0 '--reps N'
run help eval ppl;              expect "help on a command of two words" 0 'weir eval ppl'
run help eval;                  expect "help on a group of commands" 0 'weir eval ruler'
run help commands;              expect "help on all commands" 0 'weir eval ruler'
run help keys;                  expect "help on the keys" 0 'Keys everywhere'
run help kv;                    expect "help on the cache policies" 0 'full .*every token'
run help bogus;                 expect "help on a word that is no command is usage" 2 "there is no help on 'bogus'"
run bench --bogus;              expect "an unknown option of a command" 2 "unknown option '--bogus'; --help behind the command lists them"
run bench --help;               expect "bench --help" 0 '--reps N'
run inspect --help;             expect "inspect --help" 0 'weir inspect tokens'
run --bogus;                    expect "an unknown option is usage" 2 "unknown option '--bogus'"
run --tmep 1;                   expect "a mistyped option is named" 2 "is it '--temp'?"
run -p hi --reps 2;             expect "an option of another command is named" 2 "'weir' has no option '--reps', which belongs to 'weir bench'"
run sessions ls -p hi;          expect "so is a short one" 2 "'weir sessions ls' has no option '-p', which belongs to 'weir'"
run -p ' '; expect "a prompt has words" 2 "option '-p' has no words: nothing is asked"
run -s '' -p hi;                expect "a session has a name" 2 "option '-s' is empty"
run -c;                         expect "a missing value is usage" 2 'wants a value'
run -c -5;                      expect "a value out of range is usage" 2 'from 0 up'
run --temp hot;                 expect "a value that is no number is usage" 2 "not 'hot'"
run --kv cascaed;               expect "an unknown cache policy is usage" 2 "option '--kv': unknown cache policy 'cascaed'; there are .*full"
run --kv full:size=9;           expect "a setting that a policy lacks is usage" 2 "cache policy 'full' has no settings"
run --kv-type f8;               expect "an unknown cache type is usage" 2 "unknown KV type 'f8'"
run --kv-type k=f16,v=f8;       expect "an unknown type of values is usage" 2 "unknown KV type 'f8'"
run --kv-type x=f16;            expect "types of keys and values alone" 2 'KV types are k=TYPE,v=TYPE'
run --kv-memory much;           expect "a size that is none is usage" 2 "wants bytes, as 512M or 2G, not 'much'"
run --read-share 1.5;           expect "a share above 1 is usage" 2 "read-share"
run --kv-memory 2X;             expect "an unknown unit is usage" 2 "wants bytes, as 512M or 2G, not '2X'"
run --kv help;                  expect "--kv help lists the policies" 0 'full .*every token'
run --help bogus;               expect "help on what is no command is usage" 2 "there is no help on 'bogus'; weir --help lists the commands"
run -s x --continue -p hi;      expect "one session at a time" 2 "give one of the two"
run -c 1 -p hi;                 expect "a context without room says so" 5 "the context (-c 1) leaves no room for a conversation under cache policy 'auto'"
run -c 100 --kv auto:size=200 -p hi; expect "so does one without room for a policy's size" 5 "no room for size=200 of cache policy 'auto'; use a smaller size"
run --kv-memory 1 -p hi;        expect "memory that is too little is named with its unit" 5 'allows 0.0 MiB'
run --help kv;                  expect "--help kv lists the policies" 0 'full .*every token'
run_with WEIR_KV=no -p hi;      expect "a bad WEIR_KV is named" 2 "environment variable WEIR_KV: unknown cache policy 'no'"
run inspect nothing;            expect "an unknown command is usage" 2 'there is: model, tokens, logits'
run eval ppl;                   expect "eval without a text is usage" 2 'wants a text'
run tour;                       expect "a tour without a screen is usage" 2 "the tour needs a terminal that shows a full screen"
run -m "$dir/none.gguf" -p hi;  expect "a missing model is 3" 3 'none.gguf'
run_with XDG_CACHE_HOME="$dir/empty" -p hi
expect "no model at all is 3, with advice" 3 'weir pull'
run -m "$dir" -p hi;            expect "a directory is no model" 3
printf 'GGUF' >"$dir/e$(printf '\033')[31m.gguf"
run -m "$dir/e$(printf '\033')[31m.gguf" -p hi
if grep -q "$(printf '\033')" "$dir/err"; then bad "a file name cannot colour the error" "$(err | cat -v)"
else expect "a file name cannot colour the error" 3; fi
run doctor;                     expect "doctor works without a model" 0 '^gpu '
[ "$(uname -m)" != x86_64 ] || expect "doctor says whether AMX is used" 0 '^amx  *\(yes\|no, because .*\)$'
if [ -n "${SANITIZE:-}" ]; then
	skip "without /proc it knows what memory is free" "a sanitizer needs /proc itself, its settings included"
elif unshare -m mount -t tmpfs none /proc 2>/dev/null; then
	unshare -m sh -c 'mount -t tmpfs none /proc; exec "$0" doctor' "$weir" >"$dir/out" 2>"$dir/err"; rc=$?
	expect "without /proc it knows what memory is free" 0 '^memory  *[0-9.]* [MG]iB free'
else
	skip "without /proc it knows what memory is free" "/proc cannot be hidden here"
fi
run_with XDG_CACHE_HOME="$dir/empty" models
expect "models works without a model" 0 'no model in'; expect "models lists those to fetch" 0 "qwen3-4b"
# Models that other programs have downloaded.
others=$dir/others
tiny=tests/vectors/models/llama-linear.gguf
sum=$(printf '%064d' 7)
mkdir -p "$others/.cache/weir/models" "$others/.cache/huggingface/hub/models--org--Small/snapshots/abc" "$others/.cache/llama.cpp" "$others/.lmstudio/models/org/repo" \
	"$others/.ollama/models/manifests/registry.ollama.ai/library/tiny" "$others/.ollama/models/manifests/registry.ollama.ai/someone/toy" "$others/.ollama/models/blobs"
for name in .cache/weir/models/Alpha-Q4 .cache/weir/models/Alpha-Q8 .cache/huggingface/hub/models--org--Small/snapshots/abc/Small-1B .cache/llama.cpp/ggml-org_bear .lmstudio/models/org/repo/Cedar; do
	cp "$tiny" "$others/$name.gguf"
done
ln -s . "$others/.lmstudio/models/loop"
cp "$tiny" "$others/.ollama/models/blobs/sha256-$sum"
printf '{"layers":[{"mediaType":"application/vnd.ollama.image.template","digest":"sha256:1"},{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s"}]}' "$sum" \
	| tee "$others/.ollama/models/manifests/registry.ollama.ai/library/tiny/1b" >"$others/.ollama/models/manifests/registry.ollama.ai/someone/toy/latest"
printf '{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../../../etc/passwd"}]}' >"$others/.ollama/models/manifests/registry.ollama.ai/library/tiny/bad"
other() { env -u WEIR_MODEL -u XDG_CACHE_HOME HOME="$others" "$weir" "$@" >"$dir/out" 2>"$dir/err" </dev/null; rc=$?; }
other models
if [ $rc = 0 ] && [ "$(sed '/^$/,$d' "$dir/out" | wc -l)" = 7 ] && grep -q '^[* ] Alpha-Q4 .* weir ' "$dir/out" && grep -q '^  Small-1B .* Hugging Face ' "$dir/out" &&
	grep -q '^  ggml-org_bear .* llama.cpp ' "$dir/out" && grep -q '^  Cedar .* LM Studio ' "$dir/out" && grep -q '^  tiny:1b .* Ollama ' "$dir/out" &&
	grep -q '^  someone/toy:latest .* Ollama ' "$dir/out"; then ok "models lists what other programs have fetched"
else bad "models lists what other programs have fetched" "$(cat "$dir/out" "$dir/err")"; fi
for name in Alpha-Q8 small ggml cedar.gguf tiny:1b TINY someone/toy; do
	other -m "$name" -p hi -n 1 --private
	expect "a model by its name: $name" 0
done
other -m alpha -p hi; expect "the beginning of two names is none" 3 "the beginning of 2 models: Alpha-Q4, Alpha-Q8"
other -m nothing -p hi; expect "neither a file nor a name" 3 "no file and no model 'nothing' here"
other -m qwen3-8b -p hi; expect "... a name that can be fetched says how" 3 "'weir pull qwen3-8b' fetches it"

run -c;                         expect "-c without a size names --continue" 2 '--continue goes on with the last session'
run -c letter.txt;              expect "so does -c with a word" 2 '--continue goes on with the last session'
run --private;                  expect "without a question that is said" 0 'there was no question: standard input is empty'
mkdir -p "$dir/config/weir"
echo 'tepm = 1' >"$dir/config/weir/config"
keys() {   # NAME PATTERN: a message of one line, and weir works
	run -p hi -n 1 --private
	if [ "$rc" = 0 ] && [ "$(err_lines)" = 1 ] && err | grep -q -e "$2"; then ok "$1"
	else bad "$1" "status $rc: $(err | head -n 3)"; fi
}
keys "an unknown config key is named with its line, and left out" 'line 1.*the line is left out'
run -q -p hi -n 1 --private;    expect "and -q says nothing of it" 0
[ "$(err_lines)" = 0 ] || bad "and -q says nothing of it" "$(err | head -n 2)"
run --help;                     expect "--help works with a bad config" 0
echo 'session = x' >"$dir/config/weir/config"
keys "an option that has no place in the config file is named" "'session' has no place in it, only on the command line"
echo 'n = 5' >"$dir/config/weir/config"
keys "so is the long name of a short one" "unknown key 'n'; is it 'predict'?"
echo 'quetzalcoatl = 5' >"$dir/config/weir/config"
keys "and where the keys are listed" 'keys are the long names of options, see weir help options'
echo 'kv = sift:k=64,every=3' >"$dir/config/weir/config"
keys "a setting of a policy that was removed is named, and left out" "line 1: 'kv': every=3 left out: weir has no such setting any more"
run -p hi --kv sift:every=3;    expect "and refused as an option" 2 "no setting 'every' any more"
printf '# comment\n\nctx = 100000000000\n' >"$dir/config/weir/config"
run -p hi;                      expect "a bad config value is named with its line" 2 'line 3'
printf 'model = ~/below.gguf\n' >"$dir/config/weir/config"
run -p hi;                      expect "~ in the config file is the home" 3 "'$HOME/below.gguf'"
run -p hi --model=~/beside.gguf; expect "and behind a =" 3 "'$HOME/beside.gguf'"
run -p hi '--key-file=~/key' --remote http://127.0.0.1:1; expect "and of other files" 2 "'$HOME/key'"
printf '\357\273\277ctx = many\n' >"$dir/config/weir/config"
run -p hi;                      expect "a byte order mark is no part of a config key" 2 "line 1: 'ctx' wants"
rm "$dir/config/weir/config"
mkdir "$dir/config/weir/config"
run -p hi;                      expect "a directory is no config file" 2 'Is a directory'
rmdir "$dir/config/weir/config"
mkfifo "$dir/config/weir/config"
run -p hi;                      expect "a pipe that nobody writes to is no config file" 2 'it must be a regular file'
rm "$dir/config/weir/config"
ln -s /dev/zero "$dir/config/weir/config"
run -p hi;                      expect "nor is a device without an end" 2 'it must be a regular file'
rm "$dir/config/weir/config"
run_with WEIR_CTX=many -p hi;        expect "a bad environment value is named" 2 'WEIR_CTX'

# ---- hand-made GGUF files ----

# Files that must be refused, and files that may be: none causes a crash, and a refusal is one line.  For the latter the
# list has: NAME, status of inspect model, status of an answer.
gguf="$dir/malformed-gguf"
if ! xz -dc tests/vectors/malformed-gguf.tar.xz | tar -xf - -C "$dir"; then
	skip "malformed GGUF files" "they cannot be unpacked: is xz installed?"
else
	tr -d '\n' <"$gguf/expected.json" | tr '{' '\n' |
		sed -n 's/.*"file": *"\([^"]*\)", *"expect": *"\([^"]*\)".*/\1 \2/p' >"$dir/cases"
	[ "$(wc -l <"$dir/cases")" -gt 40 ] || bad "malformed GGUF files" "the list could not be read"
	cat >"$dir/either" <<'END'
tensor-name-nul.gguf 3 3
model-ctx-huge.gguf 3 3
model-eps-nan.gguf 3 3
vocab-fewer-than-embd.gguf 0 0
vocab-bos-out-of-range.gguf 3 3
vocab-no-byte-tokens.gguf 0 0
vocab-token-invalid-utf8.gguf 3 3
template-deep.gguf 0 3
template-infinite.gguf 0 3
weights-inf.gguf 0 1
END
	while read -r file expect; do
		name="$file: $expect"
		run inspect model -m "$gguf/$file"
		case $expect in
		reject|reject-model|valid-container)
			expect "$name" 3 ;;
		valid-model)
			run -m "$gguf/$file" -p hi -n 4
			expect "$name" 0 ;;
		either)
			first=$rc
			run -m "$gguf/$file" -p hi -n 4 -q
			said="$file $first $rc"
			if ! grep -qxF "$said" "$dir/either"; then bad "$name" "$said, which is not written in the list: $(err | head -n 2)"
			elif [ "$rc" != 0 ] && [ "$(err_lines)" != 1 ]; then bad "$name" "$(err_lines) lines: $(err | head -n 3)"
			else ok "$name"; fi ;;
		*) bad "$name" "no such verdict" ;;
		esac
	done <"$dir/cases"
	[ "$(grep -c ' either$' "$dir/cases")" = "$(wc -l <"$dir/either")" ] || bad "malformed GGUF files" "the list of either is another"
fi

# ---- hostile answers ----

# A model that always repeats the last token: bytes that control a terminal are printed as text, and unchanged only with
# --raw.
echoes() {
	what=$1 bytes=$2 want=$3
	shift 3
	# The bytes contain escapes of printf.
	# shellcheck disable=SC2059
	printf "hi$bytes" | "$weir" -m tests/vectors/models/llama-linear.gguf -q --private --temp 0 -n 3 "$@" >"$dir/out" 2>"$dir/err"
	# shellcheck disable=SC2059
	printf "$want\n" | cmp -s - "$dir/out" && ok "$what" || bad "$what" "$(cat -v "$dir/out" "$dir/err")"
}
echoes "an escape is filtered from an answer" '\033' '^[^[^['
echoes "so is a bell" '\007' '^G^G^G'
echoes "an escape is left alone under --raw" '\033' '\033\033\033' --raw

# ---- with the default model ----

if [ ! -r "$model" ]; then
	skip "answers" "no model at '$model' (make model fetches it)"
	finish
fi
export WEIR_MODEL="$model"

run -p 'What is the capital of France?' --temp 0 -n 16
[ "$rc" = 0 ] && [ "$(wc -c <"$dir/out")" -gt 3 ] && ok "-p answers" || bad "-p answers" "status $rc: $(err)"
[ ! -s "$dir/err" ] && ok "-p is quiet on stderr" || bad "-p is quiet on stderr" "$(err | head -n 2)"
[ "$(tail -c 1 "$dir/out" | od -An -c | tr -d ' ')" = '\n' ] && ok "an answer ends with a newline" ||
	bad "an answer ends with a newline" "$(tail -c 8 "$dir/out" | od -An -c)"
cp "$dir/out" "$dir/first"
run -p 'What is the capital of France?' --temp 0 -n 16
same out first && ok "--temp 0 repeats" || bad "--temp 0 repeats" "$(out | head -n 2)"

run -p 'Tell me a story.' --temp 1 --seed 7 -n 24; cp "$dir/out" "$dir/first"
run -p 'Tell me a story.' --temp 1 --seed 7 -n 24 -t 1; cp "$dir/out" "$dir/second"
run -p 'Tell me a story.' --temp 1 --seed 8 -n 24
if same first second && ! same out first; then ok "--seed repeats, on any number of threads, and another seed differs"
else bad "--seed repeats, on any number of threads, and another seed differs" "$(cat "$dir/first" "$dir/second" "$dir/out" | head -n 6)"; fi

run -p 'Say "yes".' --temp 0 -n 5 --json
if command -v python3 >/dev/null 2>&1; then
	if problem=$(python3 - "$dir/out" 2>&1 <<'PY'
import json, sys
d = json.loads(open(sys.argv[1]).read())
keys = "text tokens prompt_tokens reused_tokens ttft_s prefill_tps decode_tps drafted accepted attention answered stop sampling session facts memory_s passages recalled recall_s evidence unsupported".split()
assert list(d) == keys, list(d)
assert d["stop"] in ("eos", "length") and len(d["tokens"]) <= 5 and d["session"] is None and d["evidence"] == d["passages"] == d["recalled"] == d["facts"] == d["unsupported"] == []
assert all(type(t) is int for t in d["tokens"]) and d["prompt_tokens"] > 5
PY
	); then expect "--json has the promised fields" 0; else bad "--json has the promised fields" "$problem"; fi
else
	expect "--json has the promised fields" 0 '^{"text":".*","tokens":\[.*"evidence":\[\],"unsupported":\[\]}$'
fi
sed 's/.*"tokens":\[\([0-9,]*\)\].*/\1/' "$dir/out" | tr ',' '\n' >"$dir/ids"
"$weir" inspect tokens --decode <"$dir/ids" >"$dir/text"
run -p 'Say "yes".' --temp 0 -n 5 -q
[ "$(cat "$dir/text")" = "$(out)" ] && ok "the tokens of --json are the answer" ||
	bad "the tokens of --json are the answer" "$(cat "$dir/text") against $(out)"

# number NAME: print its value in the first JSON line of $dir/out.
number() { sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$dir/out" | head -n 1; }
run -p 'Count from 1 to 12. Then count again.' --temp 0 -n 60 --json --speculate off; sed 's/.*"tokens":\(\[[^]]*\]\).*/\1/' "$dir/out" >"$dir/first"
none="$(number drafted) $(number accepted)"
printf 'Count from 1 to 12. Then count again.\n/stats\n' | "$weir" --each-line --temp 0 -n 60 --json >"$dir/out" 2>"$dir/err"; sed 's/.*"tokens":\(\[[^]]*\]\).*/\1/' "$dir/out" >"$dir/second"
some="$(number accepted) of $(number drafted)"
same first second && ok "guesses change no token" || bad "guesses change no token" "$(cat "$dir/first" "$dir/second")"
[ "$none" = "0 0" ] && [ "$(number drafted)" -gt 0 ] && [ "$(number accepted)" -le "$(number drafted)" ] && grep -q "$some guessed tokens were right" "$dir/err" &&
	ok "--json and /stats count guesses alike" || bad "--json and /stats count guesses alike" "off: $none, on: $some: $(err | head -n 9)"

run -p hi -n 0; expect "-n 0 answers nothing" 0

# pipes
printf 'Name a river.\n\nAnd a lake?\nName a colour.\n' | "$weir" --each-line --temp 0 -n 4 >"$dir/out" 2>"$dir/err"
rc=$?
[ "$(wc -l <"$dir/out")" -ge 3 ] && expect "one question a line from a pipe" 0 || bad "one question a line from a pipe" "$(out)"
[ ! -s "$dir/err" ] && ok "the pipe mode is quiet on stderr" || bad "the pipe mode is quiet on stderr" "$(err | head -n 2)"
printf 'What is this?\nA list:\n- one\n- two\n\n' | "$weir" --temp 0 -n 4 --json >"$dir/out" 2>"$dir/err"
[ "$(grep -c '^{"text"' "$dir/out")" = 1 ] && ok "standard input is one text" || bad "standard input is one text" "$(out | head -n 4)"
printf 'The secret word is walrus.\n' >"$dir/beside.txt"
printf 'The number is 4711.\n' | "$weir" -p 'What is the number?' --temp 0 -n 4 --json "$dir/beside.txt" >"$dir/out" 2>"$dir/err"
grep -q '"passages":\[{"doc":"standard input"' "$dir/out" && ok "standard input is a document beside files" ||
	bad "standard input is a document beside files" "$(out | head -n 4)"
# No document answers this, so the search finds nothing.
strange='Which emperor crowned the zebra in Constantinople?'
run -p "$strange" --docs passages --private -q "$dir/beside.txt"; expect "a question that no document answers is 1" 1 'nothing in the documents clearly answers this'
[ ! -s "$dir/out" ] && ok "and has no answer" || bad "and has no answer" "$(out)"
run -p "$strange" --docs passages --private -q --json "$dir/beside.txt"; expect "--json says what it was" 1 '^{"text":"","tokens":\[\],.*"answered":false,"stop":"not found".*"passages":\[{"doc":"beside.txt",.*"sent":false}\]'
run -p 'Which emperor crowned the walrus in Constantinople?' --docs passages --private -q --json "$dir/beside.txt"
expect "and what is nearest" 1 '"answered":false,.*"passages":\[{"doc":"beside.txt",'
run -p 'Which emperor crowned the walrus in Constantinople?' --docs passages --private "$dir/beside.txt"
[ $rc = 1 ] && grep -q 'clearly answers this; nearest:' "$dir/err" && ok "which is shown" || bad "which is shown" "status $rc: $(err)"
grep -q '^\[1\] beside.txt, line 1: "The secret word is walrus."' "$dir/err" && ok "with its place" || bad "with its place" "$(err)"
printf '%s\nWhat is the secret word?\n' "$strange" | "$weir" --each-line --docs passages --private --json -n 4 --temp 0 "$dir/beside.txt" >"$dir/out" 2>"$dir/err"; rc=$?
[ $rc = 1 ] && [ "$(grep -c '^{"text"' "$dir/out")" = 2 ] && sed -n 1p "$dir/out" | grep -q '"stop":"not found"' && ! sed -n 2p "$dir/out" | grep -q '"stop":"not found"' &&
	ok "in a pipe every question has its object, and one that found nothing decides" || bad "in a pipe every question has its object, and one that found nothing decides" "status $rc: $(out; err)"
mkfifo "$dir/silent"
sleep 3600 >"$dir/silent" &
silent=$!
"$weir" -p 'What is the number?' --temp 0 -n 4 "$dir/beside.txt" <"$dir/silent" >"$dir/out" 2>"$dir/err"
rc=$?
kill $silent
wait $silent 2>/dev/null
expect "an input that stays silent is not waited for beside files" 0
grep -q 'open and silent' "$dir/err" && ok "and that is said" || bad "and that is said" "$(cat "$dir/err")"
printf 'What is the capital of France?\nAnd of Italy?\nName a colour.\n' | "$weir" --each-line --temp 0 -n 16 --json >"$dir/out"
[ "$(grep -c '^{"text"' "$dir/out")" = 3 ] && ok "three questions, three JSON lines" || bad "three questions, three JSON lines" "$(out | head -n 4)"
reused=$(sed -n '2s/.*"reused_tokens":\([0-9]*\).*/\1/p' "$dir/out")
prompt=$(sed -n '1s/.*"prompt_tokens":\([0-9]*\).*/\1/p' "$dir/out")
[ "${reused:-0}" -ge "${prompt:-1}" ] && ok "the second turn reuses the first" ||
	bad "the second turn reuses the first" "reused $reused, first prompt $prompt"
printf 'Name a colour.\n/regen\n/undo\n/new\n/set temp 0\n/stats\n' | "$weir" --each-line --temp 0 -n 8 --json >"$dir/out" 2>"$dir/err"
rc=$?
if [ $rc = 0 ] && [ "$(sed 's/.*"tokens":\(\[[^]]*\]\).*/\1/' "$dir/out" | sort -u | wc -l)" = 1 ] && grep -q 'context' "$dir/err"
then ok "commands work in a pipe"; else bad "commands work in a pipe" "status $rc: $(cat "$dir/out" "$dir/err" | head -n 4)"; fi
printf '/copy\n/theme mono\n/pin 1\n/set n 5 6\n/pin\n' | "$weir" --each-line >"$dir/out" 2>"$dir/err"
if [ "$(grep -c 'is a command of the full screen, which weir shows at a terminal without --line' "$dir/err")" = 2 ] &&
   grep -q 'there is no message to pin yet' "$dir/err" && grep -q "/set n wants a number" "$dir/err" && ! grep -q '1 to 0' "$dir/err"
then ok "commands that cannot be done here say why"; else bad "commands that cannot be done here say why" "$(cat "$dir/err")"; fi
mkdir "$dir/one" && echo one >"$dir/one/a.txt" && echo two >"$dir/two.txt"
printf "/set n\n/set temperatur 1\n/open $dir/two.txt $dir/one/a.txt\n/open $dir/one\n" | "$weir" --each-line >"$dir/out" 2>"$dir/err"
if grep -q '^n auto: longest answer' "$dir/err" && grep -q "knows no 'temperatur'; is it 'temperature'" "$dir/err" &&
   grep -q '/open takes one name at a time' "$dir/err" && grep -q "1 document of '" "$dir/err"
then ok "/set and /open explain themselves"; else bad "/set and /open explain themselves" "$(cat "$dir/err")"; fi
printf '/set\n/set n 5\n/set n -1\n/set passages 0\n/set\n/set passages auto\n' | "$weir" --each-line -n 7 >"$dir/out" 2>"$dir/err"
if grep -q '^n  *7$' "$dir/err" && grep -q '^\[n 5\]' "$dir/err" && grep -q '^n  *auto: until it ends or is as long as the context$' "$dir/err" &&
   grep -q '^passages  *auto: 1 for models below a billion parameters, else 3 to 10$' "$dir/err" && grep -q '^passages  *0: the best sentence alone$' "$dir/err" &&
   [ "$(grep -c '^\[n auto\]\|^\[passages auto\]' "$dir/err")" = 2 ] && ! grep -q -- ' -1' "$dir/err"
then ok "/set alone says what a value means"; else bad "/set alone says what a value means" "$(cat "$dir/err")"; fi
printf '# mine\ntemp = 1\n# and this\ntop-k=5' >"$dir/config/weir/config"
printf '/set temp 0.5\n/set temp 0.25 --save\n/set mouse on --save\n/set --save min-p\n' | "$weir" --each-line >"$dir/out" 2>"$dir/err"
rc=$?
expect "/set says what it has set" 0 '^\[temp 0.5\]'
printf '# mine\ntemp = 0.25\n# and this\ntop-k=5\nmouse = on\nmin-p = 0.05\n' >"$dir/want"
if cmp -s "$dir/want" "$dir/config/weir/config"
then ok "/set --save changes its line of the config file alone"; else bad "/set --save changes its line of the config file alone" "$(cat "$dir/config/weir/config")"; fi
chmod 500 "$dir/config/weir"
printf '/set temp 0.5 --save\n' | "$weir" >"$dir/out" 2>"$dir/err"
if [ "$(id -u)" = 0 ] || grep -q 'cannot write config file' "$dir/err"
then ok "a config file that cannot be written is an error"; else bad "a config file that cannot be written is an error" "$(cat "$dir/err")"; fi
chmod 700 "$dir/config/weir"
rm "$dir/config/weir/config"
printf '/nwe\n' | "$weir" >"$dir/out" 2>"$dir/err"
rc=$?
expect "an unknown command is 2 and names the nearest" 2 'is it /new?'
mkdir -p "$dir/config/weir/prompts"
printf 'Translate into French: {}\n' >"$dir/config/weir/prompts/french.md"
printf 'Be brief.\n' >"$dir/config/weir/prompts/brief.md"
printf '/french good day\n/brief why?\n/brief\n/../x\n' | "$weir" --each-line -n 2 --temp 0 -s prompts >"$dir/out" 2>"$dir/err"
"$weir" sessions export txt prompts >"$dir/out" 2>>"$dir/err"
if grep -q '^Translate into French: good day$' "$dir/out" && [ "$(grep -c '^Be brief.$' "$dir/out")" = 2 ] && grep -q '^why?$' "$dir/out" &&
	grep -q "unknown command '/../x'" "$dir/err"; then ok "prompts of the user are commands"
else bad "prompts of the user are commands" "$(cat "$dir/out" "$dir/err")"; fi
"$weir" sessions rm prompts >/dev/null 2>&1
printf 'From {{1}} to {{ to }}: {{2}}\n' >"$dir/config/weir/prompts/holes.md"
printf '/holes German to=French "good day"\n/holes German\n/holes German too\n' | "$weir" --each-line -n 2 --temp 0 -s prompts >"$dir/out" 2>"$dir/err"
"$weir" sessions export txt prompts >"$dir/out" 2>>"$dir/err"
if grep -q '^From German to French: to=French$' "$dir/out" && grep -q '/holes: to=VALUE is missing' "$dir/err"; then ok "words fill the holes of a prompt"
else bad "words fill the holes of a prompt" "$(cat "$dir/out" "$dir/err")"; fi
"$weir" sessions rm prompts >/dev/null 2>&1
mkdir -p "$dir/config/weir/roles" "$dir/config/aichat/roles"
printf -- '---\nmodel: openai:gpt-4o\ntemperature: 0.25\n# why\ntop_p: "0.75"\nuse_tools: fs,\n  - web\n---\nYou answer in {{1}}.\n' >"$dir/config/aichat/roles/tongue.md"
printf 'Say in French: __INPUT__ !\n' >"$dir/config/weir/roles/frame.md"
printf -- '---\ntemperature: hot\n---\nx\n' >"$dir/config/weir/roles/bad.md"
printf -- '---\ntemperature: 1\n' >"$dir/config/weir/roles/open.md"
printf -- '---\nmemory: on\nloops: off\n---\nx\n' >"$dir/config/weir/roles/greedy.md"
printf 'hi\n/role\n/set temp\n/set top-p\n/system\n' | "$weir" --each-line -n 2 -r 'tongue German' -s role >"$dir/out" 2>"$dir/err"
if grep -q "role 'tongue': temp 0.25, top-p 0.75, system prompt set; left out: model openai:gpt-4o, which is not on this machine, use_tools" "$dir/err" &&
	grep -q "role 'tongue'; /role off; there are bad, frame, greedy, open, tongue" "$dir/err" && grep -q '^weir: temp 0.25\|^temp 0.25' "$dir/err" && grep -q 'You answer in German.' "$dir/err"
then ok "-r takes a role of aichat's"; else bad "-r takes a role of aichat's" "$(cat "$dir/err")"; fi
printf '/system\n/set temp\n/role off\n/system\n' | "$weir" --each-line -s role >"$dir/out" 2>"$dir/err"
if grep -q 'You answer in German.' "$dir/err" && grep -q "no role; the system prompt is the template's own" "$dir/err" && grep -q 'temp 0.25' "$dir/err"
then ok "a session keeps the role's settings"; else bad "a session keeps the role's settings" "$(cat "$dir/err")"; fi
"$weir" sessions rm role >/dev/null 2>&1
"$weir" -n 2 --temp 0 -r frame -p 'good day' -s framed >"$dir/out" 2>"$dir/err" </dev/null
"$weir" sessions export txt framed >"$dir/out" 2>>"$dir/err"
if grep -q '^Say in French: good day !$' "$dir/out"; then ok "a role with __INPUT__ frames messages"; else bad "a role with __INPUT__ frames messages" "$(cat "$dir/out" "$dir/err")"; fi
"$weir" sessions rm framed >/dev/null 2>&1
run -r none -p hi; expect "a role that is missing is 2 and names its file" 2 'weir/roles/none.md'
run -r tongue -p hi; expect "a missing word is 2" 2 "role 'tongue': a word is missing for {{1}}"
printf '/role greedy\n' | "$weir" --each-line >"$dir/out" 2>"$dir/err"
if grep -q "role 'greedy': system prompt set; left out: memory, loops" "$dir/err"; then ok "a role sets only what a session keeps"; else bad "a role sets only what a session keeps" "$(cat "$dir/err")"; fi
run -r bad -p hi; expect "a wrong setting is 2" 2 "role 'bad': 'temperature'"
run -r open -p hi; expect "settings without an end are 2" 2 "have no line ---"
run -r 'frame x' -p hi; expect "words that a role does not take are 2" 2 'takes no words'
printf '/role ../x\n/role none\n/role tongue French\n/system\n' | "$weir" --each-line >"$dir/out" 2>"$dir/err"
if grep -q "there is no role 'none'" "$dir/err" && grep -q 'model openai:gpt-4o (/model takes one)' "$dir/err" && grep -q 'You answer in French.' "$dir/err"
then ok "/role"; else bad "/role" "$(cat "$dir/err")"; fi
rm -r "$dir/config/weir/roles" "$dir/config/aichat"
printf '/usr/bin/env is a file.\nWhat is it?\n' | "$weir" -n 2 --temp 0 --json >"$dir/out" 2>"$dir/err"
rc=$?
expect "a text of several lines is no command" 0 '"stop"'
printf '//help\n' | "$weir" -n 2 --temp 0 --json >"$dir/out" 2>"$dir/err"
rc=$?
expect "//TEXT sends a slash" 0 '"stop"'
run --line; expect "no input ends well" 0
"$weir" -n 1 -p hi <&- >"$dir/out" 2>"$dir/err"
rc=$?
expect "a closed standard input is no document" 0

# documents
printf 'The secret word is "heron".\n' >"$dir/doc.txt"
run -p 'What is the secret word? Answer with one word.' --temp 0 -n 24 "$dir/doc.txt"
expect "-p with a FILE" 0 'eron'
"$weir" -p 'What is the secret word? Answer with one word.' --temp 0 -n 24 <"$dir/doc.txt" >"$dir/out" 2>"$dir/err"
rc=$?
expect "-p with a document on standard input" 0 'eron'
printf 'What is the secret word?\n' | "$weir" --temp 0 -n 24 "$dir/doc.txt" >"$dir/out" 2>"$dir/err"
rc=$?
expect "a FILE with questions from a pipe" 0 'eron'
run -p hi "$dir/none.txt"; expect "a missing document is 4" 4 'none.txt'
mkdir "$dir/empty"
run -p hi "$dir/empty"; expect "a folder without documents is 4" 4
head -c 100 "$weir" >"$dir/binary"
run -p hi "$dir/binary"; expect "a binary file is no document" 4
seq 1 20000 >"$dir/long.txt"
run -p hi --docs whole "$dir/long.txt"; expect "a document larger than the context is 5, with the numbers" 5 'has [0-9]* tokens.* 8192'
run -p "Where is 12345?" -n 4 "$dir/long.txt"; expect "and searched by default" 0 "document 'long.txt': about [0-9,]* tokens, more than fit the context"
run -p hi --docs whole --kv full "$dir/long.txt"; expect "and so it is under --kv full" 5 'has [0-9]* tokens .* context of 8192'
# With the context that the error advises, it works.
advised() {   # NAME ARGS...
	what=$1
	shift
	run -q --private --temp 0 -n 2 "$@"
	named=$(sed -n 's/.*-c \([0-9][0-9]*\).*/\1/p' "$dir/err")
	if [ "$rc" != 5 ] || [ -z "$named" ]; then
		bad "$what" "status $rc: $(err)"
		return
	fi
	run -q --private --temp 0 -n 2 "$@" -c "$named"
	expect "$what" 0
}
seq 1 200 >"$dir/some.txt"
advised "a question too long for the context: the -c that it names has room" --kv full -c 64 -p "$(seq 1 200)"
advised "a document too long: so has this one" --kv full -c 64 --docs whole -p hi "$dir/some.txt"
advised "and where the cache evicts" --kv auto -c 256 --docs whole -p hi "$dir/some.txt"
advised "and for a system prompt" --kv auto -c 256 --system "$(seq 1 200)" -p hi
run 'why is the sky blue?'; expect "a question in place of a document is told where it goes" 4 "to ask a question: weir -p 'why is the sky blue?'"
run why is the sky blue; expect "so is one of several words" 4 "to ask a question: weir -p 'why ...'"
run benhc; expect "a mistyped command is a missing document" 4 "is it the command 'bench'?"

# limits
run -p 'Write a long story.' -c 60 --temp 0 --kv full
expect "a full context is 5" 5 'context of 60'
[ -s "$dir/out" ] && ok "and leaves what was said" || bad "and leaves what was said" "nothing on stdout"
run -p hi -c 4 --kv full; expect "a prompt larger than the context is 5" 5 'context of 4'
[ ! -s "$dir/out" ] && ok "and says nothing on stdout" || bad "and says nothing on stdout" "$(out | head -n 2)"
run -p hi -c 4; expect "a context that is too small is 5" 5
run -p hi -c 2000000000 --kv full; expect "a context larger than the memory is 5" 5 'MiB'
if [ -w /dev/full ]; then
	"$weir" -p hi -n 3 </dev/null >/dev/full 2>"$dir/err"
	rc=$?
	: >"$dir/out"
	expect "a full disk is 1" 1 'cannot write'
	"$weir" -p hi -n 3 --json </dev/null >/dev/full 2>"$dir/err"
	rc=$?
	expect "a full disk is 1 with --json" 1 'cannot write'
	"$weir" --help >/dev/full 2>"$dir/err"
	rc=$?
	expect "a full disk is 1 with --help" 1 'cannot write'
else
	skip "a full disk" "no /dev/full"
fi
"$weir" -p hi -n 3 </dev/null >&- 2>"$dir/err"
rc=$?
expect "a closed standard output is 1" 1 'cannot write'
{ "$weir" -p 'Tell me a long story.' -n 400 </dev/null 2>"$dir/err"; echo $? >"$dir/rc"; } | head -c 8 >"$dir/out"
[ "$(cat "$dir/rc")" = 1 ] && [ ! -s "$dir/err" ] && ok "a reader that leaves ends it quietly" ||
	bad "a reader that leaves ends it quietly" "status $(cat "$dir/rc"): $(err)"

# ---- instruments ----

# A chat template applied to a conversation: markers within messages are text; errors are one line.
printf '[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":"ho"},{"role":"tool","content":null}]' >"$dir/messages"
printf '%s' "{{ bos_token }}{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}{% if add_generation_prompt %}>{% endif %}{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}" >"$dir/t.jinja"
[ "$("$weir" inspect chat --messages "$dir/messages" --chat-template "$dir/t.jinja" --bos-text B --thinking off)" = 'B[user:hi][assistant:ho][tool:]>False' ] &&
  [ "$("$weir" inspect chat --messages - --chat-template "$dir/t.jinja" --bos-text '' --no-reply <"$dir/messages")" = '[user:hi][assistant:ho][tool:]' ] &&
  ok "inspect chat" || bad "inspect chat" "$("$weir" inspect chat --messages "$dir/messages" --chat-template "$dir/t.jinja" --bos-text B --thinking off 2>&1)"
printf '%s\n' 'a' "{{ raise_exception('no tools here') }}" >"$dir/t.jinja"
run inspect chat --messages "$dir/messages" --chat-template "$dir/t.jinja";  expect "a template that refuses" 3 'no tools here'
printf '%s\n' 'a' "{% include 'x' %}" >"$dir/t.jinja"
run inspect chat --messages "$dir/messages" --chat-template "$dir/t.jinja";  expect "a statement that no template may use" 3 "in line 2: the statement 'include' is not supported"
run inspect chat --messages "$dir/t.jinja";  expect "messages that are none" 2 'is no JSON list of messages'
run inspect chat;  expect "inspect chat without messages" 2 'wants --messages FILE'

printf 'Hello, wörld!\n  two  <|im_start|> 漢' >"$dir/text"
"$weir" inspect tokens "$dir/text" >"$dir/ids" && "$weir" inspect tokens --decode <"$dir/ids" >"$dir/back"
cmp -s "$dir/text" "$dir/back" && ok "tokens and back" || bad "tokens and back" "$(cat "$dir/back")"
plain=$(wc -l <"$dir/ids")
"$weir" inspect tokens --special "$dir/text" >"$dir/ids" && "$weir" inspect tokens --special --decode <"$dir/ids" >"$dir/back"
if cmp -s "$dir/text" "$dir/back" && [ "$(wc -l <"$dir/ids")" -lt "$plain" ]; then ok "--special reads control tokens"
else bad "--special reads control tokens" "$(tr '\n' ' ' <"$dir/ids")"; fi
[ "$("$weir" inspect tokens --bos "$dir/text" | head -n 1)" = 1 ] && ok "--bos" || bad "--bos" "$("$weir" inspect tokens --bos "$dir/text" | head -n 1)"
echo '1 2 many' | "$weir" inspect tokens --decode >"$dir/out" 2>"$dir/err"; rc=$?
expect "ids that are no numbers are usage" 2 'byte 4'
echo '1 999999999' | "$weir" inspect tokens --decode >"$dir/out" 2>"$dir/err"; rc=$?
expect "ids outside the vocabulary are usage" 2 'vocabulary'
# Only a vocabulary: a model's keys up to its directory of tensors, which is set to be empty.
whole=tests/vectors/stories260K/stories260K-q8_0.gguf vocabulary="$dir/vocabulary.gguf"
at=$(grep -abo 'token_embd\.weight' $whole | head -n 1)
head -c $((${at%%:*} - 8)) $whole >"$vocabulary"
printf '\0\0\0\0\0\0\0\0' | dd of="$vocabulary" bs=1 seek=8 conv=notrunc 2>/dev/null
"$weir" inspect tokens -m "$vocabulary" "$dir/text" >"$dir/ids" &&
	"$weir" inspect tokens -m "$vocabulary" --decode <"$dir/ids" >"$dir/back"
cmp -s "$dir/text" "$dir/back" && ok "tokens and back with a vocabulary alone" ||
	bad "tokens and back with a vocabulary alone" "$(cat "$dir/back")"
run inspect model --json; expect "inspect model --json" 0 '"arch":"llama".*"template":"'
expect "inspect model --json says how it samples" 0 '"sampling":{"temp":{"value":[0-9.]*,"from":"[a-z]*"}'
run inspect model; expect "inspect model says how it samples" 0 '^sampling     temp [0-9.]*'
run inspect model -m tests/vectors/models/gemma3.gguf --chat-template chatml; expect "... by the model's makers" 0 '^sampling     temp 1, top-k 64, top-p 0.95, min-p 0 (family: Gemma 3)$'
# A file with more keys, one of them out of range; the last key fills it up to a multiple of 32 bytes.
python3 - tests/vectors/models/gemma3.gguf "$dir/keys.gguf" <<'END'
import struct, sys
text = lambda s: struct.pack('<Q', len(s)) + s
float32 = lambda key, x: text(key) + struct.pack('<If', 6, x)
more = float32(b'general.sampling.temp', 0.5) + float32(b'general.sampling.top_p', 7.5) + text(b'test.fill') + struct.pack('<I', 8)
more += text(b' ' * (-(len(more) + 8) % 32))
old = open(sys.argv[1], 'rb').read()
open(sys.argv[2], 'wb').write(old[:16] + struct.pack('<Q', struct.unpack('<Q', old[16:24])[0] + 3) + more + old[24:])
END
run inspect model -m "$dir/keys.gguf" --chat-template chatml
expect "keys of the file come first" 0 '^sampling     temp 0.5 (model file); top-k 64, top-p 0.95, min-p 0 (family: Gemma 3)$'
expect "one out of range is named" 0 "'general.sampling.top_p' is 7.5, and should be a number from 0 to 1; it is not used"
run -m "$dir/keys.gguf" --chat-template chatml -p hi -n 2 --min-p 0.25 --json
expect "an answer says how it was sampled" 0 '"sampling":{"temp":{"value":0.5,"from":"model file"},"top_k":{"value":64,"from":"family"},.*"min_p":{"value":0.25,"from":"yours"},"repeat_penalty":{"value":1,"from":"default"}'
grep -q "top_p' is 7.5" "$dir/err" && ok "... and what is not used" || bad "... and what is not used" "$(cat "$dir/err")"
mkdir -p "$XDG_CONFIG_HOME/weir"; echo 'temp = 0.75' >"$XDG_CONFIG_HOME/weir/config"
run inspect model -m "$dir/keys.gguf" --chat-template chatml; expect "the config file is the user's" 0 '^sampling     temp 0.75 (yours); top-k 64'
run -m "$dir/keys.gguf" --chat-template chatml -p hi -n 2 --temp auto --json; expect "auto undoes it" 0 '"temp":{"value":0.5,"from":"model file"}'
rm "$XDG_CONFIG_HOME/weir/config"
echo '504 3575 282 4649 314' >"$dir/ids"
run inspect logits --tokens "$dir/ids" --out "$dir/logits"
bytes=$(wc -c <"$dir/logits")
[ "$rc" = 0 ] && [ "$bytes" = $((5 * 49152 * 4)) ] && ok "inspect logits writes f32 [tokens][vocabulary]" ||
	bad "inspect logits writes f32 [tokens][vocabulary]" "status $rc, $bytes bytes: $(err)"
if [ -w /dev/full ]; then
	run inspect logits --tokens "$dir/ids" --out /dev/full; expect "logits onto a full disk are 1" 1 'cannot write'
fi
head -c 6000 LICENSE >"$dir/text"
run eval ppl "$dir/text" --tokens 600 --json
expect "eval ppl" 0 '"tokens":600,"scored":599,'
one=$(sed 's/.*"nll":\([0-9.]*\).*/\1/' "$dir/out")
run eval ppl "$dir/text" --tokens 600 --json --chunk 37
two=$(sed 's/.*"nll":\([0-9.]*\).*/\1/' "$dir/out")
awk -v a="$one" -v b="$two" 'BEGIN { d = a - b; exit !(a > 0 && d * d <= 1e-6 * a * a) }' && ok "the chunk does not change the result" ||
	bad "the chunk does not change the result" "$one against $two"
run eval ppl "$dir/text" --tokens 600 --window 200 --skip 50 --json; expect "eval ppl in windows" 0 '"scored":450,'
run eval ppl "$dir/text" --tokens 600 --last 100 --json; expect "eval ppl of the last tokens" 0 '"scored":100,'
run eval ppl "$dir/text" --tokens 600 --window 700; expect "a window longer than the text is usage" 2 'nothing to score'
run bench --prefill 32 --decode 4 --depth 0,40 --reps 2 --json
if [ "$(sed 's/^{"test":"\([a-z]*\)".*"\(gbps\|gmacs\)":[0-9.]*.*/\1/' "$dir/out" | tr '\n' ' ')" = 'bandwidth arithmetic prefill prefill decode save resume decode ' ]
then expect "bench" 0; else bad "bench" "$(cat "$dir/out" "$dir/err" | head -n 4)"; fi

# ---- stopping ----

# An answer without an end, because printed tokens become more and more likely.
answers() { exec "$weir" -p 'Repeat the letter a forever: a a a a a a a a a a a a a a a a' --temp 0.01 --frequency-penalty -100 --loops go --speculate off -n 1000000 "$@"; }
rm "$dir/out"   # else its old bytes would count as the answer
(answers </dev/null >"$dir/out" 2>"$dir/err") &
pid=$!
wait_for [ -s "$dir/out" ]
start=$(now_ms)
kill -INT $pid
wait $pid
rc=$?
took=$(($(now_ms) - start))
if [ $rc = 130 ] && [ -s "$dir/out" ] && [ ! -s "$dir/err" ]; then ok "SIGINT ends an answer with 130 in $took ms and leaves it"
else bad "SIGINT ends an answer with 130 and leaves it" "status $rc after $took ms, $(wc -c <"$dir/out") bytes: $(err | head -n 2)"; fi

for pause in 1 2 4 8 16 32; do   # until the pause is long enough to load the model
	(answers --json </dev/null >"$dir/out" 2>"$dir/err") &
	pid=$!
	sleep $pause
	kill -INT $pid
	wait $pid
	rc=$?
	[ -s "$dir/out" ] && break
done
if [ $rc = 130 ] && grep -q '"stop":"cancel"' "$dir/out"; then ok "a stopped answer is whole JSON"
else bad "a stopped answer is whole JSON" "status $rc: $(out | tail -c 60)"; fi

rm "$dir/out"
(answers </dev/null >"$dir/out" 2>"$dir/err") &
pid=$!
wait_for [ -s "$dir/out" ]
kill -TERM $pid
wait $pid
rc=$?
[ $rc = 143 ] && ok "SIGTERM ends with 143" || bad "SIGTERM ends with 143" "status $rc"

# The model file is cut short while it is in use: one line, status 3, no core dump.
cp "$model" "$dir/cut.gguf"
rm "$dir/out"
(answers -m "$dir/cut.gguf" </dev/null >"$dir/out" 2>"$dir/err") &
pid=$!
wait_for [ -s "$dir/out" ]
: >"$dir/cut.gguf"
wait_s=0
while kill -0 $pid 2>/dev/null && [ $wait_s -lt 240 ]; do wait_s=$((wait_s + 1)); sleep 0.25; done
# A program that has copied the weights does not notice, which is fine.
if kill -0 $pid 2>/dev/null; then
	kill -INT $pid
	wait $pid
	rc=$?
	[ $rc = 130 ] && ok "a model file cut while in use does no harm" || bad "a model file cut while in use does no harm" "status $rc"
else
	wait $pid
	rc=$?
	: >"$dir/out"
	expect "a model file cut while in use is 3" 3 'changed while in use'
fi

# ---- what is done at the start is said at a terminal, and gone when it is over ----

# at_terminal [ARGS]: run weir with a terminal as all three streams; its output is in $dir/out.
at_terminal() {
	XDG_DATA_HOME="$dir/data" python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))' "$weir" -m tests/vectors/stories260K/stories260K-q8_0.gguf \
		--chat-template chatml -n 2 "$@" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
}
# said_and_gone WORDS...: each of them was a line of its own, and the next output erased it.
said_and_gone() {
	python3 - "$dir/out" "$@" <<'END'
import sys
out = open(sys.argv[1], 'rb').read()
for words in sys.argv[2:]:
    at = out.find(b'\r\x1b[K' + words.encode())
    assert at >= 0, (words, out[:400])
    assert out[at + 4 + len(words):].startswith(b'\r\x1b[K'), (words, out[at:at + 200])
END
}
if command -v python3 >/dev/null 2>&1; then
	at_terminal -s began -p hi tests/screens/note.txt
	why=$(said_and_gone 'making room for the KV cache' 'importing the document' 2>&1) && ok "the start of a conversation is told" ||
		bad "the start of a conversation is told" "status $rc: $(echo "$why" | tail -n 1)"
	at_terminal -s began -p hi
	why=$(said_and_gone 'making room for the KV cache' 'restoring the session' 2>&1) && ok "and what is restored" ||
		bad "and what is restored" "status $rc: $(echo "$why" | tail -n 1)"
	at_terminal -s began -p hi -q
	grep -q -e 'making room' -e 'restoring' "$dir/out" && bad "-q says nothing of it" "$(cat "$dir/out")" || ok "-q says nothing of it"
fi

# ---- completion for shells ----

# The completions call a program named weir.
mkdir "$dir/bin"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$(realpath "$weir")" >"$dir/bin/weir"
chmod +x "$dir/bin/weir"
# offers LINE...: print what bash offers for the last of these words.
offers() {
	PATH="$dir/bin:$PATH" WEIR="$weir" bash -c 'source <("$WEIR" completion bash) || exit 1
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_weir; echo " ${COMPREPLY[*]} "' weir "$@" 2>&1
}
completes() {   # NAME WANTED WORD...
	name=$1 want=$2
	shift 2
	case $(offers "$@") in *" $want "*) ok "$name" ;; *) bad "$name" "$(offers "$@")" ;; esac
}
if command -v bash >/dev/null 2>&1; then
	completes "bash completes a command" doctor weir do
	completes "bash completes a command's second word" export weir sessions ex
	completes "bash completes an option" --temp weir --te
	completes "bash completes a command's own option" --depth weir bench --dep
	completes "bash completes an option of weir-lab" --window weir eval ppl --wi
	completes "bash completes a choice" always weir --color al
	completes "bash completes what there is help on: a command" bench weir help be
	completes "bash completes what there is help on: a topic" options weir help op
	completes "bash completes a cache policy" cascade weir --kv ca
	completes "bash completes a cache policy behind =" cascade weir --kv = ca
	mkdir -p "$dir/config/weir/roles" && : >"$dir/config/weir/roles/tongue.md"
	completes "bash completes a role" tongue weir -r ton
	completes "bash completes the second word of a command behind options" export weir -q --device cpu sessions ex
	completes "bash completes the second word of a command there is help on" ppl weir help eval p
	completes "bash completes a word that is no option" json weir sessions export js
	: >"$dir/my notes.txt"
	completes "bash completes a file" "$dir/my notes.txt" weir "$dir/my"
	completes "bash completes a name with blanks" "$dir/my notes.txt" weir --system x "$dir/my\\ no"
	[ "$(offers weir sessions show "$dir/my")" = "  " ] && ok "bash offers no file where a session is wanted" ||
		bad "bash offers no file where a session is wanted" "$(offers weir sessions show "$dir/my")"
	[ "$(offers weir --device tc)" = "  " ] && ok "bash offers nothing where a value begins otherwise" ||
		bad "bash offers nothing where a value begins otherwise" "$(offers weir --device tc)"
else
	skip completion "bash is not installed"
fi
for shell in zsh fish; do
	"$weir" completion $shell >"$dir/completion" 2>"$dir/err"
	if ! command -v $shell >/dev/null 2>&1; then skip "completion for $shell" "$shell is not installed"
	elif $shell -n "$dir/completion" 2>"$dir/err"; then ok "completion for $shell is well-formed"
	else bad "completion for $shell is well-formed" "$(head -n 3 "$dir/err")"; fi
done
if command -v fish >/dev/null 2>&1; then
	# fishes NAME WANTED LINE: fish offers the word WANTED for the end of LINE.
	fishes() {
		PATH="$dir/bin:$PATH" HOME="$dir" fish -c 'weir completion fish | source; complete -C "$argv[1]"' "$3" >"$dir/out" 2>&1
		cut -f 1 "$dir/out" | grep -qxF -e "$2" && ok "$1" || bad "$1" "$(cat "$dir/out")"
	}
	fishes "fish completes a command" doctor "weir do"
	fishes "fish completes a command's second word" export "weir sessions ex"
	fishes "fish completes a command's own option" --depth "weir bench --dep"
	fishes "fish completes a cache policy" cascade "weir --kv ca"
	fishes "fish completes a cache policy behind =" --kv=cascade "weir --kv=ca"
	fishes "fish completes a file" tests/ "weir test"
else
	skip "completion for fish" "fish is not installed"
fi
"$weir" completion tcsh >/dev/null 2>"$dir/err"
rc=$?
[ $rc = 2 ] && grep -q 'bash, zsh or fish' "$dir/err" && ok "another shell is usage" || bad "another shell is usage" "status $rc: $(cat "$dir/err")"

finish
