#!/bin/sh
# tests/measure/results.sh - measures the losses and costs of the cache policies and writes
# tests/results/DATE-tables.md.
#
#   tests/measure/results.sh [PART ...]      PART: stream cascade last recovery ruler pools passkey needle speed (all when none is given)
#
# The JSON lines of every command are kept in $WEIR_RESULTS_RAW (build/results), one file for each part.  Results in it
# are not measured again, so a stopped run can be continued.  Remove a file to measure its part again.  The page is
# written from all files there.
#
# WEIR (./weir), WEIR_TEST_MODEL, WEIR_SHARED (../shared: data/books, data/ruler), WEIR_RESULTS_OUT
# (tests/results/DATE-tables.md), and the size: WEIR_RESULTS_BOOKS (4), WEIR_RESULTS_TOKENS (32768, of each book for
# `stream`; half of it for `cascade`), WEIR_RESULTS_WINDOWS (3 a book, for `last` and `recovery`), WEIR_RESULTS_SAMPLES
# (10: `ruler` and `pools` take twice as many), WEIR_RESULTS_KEYS (5, for `passkey`). The rows of its tables that are
# newer and better go to tests/results.md by hand. With these sizes the parts take about 2, 1, 1.5, 1, 3, 0.7, 1, 0.3
# and 0.1 hours on two idle cores. WEIR_RESULTS_SMOKE=1: seconds instead of hours, to check that everything works; the
# figures mean nothing.
set -u
cd "$(dirname "$0")/../.." || exit 1
weir=${WEIR:-./weir}
model=${WEIR_TEST_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
shared=${WEIR_SHARED:-../shared}
raw=${WEIR_RESULTS_RAW:-build/results}
page=${WEIR_RESULTS_OUT:-tests/results/$(date -u +%Y-%m-%d)-tables.md}
smoke=${WEIR_RESULTS_SMOKE:-0}
books=${WEIR_RESULTS_BOOKS:-4} windows=${WEIR_RESULTS_WINDOWS:-3} samples=${WEIR_RESULTS_SAMPLES:-10}
tokens=${WEIR_RESULTS_TOKENS:-32768} keys=${WEIR_RESULTS_KEYS:-5}
[ "$smoke" = 1 ] && books=1 windows=1 samples=1 keys=1 tokens=384
parts=${*:-stream cascade last recovery ruler pools passkey needle speed}
export WEIR_MODEL="$model"
unset WEIR_KV WEIR_CTX

die() { echo "results.sh: $1" >&2; exit 1; }
[ -x "$weir" ] || die "no program at '$weir'"
[ -r "$model" ] || die "no model at '$model' (make model fetches it)"
[ -d "$shared/data/books" ] || die "no books in '$shared/data/books'"
mkdir -p "$raw" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Treasure Island comes first, because results of other methods on it are known.
shelf="stevenson-treasure-island kipling-kim melville-moby-dick conrad-nostromo hardy-tess collins-woman-in-white"
list=
n=0
for b in $shelf; do
	[ "$n" -lt "$books" ] && [ -r "$shared/data/books/$b.txt" ] && list="$list $b" && n=$((n + 1))
done
[ "$n" -gt 0 ] || die "none of the books is there"
first=${list# }
second=${first#* }
first=${first%% *} second=${second%% *}
book() { echo "$shared/data/books/$1.txt"; }

# measure PART ID ARGS...: run weir and keep its lines, with "unit":ID added in front.
measure() {
	part=$1 id=$2
	shift 2
	[ -f "$raw/$part.jsonl" ] && grep -qF "{\"unit\":\"$id\"," "$raw/$part.jsonl" && return 0
	started=$(date +%s)
	echo "$part: $id" >&2
	if ! nice "$weir" "$@" --json -q >"$work/lines" 2>"$work/error"; then
		rc=$?
		head -n 3 "$work/error" >&2
		[ "$rc" = 130 ] && exit 130
		die "'weir $*' failed"
	fi
	took=$(($(date +%s) - started))
	awk -v head="{\"unit\":\"$id\",\"took\":$took,\"at\":$started," '{ print head substr($0, 2) }' "$work/lines" >>"$raw/$part.jsonl"
}

# kvs POLICY ...: print them as options.
kvs() { for p in "$@"; do printf ' --kv %s' "$p"; done; }

# ---- what is measured ----

stream() {
	w1=1024 w2=2048 w3=4096 s=512 long=24576 short=8192 one=4096
	[ "$smoke" = 1 ] && w1=96 w2=192 w3=128 s=64 long=320 short=256 one=128
	for b in $list; do
		[ "$smoke" = 1 ] && w2=
		for w in $w1 $w2; do
			for kv in "sink:size=$w,stride=$s" "cascade:size=$w,n=4,stride=$s,select=0" "cascade:size=$w,n=4,stride=$s,heads=layer,reduce=mean" \
				"cascade:size=$w,n=4,stride=$s" "cascade:size=$w,n=4,stride=$s,score=surprise"; do
				measure stream "$b/$w/$s/$tokens/$kv" eval ppl "$(book "$b")" --offset 0 --tokens "$tokens" --curve "$s" --kv "$kv"
			done
		done
		# Fewer rings: the newest ring must be long enough for the nearest tokens.
		for w in $w1 $w2; do
			for kv in "cascade:size=$w,n=2,stride=$s" "cascade:size=$w,n=2,stride=$s,select=0"; do
				measure stream "$b/$w/$s/$tokens/$kv" eval ppl "$(book "$b")" --offset 0 --tokens "$tokens" --curve "$s" --kv "$kv"
			done
		done
		# As many slots as the rings of `auto`, the default policy, have. Only two books, and fewer tokens of each.
		for kv in "sink:size=$w3,stride=$s" "cascade:size=$w3,n=4,stride=$s" "cascade:size=$w3,n=2,stride=$s"; do
			[ "$b" = "$first" ] || [ "$b" = "$second" ] || continue
			measure stream "$b/$w3/$s/$long/$kv" eval ppl "$(book "$b")" --offset 0 --tokens "$long" --curve "$s" --kv "$kv"
		done
		# The gain by stride, with fewer tokens and one size. A stride of 1 is measured in the first book only.
		for t in 32 1; do
			some=$short
			[ "$t" = 1 ] && some=$one
			[ "$t" = 1 ] && [ "$b" != "$first" ] && continue
			for kv in "sink:size=$w1,stride=$t" "cascade:size=$w1,n=4,stride=$t" "cascade:size=$w1,n=4,stride=$t,score=surprise"; do
				measure stream "$b/$w1/$t/$some/$kv" eval ppl "$(book "$b")" --tokens "$some" --curve "$s" --kv "$kv"
			done
		done
		measure stream "$b/full/0/$short/full" eval ppl "$(book "$b")" --tokens "$short" --curve "$s" --kv full
	done
	# These rows are compared with a float32 simulation: sink 34.114, cascade 33.781.
	known=16384
	[ "$smoke" = 1 ] && known=256
	b=$first
	for kv in "sink:size=$w1,stride=$((s / 2))" "cascade:size=$w1,n=4,stride=$((s / 2)),select=0" \
		"cascade:size=$w1,n=4,stride=$((s / 2)),heads=layer,reduce=mean" "cascade:size=$w1,n=4,stride=$((s / 2))" \
		"cascade:size=$w1,n=4,stride=$((s / 2)),score=surprise"; do
		measure stream "$b/$w1/$((s / 2))/$known/$kv" eval ppl "$(book "$b")" --tokens "$known" --curve "$s" --kv "$kv"
	done
}

# The cascade as published: tokens are read one by one, all heads of a layer take one decision by their mean, and two
# books of 16K tokens are read. Also measured: how far back the cascade reaches.
cascade() {
	size=2048 half=$((tokens / 2)) curve=512 reach=12288
	[ "$smoke" = 1 ] && size=128 curve=64 reach=320
	as="heads=layer,reduce=mean"
	for b in $first $second; do
		for kv in "sink:size=$size,stride=1" "cascade:size=$size,n=2,stride=1,$as" "cascade:size=$size,n=4,stride=1,$as" "cascade:size=$size,n=8,stride=1,$as" \
			"cascade:size=$size,n=4,f=3,stride=1,$as" "cascade:size=$size,n=4,f=4,stride=1,$as" "cascade:size=$size,n=4,stride=1,select=0" \
			"cascade:size=$size,n=4,stride=1"; do
			measure cascade "$b/$size/1/$half/$kv" eval ppl "$(book "$b")" --offset 0 --tokens "$half" --curve "$curve" --kv "$kv"
		done
		[ "$smoke" = 1 ] && break
	done
	# shellcheck disable=SC2046 # options
	measure cascade "span/$size" eval plot "$(book "$first")" --draw span --tokens "$reach" \
		$(kvs "sink:size=$size,stride=64" "cascade:size=$size,n=2,stride=64" "cascade:size=$size,n=4,stride=64" "cascade:size=$size,n=2,f=4,stride=64")
}

# policies K: options for policies with K entries.  h2o comes first: it must prefill everything again, and the other
# policies can use its prefill.
policies() {
	k=$1
	if [ "$smoke" = 1 ]; then
		kvs "h2o:k=$k" full "streaming++:size=$((k - 4)),stride=1000000" "snapkv:k=$k" "recycled:k=$k,stride=10" "sift:k=$k"
		return
	fi
	kvs "h2o:k=$k" full "h2o+:k=$k" "streaming++:size=$((k - 4)),stride=1000000" "snapkv:k=$k,window=32" "snapkv:k=$k,window=1" \
		"quest:k=$k,bound=raw" "quest:k=$k" "recycled:k=$k,stride=5,scan=kv" "recycled:k=$k,stride=10,scan=kv" \
		"recycled:k=$k,stride=50,scan=kv" "recycled:k=$k,stride=5,scan=k" "recycled:k=$k,stride=10,scan=k" "refresh:k=$k,qc=5,scan=kv" \
		"refresh:k=$k,qc=10,scan=kv" "refresh:k=$k,qc=5" "predict:k=$k" "sift:k=$k,split=even" "sift:k=$k" "sift:k=$k,bits=4" "sift:k=$k,bits=8" \
		"sift:k=$k,bits=16" "sift:k=$((k / 2))" "sift:k=$((k / 4))" "sift:k=$((k / 2)),sample=128" "sift:k=$((k / 4)),sample=128"
}

last() {
	lengths="4096 8000" score=256
	[ "$smoke" = 1 ] && lengths=512 score=8
	for b in $list; do
		for l in $lengths; do
			for i in $(seq "$windows"); do
				# The first window begins at token 20,000, as in the simulation; the next ones each 20,000 tokens later.
				offset=$((20000 * i))
				[ "$smoke" = 1 ] && offset=$((600 * i))
				for k in $((l / 8)) $((l / 4)); do
					# shellcheck disable=SC2046 # options
					measure last "$l/$k/$b/$offset" eval ppl "$(book "$b")" --offset "$offset" --tokens "$l" --last "$score" $(policies "$k")
				done
			done
		done
	done
}

recovery() {
	l=4096 score=256 rows="512 1024"
	[ "$smoke" = 1 ] && l=512 score=8 rows=64
	for k in $rows; do
		for b in $list; do
			# shellcheck disable=SC2046 # options
			measure recovery "$k/$b" eval recovery "$(book "$b")" --offset 20000 --tokens $((l * windows)) --window "$l" --last "$score" \
				--samples "$windows" --entries "$k" $(policies "$k" | sed "s/ --kv full//; s/ --kv sift:k=$((k / 2)).*//") \
				$([ "$smoke" = 1 ] || kvs "sift:k=$k,sample=$((k / 4))" "quest:k=$k,page=8" "quest:k=$k,page=32" "recycled:k=$k,stride=10,pool=15" \
					"predict:k=$k,by=mixed" "predict:k=$k,block=4" "predict:k=$k,block=4,by=mixed" "predict:k=$k,block=1" \
					"predict:k=$k,block=1,by=mixed")
		done
	done
}

# A sample is prefilled once for all policies except h2o, which observes its prefill. A task that the model cannot do
# with the full context tells nothing about caches, so it is left out; half as many samples decide that.
ruler() {
	lengths="2048 4096" from="$shared/data/ruler" few=$((samples / 2)) many=$((2 * samples))
	[ "$smoke" = 1 ] && lengths=512 from='' few=1 many=1
	tasks="niah_single_1 niah_single_2 niah_single_3 niah_multikey_1 niah_multikey_2 niah_multikey_3 niah_multivalue niah_multiquery vt cwe fwe qa_1 qa_2"
	[ "$smoke" = 1 ] && tasks="niah_single_1"
	for l in $lengths; do
		k=$((l / 8))
		for t in $tasks; do
			measure ruler "$l/$t/full" eval ruler ${from:+"$from"} --tasks "$t" --len "$l" --samples "$few" --resume "$raw/ruler.finished" --kv full
			[ "$smoke" = 1 ] || grep -F "{\"unit\":\"$l/$t/full\"," "$raw/ruler.jsonl" | grep -q '"score":\(1\|0\.[3-9]\)' || continue
			# shellcheck disable=SC2046 # options
			measure ruler "$l/$t/all" eval ruler ${from:+"$from"} --tasks "$t" --len "$l" --samples "$many" --resume "$raw/ruler.finished" \
				$(kvs "h2o:k=$k" full "streaming++:size=$((k - 4)),stride=1000000" "snapkv:k=$k,window=32" "sift:k=$k" "sift:k=$k,sample=128") \
				$([ "$smoke" = 1 ] || kvs "snapkv:k=$k,window=1" "quest:k=$k,bound=raw" "quest:k=$k" "recycled:k=$k,stride=10,scan=kv" \
					"recycled:k=$k,stride=50,scan=kv" "recycled:k=$k,stride=10,scan=kv,pool=15" "refresh:k=$k,qc=5,scan=kv" \
					"refresh:k=$k,qc=5,scan=kv,pool=15" "refresh:k=$k,qc=10,scan=kv,pool=15" "predict:k=$k" "sift:k=$k,bits=4")
		done
	done
}

# The pool width of a reused set, and long answers, with the same samples under all policies. A task takes long. A
# stopped task continues with the missing samples, and more samples may be added later.
pools() {
	l=2048 from="$shared/data/ruler" tasks="niah_single_2 niah_multiquery niah_multivalue list_numbers copy_rows"
	[ "$smoke" = 1 ] && l=512 from= tasks=niah_single_1
	k=$((l / 8))
	for t in $tasks; do
		# shellcheck disable=SC2046 # options
		measure pools "$l/$t" eval ruler ${from:+"$from"} --tasks "$t" --len "$l" --samples $((2 * samples)) --resume "$raw/pools.finished" \
			$(kvs full "sift:k=$k" "recycled:k=$k,pool=7" "recycled:k=$k,pool=15" "recycled:k=$k,pool=31" "refresh:k=$k,qc=5,scan=kv,pool=7" \
				"refresh:k=$k,qc=5,scan=kv,pool=15" "refresh:k=$k,qc=5,scan=kv,pool=31" "snapkv:k=$k,pool=7" "snapkv:k=$k,pool=15")
	done
}

passkey() {
	lengths="4096 8192 32768 65536 131072" size=2048
	[ "$smoke" = 1 ] && lengths=700 size=128,stride=64
	for l in $lengths; do
		for kv in full "sink:size=$size" "cascade:size=$size,n=4" "cascade:size=$size,n=4,score=surprise"; do
			# `full` is measured only at lengths that fit the model's context.
			[ "$kv" = full ] && [ "$l" -gt 7000 ] && continue
			[ "${kv#*surprise}" != "$kv" ] && [ "$l" -gt 40000 ] && continue
			measure passkey "$l/$kv" eval passkey --len "$l" --samples "$keys" --kv "$kv"
		done
	done
}

needle() {
	l=2048 size=1024 each=3 depths=6
	[ "$smoke" = 1 ] && l=500 size=128,stride=64 each=1 depths=2
	for kv in full "sink:size=$size" "cascade:size=$size,n=2" "cascade:size=$size,n=4"; do
		measure needle "$l/$kv" eval needle "$(book "$second")" --len "$l" --depths "$depths" --samples "$each" --kv "$kv"
	done
}

speed() {
	depth=0,2048,7680 steps=8 turns=30
	some="full sift:k=512 refresh:k=1/8,qc=10 recycled:k=512,stride=10 snapkv:k=512 quest:k=512 sink:size=1024 cascade:size=1024,n=4"
	[ "$smoke" = 1 ] && depth=0,64 steps=4 turns=3 some="full sift:k=512"
	# shellcheck disable=SC2046,SC2086 # options
	measure speed turns bench $(kvs $some) --depth "$depth" --decode "$steps" --turns "$turns"
}

for p in $parts; do
	case $p in
	stream | cascade | last | recovery | ruler | pools | passkey | needle | speed) "$p" ;;
	*) die "no part '$p'" ;;
	esac
done

# ---- the page ----

took() { [ -f "$raw/$1.jsonl" ] && awk '{ match($0, /"unit":"[^"]*"/); u = substr($0, RSTART, RLENGTH); if (u in seen) next; seen[u] = 1
	match($0, /"took":[0-9]*/); t += substr($0, RSTART + 7, RLENGTH - 7) } END { printf "%.0f min", t / 60 }' "$raw/$1.jsonl"; }
table() { awk -v part="$1" -v windows="$windows" -f tests/measure/results.awk "$raw/$1.jsonl"; }
has() { [ -s "$raw/$1.jsonl" ]; }
{
	cat <<TEXT
# What the cache policies lose and cost

Written by \`tests/measure/results.sh\` on $(date -u +%Y-%m-%d) at commit $(git rev-parse --short HEAD 2>/dev/null || echo '(none)'); anyone can run it again.
Model: $(basename "$model"). Machine: $("$weir" doctor 2>/dev/null | sed -n 's/^cpu *//p' | head -n 1), $(nproc) processors. The parts took:
$(for p in stream cascade last recovery ruler pools passkey needle speed; do has $p && printf '%s %s; ' $p "$(took $p)"; done | sed 's/; $/./')
$(for p in stream cascade last recovery ruler pools passkey needle speed; do has $p || printf '%s ' "$p"; done | sed 's/ $/./; s/^/Not measured yet: /')
$([ "$smoke" = 1 ] && echo '
**A smoke run: it shows that everything works, and its figures mean nothing.**')

Errors are one standard error. Perplexity is exp of the mean negative log probability, in nats. A policy's name is what \`--kv\` takes.
TEXT
	if has stream; then
		cat <<TEXT

## Streams: perplexity of books read from their first token

\`weir eval ppl FILE --tokens N --curve 512 --kv POLICY\`. A book's first N tokens are one stream, read in chunks of \`stride\` tokens, every
token scored under the cache as it was before its chunk (with the chunk itself); nothing is reset. \`size\` tokens and 4 sinks stay. The mean is over all tokens
of all books; "against sink" and "against n=4" (four rings, as published, all else at its default) are the difference of mean nll, paired over blocks of
512 tokens, with its error, as a change of perplexity.
Two rings (n=2) are the default of \`cascade\` and \`auto\`: they lose less than four at 1,024, 2,048 and 4,096, and nothing to the sink cache. Four lose to it at
2,048 and 4,096, and at 2,048 choosing loses to not choosing: text that is near must stay dense before reaching further pays. Sizes above 4,096, as \`auto\` has
in the whole context of this model, were not measured. A book that a policy was not measured on is left out of its row, of its sum too; "against" is paired over
the books that both have; tokens/s is by the clock, whatever else the machine did then.
The float32 simulation of the same setting on Treasure Island (first table of stride 256) gave 34.114 for sink and 33.781 for the cascade.

TEXT
		table stream
	fi
	if has cascade; then
		cat <<TEXT

## The cascade by its published protocol

As above, with what its authors have: tokens come one by one (stride 1), a layer decides for all its heads by the mean of their attention, |C| = 2,048, four sinks. Published
for Llama-2-7B on PG-19: N = 1 / 2 / 4 / 8 rings 7.05 / 6.99 / 6.97 / 7.18, without selection 7.06.

TEXT
		table cascade
	fi
	if has last; then
		cat <<TEXT

## The last 256 tokens: perplexity against full attention

\`weir eval ppl FILE --offset O --tokens L --last 256 --kv POLICY ...\`: L - 256 tokens are read with full attention, then 256 tokens of the text come one at a
time under the policy; the first of them is predicted by what was read. Windows begin at 20,000, 40,000 ... tokens of each book. K = rows that a step reads per KV head.
The ratio is the geometric mean over the windows of perplexity to that of full attention in the same window; "against sift" is the difference of
mean nll to sift with 2 bits and the same K, paired over the windows, as a change of perplexity. MB: bytes of the cache that a step reads at the end of the
window, copies that are scanned included. Order and size known from a simulation at L = 4,096, K = 512: sift 2 bits 101.8 (K = 256: 104.5), fixed stride 5 / 10 / 50
108.0 / 112.4 / 120.5, QC5 109.5, QC10 112.4, snapkv 111.2 / 115.4 (window 32 / 1), h2o 112.8, sink 114, quest as published 124.
\`streaming++\` at an endless stride is the sink cache of this protocol, at original positions.

TEXT
		table last
	fi
	if has recovery; then
		cat <<TEXT

## Recovery: the share of full attention that lies on the entries a policy reads

\`weir eval recovery FILE --window 4096 --last 256 --entries N --kv POLICY ...\`: the model follows full attention all the way (hidden states are those of full attention, tokens those of
the text), and every policy says which entries it would have read; in %, mean over query heads, layers and tokens. A policy that reads everything in some steps or
layers gets a smaller k (or size), fitted so that all read equally many entries a token; (!) is a row that still differs by more than 2 %, because its full steps
alone read more, or its k selects whole pages. Oracle: the entries with the largest probability per
KV head, as many. Last row, mean row: those that were the most probable at the token before, or on average over the tokens that came one at
a time before, as many. Recent: 4 sinks and the newest entries, as many. The error is over windows.

TEXT
		table recovery
	fi
	if has ruler; then
		cat <<TEXT

## RULER-style tasks

\`weir eval ruler DIR --tasks NAME --len L --samples N --kv POLICY ...\`, seed 42. Numbers, distributions, lengths and metrics are those of RULER, the wording is our own;
essays are of the public domain and begin at another sentence in every sample. The chat template is applied, the answer begins with given words, decoding is greedy; the question is
read with the prompt (query-aware). Score: share of the references found in the answer, in %; qa: whether any is. Policies have K = L / 8 rows. Tasks on
which full attention stays below 30 % are listed with that figure alone. The mean is over the others; its error against full is paired over samples.

TEXT
		table ruler
	fi
	if has pools; then
		cat <<TEXT

## How wide a reused set is pooled

\`weir eval ruler DIR --tasks NAME --len 2048 --samples 20 --kv POLICY ...\`, seed 42, as above; K = 256. list_numbers asks for 12 numbers, one a line, copy_rows for
8 rows of the 16 that are hidden; their score is the F1 of the rows. Methods whose set serves several tokens need a pool that covers what these tokens say: this
model spends a token on each digit, and a pool of 7 around a peak cuts a number of seven digits. recycled and refresh read keys and values where they select, as published.

TEXT
		table pools
	fi
	if has passkey; then
		cat <<TEXT

## Passkey through a bounded cache

\`weir eval passkey --len L --samples N --kv POLICY\`: five digits in random words, said twice at one place, in five intervals of depth in turn; the share of digits
that are right in %, by depth (first to last fifth). Where even \`full\` finds little, the model cannot do it with everything in sight, and nothing is said about caches: 20 is one
digit of five, as by chance.

TEXT
		table passkey
	fi
	if has needle; then
		cat <<TEXT

## A needle in a book, through a bounded cache

\`weir eval needle $second.txt --len L --depths 6 --samples 3 --kv POLICY\`: a number is hidden in the text of a book and asked for at the end; the share of answers that
have it in %, by depth (0 is the beginning). It is found where every token stays: in the newest ring, and what older rings keep of a sentence does not answer a
question about it. So the sink cache, one ring, finds most; two rings reach half as far back whole, four a quarter.

TEXT
		table needle
	fi
	if has speed; then
		cat <<TEXT

## Speed

\`weir bench --kv POLICY ... --depth 0,2048,7680 --decode 8 --turns 30\`: tokens a second when so many tokens are in the cache, and the MB of weights and cache that a
token reads. In each turn every row generates eight tokens at every depth, one after the other; speeds are medians over the turns, the last two columns medians of
the ratios within a turn: at the deepest to its own speed at the least depth, and to that of \`full\`.

TEXT
		table speed
	fi
} >"$work/page" || exit 1
mkdir -p "$(dirname "$page")" && cp "$work/page" "$page" && echo "results.sh: wrote $page" >&2
