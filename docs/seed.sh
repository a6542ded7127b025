#!/usr/bin/env bash
# Prints docs/seed.md: the question zeroledger was made for, answered. Every number is computed here.
# usage: seed.sh ZL ZL-VALIDATE SOURCE_DIR      exit 1 if a logged figure is missed by more than 0.03 GiB
set -euo pipefail
[ $# = 3 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
zl=$(realpath "$1") validate=$(realpath "$2") records=$(realpath "$3")/validate/records
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

common='"train_micro_batch_size_per_gpu": 64, "fp16": {"enabled": true}, "optimizer": {"type": "Adam"}'
printf '{%s}\n' "$common" >none.json
zero3() { printf '{%s, "zero_optimization": {"stage": 3%s}}\n' "$common" "$1"; }
zero3 '' >zero3.json
zero3 ', "reduce_bucket_size": 5e7' >small_bucket.json
zero3 ', "overlap_comm": false' >one_bucket.json

# ask COMMAND FILE VERSION RANKS [OPTION...]
ask() {
  "$zl" "$1" --model bing-bert-large --framework "deepspeed@$3" --deepspeed-config "$2" --ranks "$4" --seq 128 \
    --activations 1.42GiB "${@:5}"
}
ask predict none.json 0.5.9 1 --format csv >none.csv
ask predict zero3.json 0.5.9 8 --skipped-step --format csv >zero3.csv
ask predict zero3.json 0.5.9 8 --format csv >executed.csv
ask predict small_bucket.json 0.5.9 8 --skipped-step --format csv >small_bucket.csv
ask predict one_bucket.json 0.5.9 8 --skipped-step --format csv >one_bucket.csv
ask predict none.json 0.19.6 1 --format csv >none.new.csv
ask predict zero3.json 0.19.6 8 --format csv >zero3.new.csv

# mark FILE AT COLUMN: GiB at a mark of the last step
mark() {
  awk -F, -v at="$2" -v column="$3" '
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) c = i }
    $2 == at { bytes = $c }
    END { printf "%.3f", bytes / 1073741824 }' "$1"
}

missed=0
# row LABEL LOGGED FILE AT COLUMN: one logged figure, the prediction and what is between
row() {
  local got
  got=$(mark "$3" "$4" "$5")
  awk -v label="$1" -v logged="$2" -v got="$got" 'BEGIN {
    printf "| %s | %.2f | %.3f | %+.3f |\n", label, logged, got, logged - got
    exit (logged - got > 0.03 || got - logged > 0.03)
  }' || missed=1
}

terms() { # terms FILE VERSION RANKS PHASE [OPTION...]: what is alive at the peak, as a table
  echo "| term | GiB | formula | numbers |"
  echo "|---|---:|---|---|"
  ask explain "$1" "$2" "$3" --phase "$4" --format json "${@:5}" | awk -F': ' '
    /"name":/ { name = $2; gsub(/[",]/, "", name); sub(/ $/, "", name) }
    /"bytes":/ { bytes = $2 + 0 }
    /"formula":/ { formula = $2; gsub(/[",]/, "", formula) }
    /"numbers":/ { numbers = $2; gsub(/"/, "", numbers)
      if (bytes >= 1073742) printf "| %s | %.3f | %s | %s |\n", name, bytes / 1073741824, formula, numbers }'
}

# measured ID AT QUANTITY: GiB of rank 0 in the last step
measured() {
  awk -F': ' -v id="\"$1\"" -v at="\"$2\"" -v quantity="\"$3\"" '
    /"id":/ { here = index($2, id) > 0 }
    /"rank":/ { rank = $2 + 0 }
    /"at":/ { mark = $2; sub(/,$/, "", mark) }
    /"quantity":/ { what = $2; sub(/,$/, "", what) }
    /"measured":/ && here && rank == 0 && mark == at && what == quantity { bytes = $2 + 0 }
    END { printf "%.3f", bytes / 1073741824 }' judged.json
}
predicted() {
  awk -F': ' -v id="\"$1\"" -v at="\"$2\"" -v quantity="\"$3\"" '
    /"id":/ { here = index($2, id) > 0 }
    /"rank":/ { rank = $2 + 0 }
    /"at":/ { mark = $2; sub(/,$/, "", mark) }
    /"quantity":/ { what = $2; sub(/,$/, "", what) }
    /"predicted":/ && here && rank == 0 && mark == at && what == quantity { bytes = $2 + 0 }
    END { printf "%.3f", bytes / 1073741824 }' judged.json
}
"$validate" records "$records/deepspeed-h200.jsonl" --format json >judged.json

cat <<'END'
# Why 1.5 times and not 8

Printed by `docs/seed.sh`; `ctest -R docs.seed` prints it again.

Somebody trains BERT-large (336 M parameters, fp16, Adam; the code of DeepSpeedExamples' `bing_bert`) with DeepSpeed 0.5.9,
once on one GPU without ZeRO, once with ZeRO-3 on 8 GPUs, and logs the memory of one GPU. MA is what is allocated, Max the
largest amount since the line before; GiB.

| | 1 GPU: MA / Max | ZeRO-3, 8 GPUs: MA / Max | smaller |
|---|---|---|---|
| before forward | 4.38 / 7.50 | 0.55 / 0.64 | 8x / 12x |
| before backward | 5.80 / 5.80 | 1.97 / 1.97 | 3x / 3x |
| before optimizer | 5.01 / 5.86 | 0.63 / 4.04 | 8x / 1.5x |

Two things are part of the question, not of the answer: forward leaves 1.42 GiB of activations (5.80 - 4.38), and the steps
of the second column were skipped, because the loss scale still overflowed. Then

```
zl explain --model bing-bert-large --framework deepspeed@0.5.9 --deepspeed-config ds_config.json \
   --ranks 8 --activations 1.42GiB --skipped-step
```

answers. All twelve figures, computed from what that release allocates and frees:

| figure | logged | predicted | difference |
|---|---:|---:|---:|
END
row '1 GPU, before forward, MA' 4.38 none.csv before_forward allocated
row '1 GPU, before forward, Max' 7.50 none.csv after_step peak_allocated
row '1 GPU, before backward, MA' 5.80 none.csv after_forward allocated
row '1 GPU, before backward, Max' 5.80 none.csv after_forward peak_allocated
row '1 GPU, before optimizer, MA' 5.01 none.csv after_backward allocated
row '1 GPU, before optimizer, Max' 5.86 none.csv after_backward peak_allocated
row 'ZeRO-3, before forward, MA' 0.55 zero3.csv before_forward allocated
row 'ZeRO-3, before forward, Max' 0.64 zero3.csv after_step peak_allocated
row 'ZeRO-3, before backward, MA' 1.97 zero3.csv after_forward allocated
row 'ZeRO-3, before backward, Max' 1.97 zero3.csv after_forward peak_allocated
row 'ZeRO-3, before optimizer, MA' 0.63 zero3.csv after_backward allocated
row 'ZeRO-3, before optimizer, Max' 4.04 zero3.csv after_backward peak_allocated

printf '\n![Largest peaks of the two runs, and of the second with smaller buckets and with one](seed.svg)\n'
printf '\n## Where 7.50 GiB come from\n\nThe step of the 1-GPU run, at its peak: 24 bytes per parameter. The fp32 gradient exists twice, as a list and as its\nconcatenation, while the fp16 gradients are still there.\n\n'
terms none.json 0.5.9 1 step
printf '\n## Where 4.04 GiB come from\n\nThe backward of the ZeRO-3 run, at its peak, where the encoder begins. States are an eighth. What is not: two buffers of\n`reduce_bucket_size` = 5e8 elements each, the activations, and parameters that are gathered ahead.\n\n'
terms zero3.json 0.5.9 8 backward --skipped-step
cat <<END

## What helps

| ds_config.json | largest peak of the ZeRO-3 run, GiB |
|---|---:|
| as it is | $(mark zero3.csv after_backward peak_requested) |
| \`reduce_bucket_size\` 5e7 | $(mark small_bucket.csv after_backward peak_requested) |
| \`overlap_comm\` false: one buffer, not two | $(mark one_bucket.csv after_backward peak_requested) |

A step that is not skipped peaks at $(mark executed.csv after_step peak_allocated) GiB: the fp32 gradient of this rank's part comes on top.

## The same question today

DeepSpeed 0.19.6, same model, activations and files, predicted only for this model:

| | 1 GPU: MA / Max | ZeRO-3, 8 GPUs: MA / Max |
|---|---|---|
| before forward | $(mark none.new.csv before_forward allocated) / $(mark none.new.csv after_step peak_allocated) | $(mark zero3.new.csv before_forward allocated) / $(mark zero3.new.csv after_step peak_allocated) |
| before backward | $(mark none.new.csv after_forward allocated) / $(mark none.new.csv after_forward peak_allocated) | $(mark zero3.new.csv after_forward allocated) / $(mark zero3.new.csv after_forward peak_allocated) |
| before optimizer | $(mark none.new.csv after_backward allocated) / $(mark none.new.csv after_backward peak_allocated) | $(mark zero3.new.csv after_backward allocated) / $(mark zero3.new.csv after_backward peak_allocated) |

Since 0.6.0 the reduce bucket and the gradients of the part live as long as the process, so stage 3 holds more before
forward; and a model of fewer than 5e8 parameters stays gathered from forward to backward:

END
terms zero3.json 0.19.6 8 backward
cat <<'END'

Measured on an H200 with the BertForPreTraining of transformers (post-LN, vocabulary 30,522, micro-batch 8, 128 tokens), 1 GPU
without ZeRO and rank 0 of 8 simulated ranks with ZeRO-3; these two are predicted with activations modelled, not given. GiB
requested, measured / predicted:

| | 1 GPU | its peak | ZeRO-3 | its peak |
|---|---|---|---|---|
END
one=ds0.19.6_bert-large-pretraining_z0_w1_fp16_b8_s128_eager
eight=ds0.19.6_bert-large-pretraining_z3_fake8_fp16_b8_s128_eager
grep -q "\"$one" judged.json && grep -q "\"$eight" judged.json || { echo 'the records are not there' >&2; exit 1; }
for at in before_forward after_forward after_backward after_step; do
  printf '| %s |' "${at/_/ }"
  for id in "$one" "$eight"; do
    for quantity in requested peak_requested; do
      printf ' %s / %s |' "$(measured "$id" $at $quantity)" "$(predicted "$id" $at $quantity)"
    done
  done
  printf '\n'
done
[ $missed = 0 ] || { echo 'a logged figure is missed by more than 0.03 GiB' >&2; exit 1; }
