#!/bin/sh
# tests/cli/s_remote.sh - a model on a server, played by a local one that misbehaves in every way (models.py); in a pipe
# and with -p.
#
# WEIR is the program (default ./weir).  Closes with "N passed, M failed, K skipped".
# shellcheck disable=SC2015 # A && ok || bad: ok does not fail
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}
case $weir in /*) ;; *) weir=$PWD/$weir ;; esac

. tests/lib/count.sh
[ -x "$weir" ] || { bad remote "no program at '$weir'"; finish; }
command -v python3 >/dev/null 2>&1 || { skip remote "python3 is not installed"; finish; }

dir=$(mktemp -d) || exit 1
server=
trap '[ -n "$server" ] && kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
unset WEIR_MODEL WEIR_KV WEIR_CTX WEIR_THREADS WEIR_COLOR NO_COLOR WEIR_API_KEY SSL_CERT_FILE
unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
export WEIR_DEVICE=cpu HOME="$dir/home" XDG_CACHE_HOME="$dir/cache" XDG_CONFIG_HOME="$dir/config" XDG_STATE_HOME="$dir/state" XDG_DATA_HOME="$dir/data"
mkdir -p "$HOME" "$XDG_CONFIG_HOME/weir"

pem=
if command -v openssl >/dev/null 2>&1 && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost \
	-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$dir/key.pem" -out "$dir/cert.pem" >/dev/null 2>&1; then
	cat "$dir/key.pem" "$dir/cert.pem" >"$dir/both.pem"
	pem=$dir/both.pem
fi
# shellcheck disable=SC2086 # no certificate is no argument
python3 tests/cli/models.py "$dir/log" "$dir/ports" $pem 2>"$dir/server" &
server=$!
wait_for [ -s "$dir/ports" ]
[ -s "$dir/ports" ] || { bad remote "the server does not start: $(cat "$dir/server")"; finish; }
read -r port other tls <"$dir/ports"
at="http://127.0.0.1:$port"

# ask NAME OPTIONS: send one question to the server's NAME.
ask() {
	name=$1
	shift
	: >"$dir/log"
	timeout 600 "$weir" -p 'Say hello.' --remote "$at/$name/v1" --timeout 100 "$@" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
}
# ask_silent NAME TEXT: ask a server that falls silent after TEXT, with a limit of two seconds; if a slow machine did
# not get TEXT within that time, again with twenty.
ask_silent() {
	silent=2
	ask "$1" --timeout 2
	if [ "$(cat "$dir/out")" != "${2:-}" ] || ! grep -q 'nothing has come' "$dir/err"; then
		silent=20
		ask "$1" --timeout 20
	fi
}
# says TEST TEXT: check that there was no error and that the answer is TEXT.
says() {
	if [ "$rc" != 0 ]; then bad "$1" "status $rc: $(cat "$dir/err")"
	elif [ "$(cat "$dir/out")" != "$2" ]; then bad "$1" "it answers '$(head -c 300 "$dir/out")'"
	else ok "$1"; fi
}
# refused TEST RC PATTERN [TEXT]: check for one line of error that matches, and for the text before it.
refused() {
	if [ "$rc" != "$2" ]; then bad "$1" "status $rc, expected $2: $(cat "$dir/err")"
	elif [ "$(grep -c . "$dir/err")" != 1 ] || ! grep -q "^weir: .*$3" "$dir/err"; then bad "$1" "no '$3' alone in: $(cat "$dir/err")"
	elif [ "$(cat "$dir/out")" != "${4:-}" ]; then bad "$1" "it answers '$(head -c 300 "$dir/out")'"
	else ok "$1"; fi
}
hello='Hello, world.'

# ---- servers that differ ----

ask plain;      says "a stream" "$hello"
ask bytes;      says "byte by byte" "$hello"
ask crlf;       says "lines that end with CR LF" "$hello"
ask crlfbytes;  says "the same byte by byte" "$hello"
ask cr;         says "lines that end with CR" "$hello"
ask comments;   says "comments between events" "$hello"
ask lines;      says "an event over several data: lines" "$hello"
ask nodone;     says "no [DONE]" "$hello"
ask nofinish;   says "[DONE] without a finish_reason" "$hello"
ask nospace;    says "data: without a blank" "$hello"
ask bom;        says "a byte order mark" "$hello"
ask nochoices;  says "events without choices" "$hello"
ask utf8;       says "UTF-8 cut anywhere" "Grüße 🌍"
ask utf8split;  says "a character over two events" "Grüße"
ask escapes;    says "escaped characters" "Grüße 🌍"
ask whole;      says "an answer that is no stream" "$hello"
ask chunked;    says "chunks that cut events" "$hello"
ask chunkbytes; says "chunks of one byte" "$hello"
ask length;     says "a stream with a length" "$hello"
ask parts;      says "content as a list of parts" "$hello"
ask fields;     says "other fields of an event" "$hello"
ask open;       says "a connection that stays open" "$hello"
ask notype;     says "no Content-Type" "$hello"
ask plaintype;  says "another Content-Type" "$hello"
ask lastline;   says "no empty line behind the last event" "$hello"
ask second;     says "a second choice" "$hello"
ask zero;       says "zero bytes" "$hello"
ask eos;        says "another finish_reason" "$hello"
ask wide;       says "an error that is null" "$hello"
ask figures;    says "absurd figures" "$hello"
ask hundred;    says "100 Continue" "$hello"
ask doneonly;   says "an empty answer" ""
ask escape;     says "control sequences are harmless" "Hello, ^[[2J^[]0;owned^Gworld."
ask thoughts --think hide;  says "reasoning_content is hidden" "$hello"
ask reasoning --think hide; says "reasoning is hidden" "$hello"
ask thoughts --think show;  says "reasoning is shown" "<think>
It greets, so do I.
</think>

$hello"
ask gzip;       says "an answer that is compressed" "$hello"
ask deflate;    says "one by deflate" "$hello"
ask_silent gzipslow 'Hello, '; refused "a compressed one that comes piece by piece" 1 "nothing has come for $silent seconds" 'Hello, '
ask twice;      refused "one that is compressed twice" 1 'is compressed twice'
ask gzipbad;    refused "one that is damaged" 1 "127.0.0.1:$port: "
ask gzipbomb;   refused "a compressed bomb" 1 'more than'
ask gziperror;  refused "an error that is compressed" 1 'it is full'
ask text;       says "chunks with text instead of delta" "$hello"
ask mentioned --think hide; says "a mark that is mentioned" 'The tag `</think>` ends it.'
ask unopened --think hide;  says "reasoning that is closed alone" "$hello"
ask unopened --think show;  says "... is shown" "I wonder</think>

$hello"
: >"$dir/log"
timeout 600 "$weir" -p 'Say hello.' --remote "$at/plain/v1?api-version=7" </dev/null >"$dir/out" 2>"$dir/err"
rc=$?
says "an address with a query" "$hello"
[ "$(grep -c '/plain/v1/[a-z/]*?api-version=7' "$dir/log")" = 2 ] && ok "... which goes with every request" || bad "... which goes with every request" "$(cat "$dir/log")"
times_of() { sh -c 'timeout 100 "$0" -p hello --remote "$1" </dev/null >/dev/null 2>&1; times' "$weir" "$1" | awk 'END { split($1, a, /[ms]/); print a[1] * 60 + a[2] }'; }
seconds=$(times_of "$at/ollamamany/v1")
[ "${seconds%.*}" -lt 20 ] && ok "a long list of what is loaded takes $seconds s of a processor" || bad "a long list of what is loaded" "$seconds s"
ask ollamahuge; says "a list that is too long" "$hello"
ask cut -v;     grep -q . "$dir/out" && says "an answer that is cut" "$hello"
ask many
if [ $rc = 0 ] && [ "$(wc -w <"$dir/out")" = 10000 ]; then ok "ten thousand tokens"; else bad "ten thousand tokens" "$(wc "$dir/out") $(cat "$dir/err")"; fi

# ---- servers of different make (makes.py) ----

thought='<think>
It greets.
</think>

Hello, world.'
ask mistral;    says "a server that refuses stream_options, and reasoning as a part of the content" "$thought"
ask mistral --seed 3; refused "a field that the user has named is refused by its name" 1 'seed: Extra inputs are not permitted$'
ask openrouter -m tiny:free -v; says "comments, and reasoning under two names" "$thought"
grep -q 'context 40,960$' "$dir/err" && ok "the context in a list of models" || bad "the context in a list of models" "$(cat "$dir/err")"
ask openrouterlate; refused "an error in a chunk of the answer" 1 'Provider disconnected unexpectedly$' 'Hello, '
ask upstream;   refused "the error of the server behind" 1 'status 400, Provider returned error: the model takes no images$'
ask deepseek;   says "keep-alive comments and reasoning_content" "$thought"
ask deepseekfull; refused "an answer for which there was no room" 1 'cut the answer: insufficient_system_resource$' 'Hello, '
ask vllmlimit -n 9000; says "a limit that exceeds the context" "$hello"
[ "$(grep -c '"max_tokens": 9000' "$dir/log")" = 1 ] && ok "the limit is sent once" || bad "the limit is sent once" "$(cat "$dir/log")"
ask tgi -n 9000; says "the same in other words" "$hello"
ask emptyfinish --timeout 20; says "finish_reason is an empty word until the end" "$hello"
ask nosystem --system 'Be brief.'; says "a template without a system message" "Be brief.||Say hello."
ask together -v; says "a list without an object around it" "$hello"
ask groq -v;    grep -q 'context 131,072$' "$dir/err" && ok "context_window" || bad "context_window" "$(cat "$dir/err")"
ask lmstudio;   refused "an error instead of a list" 1 ': Unexpected endpoint or method'
ask gemini;     refused "an error in a list" 1 'status 400, API key not valid'
ask page405;    refused "a page that refuses POST" 1 'status 405: there is no chat at this address$'
ask page413;    refused "a page that refuses the length" 1 'status 413: the question with its documents is longer than it takes$'
printf 'One.\nTwo.\nThree.\nFour.\n' | "$weir" --each-line --remote "$at/lmstudiofull/v1" -s full >"$dir/out" 2>"$dir/err"
[ "$(grep -c "$hello" "$dir/out")" = 4 ] && grep -q 'context of 300 tokens is full' "$dir/err" && ok "an error within the stream says that the context is full" ||
	bad "an error within the stream says that the context is full" "$(cat "$dir/out" "$dir/err")"

# ---- trying again before the first token ----

# again TEST: check that one retry was reported and that the answer is right.
again() {
	if [ "$rc" = 0 ] && [ "$(cat "$dir/out")" = "$hello" ] && [ "$(grep -c 'asking again$' "$dir/err")" = 1 ] && [ "$(grep -c . "$dir/err")" = 1 ]; then ok "$1"
	else bad "$1" "status $rc: $(cat "$dir/out" "$dir/err")"; fi
}
ask busy;     again "a server that starts"
ask limit;    again "a server that asks to wait"
ask reset;    again "a server that closes the connection"
ask cutfirst; again "a server that closes it before the first token"

# ---- what is refused ----

ask e401;       refused "401" 1 'status 401.*WEIR_API_KEY or --key-file'
ask e403;       refused "403" 1 'status 403, forbidden'
ask e404;       refused "404" 1 'status 404, The model .tiny. does not exist'
ask e400;       refused "400 with a list" 1 'status 400, .*field required'
ask e500
if [ "$rc" = 1 ] && [ "$(grep -c . "$dir/err")" = 2 ] && grep -q 'status 500, worker has.* died$' "$dir/err" && ! grep -q "$(printf '\033')" "$dir/err"; then ok "500"; else bad "500" "$rc: $(cat "$dir/err")"; fi
ask e503;       refused "503 for an hour" 1 'status 503, come back later'
ask e429;       refused "429 for a day" 1 'status 429, quota exceeded'
ask e418;       refused "an error page that is no JSON" 1 'status 418'
ask e204;       refused "204" 1 'status 204'
ask redirect;   refused "a redirection" 1 'status 307: it sends to .http:.*chat/completions., and is not followed'
grep -q "\"port\": $other" "$dir/log" && bad "a redirection is not followed" "$(cat "$dir/log")" || ok "a redirection is not followed"
ask html;       refused "a page for people" 1 'a page for people'
ask nojson;     refused "an event that is cut" 1 'is no JSON' "Hello, "
ask nojsonfirst; refused "an event that is no JSON" 1 'is no JSON'
ask deep;       refused "an event of 100,000 brackets" 1 'is no JSON'
ask deepclosed; refused "an event that nests 5,000 deep" 1 'is no JSON'
ask error;      refused "an error in the stream" 1 'out of memory'
ask errorlate;  refused "an error behind text" 1 'out of memory' "Hello, "
ask errorempty; refused "an error without a word" 1 'without a word'
ask broken;     refused "a connection that breaks" 1 '' "Hello, "
ask brokenchunk; refused "a chunk without a size" 1 '' "Hello, "
ask ended;      refused "an end in the middle" 1 'ended before the answer did' "Hello, "
ask filter;     refused "a filter" 1 'cut the answer: content_filter' "Hello, "
ask tools;      refused "a tool" 1 'cut the answer: tool_calls'
ask_silent silent;     refused "a server that is silent" 1 "nothing has come for $silent seconds"
ask_silent silentbody; refused "silence behind the head" 1 "nothing has come for $silent seconds"
ask_silent silentlate "Hello, "; refused "silence in the answer" 1 "nothing has come for $silent seconds" "Hello, "
ask_silent pings;      refused "comments for ever" 1 "nothing has come for $silent seconds"
ask_silent nothings;   refused "empty events for ever" 1 "nothing has come for $silent seconds"
ask_silent drip;       refused "a head for ever" 1 "nothing has come for $silent seconds"
ask bigline;    refused "a line without an end" 1 'a line of more than 1 MiB'
ask bigevent;   refused "an event without an end" 1 'an event of more than 1 MiB'
ask bighead;    refused "a head without an end" 1 '64 KiB of headers'
ask bigwhole;   refused "JSON without an end" 1 'longer than 16 MiB'
ask bigtext
if [ $rc = 1 ] && grep -q 'longer than 16 MiB' "$dir/err" && [ "$(wc -c <"$dir/out")" -ge 16000000 ]; then ok "an answer without an end"; else bad "an answer without an end" "$rc: $(wc -c <"$dir/out") $(cat "$dir/err")"; fi
ask nothttp;    refused "another protocol" 1 '127.0.0.1'
ask overflow;   refused "a question that is too long" 5 'exceeds the available context'

# ---- its models ----

ask listtwo;    refused "several models" 3 'has 2 models: tiny, org/large; -m NAME chooses'
ask listtwo -m org/large; says "one of several" "$hello"
grep -q '"model": "org/large"' "$dir/log" && ok "... is asked for" || bad "... is asked for" "$(cat "$dir/log")"
ask listtwo -m large;     says "its short name" "$hello"
ask listtwo -m larg;      refused "a name that it has not" 3 "has no model 'larg'; it has tiny, org/large"
ask listempty;  refused "no models" 3 'lists no models'
ask listevil;   [ "$rc" = 3 ] && ! grep -q "$(printf '\033')" "$dir/err" && ok "names with control sequences" || bad "names with control sequences" "$rc $(cat "$dir/err")"
ask listlong;   refused "100,000 models" 3 'and 994 more'
ask listhuge;   refused "a list without an end" 1 'longer than 16 MiB'
ask listhtml;   refused "a list that is a page" 1 'is no JSON'
ask list500;    refused "a list that fails" 1 'status 500, the model has crashed'
ask_silent listslow;   refused "a list that does not come" 1 "nothing has come for $silent seconds"
ask listredirect; refused "a list that is elsewhere" 1 'status 302: it sends to .http:.*models., and is not followed'
ask nolist -m x;  says "no list, and a name" "$hello"
ask nolist;     refused "no list and no name" 1 'status 404, no such path'

# ---- addresses and keys ----

# wrong TEST RC PATTERN OPTIONS: check the error, and that no server was asked.
wrong() {
	t=$1 want=$2 pattern=$3
	shift 3
	: >"$dir/log"
	timeout 600 "$weir" -p Hello "$@" </dev/null >"$dir/out" 2>"$dir/err"
	rc=$?
	refused "$t" "$want" "$pattern"
	[ -s "$dir/log" ] && bad "$t: nobody is asked" "$(cat "$dir/log")"
}
key=sk-5ecret-of-a-user
wrong "no address" 2 'begins with http' --remote ftp://127.0.0.1/
wrong "an address without http://" 2 "as 'http://127.0.0.1:9'" --remote 127.0.0.1:9
wrong "a name for an address" 2 'begins with http' --remote localhost
wrong "a blank in the address" 2 'a character' --remote 'http://127.0.0.1/a b'
wrong "a fragment in the address" 2 'a character' --remote "$at/plain#x=1"
wrong "no host" 2 'names no host' --remote http:///v1
wrong "a password in the address" 2 'a user name in it' --remote "http://me:$key@127.0.0.1:$port/"
grep -q "$key" "$dir/err" && bad "... is not shown" "$(cat "$dir/err")" || ok "... is not shown"
wrong "nobody there" 1 '127.0.0.1:1: ' --remote http://127.0.0.1:1
export WEIR_API_KEY=$key
wrong "a key without encryption" 2 'use https, or --insecure' --remote "http://198.51.100.7/v1"
wrong "a host that only begins like this machine's" 2 'use https' --remote "http://127.0.0.1.example/v1"
ask plain;      says "a key" "$hello"
[ "$(grep -c '"key": true' "$dir/log")" = 2 ] && ok "... is sent" || bad "... is sent" "$(cat "$dir/log")"
ask e401;       refused "a key in an error is not shown" 1 'provided: \[the key\].*not accepted'
ask list401;    refused "... nor in that of a list" 1 'provided: \[the key\]'
ask redirect;   grep -q "\"port\": $other" "$dir/log" && bad "no key for another host" "$(cat "$dir/log")" || ok "no key for another host"
WEIR_API_KEY='with blank' wrong "a key with a blank" 2 'has blanks' --remote "$at/plain/v1"
WEIR_API_KEY=$(printf 'a\nX-Evil: 1') wrong "a key with a line break" 2 'has blanks' --remote "$at/plain/v1"
unset WEIR_API_KEY
echo "$key" >"$dir/key"
chmod 644 "$dir/key"
wrong "a key file for everybody" 2 'chmod 600' --remote "$at/plain/v1" --key-file "$dir/key"
chmod 600 "$dir/key"
ask plain --key-file "$dir/key"; says "a key file" "$hello"
[ "$(grep -c '"key": true' "$dir/log")" = 2 ] && ok "... is sent, too" || bad "... is sent, too" "$(cat "$dir/log")"
: >"$dir/empty"
chmod 600 "$dir/empty"
wrong "an empty key file" 2 'is empty' --remote "$at/plain/v1" --key-file "$dir/empty"
wrong "no key file" 2 'cannot read' --remote "$at/plain/v1" --key-file "$dir/nothing"
for option in '--kv sink' '--kv-type q8_0' '--kv-memory 1G' '--read-share 0.9' '--lora x.gguf' '--pre gpt2' '--chat-template chatml'; do
	# shellcheck disable=SC2086 # an option and its value
	wrong "${option% *} beside a server" 2 "${option% *} is for a model in this process" --remote "$at/plain/v1" $option
done

# ---- proxies and certificates ----

http_proxy=http://127.0.0.1:1 ask plain; says "this machine is asked without a proxy" "$hello"
: >"$dir/log"
http_proxy=$at timeout 600 "$weir" -p Hello --remote http://models.invalid/plain/v1 >"$dir/out" 2>"$dir/err" </dev/null
rc=$?
says "another one with it" "$hello"
grep -q '"proxied": true' "$dir/log" && ok "... is asked by the proxy" || bad "... is asked by the proxy" "$(cat "$dir/log")"
http_proxy=$at timeout 600 "$weir" -p Hello --remote http://models.invalid/page403/v1 >"$dir/out" 2>"$dir/err" </dev/null
rc=$?
refused "a proxy that refuses" 1 'status 403: the proxy of http_proxy may refuse it; no_proxy names'
if [ "$tls" != 0 ]; then
	wrong "a certificate that nobody has signed" 1 '127.0.0.1' --remote "https://127.0.0.1:$tls/plain/v1"
	SSL_CERT_FILE=$dir/cert.pem WEIR_API_KEY=$key timeout 600 "$weir" -p Hello --remote "https://127.0.0.1:$tls/plain/v1" >"$dir/out" 2>"$dir/err" </dev/null
	rc=$?
	says "one that is trusted" "$hello"
else
	skip "certificates" "openssl is not installed"
fi

# ---- requests ----

sent() { grep -q "$2" "$dir/log" && ok "$1" || bad "$1" "$(cat "$dir/log")"; }
ask plain;      grep -q '"temperature"\|"top_k"\|"max_tokens"' "$dir/log" && bad "settings are left to the server" "$(cat "$dir/log")" || ok "settings are left to the server"
ask plain --temp 0.3 --seed 7 -n 50 --top-k 5 --system 'Be short.'
sent "what the user says is sent" '"temperature": 0.3, "seed": 7, "max_tokens": 50'
sent "the system prompt is sent" '"role": "system", "content": "Be short."'
grep -q top_k "$dir/log" && bad "no field of others" "$(cat "$dir/log")" || ok "no field of others"
printf '/set\n' | "$weir" --each-line --remote "$at/plain/v1" --top-p 0.5 >"$dir/out" 2>&1
grep -q '^temp *auto (server)$' "$dir/out" && grep -q '^top-p *0.5 (yours)$' "$dir/out" && ok "/set says what the server decides" ||
	bad "/set says what the server decides" "$(cat "$dir/out")"
ask plain --json --top-p 0.5
grep -q '"sampling":{"temp":{"value":null,"from":"server"},.*"top_p":{"value":0.5,"from":"yours"}' "$dir/out" && ok "--json says it, too" || bad "--json says it, too" "$(cat "$dir/out")"
ask llama --top-k 5 --think off -v
sent "llama-server gets its own" '"top_k": 5, "return_progress": true, "chat_template_kwargs": {"enable_thinking": false}'
grep -q 'tiny.Q4 at http.*llama-server, context 300$' "$dir/err" && grep -q '(7 reused), 100.0 t/s; 4 tokens answered, 25.0 t/s' "$dir/err" &&
	ok "llama-server's own figures" || bad "llama-server's own figures" "$(cat "$dir/err")"
ask newlimit -n 50; says "a server that wants another word for the limit" "$hello"
[ "$(grep -c '"max_tokens": 50' "$dir/log")" = 1 ] && [ "$(grep -c '"max_completion_tokens": 50' "$dir/log")" = 1 ] && ok "... is asked once more" || bad "... is asked once more" "$(cat "$dir/log")"
ask plain --json
[ "$rc" = 0 ] && grep -q '"text":"Hello, world.","tokens":\[\],"prompt_tokens":31,"reused_tokens":7,.*"stop":"eos"' "$dir/out" && ok "--json" || bad "--json" "$(cat "$dir/out" "$dir/err")"
echo "model = $at/plain/v1" >"$XDG_CONFIG_HOME/weir/config"
"$weir" -p Hello </dev/null >"$dir/out" 2>"$dir/err"; rc=$?
says "a server in the config file" "$hello"
rm "$XDG_CONFIG_HOME/weir/config"
WEIR_MODEL=$at/plain/v1 "$weir" -p Hello </dev/null >"$dir/out" 2>"$dir/err"; rc=$?
says "a server in the environment" "$hello"
"$weir" bench -m "$at/plain/v1" </dev/null >"$dir/out" 2>"$dir/err"; rc=$?
refused "weir bench" 2 'only a chat can ask'
"$weir" read -m "$at/plain/v1" README.md -p x </dev/null >"$dir/out" 2>"$dir/err"; rc=$?
refused "weir read" 2 'needs a model in this process'

# ---- conversations ----

# talk SERVER OPTIONS: send the lines of standard input, one for each turn.
talk() {
	server_name=$1
	shift
	: >"$dir/log"
	timeout 600 "$weir" --each-line --remote "$at/$server_name/v1" --timeout 100 "$@" >"$dir/out" 2>"$dir/err"
	echo $? >"$dir/rc"   # in a file, because a pipe runs this in a subshell
}
printf 'one\ntwo\n' | talk plain -s kept
grep -q '"messages": \[{"role": "user", "content": "one"}, {"role": "assistant", "content": "Hello, world."}, {"role": "user", "content": "two"}\]' "$dir/log" &&
	ok "the whole conversation is sent" || bad "the whole conversation is sent" "$(cat "$dir/log" "$dir/err")"
echo three | talk plain -s kept
grep -q '"two"}, {"role": "assistant", "content": "Hello, world."}, {"role": "user", "content": "three"}' "$dir/log" && ok "a session goes on" || bad "a session goes on" "$(cat "$dir/log" "$dir/err")"
"$weir" sessions ls --json >"$dir/out" 2>&1
grep -q "tiny at $at" "$dir/out" && ok "it keeps the model's name" || bad "it keeps the model's name" "$(cat "$dir/out")"
printf '/undo\nagain\n/regen\n' | talk plain -s kept
[ "$(grep -c '"content": "again"}\]' "$dir/log")" = 2 ] && ok "undo and regenerate" || bad "undo and regenerate" "$(cat "$dir/log" "$dir/err")"
printf 'one\n/continue\n' | talk llama -s goes-on
[ "$(sed -n 2p "$dir/out")" = "Hello, world. And more." ] || [ "$(tail -n 1 "$dir/out")" = " And more." ] && grep -q '"role": "assistant", "content": "Hello, world."}\]' "$dir/log" &&
	ok "an answer is extended" || bad "an answer is extended" "$(cat "$dir/out" "$dir/err")"
"$weir" sessions show goes-on >"$dir/out" 2>&1
grep -q 'Hello, world. And more.' "$dir/out" && ok "... once" || bad "... once" "$(cat "$dir/out")"
printf 'one\n/continue\n' | talk plain
grep -q 'cannot extend an answer' "$dir/err" && ok "a server that cannot says so" || bad "a server that cannot says so" "$(cat "$dir/err")"
printf 'one\n' | talk errorlate -s partly
"$weir" sessions show partly 2>&1 | grep -q '^Hello,' && ok "what came before an error is kept" || bad "what came before an error is kept" "$("$weir" sessions show partly 2>&1)"
printf 'one\n' | talk thoughts -s reasons
printf 'two\n' | talk plain -s reasons
grep -q '"assistant", "content": "Hello, world."}, {"role": "user", "content": "two"}' "$dir/log" && ok "reasoning is not sent back" || bad "reasoning is not sent back" "$(cat "$dir/log")"
printf 'one\n' | talk unopened -s closes
printf 'two\n' | talk plain -s closes
grep -q '"assistant", "content": "Hello, world."}, {"role": "user", "content": "two"}' "$dir/log" && ok "nor is one that was not opened, also in a session" || bad "nor is one that was not opened, also in a session" "$(cat "$dir/log")"
printf 'one\n' | talk mentioned -s mentions
printf 'two\n' | talk plain -s mentions
grep -qF '"assistant", "content": "The tag `</think>` ends it."}' "$dir/log" && ok "a mark that is mentioned is" || bad "a mark that is mentioned is" "$(cat "$dir/log")"
printf '/set kv\n/set kv full\n/summarize\n/stream README.md\n/pin\nhello\n/stats\n' | talk plain
grep -q 'kv (the server has its own cache)' "$dir/err" && grep -q '/set kv: the server has its own cache' "$dir/err" && grep -q '/summarize needs a model in this process' "$dir/err" && grep -q 'a text without an end needs' "$dir/err" &&
	grep -q 'go with every question' "$dir/err" && grep -q "tiny at $at" "$dir/err" && ok "what a server cannot do is said" || bad "what a server cannot do is said" "$(cat "$dir/err")"

# ---- what is pasted is not typed ----

echo 'SECRET BYTES' >"$dir/secret.txt"
: >"$dir/log"
cat >"$dir/pasted.py" <<'EOT'
import json, os, pty, select, signal, sys, time
weir, at, log, file = sys.argv[1:]
mail = "Please sum this up:\n\nDear all, see\n@%s and tell me." % file


class Program:
    def __init__(self, *options):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ["TERM"] = "xterm-256color"
            os.execv(weir, [weir, "--remote", at + "/plain/v1", *options])
        self.out = b""

    def read(self, seconds):
        end = time.time() + seconds
        while time.time() < end:
            if select.select([self.fd], [], [], 0.02)[0]:
                try:
                    self.out += os.read(self.fd, 65536)
                except OSError:
                    return

    def until(self, done):
        end = time.time() + 60
        while not done() and time.time() < end:
            self.read(0.1)
        return done()

    def type(self, text):
        for c in text:
            os.write(self.fd, c.encode())
            self.read(0.02)

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def bodies():
    return [json.dumps(r["body"]) for r in map(json.loads, open(log)) if r.get("path", "").endswith("/chat/completions")]


runs = iter(range(100))


def tried(name, options, act, sent, says):
    open(log, "w").close()
    p = Program("-s", "pasted%d" % next(runs), *options)
    p.until(lambda: b"tiny" in p.out)
    p.read(0.5)
    act(p)
    asked = p.until(bodies)
    if says:
        p.until(lambda: b"was pasted, not typed" in p.out)
    got = any("SECRET BYTES" in b for b in bodies())
    good = asked and got == sent and (b"was pasted, not typed" in p.out) == says
    print(("ok " if good else "bad ") + "%s, %s%s" % (name, "line" if "--line" in options else "screen", "" if good else ": asked %s, sent %s, %r" % (asked, got, p.out[-300:])), flush=True)
    p.end()


def paste(text, enter=True):
    def act(p):
        os.write(p.fd, b"\33[200~" + text.encode() + b"\33[201~")
        p.read(0.5)
        p.type("\r" * enter)
    return act


def typed_and_pasted(p):
    p.type("see @")
    paste(file)(p)


def burst(p):
    os.write(p.fd, ("See @%s and tell me what is in it.\r" % file).encode())


def up(p):
    os.write(p.fd, b"\33[A")   # one key
    p.read(0.5)
    p.type("\r")


for o in ([], ["--line"]):
    tried("@FILE that is typed is read", o, lambda p: p.type("see @%s\r" % file), True, False)
    tried("... and whose path alone is pasted", o, typed_and_pasted, True, False)
    tried("@FILE in a paste is text", o, paste(mail), False, True)
    tried("... without marks around it", o, burst, False, True)
    tried("... at its end, with a blank in it", o, paste('See\n@"%s"' % file), False, True)
    tried("... from the history of another run", o, up, True, False)   # the typed one: the pasted ones are not kept

odd = os.path.dirname(file) + "/odd"
os.mkdir(odd)
for name in (b"dx", b"dy", b"d\x9b5n", b"d\xe2\x80\xae", b"d\33[2J"):
    open(odd.encode() + b"/" + name, "w").close()
p = Program("-s", "names", "--line")
p.until(lambda: b"tiny" in p.out)
p.type("/open %s/d\t\t" % odd)
p.until(lambda: b"dy" in p.out)
p.read(0.5)
p.end()
good = b"dx" in p.out and not any(x in p.out for x in (b"\x9b5n", b"\xe2\x80\xae", b"\33[2J"))
print("ok no completion with control characters" if good else "bad no completion with control characters: %r" % p.out[-300:])
EOT
timeout 500 python3 "$dir/pasted.py" "$weir" "$at" "$dir/log" "$dir/secret.txt" >"$dir/out" 2>&1 || echo "bad the paste tests: $(tail -n 1 "$dir/out")" >>"$dir/out"
while read -r how name; do
	[ "$how" = ok ] && ok "$name" || bad "$name" "see above"
done <"$dir/out"

# ---- the context ----

long=$(printf 'word %.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40)
lines() { for i in 1 2 3 4 5 6 7 8; do echo "$i $long"; done; }
for kind in llama vllm ollama ollamaset small; do
	lines | talk "$kind"
	if [ "$(grep -c '^Hello' "$dir/out")" = 8 ] && grep -q 'the context of [34]00 tokens is full: the first [0-9]* messages are not sent any more' "$dir/err"; then ok "$kind: old turns are left out"
	else bad "$kind: old turns are left out" "$(cat "$dir/out" "$dir/err")"; fi
	tail -n 1 "$dir/log" | grep -q '"content": "8 word' && ! tail -n 1 "$dir/log" | grep -q '"content": "1 word' && ok "$kind: ... and are not sent" || bad "$kind: ... and are not sent" "$(tail -n 1 "$dir/log")"
done
grep -q 'tokens are estimated' "$dir/err" && ok "an estimate is called one" || bad "an estimate is called one" "$(cat "$dir/err")"
lines | talk llama
grep -q 'estimated' "$dir/err" && bad "a count is none" "$(cat "$dir/err")" || ok "a count is none"
lines | talk forget
[ "$(grep -c '^Hello' "$dir/out")" = 8 ] && ok "a server that only says too many" || bad "a server that only says too many" "$(cat "$dir/out" "$dir/err")"
{ lines | tr '\n' ' '; echo; } | talk llama
[ "$(cat "$dir/rc")" = 5 ] && grep -q 'more than the context of 300' "$dir/err" && ok "a question that alone is too long" || bad "a question that alone is too long" "$(cat "$dir/rc"  "$dir/err")"

# ---- documents ----

printf 'The ferry to the island sails at nine in the morning from pier seven.\n' >"$dir/ferry.txt"
ask plain "$dir/ferry.txt"
says "a document" "$hello"
grep -q 'Document ferry.txt:.n.*The ferry to the island sails at nine' "$dir/log" && ok "... is sent" || bad "... is sent" "$(cat "$dir/log")"
python3 - "$dir/long.txt" <<'P'
import sys
topics = ["harbour", "library", "bakery", "museum", "station", "garden", "market", "theatre"]
with open(sys.argv[1], "w") as f:
    for i in range(400):
        t = topics[i % 8]
        f.write(f"Paragraph {i}. The {t} of the town number {i} is open on weekdays and closed on Sundays, and many visitors like it very much indeed.\n\n")
    f.write("The lighthouse keeper is called Ottilie Brandauer and she keeps seventeen cats.\n")
P
: >"$dir/log"
timeout 600 "$weir" -p 'What is the lighthouse keeper called?' --remote "$at/llama/v1" --timeout 100 "$dir/long.txt" </dev/null >"$dir/out" 2>"$dir/err"
rc=$?
if [ $rc = 0 ] && tail -n 1 "$dir/log" | grep -q 'Ottilie Brandauer' && ! tail -n 1 "$dir/log" | grep -q 'Paragraph 7\.'; then ok "passages of a long one are sent"; else bad "passages of a long one are sent" "$rc $(cat "$dir/err") $(tail -n 1 "$dir/log" | head -c 2000)"; fi
grep -q 'long.txt' "$dir/err" && grep -qi 'Ottilie' "$dir/err" && ok "... and shown as sources" || bad "... and shown as sources" "$(cat "$dir/err")"

# ---- stopping ----

: >"$dir/log"
"$weir" -p Hello --remote "$at/endless/v1" -s stopped </dev/null >"$dir/out" 2>"$dir/err" &
pid=$!
longer_than() { [ "$(wc -c <"$2")" -gt "$1" ]; }
wait_for longer_than 100 "$dir/out"
kill -INT $pid
wait $pid
rc=$?
wait_for grep -q '"what": "closed"' "$dir/log" && [ "$rc" = 130 ] && ok "Ctrl-C closes the connection" || bad "Ctrl-C closes the connection" "$rc $(tail -n 2 "$dir/log")"
[ "$(wc -w <"$dir/out")" -gt 10 ] && "$weir" sessions show stopped | grep -q 'word word word' && ok "... and keeps the answer" || bad "... and keeps the answer" "$("$weir" sessions show stopped)"
: >"$dir/log"
"$weir" -p Hello --remote "$at/llamaslow/v1" -s withdrawn </dev/null >"$dir/out" 2>"$dir/err" &
pid=$!
wait_for grep -q completions "$dir/log"
kill -INT $pid
wait $pid
rc=$?
[ "$rc" = 130 ] && ok "Ctrl-C before the first token" || bad "Ctrl-C before the first token" "$rc $(cat "$dir/err")"
# When weir is killed at that point, the question is kept in the session without an answer.
: >"$dir/log"
"$weir" -p Hello --remote "$at/llamaslow/v1" -s killed </dev/null >"$dir/out" 2>"$dir/err" &
pid=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do grep -q completions "$dir/log" && break; sleep 0.1; done
kill -KILL $pid
wait $pid 2>/dev/null
: >"$dir/log"
"$weir" -p 'Are you there?' --remote "$at/plain/v1" -s killed </dev/null >"$dir/out" 2>"$dir/err"
grep -q '"messages": \[{"role": "user", "content": "Hello\\n\\nAre you there?"}\]' "$dir/log" && ok "two questions in a row are sent as one message" ||
	bad "two questions in a row are sent as one message" "$(cat "$dir/err" "$dir/log")"

# ---- what the doctor says ----

# doctor TEST NAME PATTERN...: check that weir doctor shows matching lines about the server's NAME and asks no model.
doctor() {
	test=$1 name=$2
	shift 2
	: >"$dir/log"
	timeout 600 "$weir" doctor --remote "$at/$name/v1" --timeout 100 >"$dir/out" 2>"$dir/err" </dev/null || { bad "$test" "$(cat "$dir/err")"; return; }
	for pattern; do
		grep -q "$pattern" "$dir/out" || { bad "$test" "no '$pattern' in: $(sed -n '/^server/,/^sessions/p' "$dir/out")"; return; }
	done
	if grep -q "$key" "$dir/out" "$dir/err"; then bad "$test" "it shows the key"; else ok "$test"; fi
}
doctor "doctor: llama-server" llama '^server  *http://127.0.0.1:[0-9]* answers, llama-server$' '^ *model tiny.Q4, of 1 in its list$' '^ *key none, and' '^ *context of 300 tokens$'
doctor "doctor: a server that says little" plain 'answers, and does not say what' 'context not known'
doctor "doctor: several models" listtwo 'has 2 models: tiny, org/large; -m NAME chooses'
doctor "doctor: a key is missing" list401 'key missing: WEIR_API_KEY or --key-file gives it'
WEIR_API_KEY=$key doctor "doctor: a key is accepted" llama 'key accepted'
WEIR_API_KEY=$key doctor "doctor: a key that only counts for answers" e401 'model tiny, of 1' 'key refused'
WEIR_API_KEY=$key doctor "doctor: a key is refused" list401 'provided: \[the key\]' 'key refused'
doctor "doctor: no server of models" listhtml 'is no JSON; is it a server of models?'
"$weir" doctor --remote http://127.0.0.1:1 >"$dir/out" 2>&1
grep -q '^server  *http://127.0.0.1:1: ' "$dir/out" && ok "doctor: nobody there" || bad "doctor: nobody there" "$(cat "$dir/out")"
printf 'model = %s/vllm/v1\n' "$at" >"$XDG_CONFIG_HOME/weir/config"
"$weir" doctor --json >"$dir/out" 2>&1
grep -q '"server":{"usable":true,"reached":true,"address":"http://127.0.0.1:[0-9]*","program":"vLLM","model":"tiny","models":1,"key":"[a-z]*","context":[0-9]*}' "$dir/out" &&
	ok "doctor: the server of the config file, for programs" || bad "doctor: the server of the config file, for programs" "$(cat "$dir/out")"
rm "$XDG_CONFIG_HOME/weir/config"

# ---- the key is nowhere ----

WEIR_API_KEY=$key ask plain -s with-key -v
WEIR_API_KEY=$key ask e401 -s with-key -v --json
for format in md json txt; do "$weir" sessions export $format with-key >"$dir/export.$format" 2>&1; done
if [ -z "$(grep -rl "$key" "$XDG_STATE_HOME" "$XDG_DATA_HOME" "$XDG_CACHE_HOME" "$XDG_CONFIG_HOME" "$dir/out" "$dir/err" "$dir"/export.* 2>/dev/null)" ]; then ok "the key is in no file and no message"
else bad "the key is in no file and no message" "$(grep -rl "$key" "$dir")"; fi
finish
