#!/usr/bin/env bash
# What a question costs at a shell: wall time of `zl predict` and `zl fit` beside /bin/true and `python3 -c pass`. All of
# them take turns; a ratio is the median of the ratios of the turns.
# usage: cold_start.sh ZL [--json]      RUNS=101 in the environment
set -euo pipefail
[ $# = 1 ] || [ "${2-}" = --json ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
zl=$1 format=${2-} runs=${RUNS:-101}
python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null || true) # not a wrapper of it
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

take() { # take NAME COMMAND...: one start, nanoseconds appended to NAME
  local begin=${EPOCHREALTIME/[.,]/} end
  "${@:2}" >/dev/null
  end=${EPOCHREALTIME/[.,]/}
  echo $((end - begin)) >>"$work/$1"
}

for ((i = 0; i < runs + 3; i++)); do
  take true /bin/true
  take table "$zl" predict --model gpt2 --stage 3 --ranks 8
  take json "$zl" predict --model llama-3-8b --stage 3 --ranks 8 --format json
  take ranks "$zl" fit --model llama-3-70b --stage 3 --recompute full --find ranks --range 1..1024 --gpu h100-80g
  take walks "$zl" fit --model llama-3-8b --framework fsdp2 --recompute full --find ranks --gpu h100-80g
  [ -z "$python" ] || take python "$python" -c pass
done

figure() { # figure NAME UNIT SCALE FILE [BASE] [at_most LIMIT]: median, lowest, highest as JSON
  paste "$work/$4" "$work/${5:-$4}" | tail -n +4 | # the first three warm the caches
    awk -v base="${5-}" -v scale="$3" '{ printf "%.9g\n", (base == "" ? $1 : $1 / $2) * scale }' | sort -g |
    awk -v name="$1" -v unit="$2" -v aim="${6-}" -v limit="${7-}" '
      { v[NR] = $1 }
      END {
        m = (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2
        printf "    {\"name\": \"%s\", \"unit\": \"%s\", ", name, unit
        printf "\"median\": %.5g, \"low\": %.5g, \"high\": %.5g", m, v[1], v[NR]
        if (aim != "") printf ", \"%s\": %g, \"met\": %s", aim, limit, m <= limit ? "true" : "false"
        print "}"
      }'
}

figures() {
  figure '/bin/true' ms 0.001 true
  figure 'zl predict, gpt2, table' ms 0.001 table
  figure 'zl predict, llama-3-8b, json' ms 0.001 json
  figure 'zl fit, ranks of llama-3-70b, 1 to 1024' ms 0.001 ranks '' at_most 20
  figure 'zl fit, ranks of llama-3-8b on fsdp2' ms 0.001 walks
  [ -z "$python" ] || figure 'python3 -c pass' ms 0.001 python
  figure 'zl predict, gpt2, table, over /bin/true' 1 1 table true
  figure 'zl predict, llama-3-8b, json, over /bin/true' 1 1 json true
  [ -z "$python" ] || figure 'zl predict, gpt2, table, over python3 -c pass' 1 1 table python at_most 1
}

cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
if [ "$format" = --json ]; then
  printf '{\n  "schema": "zeroledger.bench/1",\n  "program": "cold-start",\n'
  printf '  "machine": {"cpu": "%s", "cores": %d},\n  "figures": [\n' "${cpu:-unknown}" "$(nproc)"
  figures | sed '$!s/$/,/'
  printf '  ]\n}\n'
else
  printf 'cold-start on %s, %d cores\n\n' "${cpu:-unknown}" "$(nproc)"
  figures | sed 's/"name": //; s/"unit": //; s/^ *{//; s/}$//; s/"//g'
fi
