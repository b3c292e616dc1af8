#!/bin/sh
# tests/bench.sh - `make bench`: prefill and decode of the default model (or WEIR_BENCH_MODEL) in one table.
#
# Every round measures the machine's read bandwidth, weir, and - when WEIR_BENCH_PEER names a llama-bench program - the
# peer, one after the other, so that all columns saw the same machine; the table shows medians over the rounds.
#
#   WEIR_BENCH_ROUNDS=5  WEIR_BENCH_THREADS=2  WEIR_BENCH_DEPTHS=0,4096  WEIR_BENCH_PREFILL=512  WEIR_BENCH_PEER=llama-bench
set -eu
weir=${WEIR:-./weir}
model=${WEIR_BENCH_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf}
rounds=${WEIR_BENCH_ROUNDS:-5}
threads=${WEIR_BENCH_THREADS:-$(nproc)}
depths=${WEIR_BENCH_DEPTHS:-0,4096}
prefill=${WEIR_BENCH_PREFILL:-512}
peer=${WEIR_BENCH_PEER:-}
steps=64

all=$(mktemp)
trap 'rm -f "$all"' EXIT
round=1
while [ "$round" -le "$rounds" ]; do
  [ ! -t 2 ] || printf '\rround %d of %d ' "$round" "$rounds" >&2
  "$weir" bench -m "$model" -t "$threads" --prefill "$prefill" --decode $steps --depth "$depths" --reps 1 --json |
    sed -n 's/.*"test":"\([a-z]*\)".*/\1 &/p' |
    awk '{ v["n"] = v["depth"] = 0; line = $0
           n = split("n depth tps gbps bytes_per_token", key, " ")
           for (i = 1; i <= n; i++) if (match(line, "\"" key[i] "\":[0-9.eE+]+"))
             v[key[i]] = substr(line, RSTART + length(key[i]) + 3, RLENGTH - length(key[i]) - 3); else v[key[i]] = 0
           if ($1 == "bandwidth") print "bandwidth 0 weir", v["gbps"], 0
           if ($1 == "prefill") print "prefill_" v["n"], v["depth"], "weir", v["tps"], v["bytes_per_token"]
           if ($1 == "decode") print "decode", v["depth"], "weir", v["tps"], v["bytes_per_token"] }' >>"$all"
  if [ -n "$peer" ]; then
    "$peer" -m "$model" -t "$threads" -p "$prefill" -n 0 -r 1 -o csv 2>/dev/null >"$all.peer"
    "$peer" -m "$model" -t "$threads" -p 0 -n $steps -d "$depths" -r 1 -o csv 2>/dev/null >>"$all.peer"
    awk -F'","' '{ gsub(/^"|"$/, "") }
      /build_commit/ { for (i = 1; i <= NF; i++) col[$i] = i; next }
      { p = $col["n_prompt"] + 0; d = $col["n_depth"] + 0; ts = $col["avg_ts"] + 0
        if (p > 0) print "prefill_" p, d, "peer", ts, 0; else print "decode", d, "peer", ts, 0 }' "$all.peer" >>"$all"
    rm -f "$all.peer"
  fi
  round=$((round + 1))
done
[ ! -t 2 ] || printf '\r                    \r' >&2

printf '%s, %s threads, medians of %s rounds\n' "${model##*/}" "$threads" "$rounds"
sort -k1,1 -k2,2n -k3,3 -k4,4n "$all" | awk '
  function flush() { if (n) { med[key] = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2; lo[key] = v[1]; hi[key] = v[n] } n = 0 }
  { k = $1 " " $2 " " $3; if (k != key) { flush(); key = k; if (!(($1 " " $2) in seen)) { seen[$1 " " $2] = 1; order[++m] = $1 " " $2 } }
    v[++n] = $4; bytes[k] = $5 }
  END { flush(); bw = med["bandwidth 0 weir"]
    printf "read bandwidth %.1f GB/s\n%-12s %7s %9s %19s %12s %10s %9s %6s\n", bw, "test", "depth", "t/s", "(min-max)", "MB per token", "of bandw.", "peer t/s", "ratio"
    for (i = 1; i <= m; i++) { o = order[i]; if (o ~ /^bandwidth/) continue; split(o, f, " ")
      w = med[o " weir"]; p = med[o " peer"]; b = bytes[o " weir"]
      range = sprintf("(%.1f-%.1f)", lo[o " weir"], hi[o " weir"])
      share = (f[1] == "decode" && bw > 0) ? sprintf("%.0f %%", w * b / bw / 1e7) : "-"
      printf "%-12s %7s %9.1f %19s %12s %10s %9s %6s\n", f[1], f[2], w, range, b ? sprintf("%.1f", b / 1e6) : "-", share,
        p ? sprintf("%.1f", p) : "-", p ? sprintf("%.2f", w / p) : "-" } }'
