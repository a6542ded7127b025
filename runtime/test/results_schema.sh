#!/usr/bin/env bash
# The files of docs/results, what today's test programs write, and the examples are what docs/schema says.
# usage: results_schema.sh CHECKER SOURCE_DIR CONFORM KERNELS TORCH_REFERENCE      ZL_BLESS=1 writes two examples again
set -euo pipefail
checker=$1 source=$2 conform=$3 kernels=$4 reference=$5
schema=$source/docs/schema
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
export OPENBLAS_NUM_THREADS=1

check() { # check NAME FILE...
  "$checker" "$schema/$1.schema.json" "${@:2}" || bad=1
}

"$conform" --dtype fp32 --only fill --seed 1 --json "$work/conform.json" "$kernels" "$kernels" >/dev/null
"$reference" compare --json "$work/reference.json" "$source/runtime/test/reference_torch/gpt2.safetensors" >/dev/null
if [ "${ZL_BLESS-}" = 1 ]; then
  cp "$work"/{conform,reference}.json "$schema/examples"
fi
for name in conform reference; do check $name "$work/$name.json"; done
for name in conform constants nccl reference results sanitizer speed; do check $name "$schema/examples/$name.json"; done

committed() { # committed NAME FILE-NAME: those that there are
  local file
  while IFS= read -r file; do check "$1" "$file"; done < <(find "$source/docs/results" -mindepth 2 -maxdepth 2 -name "$2" | sort)
}
committed results provenance.json
committed conform conform.json
committed sanitizer sanitizer.json
committed speed speed.json
committed reference 'reference*.json'
committed nccl nccl.json
while IFS= read -r file; do check constants "$file"; done < <(find "$source/model/data/hardware" -name '*.json' | sort)
while IFS= read -r folder; do
  [ -f "$folder/provenance.json" ] || { echo "$folder: no provenance.json"; bad=1; }
done < <(find "$source/docs/results" -mindepth 1 -maxdepth 1 -type d)

# The checker has to see what is wrong with them.
sed 's/"failed": 0,/"failed": "none",/' "$work/conform.json" >"$work/wrong.json"
! "$checker" "$schema/conform.schema.json" "$work/wrong.json" >/dev/null 2>&1 || { echo 'a wrong file passes'; bad=1; }
sed '/"peak_allocated"/s/"steps": 12, //' "$schema/examples/speed.json" >"$work/wrong.json"
! "$checker" "$schema/speed.schema.json" "$work/wrong.json" >/dev/null 2>&1 || { echo 'a row without its steps passes'; bad=1; }
[ $bad = 0 ]
