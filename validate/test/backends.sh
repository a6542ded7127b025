#!/usr/bin/env bash
# The host and the GPU run the same schedule: every committed ledger of a GPU whose model the host can train in a
# test is measured once more on the host, and every figure but those of the kind work has to be the same.
# usage: backends.sh ZL_VALIDATE ZL_TRAIN RESULTS [RANKS]     no run of more ranks; 2
set -euo pipefail
validate=$1 train=$2 results=$3 ranks=${4:-2}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OPENBLAS_NUM_THREADS=1
cat "${BASH_SOURCE[0]}" "${BASH_SOURCE[0]}" >"$work/data"

# The run description inside a ledger, for the host.
host_run() { # host_run LEDGER
  printf '{\n  "schema": "zeroledger.run/1",\n'
  sed -n '/^  "run": {$/,/^  },$/p' "$1" | sed '1d; $d; s/"backend": "cuda"/"backend": "host"/'
  printf '}\n'
}

compared=0 differ=0
while IFS= read -r ledger; do
  folder=$(dirname "$ledger")
  grep -q '^      "name": "[a-z0-9]*-tiny",$' "$ledger" && grep -q '"backend": "cuda"' "$ledger" || continue
  # A rank of a job that was not there has buffers for its peers' bytes, and the host cannot play that.
  ! grep -q '"loopback"' "$folder/train.json" || continue
  n=$(sed -n 's/^    "ranks": \([0-9]*\),$/\1/p' "$ledger")
  [ "$n" -le "$ranks" ] || continue
  mkdir "$work/out"
  host_run "$ledger" >"$work/run.json"
  "$train" --run "$work/run.json" --steps 2 --data "$work/data" --out "$work/out" --quiet 2>"$work/words" ||
    { cat "$work/words"; exit 1; }
  for gpu in "$folder"/ledger.rank*; do
    rank=${gpu##*ledger.rank}
    rank=${rank%.*}
    if [[ $gpu = *.same ]]; then # import_results.sh found it to be rank 0's, but for the number
      sed "s/^  \"rank\": 0,$/  \"rank\": $rank,/" "$ledger" >"$work/gpu.json"
    else
      cp "$gpu" "$work/gpu.json"
    fi
    compared=$((compared + 1)) rc=0
    "$validate" compare --skip-work "$work/out/ledger.rank$rank.json" "$work/gpu.json" >"$work/answer" || rc=$?
    [ $rc -le 1 ] || { echo "$gpu cannot be compared"; exit 1; }
    [ $rc -eq 0 ] || { differ=$((differ + 1)); printf '%s: ' "$gpu"; cat "$work/answer"; }
  done
  rm -r "$work/out"
done < <(find "$results" -name ledger.rank0.json | sort)
printf '%d ledgers of both backends, %d differ\n' "$compared" "$differ"
[ "$compared" -gt 0 ] && [ "$differ" -eq 0 ]
