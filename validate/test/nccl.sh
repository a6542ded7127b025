#!/usr/bin/env bash
# Every committed nccl.json with its trace is what the closed form says, by the device and by the meter; a byte more, or a rank
# that the meter did not see, is noticed.
# usage: nccl.sh ZL-VALIDATE RESULTS
set -euo pipefail
validate=$1 results=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
judged=0
while IFS= read -r trace; do
  nccl=$(dirname "$trace")/nccl.json
  "$validate" nccl "$nccl" "$trace" >"$work/out.txt" || { cat "$work/out.txt"; exit 1; }
  [ "$(grep -c ' traced .*, +0: equal$' "$work/out.txt")" = 10 ] && grep -q '^10 communicators judged, 0 differ$' "$work/out.txt" || { cat "$work/out.txt"; exit 1; }
  judged=$((judged + $(grep -c ' traced ' "$work/out.txt")))

  # The last mark of this name is that of the second rank.
  line=$(grep -n '"name": "max-ctas-4 reduce-scatter"' "$trace" | tail -n 1 | cut -d: -f1)
  traced=$(sed -n "$line,\$ s/^ *\"traced\": \([0-9]*\),/\1/p" "$trace" | head -n 1)
  sed "$line,$((line + 8)) s/\"traced\": $traced,/\"traced\": $((traced + 1)),/" "$trace" >"$work/wrong.json"
  sed "$line s/max-ctas-4/max-ctas-5/" "$trace" >"$work/less.json"
  for wrong in wrong less; do
    rc=0
    "$validate" nccl "$nccl" "$work/$wrong.json" >"$work/out.txt" || rc=$?
    [ $rc = 1 ] && grep -q '^10 communicators judged, 1 differ$' "$work/out.txt" || { cat "$work/out.txt"; echo "$wrong: exit $rc"; exit 1; }
  done
done < <(find "$results" -mindepth 2 -maxdepth 2 -name nccl-trace.json | sort)
printf '%d growths traced, all equal\n' "$judged"
[ "$judged" -gt 0 ]
