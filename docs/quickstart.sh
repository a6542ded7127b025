#!/usr/bin/env bash
# Builds zeroledger, asks it one question, and checks its answers against a real sharded training run.
# usage: quickstart.sh [--no-install]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source docs/packages.sh

stage() {
  local begin=$SECONDS
  printf '\n== %s\n' "$1"
  shift
  "$@"
  printf -- '-- %d s\n' $((SECONDS - begin))
}

build() {
  cmake --preset host
  cmake --build --preset host
}

predict() {
  local zl=build/host/bin/zl common=(--model bert-large --precision fp16-mixed --micro-batch 8 --seq 128)
  echo 'BERT-large on one rank, nothing sharded:'
  "$zl" predict "${common[@]}" --ranks 1 --stage 0
  echo 'The same on 8 ranks, ZeRO stage 3:'
  "$zl" predict "${common[@]}" --ranks 8 --stage 3
}

validate() {
  build/host/bin/zl-validate run --cases validate/cases/quickstart.json --out build/quickstart
  echo "report: $PWD/build/quickstart/report.md"
}

stage 'Packages' prepare "$@"
stage 'Build' build
stage 'Predict: how much does ZeRO-3 on 8 ranks save?' predict
stage 'Validate: train on 4 ranks in all four stages, compare every byte' validate
printf '\nquickstart took %d s\n' "$SECONDS"
