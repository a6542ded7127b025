#!/usr/bin/env bash
# The conformance test on a machine with a GPU and, perhaps, nothing else: no network, no CMake
# packages. Builds the kernels of both backends with nvcc and the C compiler alone, compares them,
# and leaves JSON, logs and a tar of them in $OUT.
#
#     bash runtime/test/gpu.sh [option of conform]...
#
# OUT        where results go; build/gpu if not set
# ZR_ARCH    what the kernels are compiled for; 90
# CUDA_HOME, NCCL_ROOT    searched for headers and libraries before the usual places
# Exit: that of the test; 77 without a GPU. Where everything of docs/install.md is installed,
# `cmake --workflow --preset cuda` runs the same test, and all the others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${OUT:-build/gpu}
arch=${ZR_ARCH:-90}
work=build/gpu-objects
cc=${CC:-gcc}
mkdir -p "$out" "$work"
out=$(realpath "$out")

fail() {
  printf 'gpu.sh: %s\n' "$1" >&2
  exit 4
}

[ -n "${CUDA_HOME:-}" ] && PATH=$PATH:$CUDA_HOME/bin
PATH=$PATH:/usr/local/cuda/bin
nvcc=$(command -v nvcc) || fail 'no nvcc; put it on PATH or set CUDA_HOME'
command -v "$cc" >/dev/null || fail "no C compiler $cc; set CC"

# Where a file may lie: a folder of ours for machines without packages, the toolkit, the libraries
# that come with Python packages, the system.
toolkit=$(dirname "$(dirname "$(realpath "$nvcc")")")
wheels() {
  command -v python3 >/dev/null && python3 - 2>/dev/null <<'PY' || true
import nvidia
print("\n".join(nvidia.__path__))
PY
}
roots=$(printf '%s\n' "${NCCL_ROOT:-}" .carry "${CUDA_HOME:-}" "$toolkit" "$toolkit"/targets/*-linux; wheels
  printf '%s\n' /usr/include /usr/lib /usr/local/lib)
find_file() { # find_file NAME...: the first that exists
  local name root found
  for name in "$@"; do
    while IFS= read -r root; do
      [ -d "${root:-/nothing}" ] || continue
      found=$(find -L "$root" -maxdepth 5 -name "$name" -not -path '*/stubs/*' -print -quit 2>/dev/null) || true
      [ -z "$found" ] || { echo "$found"; return; }
    done <<<"$roots"
  done
  return 1
}

lt_header=$(find_file cublasLt.h) || fail 'no cublasLt.h; set CUDA_HOME'
lt_library=$(find_file libcublasLt.so libcublasLt.so.13 libcublasLt.so.12) || fail 'no libcublasLt.so; set CUDA_HOME'
cudart=$(find_file cuda_runtime_api.h) || fail 'no cuda_runtime_api.h; set CUDA_HOME'
cudart_static=$(find_file libcudart_static.a) || fail 'no libcudart_static.a; set CUDA_HOME'
nccl_header=$(find_file nccl.h || true)
nccl_library=$(find_file libnccl.so libnccl.so.2 || true)
includes=(-Iruntime -Imodel/include)
system=(-isystem "$(dirname "$cudart")" -isystem "$(dirname "$lt_header")")
libraries=("$(realpath "$lt_library")" "-Wl,-rpath,$(dirname "$(realpath "$lt_library")")")
with_nccl=0
if [ -n "$nccl_header" ] && [ -n "$nccl_library" ]; then
  with_nccl=1
  system+=(-isystem "$(dirname "$nccl_header")")
  libraries+=("$(realpath "$nccl_library")" "-Wl,-rpath,$(dirname "$(realpath "$nccl_library")")")
fi
printf 'nvcc %s\ncuBLASLt %s\nNCCL %s\n' "$nvcc" "$lt_library" "${nccl_library:-none}"

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

# Large stack frames would take device memory that no allocation shows.
if grep -E '[0-9]+ bytes stack frame' "$out/compile.log" | awk '$1 > 256 { found = 1 } END { exit !found }'; then
  fail "a kernel has more than 256 bytes of stack; see $out/compile.log"
fi

module=(-shared '-Wl,-Bsymbolic')
host=$work/libzr-kernels-host.so cuda=$work/libzr-kernels-cuda.so
"$cc" "${module[@]}" "$work"/host-*.o "$work"/test-conform_{blas,host,table}.c.o -o "$host" -lm
"$cc" "${module[@]}" "$work"/cuda-*.o "$work"/test-conform_{cuda,table}.c.o -o "$cuda" \
  "${libraries[@]}" "$cudart_static" -lstdc++ -lpthread -ldl -lrt
"$cc" "$work"/test-conform{,_attention,_check,_flat,_products,_refusals,_rows}.c.o -o "$work/conform" -lm -ldl
printf 'compiled in %d s\n' $((SECONDS - begin))

commit=unknown
if [ -f .gpu-commit ]; then
  commit=$(head -n 1 .gpu-commit)
elif git rev-parse -q --verify HEAD >/dev/null 2>&1; then
  commit=$(git rev-parse HEAD)$(git diff --quiet HEAD -- runtime model || echo -modified)
fi

driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1) || true

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
