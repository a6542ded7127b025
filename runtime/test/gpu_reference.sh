#!/usr/bin/env bash
# zl-train's engine on a GPU against PyTorch, in fp32: logits, every gradient, ten losses. Against the committed files of
# reference_torch/, and where this machine has PyTorch, against what that computes on the GPU here. Part of gpu.sh.
#
#     bash runtime/test/gpu_reference.sh
#
# OUT        where results go; build/gpu if not set: committed.json, here.json, and the table in reference.txt
# Exit: 0 within the tolerances; 1 if not; 4 if nothing could be built; 77 without a GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ $# = 0 ] || { sed -n '5s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
out=${OUT:-build/gpu}
mkdir -p "$out"
out=$(realpath "$out")
status=0

# shellcheck source=runtime/test/gpu_build.sh
. runtime/test/gpu_build.sh

folder=runtime/test/reference_torch
families=(bert gpt2 llama)
files_in() { printf -- "$1/%s.safetensors " "${families[@]}"; }
# shellcheck disable=SC2046
"$bin/torch_reference-cuda" compare --json "$out/committed.json" $(files_in $folder) 2>&1 | tee "$out/reference.txt" || status=1

if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  made=$work/reference
  mkdir -p "$made"
  for family in "${families[@]}"; do
    PYTHONDONTWRITEBYTECODE=1 python3 $folder/reference.py --device cuda "$folder/$family.safetensors" "$made/$family.safetensors"
  done
  # shellcheck disable=SC2046
  "$bin/torch_reference-cuda" compare --json "$out/here.json" $(files_in "$made") 2>&1 | tee -a "$out/reference.txt" || status=1
else
  echo 'no PyTorch with a GPU here: only the committed files were compared' | tee -a "$out/reference.txt"
fi
exit $status
