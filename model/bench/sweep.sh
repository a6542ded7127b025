#!/usr/bin/env bash
# How long zl sweep takes for a million native points and for ten thousand of a framework, as csv: wall time with
# all processors, and processor time.
# usage: sweep.sh ZL [--json]      RUNS=5 in the environment
set -euo pipefail
[ $# = 1 ] || [ "${2-}" = --json ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
zl=$1 format=${2-} runs=${RUNS:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
TIMEFORMAT='%R %U %S'

take() { # take NAME OPTION...: a sweep; its seconds and those of processors, appended to NAME
  { time "$zl" sweep "${@:2}" --format csv >/dev/null; } 2>&1 | awk '{ print $1, $2 + $3 }' >>"$work/$1"
}

for ((i = 0; i < runs; i++)); do
  take outer --model llama-3-8b --recompute none,full --stage 0,1,2,3 --ranks 1..25 --seq 128..6400+128 --micro-batch 1..100
  take inner --model llama-3-8b --ranks 1..25 --seq 128..6400+128 --micro-batch 1..100 --stage 0,1,2,3 --recompute none,full
  take walk --model gpt2 --framework fsdp2 --ranks 1..10 --seq 8..1000+8 --micro-batch 1..8
done

figure() { # figure NAME FILE COLUMN [LIMIT]
  cut -d' ' -f"$3" "$work/$2" | sort -g | awk -v name="$1" -v limit="${4-}" '
    { v[NR] = $1 }
    END {
      m = (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2
      printf "    {\"name\": \"%s\", \"unit\": \"s\", \"median\": %.5g, \"low\": %.5g, \"high\": %.5g", name, m, v[1], v[NR]
      if (limit != "") printf ", \"at_most\": %g, \"met\": %s", limit, m <= limit ? "true" : "false"
      print "}"
    }'
}

figures() {
  figure 'a million native points, counts fastest' outer 1 1
  figure 'the same, processor time' outer 2
  figure 'a million native points, stages fastest' inner 1 1
  figure 'the same, processor time' inner 2
  figure 'ten thousand of gpt2 on fsdp2' walk 1 1
  figure 'the same, processor time' walk 2
}

cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
if [ "$format" = --json ]; then
  printf '{\n  "schema": "zeroledger.bench/1",\n  "program": "sweep-bench",\n'
  printf '  "machine": {"cpu": "%s", "cores": %d},\n  "figures": [\n' "${cpu:-unknown}" "$(nproc)"
  figures | sed '$!s/$/,/'
  printf '  ]\n}\n'
else
  printf 'sweep-bench on %s, %d cores\n\n' "${cpu:-unknown}" "$(nproc)"
  figures | sed 's/"name": //; s/"unit": //; s/^ *{//; s/}$//; s/"//g'
fi
