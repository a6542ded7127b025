#!/usr/bin/env bash
# Trains small and medium models on the GPUs of this machine and compares every measured byte with its
# prediction. Builds zl, zl-train-cuda and, where OpenBLAS and MPI are, zl-train, with the compilers
# alone; leaves every run.json, ledger and train.json in one tar in $OUT, and prints a line a run.
#
#     bash runtime/test/gpu_train.sh [name of a run, or its beginning]...
#
# OUT        where results go; build/gpu if not set
# ZR_ARCH    what the kernels are compiled for; 90
# ZR_LIMIT   seconds after which no other run begins; 300
# CUDA_HOME, NCCL_ROOT    searched for headers and libraries before the usual places
# Exit: 0 if every run did what it should; 1 if not; 4 if nothing could be built; 77 without a GPU.
#
# cJSON, and for the comparison of zl-validate GSL, come from the system or from .carry, which git
# ignores. Filled on a Debian machine that has libcjson-dev and libgsl-dev:
#     lib=/usr/lib/x86_64-linux-gnu; mkdir -p .carry/include .carry/lib
#     cp -rL /usr/include/cjson /usr/include/gsl .carry/include
#     cp -L $lib/libcjson.so.1 $lib/libgsl.so.27 $lib/libgslcblas.so.0 .carry/lib
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${OUT:-build/gpu}
arch=${ZR_ARCH:-90}
limit=${ZR_LIMIT:-300}
work=build/gpu-train
bin=$work/bin
mkdir -p "$out" "$bin" "$work/objects" "$work/include/zeroledger"
out=$(realpath "$out")
rm -rf "$out/runs"
mkdir "$out/runs"
: >"$out/results.txt"
status=0

# shellcheck source=runtime/test/gpu_find.sh
. runtime/test/gpu_find.sh

cjson_header=$(find_file cJSON.h) || fail 'no cjson/cJSON.h; install libcjson-dev, or fill .carry as this script says'
cjson_library=$(find_file libcjson.so libcjson.so.1) || fail 'no libcjson.so; install libcjson-dev, or fill .carry as this script says'
gsl_header=$(find_file gsl_errno.h || true)
gsl_library=$(find_file libgsl.so libgsl.so.27 libgsl.so.28 || true)
gsl_cblas=$(find_file libgslcblas.so libgslcblas.so.0 || true)
openblas_header=$(find_file cblas-openblas.h cblas.h || true)
openblas_library=$(find_file libopenblas.so libopenblas.so.0 || true)
mpicc=$(command -v mpicc || true)

isystem() { # isystem FOLDER...: that of a header; compilers know the system's own
  local folder
  for folder in "$@"; do
    [ "$folder" = /usr/include ] || printf -- '-isystem %s ' "$folder"
  done
}
link() { # link LIBRARY...: the library, and where to find it when the program starts
  local library
  for library in "$@"; do
    printf '%s -Wl,-rpath,%s ' "$(realpath "$library")" "$(dirname "$(realpath -s "$library")")"
  done
}

# ---------------------------------------------------------------------------------------------- build

version=$(sed -n 's/^project(zeroledger VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
printf '#define ZL_VERSION "%s"\n' "$version" >"$work/include/zeroledger/version.h"
{ # as model/base/embed_models.cmake
  echo '#include "model_config.h"'
  echo 'const zl_preset zl_presets[] = {'
  names=$(sed -n '/^set(NAMES/,/)/p' model/base/CMakeLists.txt | sed 's/set(NAMES//; s/)//')
  for name in $names; do
    printf '    {"%s", "%s"},\n' "$name" "$(sed -z 's/\n *$//; s/\n */ /g; s/\\/\\\\/g; s/"/\\"/g' "model/data/models/$name.json")"
  done
  # shellcheck disable=SC2086
  printf '};\nconst size_t zl_preset_count = %d;\n' "$(wc -w <<<$names)"
} >"$work/presets.c"

with_nccl=0
[ -n "$nccl_header" ] && [ -n "$nccl_library" ] && with_nccl=1
includes="-Imodel/include -I$work/include $(isystem "$(dirname "$(dirname "$cjson_header")")")"
cuda_includes=$(isystem "$(dirname "$cudart")" "$(dirname "$lt_header")")
[ $with_nccl = 0 ] || cuda_includes+=$(isystem "$(dirname "$nccl_header")")
c_flags="-std=c17 -O2 -g -fPIC -Wall -Wextra -Wshadow $includes"
printf '#define %s "%s"\n' ZR_COMPILER "GNU $("$cc" -dumpfullversion)" ZV_DATA_INSTALLED . ZV_DATA_SOURCE "$PWD/validate" \
  >"$work/include/words.h"
runtime_flags="-Iruntime -include $work/include/words.h"
cu_flags="-std=c++17 -O2 -lineinfo -gencode=arch=compute_$arch,code=sm_$arch -Werror all-warnings -Xptxas -v"

with_host=0
[ -n "$openblas_header" ] && [ -n "$openblas_library" ] && with_host=1
with_validate=0
[ -n "$gsl_header" ] && [ -n "$gsl_library" ] && [ -n "$gsl_cblas" ] && with_validate=1

# Sources of a trainer that are none of a backend; then those of one.
common() {
  find runtime/{comm,device,fault,net,optim,track,train,zero} -name '*.c' -not -path '*/host/*' -not -path '*/cuda/*' \
    -not -path runtime/fault/on.c -not -path runtime/track/witness.c -not -path 'runtime/comm/comm_[mn]*' \
    -not -path 'runtime/train/launch.c' -not -path 'runtime/train/mpirun.c'
}
cuda_sources() {
  find runtime/{device,net,track,train}/cuda -name '*.c'
  echo runtime/comm/cuda/lane.c
  if [ $with_nccl = 1 ]; then
    printf 'runtime/comm/cuda/%s.c\n' library meeting nccl
  else
    echo runtime/comm/cuda/alone.c
  fi
}
host_sources() {
  find runtime/{comm,device,kernel,net,track}/host -name '*.c'
  printf 'runtime/%s.c\n' track/witness train/launch train/mpirun comm/comm_"$([ -n "$mpicc" ] && echo mpi || echo none)"
}

compile() { # one command a line
  local source
  object() { echo "$work/objects/$1-$(tr / _ <<<"$2").o"; }
  for source in runtime/kernel/cuda/*.cu; do
    echo "$nvcc $cu_flags -Xcompiler=-fPIC -Iruntime -Imodel/include $cuda_includes -c $source -o $(object cuda "$source")"
  done
  for source in $(common); do
    echo "$cc $c_flags $runtime_flags -c $source -o $(object common "$source")"
  done
  for source in $(cuda_sources); do
    echo "$cc $c_flags $runtime_flags $cuda_includes -c $source -o $(object cuda "$source")"
  done
  for source in model/base/*.c "$work/presets.c"; do
    echo "$cc $c_flags -Imodel/base -c $source -o $(object base "$source")"
  done
  for source in model/{family,profile,predict,solve}/*.c; do
    echo "$cc $c_flags -Imodel -c $source -o $(object model "$source")"
  done
  for source in model/cli/*.c; do
    echo "$cc $c_flags -Imodel -D_GNU_SOURCE -c $source -o $(object zl "$source")"
  done
  [ $with_host = 0 ] || for source in $(host_sources); do
    echo "${mpicc:-$cc} $c_flags -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math $runtime_flags $(isystem "$(dirname "$openblas_header")") -c $source -o $(object host "$source")"
  done
  [ $with_validate = 0 ] || for source in validate/{cli,compare,drive,fit,report,svg}/*.c; do
    echo "$cc $c_flags -include $work/include/words.h -Ivalidate -D_GNU_SOURCE $(isystem "$(dirname "$(dirname "$gsl_header")")") -c $source -o $(object validate "$source")"
  done
}

begin=$SECONDS
rm -f "$work"/objects/*.o "$bin"/*
compile | xargs -P "$(nproc)" -I{} sh -c '{}' >"$out/compile.log" 2>&1 ||
  { grep -iE 'error|warning' "$out/compile.log" | head -n 20 >&2; fail "compilation failed; see $out/compile.log"; }
check_frames "$out/compile.log"

o=$work/objects
cjson=$(link "$cjson_library")
nccl_path=
[ $with_nccl = 0 ] || nccl_path=-Wl,-rpath,$(dirname "$(realpath "$nccl_library")")
# shellcheck disable=SC2086
{
  "$cc" "$o"/{zl,model,base}-*.o -o "$bin/zl" $cjson -lm
  "$cc" "$o"/{common,cuda,base}-*.o -o "$bin/zl-train-cuda" $cjson $(link "$lt_library") $nccl_path \
    "$cudart_static" -lstdc++ -lpthread -ldl -lrt -lm
  [ $with_host = 0 ] ||
    "${mpicc:-$cc}" "$o"/{common,host,base}-*.o -o "$bin/zl-train" $cjson $(link "$openblas_library") -lm
  [ $with_validate = 0 ] ||
    "$cc" "$o"/{validate,model,base}-*.o -o "$bin/zl-validate" $cjson $(link "$gsl_library" "$gsl_cblas") -lm
}
printf 'compiled in %d s: %s\n' $((SECONDS - begin)) "$(ls "$bin" | tr '\n' ' ')"

gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | wc -l) || true
if [ "${gpus:-0}" -eq 0 ]; then
  echo 'no GPU: nothing is trained'
  exit 77
fi

# --------------------------------------------------------------------------------------------- runs

data=$work/data.txt
cat docs/*.md model/include/zeroledger/*.h >"$data"
export OPENBLAS_NUM_THREADS=4 NCCL_NVLS_ENABLE=0

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
  train gpt2-small-fp32-z1-n2 2 --model gpt2 --micro-batch 2 --seq 256 --precision fp32 --stage 1
  train gpt2-medium-z3-n2 2 --model gpt2-medium --micro-batch 4 --seq 1024 --stage 3 --recompute full
  matrix
  large
}
# Every family, stage and precision, without and with recompute and accumulation.
matrix() {
  local model stage precision
  for model in gpt2 llama bert; do
    for stage in 0 1 2 3; do
      for precision in fp32 bf16-mixed fp16-mixed; do
        train "matrix-$model-z$stage-$precision" 1 --model $model-tiny "${small[@]}" --stage $stage --precision $precision
        train "matrix-$model-z$stage-$precision-again" 1 --model $model-tiny "${small[@]}" --stage $stage --precision $precision \
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
  train large-bert-large-z2 1 --model bert-large-pretraining --micro-batch 2 --seq 128 --stage 2 --precision fp16-mixed
  alone large-gpt2-xl-8-z3 8 3 --model gpt2-xl --micro-batch 1 --seq 256 --stage 3
  alone large-llama-3.2-1b-64-z3 64 63 --model llama-3.2-1b --micro-batch 1 --seq 256 --stage 3 --recompute full
  alone large-llama-3-8b-64-z2 64 0 --model llama-3-8b --micro-batch 1 --seq 128 --stage 2 --recompute full --head-chunk 64
}
printf '%-34s %-6s %s\n' run verdict 'comparison with the prediction, losses'
runs

{
  printf 'commit %s\ndriver %s\nnvcc %s\ncompiler %s\ncuBLASLt %s\nNCCL %s\n' "$commit" "${driver:-unknown}" \
    "$("$nvcc" --version | sed -n 's/.*release //p')" "$("$cc" -dumpfullversion)" "$(basename "$lt_library")" \
    "$(basename "${nccl_library:-none}")"
  nvidia-smi --query-gpu=index,name,memory.total,driver_version --format=csv,noheader
} >"$out/provenance.txt" 2>&1 || true
rm -rf "$out"/runs/*/checkpoint
tar -C "$out" -cf "$out/train.tar" results.txt provenance.txt runs
rm -rf "$out/runs"
printf '%d s in all; results: %s\n' "$SECONDS" "$out/train.tar"
exit $status
