#!/usr/bin/env bash
# A trainer or an object of it contains no prediction.
# usage: symbols.sh FILE
set -euo pipefail
symbols=$(nm -- "$1")
grep -q ' T main$' <<<"$symbols" || { echo "$1: no symbol table"; exit 1; }
if grep -E ' zl_(predict|solve|explain)' <<<"$symbols"; then
  echo "$1 contains a prediction"
  exit 1
fi
