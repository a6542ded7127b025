#!/usr/bin/env bash
# A prediction is a promise: a run fits into its predicted granted peak, and not into one granule less.
# The refusal is one line that names buffer, phase, requested and available bytes. The micro-batch that
# `zl fit` finds runs in the capacity, and the next one does not.
# usage: boundary.sh ZL ZL_TRAIN [MOST_RANKS]
set -euo pipefail
zl=$1 train=$2 most=${3:-2} granule=256 bad=0 runs=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wrong() { printf '%s: %s\n' "${run[*]}" "$*"; bad=1; }

# train_in CAP: exit code of the run under a cap; its words in err
train_in() {
  local code=0
  runs=$((runs + 1))
  "$train" "${run[@]}" --steps 3 --quiet --cap "$1" 2>"$work/err" || code=$?
  return $code
}

fits() {
  train_in "$1" || { wrong "does not run in $1 bytes"; sed 's/^/  /' "$work/err"; }
}

# does_not_fit CAP: exit 4 and one line. Sets line's parts: buffer, phase, requested, available, cap.
does_not_fit() {
  local code=0
  local form='^zl-train: (rank [0-9]+: )?out of memory: buffer ([a-z0-9._]+) in ([a-z]+) \([a-z.]+\): '
  form+='requested ([0-9]+) bytes, ([0-9]+) available under the cap of ([0-9]+)$'
  train_in "$1" || code=$?
  [ $code = 4 ] || { wrong "exit $code under a cap of $1, expected 4"; return 1; }
  [[ $(cat "$work/err") =~ $form ]] || { wrong 'not one line like it should be:'; cat "$work/err"; return 1; }
  buffer=${BASH_REMATCH[2]} phase=${BASH_REMATCH[3]} requested=${BASH_REMATCH[4]} available=${BASH_REMATCH[5]}
  [ "${BASH_REMATCH[6]}" = "$1" ] || wrong "the cap is $1, not ${BASH_REMATCH[6]}"
  grep -qxF "$buffer" "$work/buffers" || wrong "$buffer is no buffer of the vocabulary"
}

# The run in its peak, and in a granule less: what would have been the peak is one granule too much, and
# it is asked for in the phase of the peak.
boundary() {
  local peak where
  run=("$@")
  peak=$("$zl" predict "${run[@]}" | sed -n 's/^Largest peak: .* (\([0-9,]*\) B) in \([a-z]*\).*/\1 \2/p')
  read -r peak where <<<"${peak//,/}"
  [ -n "$where" ] || { wrong 'no largest peak in the prediction'; return; }
  fits "$peak"
  does_not_fit $((peak - granule)) || return 0
  [ "$phase" = "$where" ] || wrong "refused in $phase, the predicted peak is in $where"
  [ $(((requested + granule - 1) / granule * granule - available)) = $granule ] ||
    wrong "$buffer: $requested bytes asked for and $available there are not one granule apart"
}

# The largest micro-batch for a capacity runs in it; one more does not.
largest() {
  local capacity=$1 best
  shift
  run=("$@")
  best=$("$zl" fit "${run[@]}" --capacity "$capacity" | sed -n 's/^Largest micro-batch: //p')
  [[ $best =~ ^[0-9]+$ && $best -gt 1 ]] || { wrong "no micro-batch above 1 for $capacity: '$best'"; return; }
  run=("$@" --micro-batch "$best")
  fits "$capacity"
  run=("$@" --micro-batch $((best + 1)))
  does_not_fit "$capacity" || true
}

"$zl" list buffers --format csv | sed 's/,.*//' >"$work/buffers"
for model in gpt2-tiny bert-tiny llama-tiny; do
  for ((ranks = 1; ranks <= most; ranks++)); do
    for stage in 0 3; do
      for recompute in none full; do
        boundary --model $model --seq 128 --micro-batch 2 --ranks $ranks --stage $stage --recompute $recompute
      done
    done
    largest 23000000 --model $model --seq 64 --ranks $ranks --stage $((ranks + 1)) --precision fp32
  done
done
boundary --model bert-tiny --seq 33 --micro-batch 3 --ranks 2 --stage 2 --accumulation 3 --reduce-slots 1 --dropout 0.1 \
  --attention eager --recompute selective --precision fp16-mixed
boundary --model gpt2-tiny --seq 33 --micro-batch 1 --ranks 2 --stage 1 --optimizer sgd --clip 0 --head-chunk 20
boundary --model llama-tiny --seq 33 --ranks 2 --stage 3 --no-shard-copy --window 0 --grad-dtype fp32 --precision bf16-mixed
echo "$runs runs at the boundary"
exit $bad
