#!/usr/bin/env bash
# Kernels compiled for AVX2 and kernels compiled for any processor train to the same bits: losses, norms and
# parameters. They differ only where the processor has AVX2; without it the test is skipped.
# usage: same_bits.sh ZL_TRAIN ZL_TRAIN_NARROW
set -euo pipefail
[ $# = 2 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
grep -qw avx2 /proc/cpuinfo || { echo 'skipped: the processor has no AVX2'; exit 77; }
nm "$1" | grep 'zr_host_sum\.avx2' >/dev/null || { echo "$1 has no kernel for AVX2"; exit 1; }
! nm "$2" | grep '\.avx2' >/dev/null || { echo "$2 has kernels for AVX2"; exit 1; }
export OPENBLAS_NUM_THREADS=1
status=0

outcome() { # outcome PROGRAM OPTION...
  "$1" "${@:2}" --ranks 1 --seq 96 --steps 3 --format json 2>/dev/null |
    grep -oE '"(loss|grad_norm|parameter_hash)": [^,]*'
}

check() { # check OPTION...
  local wide narrow
  wide=$(outcome "$wide_program" "$@")
  narrow=$(outcome "$narrow_program" "$@")
  [ "$(wc -l <<<"$wide")" -eq 7 ] || { echo "$*: no losses, norms or hash"; exit 1; }
  [ "$wide" = "$narrow" ] || { printf '%s:\nAVX2\n%s\nany processor\n%s\n' "$*" "$wide" "$narrow"; status=1; }
}

wide_program=$1 narrow_program=$2
for precision in fp32 bf16 bf16-mixed fp16-mixed; do
  check --model gpt2-tiny --precision $precision
  check --model llama-tiny --precision $precision --optimizer sgd
  check --model bert-tiny --precision $precision --attention eager --dropout 0.1
done
check --model gpt2-tiny --dropout 0.1 --recompute selective --micro-batch 3
exit $status
