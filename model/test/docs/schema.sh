#!/usr/bin/env bash
# What the programs write, and what they read, is what docs/schema says. Examples that do not depend on the
# machine are what the programs print today.
# usage: schema.sh CHECKER SOURCE_DIR ZL ZL-TRAIN ZL-VALIDATE      ZL_BLESS=1 writes the examples again
set -euo pipefail
[ $# = 5 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
checker=$1 schema=$2/docs/schema validate=$2/validate zl=$3 train=$4 compare=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
bad=0
same=(run ledger terms marks moments fit replay list trace decode compare)  # the same everywhere
mine=(train verdict bench)        # with a date, a speed
read=(cases mutants checkpoint)   # by hand, or of a run that is not repeated here

check() { # check NAME FILE...
  "$checker" "$schema/$1.schema.json" "${@:2}" || bad=1
}

small=(--model gpt2-tiny --seq 16)
"$zl" predict "${small[@]}" --stage 3 --ranks 4 --save-run run.json --format json --out ledger.json
"$zl" explain "${small[@]}" --stage 3 --ranks 4 --phase backward --format json --out terms.json
"$zl" predict --model gpt2-tiny --framework fsdp2 --ranks 4 --format json --out marks.json
"$zl" explain --model gpt2-tiny --framework deepspeed@0.14.5 --stage 3 --ranks 4 --format json --out moments.json
"$zl" fit "${small[@]}" --gpu v100-16g --headroom 5% --format json --out fit.json
"$zl" replay "$2/model/test/cli/replay.trace.json" --format json --out replay.json
"$zl" decode 'Tried to allocate 786.00 MiB. GPU 0 has a total capacity of 6.00 GiB of which 3.00 MiB is free.' \
  --model gpt2 --framework fsdp2 --ranks 8 --micro-batch 4 --format json --out decode.json
"$zl" compare "$2/model/test/cli/compare_summary.log" --model gpt2 --framework fsdp2 --ranks 8 --micro-batch 4 \
  --format json --out compare.json
"$zl" list phases --format json --out list.json
recordings=$2/runtime/trace/test/recordings
"$zl" trace --read "$recordings/leak" --output trace.json >/dev/null || [ $? = 1 ]
"$compare" records "$validate/test/two-records.jsonl" --format json >records.json
export OPENBLAS_NUM_THREADS=1
"$compare" run --cases "$schema/examples/cases.json" --train "$train" --out matrix >/dev/null 2>&1
case=$(find matrix -mindepth 2 -maxdepth 2 -type d | sort | head -n 1)
cp "$case/train.json" train.json
cp "$case/verdict.json" verdict.json
RUNS=3 bash "$2/model/bench/cold_start.sh" "$zl" --json >bench.json
if [ "${ZL_BLESS-}" = 1 ]; then
  for name in "${same[@]}" "${mine[@]}"; do cp "$name.json" "$schema/examples/"; done
fi

for name in "${same[@]}" "${mine[@]}"; do check "$name" "$name.json" "$schema/examples/$name.json"; done
for name in "${same[@]}"; do diff -u "$schema/examples/$name.json" "$name.json" || bad=1; done
for name in "${read[@]}"; do check "$name" "$schema/examples/$name.json"; done
check run "$case/run.json"
check ledger "$case/ledger.rank0.json"
check verdict matrix/validate.json
check cases "$validate"/cases/*.json
check mutants "$validate/mutants.json"

# Every shape that the programs can write: with and without what is optional.
for what in models gpus frameworks buffers kinds phases visits; do
  "$zl" list $what --format json --out list-$what.json
  check list list-$what.json
done
"$zl" trace --read "$recordings/warm" --format json >warm.json
check trace warm.json
"$zl" doctor --format json --out doctor.json
check list doctor.json
"$zl" fit "${small[@]}" --capacity 1MiB --format json --out no.json || [ $? = 1 ]
"$zl" fit --model gpt2-tiny --framework ddp --ranks 2 --capacity 1GiB --format json --out ddp.json
check fit no.json ddp.json
sed 's/"segment_alloc", 67108864, 2097152/"segment_alloc", 67108864, 4194304/' \
  "$2/model/test/cli/replay.trace.json" >differs.trace.json
"$zl" replay differs.trace.json --format json --out differs.json || [ $? = 1 ]
"$zl" replay differs.trace.json --addresses ascending --format json --out ascending.json
check replay differs.json ascending.json
"$zl" compare "$2/model/test/cli/compare_wordings.log" --model gpt2 --framework deepspeed@0.14.5 --stage 2 --ranks 4 \
  --format json --out compared.json || [ $? = 1 ]
"$zl" decode 'Tried to allocate 2.00 MiB' --format json --out bare.json
check compare compared.json
check decode bare.json
for model in bert-large-pretraining llama-3-8b; do
  "$zl" predict --model $model --ranks 8 --stage 2 --accumulation 2 --dropout 0.1 --format json --out $model.json
  check ledger $model.json
  "$zl" explain --model $model --ranks 8 --stage 2 --accumulation 2 --format json --out $model.terms.json
  check terms $model.terms.json
done
printf '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true}}' >ds.json
"$zl" predict --model bert-tiny --deepspeed-config ds.json --ranks 2 --save-run foreign.json --format json --out offload.json
"$zl" predict --model llama-tiny --framework single --dropout 0.1 --lora 4:q_proj --save-run lora.json >/dev/null
"$zl" explain --model bert-tiny --framework single --at end --visit cold --format json --out single.json
[ "${ZL_BLESS-}" != 1 ] || cp foreign.json "$schema/examples/framework-run.json"
check marks offload.json
check moments single.json
check framework-run foreign.json lora.json "$schema/examples/framework-run.json"
"$train" "${small[@]}" --steps 1 --format json >stdout.json 2>/dev/null
check train stdout.json
"$train" "${small[@]}" --steps 2 --stage 3 --profile profile.json --format json >profiled.json 2>/dev/null
check train profiled.json
check profile profile.json "$schema/examples/profile.json"
"$train" "${small[@]}" --steps 1 --eval --save --checkpoint saved --format json >evaluated.json 2>/dev/null
check train evaluated.json
check checkpoint saved/step-*/manifest.json
check run saved/step-*/run.json
"$train" "${small[@]}" --steps 2 --resume saved --format json >resumed.json 2>/dev/null
check train resumed.json
[ $bad = 0 ] || { echo 'docs/schema is out of date, or with ZL_BLESS=1 its examples are written again'; exit 1; }
