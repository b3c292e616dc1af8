#!/bin/sh
# tests/cli/s_pull.sh - downloading models from a local server that misbehaves in every way (hub.py), and the files left
# afterwards.
#
# WEIR is the program (default ./weir).  Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}
case $weir in /*) ;; *) weir=$PWD/$weir ;; esac

. tests/lib/count.sh
[ -x "$weir" ] || { bad pull "no program at '$weir'"; finish; }
command -v python3 >/dev/null 2>&1 || { skip pull "python3 is not installed"; finish; }

dir=$(mktemp -d) || exit 1
server=
trap '[ -n "$server" ] && kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
unset WEIR_MODEL WEIR_KV WEIR_CTX WEIR_THREADS WEIR_COLOR NO_COLOR HF_HOME HF_TOKEN HF_HUB_CACHE LLAMA_CACHE OLLAMA_MODELS
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
export WEIR_DEVICE=cpu HOME="$dir/home" XDG_CACHE_HOME="$dir/cache" XDG_CONFIG_HOME="$dir/config" XDG_STATE_HOME="$dir/state" XDG_DATA_HOME="$dir/data"
mkdir -p "$HOME"
models=$XDG_CACHE_HOME/weir/models

python3 tests/cli/hub.py tests/vectors/models/llama-block32.gguf "$dir/log" "$dir/ports" 2>"$dir/server" &
server=$!
wait_for [ -s "$dir/ports" ]
[ -s "$dir/ports" ] || { bad pull "the server does not start: $(cat "$dir/server")"; finish; }
read -r port _ sum <"$dir/ports"
export HF_ENDPOINT="http://127.0.0.1:$port"

pull() {
	"$weir" pull "$@" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
}
# whole NAME FILE: check that it was downloaded, that its checksum is right, and that there is no other file.
whole() {
	if [ "$rc" != 0 ]; then bad "$1" "status $rc: $(cat "$dir/err")"
	elif [ "$(sha256sum <"$models/$2" 2>/dev/null | cut -d' ' -f1)" != "$sum" ]; then bad "$1" "the sum is wrong: $(ls -a "$models")"
	elif [ "$(ls -A "$models")" != "$2" ]; then bad "$1" "also there: $(ls -A "$models")"
	else ok "$1"; fi
	rm -rf "$models"
}
# refused NAME RC PATTERN: check for one line that matches, after at most the two about the model; no model, and no
# folder left from looking.
refused() {
	if [ "$rc" != "$2" ]; then bad "$1" "status $rc, expected $2: $(cat "$dir/err")"
	elif [ "$(grep -c '^weir: ' "$dir/err")" != 1 ] || ! grep -q "^weir: .*$3" "$dir/err"; then bad "$1" "no '$3' in: $(cat "$dir/err")"
	elif [ -n "$(ls -A "$models" 2>/dev/null | grep -v '\.part$')" ]; then bad "$1" "left behind: $(ls -A "$models")"
	else ok "$1"; fi
	rm -rf "$models"
}

# ---- what is there to choose from ----

pull
if [ $rc = 0 ] && grep -q '^  qwen3-4b  *2.3 GiB' "$dir/out" && [ "$(grep -c '^  [a-z]' "$dir/out")" -ge 12 ]; then ok "without a name it lists models"
else bad "without a name it lists models" "$(cat "$dir/out" "$dir/err")"; fi
pull --yes qwen3;      refused "the beginning of several names" 2 'several models: qwen3-0.6b, qwen3-4b'
pull --yes qwen3-4g;   refused "a name that is misspelt" 2 "is it 'qwen3-4b'"
pull --yes mine;       refused "an unknown name" 2 'ORG/NAME'
pull --yes a/b/c;      refused "a repository with two slashes" 2 'ORG/NAME'
pull --yes qwen3-4b:Q8_0; refused "a quantization of a name" 1 "repository 'Qwen/Qwen3-4B-GGUF'"
pull --yes https://example.org/t/plain; refused "another server" 2 'no address of huggingface.co'
pull --yes ../x;       refused "a repository of another folder" 2 'ORG/NAME'
pull --yes 't/a b';    refused "a repository with a blank" 2 'ORG/NAME'
HF_ENDPOINT=ftp://127.0.0.1/ pull --yes t/plain; refused "a server that is no address" 2 'HF_ENDPOINT'
HF_ENDPOINT=http://127.0.0.1:1 pull --yes t/plain; refused "a server that is not there" 1 'http://127.0.0.1:1: '

HF_ENDPOINT="http://me:hunter2@127.0.0.1:$port" pull --yes t/plain; refused "a password in the server's address" 2 'HF_ENDPOINT has a user name'
grep -q hunter2 "$dir/err" && bad "it is not repeated" "$(cat "$dir/err")" || ok "it is not repeated"

# ---- good ones ----

pull --yes t/plain
grep -q '^plain-Q4_K_M: llama, Q8_0, 3.1 MiB, trained for 256 tokens' "$dir/err" && grep -q '^fits: .* cache at [0-9]* tokens, of .* free memory; about [0-9]* tokens/s here$' "$dir/err" &&
	ok "it says what the model is and needs" || bad "it says what the model is and needs" "$(cat "$dir/err")"
said=$(sed -n 's/^fits: .* cache at \([0-9]*\) tokens.*/\1/p' "$dir/err")
has=$(echo /stats | "$weir" -m "$models/plain-Q4_K_M.gguf" --line --private 2>&1 | sed -n 's/^context .* of \([0-9]*\) tokens.*/\1/p')
whole "a model is fetched" plain-Q4_K_M.gguf
if [ -n "$said" ] && [ "$said" = "$has" ]; then ok "it says the context that the chat then has"
else bad "it says the context that the chat then has" "$said before, $has then"; fi
pull -y t/plain:q8_0;               whole "a quantization is named" plain-Q8_0.gguf
pull -y t/plain:plain-Q8_0.gguf;    whole "a file is named" plain-Q8_0.gguf
pull -y t/plain:Q3_K_S;             refused "a quantization that is not there" 2 "no 'Q3_K_S'; choose with :QUANT among Q4_K_M (3.1 MiB), Q8_0"
pull -y t/quants;                   whole "without Q4_K_M the best that there is" Quants-Q5_K_M.gguf
pull -y "https://huggingface.co/t/plain/blob/main/plain-Q8_0.gguf"; whole "the address of a file's page" plain-Q8_0.gguf
pull -y hf.co/t/plain:q8_0;         whole "an address without https, with a quantization" plain-Q8_0.gguf
pull -y hf.co/t/plain/blob/v1.0/plain-Q8_0.gguf; whole "a file of a tag" plain-Q8_0.gguf
pull -y hf.co/t/plain/tree/refs%2Fpr%2F1; whole "what a pull request holds" plain-Q4_K_M.gguf
pull -y hf.co/t/plain/tree/v9.9; refused "a revision that there is not" 1 "'t/plain' has no revision 'v9.9' (404)"
pull -y hf.co/t/plain/tree/..; refused "a revision that leads elsewhere" 2 'a branch, tag or commit'
pull -y t/oldname;                  whole "a repository that was renamed" newname-Q4_K_M.gguf
pull -y t/cached;                   whole "a redirection without a host" cached-Q4_K_M.gguf
pull -y t/pages;                    whole "a list of three pages" pages-Q4_K_M.gguf
pull -y t/mirrored;                 whole "a mirror that hands on the pages of huggingface.co" mirrored-Q4_K_M.gguf
pull -y t/pagebusy;                 whole "503 between two pages" pagebusy-Q4_K_M.gguf
pull -y t/pageaway;                 refused "pages on another server" 1 'goes on at another server'
pull -y t/pagecircle;               refused "pages without end" 1 'more than 100 pages'
pull -y t/big;                      refused "no quantization fits" 5 "no model of 't/big' fits: the smallest, Q4_K_M, has 1.0 TiB, and .* of memory are free; weir pull t/big:Q4_K_M fetches it anyway"
pull -y t/bigsmall;                 whole "the first quantization that fits" bigsmall-Q2_K.gguf
pull -y "$HF_ENDPOINT/t/plain/tree/main?x=1"; whole "an address of the server in use" plain-Q4_K_M.gguf
pull -q -y t/plain; [ -s "$dir/err" ] && bad "--quiet says nothing" "$(cat "$dir/err")" || ok "--quiet says nothing"
pull -y t/plain
grep -q 'is here already: 3.1 MiB, with the right checksum' "$dir/err" && [ $rc = 0 ] && ok "what is here is not fetched again" || bad "what is here is not fetched again" "$(cat "$dir/err")"
printf x | dd of="$models/plain-Q4_K_M.gguf" bs=1 seek=99999 conv=notrunc 2>/dev/null
pull -y t/plain
[ $rc = 1 ] && grep -q "another file is called 'plain-Q4_K_M.gguf' already; 'weir models rm" "$dir/err" && ok "another file of that name stays" || bad "another file of that name stays" "$(cat "$dir/err")"
rm -rf "$models"
pull t/plain; refused "nothing is asked without a terminal" 2 "weir pull --yes NAME"

pull -y t/parts
if [ $rc = 0 ] && [ "$(ls -A "$models" | tr '\n' ' ')" = "parts-00001-of-00003.gguf parts-00002-of-00003.gguf parts-00003-of-00003.gguf " ] &&
	echo hi | "$weir" -m parts -n 2 --private >"$dir/out" 2>"$dir/err"; then ok "a model in three files is fetched and runs"
else bad "a model in three files is fetched and runs" "$rc $(ls -A "$models") $(cat "$dir/err")"; fi
"$weir" models >"$dir/out" 2>&1
[ "$(grep -c '^[* ] parts' "$dir/out")" = 1 ] && ok "it is listed as one" || bad "it is listed as one" "$(cat "$dir/out")"
"$weir" models rm -y parts-00001-of-00003 >"$dir/out" 2>&1
[ -z "$(ls -A "$models")" ] && ok "and deleted as one" || bad "and deleted as one" "$(ls -A "$models"; cat "$dir/out")"
rm -rf "$models"

pull t/vast
if [ "$rc" = 2 ]; then skip "a disk that is too full" "this one has room for a terabyte"; rm -rf "$models"
elif grep -q 'cannot be mapped: Cannot allocate memory' "$dir/err"; then skip "a disk that is too full" "a terabyte cannot be mapped here"; rm -rf "$models"
else refused "a disk that is too full" 5 'the disk is too full: 1.0 TiB are needed in .* are free'; fi
pull --kv full -c 100000000 t/plain
grep -q '^does not fit: .* cache at 100,000,000 tokens, of .* free memory' "$dir/err" && ok "it says what does not fit" || bad "it says what does not fit" "$(cat "$dir/err")"
mkdir -p "$HOME/.lmstudio/models/t/plain" && cp "$models"/plain-Q4_K_M.gguf.*.part "$HOME/.lmstudio/models/t/plain/plain-Q4_K_M.gguf"
rm -rf "$models"
dd if=/dev/null of="$HOME/.lmstudio/models/t/plain/plain-Q4_K_M.gguf" bs=1 seek="$(($(wc -c <tests/vectors/models/llama-block32.gguf) + 3145728))" 2>/dev/null
pull -y t/plain
[ $rc = 0 ] && grep -q "here already, fetched by LM Studio" "$dir/err" && [ ! -e "$models/plain-Q4_K_M.gguf" ] && ok "what another program has is not fetched" ||
	bad "what another program has is not fetched" "$(cat "$dir/err")"
rm -rf "$models" "$HOME/.lmstudio"

# ---- text encoders ----

encoders=$XDG_CACHE_HOME/weir/encoders
pull
grep -q '^  bge-small-en  *35.0 MiB  English' "$dir/out" && ok "encoders are listed" || bad "encoders are listed" "$(cat "$dir/out")"
pull -y t/encoder
if [ $rc = 0 ] && [ "$(ls -A "$encoders")" = encoder-Q4_K_M.gguf ] && [ -z "$(ls -A "$models")" ] &&
	grep -q '^encoder-Q4_K_M: nomic-bert, Q4_K_M, 3.1 MiB, a text encoder with vectors of 32 numbers; it fits into the .* of free memory' "$dir/err" &&
	grep -q "^'weir -e encoder-Q4_K_M' searches documents with it" "$dir/err"; then ok "an encoder goes into its own folder"
else bad "an encoder goes into its own folder" "$rc $(ls -A "$encoders" "$models") $(cat "$dir/err")"; fi
pull -y t/encoder
[ $rc = 0 ] && grep -q 'is here already' "$dir/err" && [ -z "$(ls -A "$models")" ] && ok "and is not fetched again" || bad "and is not fetched again" "$rc $(cat "$dir/err")"
"$weir" models -e encoder >"$dir/out" 2>&1
grep -q '^\* encoder-Q4_K_M  *3.1 MiB  weir ' "$dir/out" && ok "it is listed, and marked if it is in use" || bad "it is listed, and marked if it is in use" "$(cat "$dir/out")"
"$weir" doctor -e encoder >"$dir/out" 2>&1
grep -q '^encoder .*/encoders/encoder-Q4_K_M.gguf$' "$dir/out" && ok "it is found by the beginning of its name" || bad "it is found by the beginning of its name" "$(cat "$dir/out")"
"$weir" models rm -y encoder-Q4_K_M >"$dir/out" 2>&1
[ -z "$(ls -A "$encoders")" ] && ok "and deleted by its name" || bad "and deleted by its name" "$(cat "$dir/out")"
pull -y t/ranker:Q8_0
if [ $rc = 0 ] && [ "$(ls -A "$encoders")" = ranker-Q8_0.gguf ] && grep -q ', a reranker; it fits' "$dir/err" && grep -q "^named NAME-reader.gguf, beside an encoder .*; named NAME-reader-en.gguf, only English" "$dir/err"; then ok "a reranker goes there, too"
else bad "a reranker goes there, too" "$rc $(ls -A "$encoders") $(cat "$dir/err")"; fi
rm -rf "$encoders" "$models"

# ---- at a terminal ----

# typed [PATTERN ANSWER ...] -- ARGS: run weir at a terminal, answer its questions, and write what it shows to $dir/out.
typed() {
	python3 tests/cli/answers.py "$dir/out" "$weir" "$@" 2>"$dir/err"
	rc=$?
}
shows() { tr -d '\r' <"$dir/out" | tr '\n' ' ' | grep -q -e "$2" && ok "$1" || bad "$1" "no '$2' in: $(cat "$dir/out" "$dir/err")"; }
typed 'Fetch .* anyway' '' -- pull --kv full -c 100000000 t/plain
shows "where it does not fit, Enter fetches nothing" 'anyway. .y/N. .*not fetched'
typed 'Fetch the rest, .*n\]' n -- pull t/plain
shows "it asks, and n fetches nothing" 'not fetched: 1.0 MiB of 3.1 MiB are here, and the same command continues'
"$weir" models >"$dir/out" 2>&1
shows "what a stopped pull has left is listed" 'plain-Q4_K_M .* 1.0 MiB  unfinished'
typed 'Fetch the rest, 2.1 MiB. .Y/n\]' '' -- pull t/plain
whole "Enter fetches it" plain-Q4_K_M.gguf
typed 'Fetch the rest' '' 'fetching .* MiB of' '^C' -- pull t/held
[ $rc = 130 ] && ok "Ctrl-C ends with 130" || bad "Ctrl-C ends with 130" "$rc $(cat "$dir/out")"
shows "and says what is here" 'stopped: .* of 3.1 MiB are here, and the same command continues'
rm -rf "$models"
typed 'Which one: 1 to 1.' '' -- --line --private
shows "a first start shows what there is" 'no model on this machine yet.* 9  qwen3-4b '
shows "and takes no for an answer" "no model: 'weir pull NAME' fetches one"
typed 'Which one' 99 'Which one' qwen3 'Which one' t/404 'Which one' '' -- --line --private
shows "a number that is not there" 'there is no model 99: 1 to 14 are to choose from'
shows "it asks again" "'qwen3' is the beginning of several models.*no repository 't/404'.*no model: 'weir pull NAME'"
typed 'Which one' t/encoder 'Which one' '' -- --line --private
shows "an encoder is nothing to talk to" "'encoder-Q4_K_M' is an encoder for search by meaning, which nobody can talk to"
rm -rf "$models"
typed 'Which one' t/plain 'Fetch the rest' y '> ' '/quit' -- --line --private
[ $rc = 0 ] && ok "from nothing to a chat" || bad "from nothing to a chat" "$rc $(cat "$dir/out")"
whole "with the model that was chosen" plain-Q4_K_M.gguf

# ---- servers that misbehave ----

pull -y t/drops
n=$(grep -c '^/t/drops/' "$dir/log")
[ "$n" -ge 200 ] && ok "$n connections broke at random bytes" || bad "connections break" "only $n"
whole "and the file is whole" drops-Q4_K_M.gguf
i=0
while [ $i -lt 40 ] && [ ! -e "$models/kills-Q4_K_M.gguf" ]; do
	i=$((i + 1))
	"$weir" pull -y t/kills </dev/null >"$dir/out" 2>"$dir/err" &
	job=$!
	sleep "0.$((i * 37 % 10 + 1))"
	kill -KILL $job 2>/dev/null
	wait $job 2>/dev/null
done
[ $i -ge 5 ] && ok "killed $i times" || bad "it is killed" "only $i times"
pull -y t/kills
whole "killed again and again it continues" kills-Q4_K_M.gguf
pull -y t/elsewhere
HF_TOKEN=secret pull -y t/elsewhere:Q8_0
rm -rf "$models"
if grep -q '^/there/.* plain other' "$dir/log" && ! grep -q ' token other' "$dir/log" && grep -q 't/elsewhere/.* token hub' "$dir/log"; then ok "the token does not follow to another host"
else bad "the token does not follow to another host" "$(grep elsewhere "$dir/log")"; fi
mkdir -p "$HOME/.cache/huggingface" && echo stored >"$HOME/.cache/huggingface/token"
pull -y t/slow; whole "a slow server" slow-Q4_K_M.gguf
grep -q '^/t/slow/.* token hub' "$dir/log" && ok "a stored token is used" || bad "a stored token is used" "$(grep slow "$dir/log")"
# With a proxy any name without encryption counts as another machine, and it is not looked up.
: >"$dir/log"
http_proxy="http://127.0.0.1:$port" HF_ENDPOINT=http://models.test pull -y t/plain
if grep -q '^http://models.test/.* plain hub' "$dir/log" && ! grep -q ' token ' "$dir/log" && grep -q 'the stored token is not sent to http://models.test' "$dir/err"; then
	ok "a stored token does not go to another machine unencrypted"
else bad "a stored token does not go to another machine unencrypted" "$(cat "$dir/err" "$dir/log")"; fi
: >"$dir/log"
http_proxy="http://127.0.0.1:$port" HF_TOKEN=secret HF_ENDPOINT=http://models.test pull -y t/plain
refused "a token that is given would go unencrypted" 2 'everybody on the way would read the token'
[ -s "$dir/log" ] && bad "nothing is asked then" "$(cat "$dir/log")" || ok "nothing is asked then"
pull -y t/gated; refused "a file that is gated, with a token" 1 'gated (403): accept its terms on .* with the account that the token is of'
pull -y t/asked; refused "terms that were accepted and not granted" 1 'not yet granted'
pull -y t/401; refused "401 with a token" 1 'does not accept the token (401)'
rm -rf "$HOME/.cache/huggingface"
pull -y t/401; refused "401" 1 "does not exist on 127.0.0.1:$port or needs an access token (401): check the name, or set HF_TOKEN"
pull -y t/403; refused "403" 1 'gated (403): accept its terms on'
pull -y t/404; refused "404" 1 "no repository 't/404'"
pull -y t/disabled; refused "403 with a reason" 1 'refuses .t/disabled. (403): Access to this resource is disabled.'
grep -q "$(printf '\033')" "$dir/err" && bad "the reason is filtered" "$(cat -v "$dir/err")" || ok "the reason is filtered"
pull -y t/limited; whole "429 with RateLimit" limited-Q4_K_M.gguf
pull -y t/429; refused "429 for hours" 1 'too many requests (429): run the same command later'
pull -y t/busy; whole "429 and 503 for a moment" busy-Q4_K_M.gguf
pull -y t/busyfile; whole "503 in the middle" busyfile-Q4_K_M.gguf
pull -y t/busydate; whole "a time to come back that is a date" busydate-Q4_K_M.gguf
grep -q 'trying again in [1-8] s' "$dir/err" && ok "it waits until then" || bad "it waits until then" "$(cat "$dir/err")"
pull -y t/gone; refused "a file that is listed only" 1 '(404)'
pull -y t/gated; refused "a file that is gated" 1 'gated (403)'
pull -y t/closed; refused "a file that is gated, without a token" 1 'gated (401): accept its terms'
pull -y t/expired; whole "a storage address that has expired" expired-Q4_K_M.gguf
pull -y t/relinked; refused "a checksum that is not the list's" 1 'another file than its list says'
pull -y t/resizedlink; refused "a size that is not the list's" 1 'another file than its list says'
pull -y t/nocommit; refused "a server without commits" 1 'does not say which commit'
pull -y t/badcommit; refused "a commit that cannot be" 1 'does not say which commit'
pull -y t/norange; whole "a server without ranges" norange-Q4_K_M.gguf
pull -y t/norangedrop; whole "one without ranges that breaks off" norangedrop-Q4_K_M.gguf
pull -y t/truncated; whole "answers that end too soon" truncated-Q4_K_M.gguf
pull -y t/short416; whole "416 where bytes are left over" short416-Q4_K_M.gguf
pull -y t/wrongrange; refused "other bytes than were asked for" 1 'other bytes'
pull -y t/resized; refused "another size" 1 'another size'
pull -y t/endless; refused "more bytes than the file has" 1 'more of'
pull -y t/sum
[ -e "$models" ] && [ -z "$(ls -A "$models")" ] && ok "what has a wrong sum is deleted" || bad "what has a wrong sum is deleted" "$(ls -A "$models")"
refused "a wrong sum" 1 'wrong checksum and was deleted'
pull -y t/json; refused "a list that is cut off" 1 'cut off'
pull -y t/login; refused "a login page" 1 'login page'
pull -y t/away; refused "a redirection to ftp" 1 'no web address'
pull -y t/circle; refused "redirections in a circle" 1 'more than 8 times'
pull -y t/flood; refused "the page of an error without an end" 1 'no repository .*(404)'
pull -y t/drip; refused "one that never stops dripping" 1 'no repository .*(404)'
pull -y t/floodaway; refused "the page of a redirection without an end" 1 'a page that does not end'
pull -y t/hostile; refused "names that lead elsewhere" 1 'plain name'
pull -y t/huge; refused "sizes that cannot be" 1 'a size'
pull -y t/large; refused "a size that is not the file's" 1 'another size'
pull -y t/nosum; refused "files without a sum" 1 'checksum'
pull -y t/text; refused "a repository without models" 1 'holds no GGUF file'
i=0 odd=
while [ $i -lt 60 ]; do
	i=$((i + 1))
	pull t/mutated$i
	case $rc in 1 | 2 | 3 | 5) ;; *) odd="$odd $i: status $rc" ;; esac
	[ "$(grep -c '^weir: ' "$dir/err")" = 1 ] || odd="$odd $i: $(cat "$dir/err")"
	find "$dir" -name '*.gguf' | grep -q . && odd="$odd $i: $(find "$dir" -name '*.gguf')"
	rm -rf "$models"
done
[ -z "$odd" ] && ok "$i damaged lists" || bad "$i damaged lists" "$odd"
i=0 odd=
while [ $i -lt 20 ]; do
	i=$((i + 1))
	pull t/broken$i
	case $rc in 1 | 2) ;; *) odd="$odd $i: status $rc" ;; esac
	[ "$(grep -c '^weir: ' "$dir/err")" = 1 ] || odd="$odd $i: $(cat "$dir/err")"
	rm -rf "$models"
done
[ -z "$odd" ] && ok "$i damaged answers about the commit" || bad "$i damaged answers about the commit" "$odd"
pull -y t/family; refused "a family that weir does not run" 3 "architecture 'lxama' is not supported"
if [ "$(grep -c '^/t/family/' "$dir/log")" = 1 ]; then ok "which its header says"; else bad "which its header says" "$(grep family "$dir/log")"; fi
find "$dir" -name 'evil*' -o -name 'b-Q4*' | grep -q . && bad "nothing outside of the folder" "$(find "$dir" -name 'evil*')" || ok "nothing outside of the folder"

# Two downloads at once; the first has not received a byte yet.
"$weir" pull -y t/gate </dev/null >"$dir/out" 2>"$dir/first" &
job=$!
waits() { grep -q '^/t/gate/resolve/' "$dir/log"; }
wait_for waits
pull -y t/gate
grep -q 'another process fetches' "$dir/err" && ok "a second one is refused" || bad "a second one is refused" "$rc: $(cat "$dir/err")"
: >"$dir/log.open"
wait $job
rc=$?
cp "$dir/first" "$dir/err"
whole "and leaves the file of the first one alone" gate-Q4_K_M.gguf

# A download of a version that no longer exists is not continued.
"$weir" pull -y t/changed </dev/null >"$dir/out" 2>"$dir/err" &
job=$!
begun() { find "$models" -name '*.part' -size +0 2>/dev/null | grep -q .; }
wait_for begun
kill -KILL $job 2>/dev/null
wait $job 2>/dev/null
first=$(ls "$models")
pull -y t/changed
[ -n "$first" ] && [ ! -e "$models/$first" ] && ok "a changed file begins again" || bad "a changed file begins again" "'$first' and then: $(ls -A "$models")"
rm -rf "$models"

# ---- deleting ----

pull -q -y t/plain
mkdir -p "$HOME/.cache/llama.cpp"
cp tests/vectors/models/llama-block32.gguf "$HOME/.cache/llama.cpp/theirs.gguf"
models_rm() {
	"$weir" models rm "$@" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
}
models_rm -y theirs
[ $rc = 2 ] && [ -e "$HOME/.cache/llama.cpp/theirs.gguf" ] && grep -q 'fetched by llama.cpp' "$dir/err" && ok "models of others are not deleted" || bad "models of others are not deleted" "$(cat "$dir/err")"
models_rm plain-Q4_K_M
[ $rc = 2 ] && [ -e "$models/plain-Q4_K_M.gguf" ] && ok "nothing is deleted without being asked" || bad "nothing is deleted without being asked" "$(cat "$dir/err")"
models_rm -y plain; [ $rc = 2 ] && [ -e "$models/plain-Q4_K_M.gguf" ] && ok "half of a name deletes nothing" || bad "half of a name deletes nothing" "$(cat "$dir/err")"
models_rm -y ../models/plain-Q4_K_M; [ $rc = 2 ] && ok "nor does a path" || bad "nor does a path" "$(cat "$dir/err")"
"$weir" -p hi -n 1 --private </dev/null >"$dir/out" 2>"$dir/err" && ok "the only model is the default" || bad "the only model is the default" "$(cat "$dir/err")"
: >"$models/plain-Q4_K_M.gguf.0123456789abcdef.part"
models_rm -y plain-Q4_K_M
[ $rc = 0 ] && [ -z "$(ls -A "$models")" ] && ok "a model and what was begun of it are deleted" || bad "a model is deleted" "$(cat "$dir/err"; ls -A "$models")"
"$weir" -p hi </dev/null >"$dir/out" 2>"$dir/err"
[ $? = 3 ] && [ "$(wc -l <"$dir/err")" = 1 ] && grep -q "'weir pull qwen3-4b' fetches one" "$dir/err" && ok "without a model one line says what to run" || bad "without a model one line says what to run" "$(cat "$dir/err")"
finish
