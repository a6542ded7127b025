#!/usr/bin/env bash
# What `zl predict --timeline` writes, claim by claim.
# usage: timeline.sh CLAIM ZL UNPICKLE TIMELINE_CHECK SCHEMA_CHECK SCHEMA.json
set -euo pipefail
claim=$1 zl=$2 unpickle=$3 check=$4 schema_check=$5 schema=$6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

frameworks=(
  '--model bert-tiny --framework single'
  '--model gpt2-tiny --framework single --alloc-conf expandable_segments:True'
  '--model gpt2-tiny --framework fsdp2 --ranks 4 --micro-batch 4 --seq 256'
  '--model gpt2-tiny --framework fsdp1 --ranks 2'
  '--model bert-tiny --framework zero1 --ranks 2 --alloc-conf garbage_collection_threshold:0.6'
  '--model gpt2 --framework deepspeed@0.14.5 --stage 3 --ranks 8'
  '--model bert-tiny --framework deepspeed@0.5.9 --stage 2 --ranks 2 --precision fp16-mixed --skipped-step'
)
natives=(
  '--model gpt2-tiny --stage 3 --ranks 4 --save --eval'
  '--model bert-tiny --stage 2 --ranks 2 --accumulation 3 --recompute full --dropout 0.1'
  '--model llama-tiny --backend cuda --seq 64'
)

largest() { # largest QUANTITY FILE.json
  grep -o "\"$1\": *[0-9]*" "$2" | grep -o '[0-9]*$' | sort -n | tail -n 1
}

# The peaks of any predicted mark; of the native schedule, of any cell: the arena is not in the ledger.
predicted() { # predicted OPTION...
  "$zl" predict "$@" --format json --out predicted.json 2>/dev/null
  if grep -q '"zeroledger.marks/1"' predicted.json; then
    echo "requested $(largest peak_requested predicted.json) reserved $(largest peak_reserved predicted.json)"
  else
    "$zl" predict "$@" --visits all --format csv --out predicted.csv
    echo "requested $(awk -F, '$3 == "total" && $5 == "requested" { print $7 }' predicted.csv | sort -n | tail -n 1)"
  fi
}

same() { # same WHAT EXPECTED GOT
  [ "$2" = "$3" ] || { printf '%s: expected "%s", got "%s"\n' "$1" "$2" "$3"; exit 1; }
}

write() { # write FILE OPTION...
  "$zl" predict "${@:2}" --timeline "$1" --out /dev/null 2>/dev/null
}

case $claim in
traces_are_right)
  for run in "${frameworks[@]}" "${natives[@]}"; do
    # shellcheck disable=SC2086
    write t.json $run
    "$schema_check" "$schema" t.json
    got=$("$check" trace t.json)
    # shellcheck disable=SC2086
    expected=$(predicted $run)
    case $expected in *reserved*) ;; *) got=${got% reserved*} ;; esac
    same "$run" "$expected" "$got"
    # shellcheck disable=SC2086
    write t.json.gz $run
    gzip -dc t.json.gz | cmp - t.json
  done ;;
snapshots_are_right)
  for run in "${frameworks[@]}" "${natives[@]}"; do
    # shellcheck disable=SC2086
    write t.pickle $run
    "$unpickle" t.pickle >t.json
    got=$("$check" snapshot t.json)
    # shellcheck disable=SC2086
    expected=$(predicted $run)
    case $expected in *reserved*) ;; *) got=${got% reserved*} ;; esac
    same "$run" "$expected" "$got"
  done ;;
snapshots_replay_without_a_difference)
  for run in "${frameworks[@]}"; do
    # shellcheck disable=SC2086
    write t.pickle $run
    "$unpickle" t.pickle >t.json
    "$zl" replay t.json >replayed || { cat replayed; exit 1; }
    grep -q ', 0 differ$' replayed
  done ;;
snapshots_compare_without_a_difference)
  run='--model gpt2-tiny --framework fsdp2 --ranks 4'
  # shellcheck disable=SC2086
  write t.pickle $run
  "$unpickle" t.pickle >t.json
  # shellcheck disable=SC2086
  "$zl" compare t.json --at after_zero_grad $run >compared || { cat compared; exit 1; }
  grep '^2 of 2 figures agree' compared ;;
python_reads_the_same)
  command -v python3 >/dev/null || { echo 'no python3 here: skipped'; exit 77; }
  for run in "${frameworks[5]}" "${natives[0]}"; do
    # shellcheck disable=SC2086
    write t.pickle $run
    "$unpickle" t.pickle >t.json
    python3 -c 'import json, pickle, sys
sys.exit(pickle.load(open("t.pickle", "rb")) != json.load(open("t.json")))'
  done ;;
*) echo "no such claim: $claim"; exit 2 ;;
esac
