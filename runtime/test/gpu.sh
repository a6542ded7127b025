#!/usr/bin/env bash
# Tests on a machine with a GPU and, perhaps, nothing else: no network, no CMake packages. Builds with
# nvcc and the C compiler alone, and leaves JSON, logs and a tar of them in $OUT.
#
#     bash runtime/test/gpu.sh [conform] [option of conform]...    the kernels of both backends, compared
#     bash runtime/test/gpu.sh train [name of a run]...            training on the GPUs: gpu_train.sh
#
# OUT        where results go; build/gpu if not set
# ZR_ARCH    what the kernels are compiled for; 90
# CUDA_HOME, NCCL_ROOT    searched for headers and libraries before the usual places
# Exit: that of the test; 77 without a GPU. Where everything of docs/install.md is installed,
# `cmake --workflow --preset cuda` runs the same test, and all the others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
case ${1:-} in
  train) shift && exec bash runtime/test/gpu_train.sh "$@" ;;
  conform) shift ;;
esac
out=${OUT:-build/gpu}
arch=${ZR_ARCH:-90}
work=build/gpu-objects
mkdir -p "$out" "$work"
out=$(realpath "$out")

# shellcheck source=runtime/test/gpu_find.sh
. runtime/test/gpu_find.sh
includes=(-Iruntime -Imodel/include)
system=(-isystem "$(dirname "$cudart")" -isystem "$(dirname "$lt_header")")
libraries=("$(realpath "$lt_library")" "-Wl,-rpath,$(dirname "$(realpath "$lt_library")")")
with_nccl=0
if [ -n "$nccl_header" ] && [ -n "$nccl_library" ]; then
  with_nccl=1
  system+=(-isystem "$(dirname "$nccl_header")")
  libraries+=("$(realpath "$nccl_library")" "-Wl,-rpath,$(dirname "$(realpath "$nccl_library")")")
fi
# One command a line, as many at a time as there are processors.
warnings='-Wall -Wextra -Wshadow'
c_flags="-std=c17 -O2 -g -fPIC -ffp-contract=off $warnings ${includes[*]}"
cu_flags="-std=c++17 -O2 -lineinfo -gencode=arch=compute_$arch,code=sm_$arch -Werror all-warnings -Xptxas -v"
compile() {
  local source object
  for source in runtime/kernel/cuda/*.cu; do
    object=$work/cuda-$(basename "$source").o
    echo "$nvcc $cu_flags -Xcompiler=-fPIC ${includes[*]} ${system[*]} -c $source -o $object"
  done
  for source in runtime/kernel/host/*.c; do
    echo "$cc $c_flags -Iruntime/test/blas -c $source -o $work/host-$(basename "$source").o"
  done
  for source in runtime/test/conform*.c; do
    echo "$cc $c_flags -DZR_WITH_NCCL=$with_nccl ${system[*]} -c $source -o $work/test-$(basename "$source").o"
  done
}
begin=$SECONDS
rm -f "$work"/*.o
compile | xargs -P "$(nproc)" -I{} sh -c '{}' >"$out/compile.log" 2>&1 ||
  { grep -iE 'error|warning' "$out/compile.log" | head -n 20 >&2; fail "compilation failed; see $out/compile.log"; }

check_frames "$out/compile.log"

module=(-shared '-Wl,-Bsymbolic')
host=$work/libzr-kernels-host.so cuda=$work/libzr-kernels-cuda.so
"$cc" "${module[@]}" "$work"/host-*.o "$work"/test-conform_{blas,host,table}.c.o -o "$host" -lm
"$cc" "${module[@]}" "$work"/cuda-*.o "$work"/test-conform_{cuda,table}.c.o -o "$cuda" \
  "${libraries[@]}" "$cudart_static" -lstdc++ -lpthread -ldl -lrt
"$cc" "$work"/test-conform{,_attention,_check,_flat,_products,_refusals,_rows}.c.o -o "$work/conform" -lm -ldl
printf 'compiled in %d s\n' $((SECONDS - begin))

status=0
begin=$SECONDS
"$work/conform" --json "$out/conform.json" --commit "$commit" --driver "${driver:-unknown}" "$@" "$host" "$cuda" \
  2>"$out/conform.err" | tee "$out/conform.txt" || status=$?
cat "$out/conform.err" >&2
printf 'tested in %d s\n' $((SECONDS - begin))

# Out-of-bounds accesses and races in shared memory, on part of the cases. A tool that is absent, does
# not know the machine or needs too long proves nothing and fails nothing.
sanitize() { # sanitize TOOL OPERATION: prints clean, dirty or not run
  local log=$out/$1-$2.txt
  timeout 40 compute-sanitizer --tool "$1" "$work/conform" --dtype bf16 --only "$2" "$host" "$cuda" >"$log" 2>&1 || true
  case $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -n 1) in
    *'SUMMARY: 0 '*) grep -q ' checks, 0 failed' "$log" && echo clean || echo 'not run' ;;
    *SUMMARY*) echo dirty ;;
    *) echo 'not run' ;;
  esac
}
if [ $status -eq 0 ] && command -v compute-sanitizer >/dev/null; then
  begin=$SECONDS separator=''
  {
    printf '{"schema": "zeroledger.sanitizer/1", "commit": "%s", "runs": [' "$commit"
    for run in memcheck:{embed_backward,layernorm_backward,cross_entropy,flash,eager} racecheck:{layernorm_backward,flash,eager}; do
      result=$(sanitize "${run%%:*}" "${run#*:}")
      printf '%s\n  {"tool": "%s", "operation": "%s", "result": "%s"}' "$separator" "${run%%:*}" "${run#*:}" "$result"
      separator=,
    done
    printf '\n]}\n'
  } >"$out/sanitizer.json"
  cat "$out/sanitizer.json"
  printf 'sanitized in %d s\n' $((SECONDS - begin))
  ! grep -q dirty "$out/sanitizer.json" || status=1
fi

(cd "$out" && find . -maxdepth 1 -type f ! -name conform.tar -printf '%P\n' | sort | tar -cf conform.tar -T -)
echo "results: $out"
exit $status
