#!/bin/sh
# tests/measure/bench.sh - `make bench`: prefill and decode in one table, beside the limits of the machine.
#
# Models: the default one, and files of random weights made on the spot (build/bench/): the default model's shape in
# other types, a shape that the K types fit, and Llama 3.2 1B's. Every round measures the machine's read bandwidth and
# arithmetic, weir, and every peer, one after the other, so that all are measured under the same conditions; the table
# shows medians over the rounds.  Decode is compared with the bandwidth, prefill with the arithmetic.  Prompts are read
# with an empty cache, the first one also at every depth.
#
# Without peers a round takes about four minutes on two cores with AVX-512, and the files of random weights 3 GB. Fewer
# rounds or models need less.
#
#   WEIR_BENCH_MODELS="default Q8_0 Q4_0 Q4_K F16 1b-Q4_K 1b-Q8_0"    or paths of GGUF files
#   WEIR_BENCH_ROUNDS=3  WEIR_BENCH_THREADS=2  WEIR_BENCH_PREFILL=512,7680  WEIR_BENCH_DEPTHS=0,2048,7680
#   WEIR_BENCH_PEERS="/path/llama-bench /other/llama-bench"            programs with llama-bench's options
#   WEIR_BENCH_CSV=FILE                                                all single figures
set -eu
weir=${WEIR:-./weir}
models=${WEIR_BENCH_MODELS:-default Q8_0 Q4_0 Q4_K F16 1b-Q4_K 1b-Q8_0}
rounds=${WEIR_BENCH_ROUNDS:-3}
threads=${WEIR_BENCH_THREADS:-$(nproc)}
prefill=${WEIR_BENCH_PREFILL:-512,7680}
depths=${WEIR_BENCH_DEPTHS:-0,2048,7680}
peers=${WEIR_BENCH_PEERS:-}
csv=${WEIR_BENCH_CSV:-/dev/null}
steps=32

model_path() {
  case $1 in
    default) echo "${XDG_CACHE_HOME:-$HOME/.cache}/weir/models/SmolLM2-135M-Instruct.Q4_1.gguf"; return ;;
    */*) echo "$1"; return ;;
    1b-*) shape=llama-3.2-1b type=${1#1b-} ;;
    *_K) shape=wide-256m type=$1 ;;
    *) shape=smollm2-135m type=$1 ;;
  esac
  mkdir -p build/bench
  [ -e "build/bench/$1.gguf" ] || { "${MKMODEL:-build/mkmodel}" $shape "$type" build/bench/part && mv build/bench/part "build/bench/$1.gguf"; }
  echo "build/bench/$1.gguf"
}

# Prints a line for each figure: TEST DEPTH WHO TPS COST; COST: bytes (decode) or multiply-adds (prefill) of a token
weir_figures() {
  "$weir" bench -m "$1" -t "$threads" --prefill "$prefill" --decode $steps --depth "$depths" --reps 1 --json |
    awk '{ n = split("n depth tps gbps bytes_per_token gmacs macs_per_token", key, " ")
           for (i = 1; i <= n; i++) { v[key[i]] = 0
             if (match($0, "\"" key[i] "\":[0-9.eE+]+")) v[key[i]] = substr($0, RSTART + length(key[i]) + 3, RLENGTH - length(key[i]) - 3) }
           if (/"test":"bandwidth"/) print "bandwidth 0 weir", v["gbps"], 0
           if (/"test":"arithmetic"/) print "arithmetic 0 weir", v["gmacs"], 0
           if (/"test":"prefill"/) print "prefill_" v["n"], v["depth"], "weir", v["tps"], v["macs_per_token"]
           if (/"test":"decode"/) print "decode", v["depth"], "weir", v["tps"], v["bytes_per_token"] }'
}
# Older peers have no option for the depth: they run prompt + generation, and the time of the prompt alone is
# subtracted.
peer_figures() {
  first=${prefill%%,*} more=${prefill#"$first"}
  filled=$(echo "$depths" | tr ',' '\n' | awk '$1 > 0' | paste -sd, -)
  if "$2" --help 2>&1 | grep -q -e '--n-depth'; then
    peer_run "$1" "$2" -p "$first" -n $steps -d "0${filled:+,$filled}"
    [ -z "$more" ] || peer_run "$1" "$2" -p "${more#,}" -n 0 -d 0
  else
    gp=$(echo "$depths" | tr ',' '\n' | awk -v s=$steps '$1 > 0 { printf " -gp %d,%d", $1, s }')
    # shellcheck disable=SC2086
    peer_run "$1" "$2" -p "$prefill" -n $steps $gp
  fi | awk -F'"?,"?' -v who="$3" '{ gsub(/^"|"$/, "") }
    # counted from the end, because an earlier value may contain commas
    function get(name) { return name in col ? $(NF - col[name]) + 0 : 0 }
    /n_prompt/ { for (i = 1; i <= NF; i++) col[$i] = NF - i; next }
    { p = get("n_prompt"); g = get("n_gen"); ts = get("avg_ts"); d = get("n_depth")
      if (p > 0 && g > 0) print "decode", p, who, ts, 0
      else if (p > 0) print "prefill_" p, d, who, ts, 0
      else print "decode", d, who, ts, 0 }'
}
peer_run() {
  peer_model=$1 peer=$2
  shift 2
  "$peer" -m "$peer_model" -t "$threads" "$@" -r 1 -o csv 2>/dev/null || echo "bench: $peer failed on $peer_model" >&2
}

all=$(mktemp)
trap 'rm -f "$all"' EXIT
echo "model,test,depth,program,tps,bytes_or_multiply_adds" >"$csv"
for name in $models; do
  path=$(model_path "$name")
  [ -e "$path" ] || { echo "bench: no model at $path: left out" >&2; continue; }
  : >"$all"
  round=1
  while [ "$round" -le "$rounds" ]; do
    [ ! -t 2 ] || printf '\r%s: round %d of %d ' "$name" "$round" "$rounds" >&2
    weir_figures "$path" >>"$all"
    i=1
    for p in $peers; do peer_figures "$path" "$p" "peer$i" >>"$all"; i=$((i + 1)); done
    round=$((round + 1))
  done
  [ ! -t 2 ] || printf '\r                              \r' >&2
  awk -v m="$name" '{ print m "," $1 "," $2 "," $3 "," $4 "," $5 }' "$all" >>"$csv"
  sort -k1,1 -k2,2n -k3,3 -k4,4n "$all" | awk -v name="$name" -v threads="$threads" -v rounds="$rounds" -v peers="$peers" '
    function flush() { if (n) { med[key] = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2; lo[key] = v[1]; hi[key] = v[n] } n = 0 }
    { k = $1 " " $2 " " $3
      if (k != key) { flush(); key = k; if (!(($1 " " $2) in seen)) { seen[$1 " " $2] = 1; order[++m] = $1 " " $2 } }
      v[++n] = $4; bytes[k] = $5 }
    END { flush(); bw = med["bandwidth 0 weir"]; ar = med["arithmetic 0 weir"]; np = split(peers, unused, " ")
      printf "%s, %s threads, medians of %s; read bandwidth %.1f GB/s, arithmetic %.0f G multiply-adds/s\n", name, threads, rounds, bw, ar
      printf "  %-13s %6s %9s %19s %9s %8s", "test", "depth", "t/s", "(least-most)", "M/token", "of peak"
      for (j = 1; j <= np; j++) printf " %9s %6s", "peer" j, "ratio"
      print ""
      for (i = 1; i <= m; i++) { o = order[i]; if (o ~ /^bandwidth|^arithmetic/) continue; peak = o ~ /^decode/ ? bw : ar; split(o, f, " ")
        w = med[o " weir"]; b = bytes[o " weir"]
        printf "  %-13s %6s %9.1f %19s %9s %8s", f[1], f[2], w, sprintf("(%.1f-%.1f)", lo[o " weir"], hi[o " weir"]),
          (b ? sprintf("%.1f", b / 1e6) : "-"), (peak ? sprintf("%.0f %%", w * b / peak / 1e7) : "-")
        for (j = 1; j <= np; j++) { p = med[o " peer" j]; printf " %9s %6s", (p ? sprintf("%.1f", p) : "-"), (p ? sprintf("%.2f", w / p) : "-") }
        print "" } }'
done
