#!/usr/bin/env bash
# The trainer as people start it: every stage leaves the same losses and the same hash of the
# parameters, for several ranks and families.
# usage: stages_equal.sh ZL_TRAIN
set -euo pipefail
train=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# Losses, norms and hash of train.json: all that training decides, nothing that the clock does.
outcome() {
  grep -oE '"(loss|grad_norm|parameter_hash)": [^,]*' "$1"
}

check() { # check MODEL RANKS OPTION...
  local model=$1 ranks=$2 stage
  shift 2
  for stage in 0 1 2 3; do
    "$train" --model "$model" --ranks "$ranks" --stage $stage --seq 32 --steps 3 --poison --quiet \
      --out "$work/$stage" "$@"
    outcome "$work/$stage/train.json" >"$work/$stage.txt"
    [ "$(wc -l <"$work/$stage.txt")" -eq 7 ] || { echo "train.json lacks losses, norms or the hash"; exit 1; }
    cmp "$work/0.txt" "$work/$stage.txt" || { echo "$model, $ranks ranks, $*: stage $stage differs"; status=1; }
  done
}

for ranks in 1 2 3 4; do
  check gpt2-tiny $ranks --precision fp32
  check llama-tiny $ranks --recompute selective
  check bert-tiny $ranks --recompute full --dropout 0.1
done
exit $status
