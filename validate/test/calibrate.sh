#!/usr/bin/env bash
# The one command from measured runs to constants, on the committed runs of one machine with figures of the whole GPU that
# are made up: it has to find what was made up, and to see one run that contradicts it.
# usage: calibrate.sh ZL-VALIDATE SCHEMA-CHECKER SOURCE_DIR
set -euo pipefail
validate=$1 checker=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$1"; cat "$work/out.txt"; exit 1; }
context=$((611 << 20))
cp -r "$source/docs/results/2026-11-30-h200" "$work/runs"

# Says in train.json what the whole GPU had in use: so many bytes more than the arena.
pretend() { # pretend FOLDER BYTES
  local arena
  arena=$(sed -n 's/.*"arena_reserved": \([0-9]*\).*/\1/p' "$1/train.json")
  sed -i "s/^  \"parameter_hash\"/  \"memory\": {\"peak_granted\": 0, \"device_used\": $((arena + $2))},\n&/" "$1/train.json"
}
for run in "$work"/runs/*/; do pretend "$run" $context; done

"$validate" calibrate "$work/runs" --out "$work/constants.json" >"$work/out.txt" || fail 'exit is not 0'
"$checker" "$source/docs/schema/constants.schema.json" "$work/constants.json"
grep -q "\"bytes\": $context," "$work/constants.json" || fail 'other constants than those that were made up'
grep -q '^judged: .* 0 outside' "$work/out.txt" || fail 'a run is outside'

judge=$(awk '$2 == "judges" { print $1; exit }' "$work/out.txt")
sed -i '/^  "memory": /d' "$work/runs/$judge/train.json"
pretend "$work/runs/$judge" $((2 * context))
code=0
"$validate" calibrate "$work/runs" --out "$work/again.json" >"$work/out.txt" || code=$?
[ $code = 1 ] || fail "exit $code for a run that took more"
grep -q '^judged: .* 1 outside' "$work/out.txt" || fail 'the run that took more is not outside'
code=0
"$validate" calibrate "$source/validate/cases" >"$work/out.txt" 2>&1 || code=$?
[ $code = 3 ] || fail "exit $code where nothing was measured"

# The constants that are built in are what the same command makes of the committed runs.
results=$source/docs/results
"$validate" calibrate "$results/2026-11-30-h200-trial" "$results/2026-11-30-h200-x2" --out "$work/h200.json" >"$work/out.txt" ||
  fail 'a committed run is outside'
cmp "$work/h200.json" "$source/model/data/hardware/h200.json" || fail 'model/data/hardware/h200.json is not what the committed runs say'
