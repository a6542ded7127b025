#!/usr/bin/env bash
# What the programs write, and what they read, is what docs/schema says. Examples that do not depend on the
# machine are what the programs print today.
# usage: schema.sh CHECKER SOURCE_DIR ZL ZL-TRAIN ZL-VALIDATE      ZL_BLESS=1 writes the examples again
set -euo pipefail
[ $# = 5 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
checker=$1 schema=$2/docs/schema validate=$2/validate zl=$3 train=$4 compare=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
cd "$work"
bad=0

# Every command of zl that was asked for JSON is noted, to be compared with those that have it.
printf '#!/bin/sh\ncase " $* " in *" json "*) echo "$1" >>"%s/asked" ;; esac\nexec "%s" "$@"\n' \
  "$work" "$(realpath "$3")" >bin/zl
chmod +x bin/zl
zl=$work/bin/zl
same=(run ledger terms timeline marks moments fit advice sweep replay list trace decode compare)  # the same everywhere
mine=(train verdict bench)        # with a date, a speed
read=(cases mutants checkpoint)   # by hand, or of a run that is not repeated here

check() { # check NAME FILE...
  "$checker" "$schema/$1.schema.json" "${@:2}" || bad=1
  echo "$1" >>checked
}

small=(--model gpt2-tiny --seq 16)
"$zl" predict "${small[@]}" --stage 3 --ranks 4 --save-run run.json --format json --out ledger.json
"$zl" explain "${small[@]}" --stage 3 --ranks 4 --phase backward --format json --out terms.json
"$zl" predict --model gpt2-tiny --seq 16 --timeline timeline.json >/dev/null
"$zl" predict --model gpt2-tiny --framework fsdp2 --ranks 4 --format json --out marks.json
"$zl" explain --model gpt2-tiny --framework deepspeed@0.14.5 --stage 3 --ranks 4 --format json --out moments.json
"$zl" fit "${small[@]}" --gpu v100-16g --headroom 5% --format json --out fit.json
"$zl" fit "${small[@]}" --stage 3 --find stage --capacity 15MiB --format json --out fit-stage.json
"$zl" fit "${small[@]}" --stage 3 --find ranks --capacity 2MiB --format json --out fit-none.json || [ $? = 1 ]
"$zl" fit --model gpt2-tiny --framework fsdp2 --find seq --capacity 8GiB --format json --out fit-framework.json
"$zl" sweep --model gpt2-tiny --stage 0,3 --ranks 1,4 --seq 16,2048 --capacity 8MiB --format json --out sweep.json
"$zl" advise --model gpt2-tiny --framework deepspeed@0.14.5 --stage 2 --ranks 4 --micro-batch 2 \
  --capacity 24MiB --format json --out advice.json || [ $? = 1 ]
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
RUNS=3 bash "$2/model/bench/cold_start.sh" "$3" --json >bench.json
if [ "${ZL_BLESS-}" = 1 ]; then
  for name in "${same[@]}" "${mine[@]}"; do cp "$name.json" "$schema/examples/"; done
fi

for name in "${same[@]}" "${mine[@]}"; do check "$name" "$name.json" "$schema/examples/$name.json"; done
for name in "${same[@]}"; do diff -u "$schema/examples/$name.json" "$name.json" || bad=1; done
for name in "${read[@]}"; do check "$name" "$schema/examples/$name.json"; done
check records records.json "$schema/examples/records.json"
check fit fit-stage.json fit-none.json fit-framework.json
check run "$case/run.json"
check ledger "$case/ledger.rank0.json"
check verdict matrix/validate.json
check cases "$validate"/cases/*.json
check mutants "$validate/mutants.json"

# Every shape that the programs can write: with and without what is optional.
for what in $("$zl" __complete 2 zl list ""); do
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
"$zl" sweep --model gpt2-tiny,mixtral-8x7b --framework native,fsdp2 --stage 2,3 --format json --out mixed.json
"$zl" sweep --model gpt2-tiny --kinds --format json --out one.json
check sweep mixed.json one.json
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
printf '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"reduce_bucket_size": "auto"}}' >auto.json
"$zl" predict --model bert-tiny --deepspeed-config auto.json --micro-batch 2 --format json --out auto.marks.json
"$zl" predict --model llama-tiny --framework single --dropout 0.1 --lora 4:q_proj --save-run lora.json >/dev/null
"$zl" explain --model bert-tiny --framework single --at end --visit cold --format json --out single.json
printf '\101\0\0\0\0\0\0\0%s\0\0\0\0' '{"h.0.weight":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}  ' >model.safetensors
"$zl" predict --model model.safetensors --framework single --activations 1MiB --save-run tensors.json >/dev/null
printf 'distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP}\n' >fsdp.yaml
"$zl" predict --model gpt2-tiny --accelerate-config fsdp.yaml --save-run fsdp.json >/dev/null 2>&1
[ "${ZL_BLESS-}" != 1 ] || cp foreign.json "$schema/examples/framework-run.json"
printf '{"model_type": "opt"}' >opt.json
printf '{"model_type": "llama", "dtype": "bfloat16", "quantization_config": {"load_in_4bit": true}}' >nf4.json
"$zl" predict --model opt.json --framework single --format json --out opt.marks.json 2>/dev/null || [ $? = 6 ]
"$zl" predict --model nf4.json --framework single --format json --out nf4.marks.json 2>/dev/null || [ $? = 6 ]
"$zl" explain --model opt.json --framework single --format json --out opt.moments.json 2>/dev/null || [ $? = 6 ]
check marks offload.json auto.marks.json opt.marks.json nf4.marks.json
check moments single.json opt.moments.json
"$zl" advise "${small[@]}" --ranks 2 --format json --out native.advice.json
"$zl" advise "${small[@]}" --capacity 64KiB --format json --out nothing.advice.json || [ $? = 1 ]
check advice native.advice.json nothing.advice.json
check framework-run foreign.json lora.json tensors.json fsdp.json "$schema/examples/framework-run.json"
"$zl" train "${small[@]}" --steps 1 --format json >stdout.json 2>/dev/null
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

# Nothing is left out: commands, schemas, and names of schemas in the sources.
while read -r command; do
  [ -z "$("$zl" __complete 2 zl "$command" --format)" ] || grep -qx "$command" asked ||
    { echo "no JSON of zl $command is checked here"; bad=1; }
done < <("$zl" __complete 1 zl '' | cut -f1)
for file in "$schema"/*.schema.json; do
  name=$(basename "$file" .schema.json)
  grep -Fq "($name.schema.json)" "$schema/README.md" || { echo "$name is missing in docs/schema/README.md"; bad=1; }
  [ "$name" != names ] || continue
  [ -f "$schema/examples/$name.json" ] || { echo "$name has no example"; bad=1; }
  grep -qx "$name" checked || grep -Eq "(check|committed|in)( .*)? $name( |;)" "$2/runtime/test/results_schema.sh" ||
    { echo "$name is checked nowhere"; bad=1; }
done
while read -r name; do
  [ -f "$schema/$name.schema.json" ] || { echo "zeroledger.$name/1 has no schema"; bad=1; }
done < <(find "$2/model" "$2/runtime" "$2/validate" -name test -prune -o \( -name '*.[ch]' -o -name '*.cu' \) \
  -exec grep -oh '"zeroledger\.[a-z-]*/1' {} + | sed 's/.*\.//; s,/1,,' | sort -u)
[ $bad = 0 ] || { echo 'docs/schema is out of date, or with ZL_BLESS=1 its examples are written again'; exit 1; }
