#!/usr/bin/env bash
# Tokens per second and peak memory of zl-train on the GPUs of this machine, beside PyTorch on the same ones right
# before, where that is here. Part of gpu.sh.
#
#     bash runtime/test/gpu_speed.sh [name of a row, or its beginning]...
#
# A row is named MODEL-nGPUS-..., for example gpt2-xl-n1-z0-selective or gpt2-xl-n2-torch. Both train in mixed bf16 without
# clipping on random tokens; steps after the warm-up are timed, and the median counts.
#
# OUT        where results go; build/gpu if not set: speed.json (docs/schema/speed.schema.json), written anew after every
#            row, and what the programs said in logs/. validate/speed makes the table of docs/performance.md from it.
# ZR_LIMIT   seconds after which no other row begins; 300
# ZR_STEPS   steps of a row of zl-train; 12
# ZR_TORCH_SPEED    a folder with torch_speed.py and what it needs, to be measured too where its Hugging Face models are
# CUDA_HOME, NCCL_ROOT    searched for headers and libraries before the usual places
# Exit: 0 if every row that began has a speed; 1 if not; 4 if nothing could be built; 77 without a GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
only=("$@")
out=${OUT:-build/gpu}
limit=${ZR_LIMIT:-300}
mkdir -p "$out/logs"
out=$(realpath "$out")
status=0

# shellcheck source=runtime/test/gpu_build.sh
. runtime/test/gpu_build.sh

rows=$work/speed-rows
rm -rf "$rows"
mkdir -p "$rows"
# Ids of two bytes below 196: nearly all of GPT-2's vocabulary, and no text that repeats.
ids=$work/ids.u16
LC_ALL=C tr -d '\304-\377' </dev/urandom | head -c 4194304 >"$ids" || true

gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
with_torch=$(python3 -c 'import torch; assert torch.cuda.is_available(); print(torch.__version__)' 2>/dev/null) || with_torch=none

wanted() { # wanted NAME: whether the command line asks for it, and time is left
  local prefix
  if [ ${#only[@]} -gt 0 ]; then
    for prefix in "${only[@]}"; do
      [[ $1 != "$prefix"* ]] || return 0
    done
    return 1
  fi
  [ $SECONDS -lt "$limit" ] || { printf '%-44s late, not run\n' "$1"; return 1; }
}

write_all() { # speed.json from all rows so far
  local row separator=''
  {
    printf '{\n  "schema": "zeroledger.speed/1",\n  "commit": "%s",\n  "date": "%s",\n' "$commit" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
    printf '  "gpu": "%s",\n  "gpus": %d,\n  "driver": "%s",\n  "torch": "%s",\n  "rows": [' "$gpu" "$gpus" "${driver:-unknown}" "$with_torch"
    while IFS= read -r row; do
      printf '%s\n    %s' "$separator" "$row"
      separator=,
    done < <(cat "$rows"/*.json)
    printf '\n  ]\n}\n'
  } >"$out/speed.json.new"
  mv "$out/speed.json.new" "$out/speed.json"
}

number=0
add() { # add NAME JSON: a row; its members, without the braces
  number=$((number + 1))
  printf '{"name": "%s", %s}\n' "$1" "$2" >"$rows/$(printf %04d $number).json"
  printf '%-44s %s\n' "$1" "$(sed 's/.*"error": \(.*\)/failed: \1/; s/.*"step_seconds": \([^,]*\),.*"peak_allocated": \([0-9]*\).*/\1 s a step, \2 B/' <<<"$2")"
  write_all
}

field() { sed -n "s/^ *\"$2\": \([^{[]*[^,]\),\{0,1\}\$/\1/p" "$1" | tail -n 1; } # field FILE NAME: the last one
quoted() { tr '\n"\\' "   " <"$1" | tr -d '\000-\037' | sed 's/  */ /g; s/ $//' | head -c 200; }

# ours NAME RANKS MODEL BATCH SEQ STAGE OPTION...: a row of zl-train.
ours() {
  local name=$1 ranks=$2 model=$3 batch=$4 seq=$5 stage=$6 folder=$work/speed-run rc=0 what
  shift 6
  wanted "$name" || return 0
  [ "$ranks" -le "$gpus" ] || return 0
  rm -rf "$folder"
  mkdir -p "$folder"
  "$bin/zl" predict --backend cuda --model "$model" --ranks "$ranks" --stage "$stage" --micro-batch "$batch" --seq "$seq" \
    --precision bf16-mixed --clip 0 "$@" --save-run "$folder/run.json" >/dev/null
  timeout -k 5 120 "$bin/zl-train-cuda" --run "$folder/run.json" --steps "${ZR_STEPS:-12}" --data "$ids" --out "$folder" --format csv \
    >"$out/logs/$name.csv" 2>"$out/logs/$name.txt" || rc=$?
  what=$(printf '"program": "zeroledger", "model": "%s", "ranks": %d, "micro_batch": %d, "seq": %d, "stage": %d' \
    "$model" "$ranks" "$batch" "$seq" "$stage")
  what+=", \"recompute\": $(field "$folder/run.json" recompute), \"grad_dtype\": $(field "$folder/run.json" grad_dtype)"
  what+=", \"head_chunk\": $(field "$folder/run.json" head_chunk)"
  if [ $rc -ne 0 ]; then
    add "$name" "$what, \"error\": \"exit $rc: $(quoted "$out/logs/$name.txt")\""
    status=1
    return 0
  fi
  cp "$folder/train.json" "$out/logs/$name.train.json"
  what+=", \"operations_per_token\": $(field "$folder/train.json" operations_per_token)"
  what+=", \"warm_up_steps\": $(field "$folder/train.json" warm_up_steps), \"steps\": ${ZR_STEPS:-12}"
  what+=", \"step_seconds\": $(field "$folder/train.json" step_seconds)"
  what+=", \"peak_allocated\": $(field "$folder/train.json" peak_granted), \"device_used\": $(field "$folder/train.json" device_used)"
  add "$name" "$what, \"loss\": $(field "$folder/train.json" loss)"
}

# theirs NAME RANKS MODEL BATCH SEQ CASE...: rows of PyTorch, one process for all of them.
theirs() {
  local name=$1 ranks=$2 model=$3 batch=$4 seq=$5 rc=0 what row n=0
  shift 5
  wanted "$name" || return 0
  [ "$ranks" -le "$gpus" ] && [ "$with_torch" != none ] || return 0
  "$bin/zl" predict --backend cuda --model "$model" --ranks "$ranks" --micro-batch "$batch" --seq "$seq" --save-run "$work/torch-run.json" \
    >/dev/null
  what=$(printf '"program": "pytorch", "model": "%s", "ranks": %d, "micro_batch": %d, "seq": %d' "$model" "$ranks" "$batch" "$seq")
  PYTHONDONTWRITEBYTECODE=1 timeout -k 5 240 python3 -m torch.distributed.run --standalone --nproc_per_node="$ranks" \
    runtime/test/reference_torch/speed.py "$work/torch-run.json" "$@" >"$out/logs/$name.jsonl" 2>"$out/logs/$name.txt" || rc=$?
  while IFS= read -r row; do
    [[ $row == '{"mode"'* ]] || continue
    n=$((n + 1))
    row=${row#\{}
    add "$name-$(sed 's/"mode": "\([^"]*\)", "recompute": "\([^"]*\)", "compiled": \([^,]*\),.*/\1-\2-\3/; s/-false$/-eager/; s/-true$/-compiled/' <<<"$row")" \
      "$what, ${row%\}}"
  done <"$out/logs/$name.jsonl"
  [ $rc -eq 0 ] && [ $n -eq $# ] || { printf '%-44s exit %d: %s\n' "$name" $rc "$(quoted "$out/logs/$name.txt")"; status=1; }
}

# anchor NAME RANKS CASE: the same by torch_speed.py, if it and what it imports are here.
anchor() {
  local name=$1 ranks=$2 case=$3 row
  [ -f "${ZR_TORCH_SPEED:-}/torch_speed.py" ] && python3 -c 'import transformers' 2>/dev/null || return 0
  wanted "$name" || return 0
  [ "$ranks" -le "$gpus" ] || return 0
  rm -f "$work/anchor.jsonl"
  PYTHONDONTWRITEBYTECODE=1 timeout -k 5 240 python3 -m torch.distributed.run --standalone --nproc_per_node="$ranks" \
    "$ZR_TORCH_SPEED/torch_speed.py" "$work/anchor.jsonl" "$case" >"$out/logs/$name.txt" 2>&1 || true
  row=$(python3 - "$work/anchor.jsonl" "$case" "$ranks" <<'PY'
import json, sys
row = json.loads(open(sys.argv[1]).readline())
model, mode, batch, seq, ckpt, compiled = sys.argv[2].split(":")
out = {"program": "transformers", "model": {"llama-1b": "llama-3.2-1b"}.get(model, model), "ranks": int(sys.argv[3]),
       "micro_batch": int(batch), "seq": int(seq), "mode": {"fsdp2z2": "fsdp2-zero2"}.get(mode, mode),
       "recompute": "full" if ckpt == "1" else "none", "compiled": compiled == "1"}
if "error" in row:
    out["error"] = row["error"]
else:
    out |= {"operations_per_token": round(row["mfu"] * 989e12 / row["tok_s_gpu"]), "warm_up_steps": 4, "steps": 12, "step_seconds": row["step_s"],
            "peak_allocated": row["peak_allocated"], "peak_reserved": row["peak_reserved"], "loss": row["loss"]}
print(json.dumps(out)[1:-1])
PY
  ) || { printf '%-44s failed: %s\n' "$name" "$(quoted "$out/logs/$name.txt")"; status=1; return 0; }
  add "$name" "$row"
}

one_gpu() { # one_gpu MODEL BATCH SEQ
  local model=$1 stage
  shift
  theirs "$model-n1-torch" 1 "$model" "$@" ddp:none:0 ddp:full:0
  ours "$model-n1-z0-none" 1 "$model" "$@" 0
  ours "$model-n1-z0-full" 1 "$model" "$@" 0 --recompute full
  ours "$model-n1-z0-selective" 1 "$model" "$@" 0 --recompute selective
  ours "$model-n1-z0-selective-chunk" 1 "$model" "$@" 0 --recompute selective --head-chunk 2048
  ours "$model-n1-z0-none-fp32-gradients" 1 "$model" "$@" 0 --grad-dtype fp32
  for stage in 1 2 3; do
    ours "$model-n1-z$stage-none" 1 "$model" "$@" $stage
  done
}
two_gpus() { # two_gpus MODEL BATCH SEQ
  local model=$1 stage
  shift
  theirs "$model-n2-torch" 2 "$model" "$@" ddp:none:0 fsdp2-zero2:none:0 fsdp2:none:0 fsdp2:full:0
  for stage in 0 1 2 3; do
    ours "$model-n2-z$stage-none" 2 "$model" "$@" $stage
  done
  ours "$model-n2-z3-full" 2 "$model" "$@" 3 --recompute full
  ours "$model-n2-z3-selective-chunk" 2 "$model" "$@" 3 --recompute selective --head-chunk 2048
}
sizes=('gpt2-xl 8 1024' 'llama-3.2-1b 4 2048' 'gpt2 32 1024')
# shellcheck disable=SC2086
for size in "${sizes[@]}"; do
  one_gpu $size
done
# shellcheck disable=SC2086
[ "$gpus" -lt 2 ] || for size in "${sizes[@]}"; do
  two_gpus $size
done
# If time is left: what a compiler gains, and the models of Hugging Face.
# shellcheck disable=SC2086
for size in "${sizes[@]}"; do
  theirs "${size%% *}-n1-compiled" 1 $size ddp:none:1
done
anchor gpt2-xl-n1-transformers 1 gpt2-xl:ddp:8:1024:0:0
anchor llama-3.2-1b-n1-transformers 1 llama-1b:ddp:4:2048:0:0
anchor gpt2-n1-transformers 1 gpt2:ddp:32:1024:0:0
anchor gpt2-xl-n2-transformers 2 gpt2-xl:fsdp2:8:1024:0:0
anchor llama-3.2-1b-n2-transformers 2 llama-1b:fsdp2:4:2048:0:0
anchor gpt2-n2-transformers 2 gpt2:fsdp2:32:1024:0:0

[ -f "$out/speed.json" ] || { echo 'no row was measured' >&2; exit 1; }
printf '%d s in all; results: %s\n' $SECONDS "$out/speed.json"
exit $status
