#!/usr/bin/env bash
# Trains small and medium models on the GPUs of this machine and compares every measured byte with its
# prediction. Leaves every run.json, ledger and train.json in $OUT/runs, and prints a line a run into
# $OUT/results.txt. Part of gpu.sh; gpu_build.sh builds what it needs.
#
#     bash runtime/test/gpu_train.sh [name of a run, or its beginning]...
#
# OUT        where results go; build/gpu if not set
# ZR_ARCH    what the kernels are compiled for; 90
# ZR_LIMIT   seconds after which no other run begins; 300
# CUDA_HOME, NCCL_ROOT    searched for headers and libraries before the usual places
# Exit: 0 if every run did what it should; 1 if not; 4 if nothing could be built; 77 without a GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${OUT:-build/gpu}
limit=${ZR_LIMIT:-300}
mkdir -p "$out"
out=$(realpath "$out")
rm -rf "$out/runs"
mkdir "$out/runs"
: >"$out/results.txt"
status=0

# shellcheck source=runtime/test/gpu_build.sh
. runtime/test/gpu_build.sh

# --------------------------------------------------------------------------------------------- runs

data=$work/data.txt
cat docs/*.md model/include/zeroledger/*.h >"$data"
export OPENBLAS_NUM_THREADS=4

line() { # line NAME VERDICT WORDS: of the table
  printf '%-34s %-6s %s\n' "$1" "$2" "$3" | tee -a "$out/results.txt"
  [ "$2" != BAD ] || status=1
}

wanted() { # wanted NAME: whether the command line asks for it, and time is left
  local name=$1 prefix
  if [ ${#only[@]} -gt 0 ]; then
    for prefix in "${only[@]}"; do
      [[ $name != "$prefix"* ]] || return 0
    done
    return 1
  fi
  [ $SECONDS -lt "$limit" ] || { line "$name" 'late' 'not run'; return 1; }
}

cells() { sed -n '/"cells"/,$p' "$1"; }
losses() { sed -n '2,$p' "$1" | cut -d, -f2 | cut -c1-9 | tr '\n' ' '; }

# Every rank's ledger against its prediction; prints "exact" or the number of lines that differ.
compared() { # compared FOLDER RANK...
  local folder=$1 rank different=0 n
  shift
  for rank in "$@"; do
    "$bin/zl" predict --run "$folder/run.json" --rank "$rank" --format json --out "$folder/predicted.rank$rank.json" || return 1
    [ -f "$folder/ledger.rank$rank.json" ] || { echo "no ledger of rank $rank"; return 1; }
    n=$(diff <(cells "$folder/predicted.rank$rank.json") <(cells "$folder/ledger.rank$rank.json") | grep -c '^[<>]') || true
    different=$((different + n))
    [ "$n" -eq 0 ] || [ ! -x "$bin/zl-validate" ] ||
      "$bin/zl-validate" compare "$folder/predicted.rank$rank.json" "$folder/ledger.rank$rank.json" >"$folder/compare.rank$rank.txt" 2>&1 || true
  done
  [ "$different" -eq 0 ] && echo exact || { echo "$different lines differ"; return 1; }
}

# train NAME RANKS OPTION...: three steps, and the comparison. Options after -- are the trainer's own.
train() {
  local name=$1 ranks=$2 folder=$out/runs/$1 rc=0 begin options=() own=() verdict word who
  shift 2
  wanted "$name" || return 0
  [ "$ranks" -le "$gpus" ] || { line "$name" 'skip' "needs $ranks GPUs"; return 0; }
  while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
  [ $# -eq 0 ] || shift
  own=("$@")
  mkdir -p "$folder"
  "$bin/zl" predict --backend cuda --ranks "$ranks" "${options[@]}" --save-run "$folder/run.json" >"$folder/predicted.txt" 2>&1 ||
    { line "$name" BAD "$(tail -n 1 "$folder/predicted.txt")"; return 0; }
  begin=$SECONDS
  timeout -k 5 90 "$bin/zl-train-cuda" --run "$folder/run.json" --steps 3 --data "$data" --out "$folder" --format csv "${own[@]}" \
    >"$folder/steps.csv" 2>"$folder/words.txt" || rc=$?
  verdict=ok
  who=$(seq 0 $((ranks - 1)))
  if [ $rc -ne 0 ]; then
    verdict=BAD word="exit $rc: $(head -c 300 "$folder/words.txt" | tr '\n' ' ')"
  else
    # shellcheck disable=SC2086
    word=$(compared "$folder" $who) || verdict=BAD
    word+=", loss $(losses "$folder/steps.csv")"
    word+="$(head -c 200 "$folder/words.txt" | tr '\n' ' ')"
  fi
  line "$name" $verdict "$word($((SECONDS - begin)) s)"
}

# alone NAME RANKS RANK OPTION...: the same in loopback.
alone() {
  local name=$1 ranks=$2 rank=$3 folder=$out/runs/$1 rc=0 word verdict=ok
  shift 3
  wanted "$name" || return 0
  mkdir -p "$folder"
  "$bin/zl" predict --backend cuda --ranks "$ranks" "$@" --save-run "$folder/run.json" >"$folder/predicted.txt" 2>&1 || true
  timeout -k 5 90 "$bin/zl-train-cuda" --run "$folder/run.json" --loopback "$rank" --steps 3 --data "$data" --out "$folder" \
    --format csv >"$folder/steps.csv" 2>"$folder/words.txt" || rc=$?
  if [ $rc -ne 0 ]; then
    verdict=BAD word="exit $rc: $(head -c 300 "$folder/words.txt" | tr '\n' ' ')"
  else
    word=$(compared "$folder" "$rank") || verdict=BAD
  fi
  line "$name" $verdict "$word"
}

# refused NAME CODE WORDS OPTION...: ends with that code and says those words.
refused() {
  local name=$1 code=$2 words=$3 rc=0 text
  shift 3
  wanted "$name" || return 0
  text=$(timeout -k 5 60 "$bin/zl-train-cuda" --data "$data" --steps 3 --quiet "$@" 2>&1) || rc=$?
  if [ $rc -eq "$code" ] && [[ $text == *"$words"* ]]; then
    line "$name" ok "exit $rc: $text"
  else
    line "$name" BAD "exit $rc, expected $code and \"$words\": ${text:0:300}"
  fi
}

# The host's losses of the same run, to be looked at beside the GPU's.
reference() { # reference NAME OPTION...
  local name=$1 folder=$out/runs/$1 rc=0
  shift
  [ -x "$bin/zl-train" ] || return 0
  wanted "$name" || return 0
  mkdir -p "$folder"
  timeout -k 5 60 "$bin/zl-train" "$@" --steps 3 --data "$data" --out "$folder" --format csv >"$folder/steps.csv" 2>"$folder/words.txt" || rc=$?
  line "$name" "$([ $rc -eq 0 ] && echo ok || echo BAD)" "exit $rc, loss $(losses "$folder/steps.csv")"
}

# A rank that is killed ends the job within half a minute, with one line that names it.
killed() {
  local name=killed-rank folder=$out/runs/killed-rank rc=0 begin child launcher
  wanted "$name" || return 0
  [ "$gpus" -ge 2 ] || { line "$name" skip 'needs 2 GPUs'; return 0; }
  mkdir -p "$folder"
  "$bin/zl-train-cuda" --model gpt2-tiny --ranks 2 --stage 3 --seq 48 --steps 100000 --data "$data" --quiet 2>"$folder/words.txt" &
  launcher=$!
  sleep 12
  child=$(grep -l "^PPid:[[:space:]]*$launcher\$" /proc/[0-9]*/status 2>/dev/null | tail -n 1 | tr -cd 0-9) || true
  kill -9 "${child:-$launcher}" || true
  begin=$SECONDS
  for _ in $(seq 40); do
    kill -0 $launcher 2>/dev/null || break
    sleep 1
  done
  kill -9 $launcher 2>/dev/null || true
  wait $launcher || rc=$?
  if [ $rc -eq 4 ] && [ "$(wc -l <"$folder/words.txt")" -eq 1 ] && grep -q 'rank [01]: killed by signal 9' "$folder/words.txt"; then
    line "$name" ok "$(cat "$folder/words.txt") ($((SECONDS - begin)) s)"
  else
    line "$name" BAD "exit $rc after $((SECONDS - begin)) s: $(head -c 300 "$folder/words.txt" | tr '\n' ' ')"
  fi
}

# Two process groups, as on two machines with a GPU each: nothing in common but an address. The rest of the arguments
# are options; sets pids.
group() { # group FOLDER OPTION...
  local folder=$1 port=$((20000 + RANDOM % 10000)) rank
  shift
  pids=()
  for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 CUDA_VISIBLE_DEVICES=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=$port setsid \
      "$bin/zl-train-cuda" "$@" --data "$data" --out "$folder" --quiet 2>"$folder/words$rank.txt" &
    pids+=($!)
  done
}
ended() { # ended SECONDS: waits for the group, ends what is left; sets codes
  local begin=$SECONDS pid
  codes=()
  for pid in "${pids[@]}"; do
    while kill -0 "$pid" 2>/dev/null && [ $((SECONDS - begin)) -lt "$1" ]; do sleep 0.2; done
    kill -9 "$pid" 2>/dev/null || true
    local rc=0
    wait "$pid" || rc=$?
    codes+=("$rc")
  done
}
two_groups() {
  local name=two-groups folder=$out/runs/two-groups word begin
  local options=("${tiny[@]}" --stage 3 --backend cuda --ranks 2)
  wanted "$name" || return 0
  [ "$gpus" -ge 2 ] || { line "$name" skip 'needs 2 GPUs'; return 0; }
  mkdir -p "$folder"
  "$bin/zl" predict "${options[@]}" --save-run "$folder/run.json" >"$folder/predicted.txt" 2>&1 || true
  group "$folder" --run "$folder/run.json" --steps 3
  ended 90
  if [ "${codes[*]}" = '0 0' ] && word=$(compared "$folder" 0 1); then
    line "$name" ok "$word"
  else
    line "$name" BAD "exits ${codes[*]}: $(cat "$folder"/words?.txt | head -c 300 | tr '\n' ' ')"
  fi
  name=two-groups-killed folder=$out/runs/two-groups-killed
  mkdir -p "$folder"
  group "$folder" "${options[@]}" --steps 1000000
  sleep 15
  kill -9 "${pids[1]}" || true
  begin=$SECONDS
  ended 30
  word=$(cat "$folder/words0.txt")
  if [ "${codes[*]}" = '4 137' ] && [[ $word =~ rank\ 1:\ ended\ without\ a\ word\ in\ step\ [0-9]+, ]]; then
    line "$name" ok "$word ($((SECONDS - begin)) s)"
  else
    line "$name" BAD "exits ${codes[*]} after $((SECONDS - begin)) s: ${word:0:300}"
  fi
}

# A GPU that another process has filled.
busy() {
  local name=busy-gpu folder=$out/runs/busy-gpu pid
  wanted "$name" || return 0
  [ "$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits -i 0)" -gt 130000 ] ||
    { line "$name" skip 'needs a GPU of 140 GB'; return 0; }
  mkdir -p "$folder"
  "$bin/zl-train-cuda" --model llama-3-8b --seq 128 --head-chunk 64 --steps 100000 --data "$data" --quiet 2>"$folder/words.txt" &
  pid=$!
  for _ in $(seq 60); do
    kill -0 $pid 2>/dev/null || break
    [ "$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0)" -lt 115000 ] || break
    sleep 1
  done
  refused "$name" 4 'another process uses the GPU' --model gpt2-xl --seq 256 --micro-batch 8
  kill -9 $pid 2>/dev/null || true
  wait $pid || true
}

# The profile of a run, and what the trainer says of its speed.
profiled() {
  local name=profile folder=$out/runs/profile rc=0 word
  wanted "$name" || return 0
  mkdir -p "$folder"
  "$bin/zl-train-cuda" --model gpt2 --micro-batch 8 --seq 1024 --clip 0 --steps 8 --data "$data" --profile "$folder/profile.json" \
    --out "$folder" --format csv >"$folder/steps.csv" 2>"$folder/words.txt" || rc=$?
  word=$(tail -n 1 "$folder/words.txt")
  if [ $rc -eq 0 ] && [[ $word == *MFU* ]] && grep -q '"name": "attention", "pid": 0, "tid": 1' "$folder/profile.json" &&
    grep -q '^compute *step .*100.00%' "$folder/words.txt"; then
    line "$name" ok "$word"
  else
    line "$name" BAD "exit $rc: ${word:0:300}"
  fi
}

only=("$@")
small=(--micro-batch 2 --seq 48)
tiny=(--model gpt2-tiny "${small[@]}")
runs() {
  local stage precision model
  reference host-fp32 "${tiny[@]}" --precision fp32
  for precision in fp32 bf16-mixed; do
    for stage in 0 1 2 3; do
      train "gpt2-$precision-z$stage" 1 "${tiny[@]}" --precision $precision --stage $stage
    done
  done
  for precision in fp32 bf16-mixed; do
    for stage in 0 1 2 3; do
      train "gpt2-$precision-z$stage-n2" 2 "${tiny[@]}" --precision $precision --stage $stage
    done
  done
  train gpt2-small-z3-n2 2 --model gpt2 --micro-batch 4 --seq 512 --stage 3
  train gpt2-small-z0 1 --model gpt2 --micro-batch 4 --seq 512
  for model in llama-tiny bert-tiny; do
    for stage in 0 3; do
      train "$model-z$stage" 1 --model $model "${small[@]}" --stage $stage
    done
    train "$model-z3-n2" 2 --model $model "${small[@]}" --stage 3
  done
  train fp16-z2 1 "${tiny[@]}" --precision fp16-mixed --stage 2
  train bf16-pure-z3 1 "${tiny[@]}" --precision bf16 --stage 3
  train accumulate-recompute-poison-z3 1 "${tiny[@]}" --accumulation 3 --recompute full --stage 3 -- --poison
  train accumulate-recompute-z2-n2 2 "${tiny[@]}" --accumulation 3 --recompute full --stage 2
  train window-no-shard-z3-n2 2 "${tiny[@]}" --accumulation 2 --window 2 --no-shard-copy --stage 3
  train selective-z2 1 --model llama-tiny "${small[@]}" --recompute selective --stage 2
  train eager-dropout-z1 1 "${tiny[@]}" --attention eager --dropout 0.1 --stage 1
  train flash-dropout-poison-bert 1 --model bert-tiny "${small[@]}" --dropout 0.1 -- --poison
  train chunk-sgd-z3 1 "${tiny[@]}" --head-chunk 40 --optimizer sgd --stage 3
  train odd-n2 2 --model llama-tiny --micro-batch 3 --seq 37 --stage 3 --reduce-slots 1
  train eval-save-z3-n2 2 "${tiny[@]}" --stage 3 --eval --save
  train fp16-z3-n2 2 "${tiny[@]}" --precision fp16-mixed --stage 3
  alone loopback-1024-z3 1024 5 "${tiny[@]}" --stage 3
  alone loopback-8-z2 8 7 "${tiny[@]}" --stage 2 --accumulation 2
  refused cap 4 'out of memory: buffer' "${tiny[@]}" --cap 40MiB
  refused too-many-ranks 4 'need a GPU each' "${tiny[@]}" --ranks 64
  killed
  two_groups
  profiled
  busy
  train gpt2-small-fp32-z1-n2 2 --model gpt2 --micro-batch 2 --seq 256 --precision fp32 --stage 1
  train gpt2-medium-z3-n2 2 --model gpt2-medium --micro-batch 4 --seq 1024 --stage 3 --recompute full
  matrix matrix 1
  [ "$gpus" -lt 2 ] || matrix matrix2 2
  large
}
# Every family, stage and precision, without and with recompute and accumulation.
matrix() { # matrix NAME RANKS
  local model stage precision
  for model in gpt2 llama bert; do
    for stage in 0 1 2 3; do
      for precision in fp32 bf16-mixed fp16-mixed; do
        train "$1-$model-z$stage-$precision" "$2" --model $model-tiny "${small[@]}" --stage $stage --precision $precision
        train "$1-$model-z$stage-$precision-again" "$2" --model $model-tiny "${small[@]}" --stage $stage --precision $precision \
          --recompute full --accumulation 2 --clip 0
      done
    done
  done
}
# Models of real size, whole and as one rank of many.
large() {
  train large-gpt2-z2-eval-save 1 --model gpt2 --micro-batch 2 --seq 256 --stage 2 --eval --save
  train large-gpt2-medium-z1 1 --model gpt2-medium --micro-batch 2 --seq 512 --stage 1
  train large-gpt2-xl-z0 1 --model gpt2-xl --micro-batch 1 --seq 256 --stage 0 --recompute full
  train large-llama-3.2-1b-z3 1 --model llama-3.2-1b --micro-batch 1 --seq 256 --stage 3 --head-chunk 64
  train large-gpt2-xl-z3-n2 2 --model gpt2-xl --micro-batch 1 --seq 256 --stage 3
  train large-llama-3.2-1b-z2-n2 2 --model llama-3.2-1b --micro-batch 1 --seq 256 --stage 2 --head-chunk 64
  train large-bert-large-z2 1 --model bert-large-pretraining --micro-batch 2 --seq 128 --stage 2 --precision fp16-mixed
  alone large-gpt2-xl-8-z3 8 3 --model gpt2-xl --micro-batch 1 --seq 256 --stage 3
  alone large-llama-3.2-1b-64-z3 64 63 --model llama-3.2-1b --micro-batch 1 --seq 256 --stage 3 --recompute full
  alone large-llama-3-8b-64-z2 64 0 --model llama-3-8b --micro-batch 1 --seq 128 --stage 2 --recompute full --head-chunk 64
}
printf '%-34s %-6s %s\n' run verdict 'comparison with the prediction, losses'
runs

rm -rf "$out"/runs/*/checkpoint
printf '%d s in all; results: %s\n' "$SECONDS" "$out"
exit $status
