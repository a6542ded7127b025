#!/usr/bin/env bash
# One rank on one GPU: every measured byte is the predicted one. Exit 77 without a GPU.
# usage: gpu_smoke.sh ZL ZL_TRAIN
set -euo pipefail
zl=$1 train=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cells() { sed -n '/"cells"/,$p' "$1"; }

for stage in 0 3; do
  "$zl" predict --model gpt2-tiny --backend cuda --micro-batch 2 --seq 48 --stage $stage --save-run "$work/run.json" \
    --format json --out "$work/predicted.json"
  rc=0
  "$train" --run "$work/run.json" --steps 3 --data "${BASH_SOURCE[0]}" --out "$work" --quiet 2>"$work/words" || rc=$?
  if [ $rc -eq 4 ] && grep -qE 'no GPU is visible|no NVIDIA driver' "$work/words"; then
    cat "$work/words"
    exit 77
  fi
  [ $rc -eq 0 ] || { echo "stage $stage: exit $rc"; cat "$work/words"; exit 1; }
  diff <(cells "$work/predicted.json") <(cells "$work/ledger.rank0.json")
done
