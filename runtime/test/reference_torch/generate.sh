#!/usr/bin/env bash
# Writes bert.safetensors, gpt2.safetensors and llama.safetensors anew, with the PyTorch that is here.
#
#     bash runtime/test/reference_torch/generate.sh TORCH_REFERENCE [FOLDER] [DEVICE]
#
# TORCH_REFERENCE is the program that the tests build (of the host, for the committed files); FOLDER is
# this one if not given, DEVICE cpu. PYTHON chooses the interpreter.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 1 ] || { sed -n '2,5s/^# \?//p' "$0" >&2; exit 2; }
program=$1 folder=${2:-$here} device=${3:-cpu}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for family in bert gpt2 llama; do
  "$program" inputs $family "$work"
  PYTHONDONTWRITEBYTECODE=1 "${PYTHON:-python3}" "$here/reference.py" --device "$device" --run "$work/$family.run.json" \
    "$work/$family.inputs.safetensors" "$folder/$family.safetensors"
done
