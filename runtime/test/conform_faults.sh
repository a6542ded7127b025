#!/usr/bin/env bash
# Each check of the conformance test fails when what it is there for happens.
# usage: conform_faults.sh CONFORM MODULE
# The module is compared with itself; --fault damages what the second call returned.
set -euo pipefail
conform=$1 module=$2
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
other=$folder/other.so
cp "$module" "$other"

status=0
for operation in cast cross_entropy adamw layernorm_backward flash; do
  "$conform" --dtype bf16 --only $operation "$module" "$other" >/dev/null || { echo "$operation: fails without a fault"; status=1; }
  for fault in value nan repeat input guard; do
    "$conform" --dtype bf16 --only $operation --fault $fault "$module" "$other" >/dev/null || { echo "$operation: $fault not noticed"; status=1; }
  done
done
exit $status
