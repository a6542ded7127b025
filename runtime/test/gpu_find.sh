# shellcheck shell=bash disable=SC2034
# Sourced by gpu.sh and the scripts of its modes, from the top of the repository: where compilers, headers and
# libraries are on a machine without CMake packages.
#
# find_file NAME... prints the first that exists: in a folder of ours (.carry), the toolkit, the
# libraries that come with Python packages, the system. CUDA_HOME and NCCL_ROOT come first.
cc=${CC:-gcc}

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
  exit 4
}

[ -n "${CUDA_HOME:-}" ] && PATH=$PATH:$CUDA_HOME/bin
PATH=$PATH:/usr/local/cuda/bin
nvcc=$(command -v nvcc) || fail 'no nvcc; put it on PATH or set CUDA_HOME'
command -v "$cc" >/dev/null || fail "no C compiler $cc; set CC"

toolkit=$(dirname "$(dirname "$(realpath "$nvcc")")")
wheels() {
  command -v python3 >/dev/null && python3 - 2>/dev/null <<'PY' || true
import nvidia
print("\n".join(nvidia.__path__))
PY
}
roots=$(printf '%s\n' "${NCCL_ROOT:-}" .carry "${CUDA_HOME:-}" "$toolkit" "$toolkit"/targets/*-linux; wheels
  printf '%s\n' /usr/include /usr/lib /usr/local/lib)
find_file() {
  local name root found
  for name in "$@"; do
    while IFS= read -r root; do
      [ -d "${root:-/nothing}" ] || continue
      found=$(find -L "$root" -maxdepth 5 -name "$name" -not -path '*/stubs/*' -print -quit 2>/dev/null) || true
      [ -z "$found" ] || { realpath -s "$found"; return; }
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
printf 'nvcc %s\ncuBLASLt %s\nNCCL %s\n' "$nvcc" "$lt_library" "${nccl_library:-none}"

commit=unknown
if [ -f .gpu-commit ]; then
  commit=$(head -n 1 .gpu-commit)
elif git rev-parse -q --verify HEAD >/dev/null 2>&1; then
  commit=$(git rev-parse HEAD)$(git diff --quiet HEAD -- runtime model || echo -modified)
fi
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1) || true

# Large stack frames would take device memory that no allocation shows.
check_frames() { # check_frames LOG: of nvcc -Xptxas -v
  if grep -E '[0-9]+ bytes stack frame' "$1" | awk '$1 > 256 { found = 1 } END { exit !found }'; then
    fail "a kernel has more than 256 bytes of stack; see $1"
  fi
}

# Compiles the kernels into $kernels, once for all scripts and calls that have the same sources; LOG gets nvcc's words.
kernels=build/gpu-cuda
compile_kernels() { # compile_kernels LOG
  local arch=${ZR_ARCH:-90} begin=$SECONDS flags identity
  flags="-std=c++17 -O2 -lineinfo -gencode=arch=compute_$arch,code=sm_$arch -Werror all-warnings -Xptxas -v -Xcompiler=-fPIC"
  flags+=" -Iruntime -Imodel/include -isystem $(dirname "$cudart") -isystem $(dirname "$lt_header")"
  identity=$({ echo "$nvcc $flags"; cat runtime/kernel/*.h runtime/kernel/cuda/* model/include/zeroledger/{vocab,error,export}*; } | sha256sum)
  if [ "$(cat $kernels/identity 2>/dev/null)" != "$identity" ]; then
    rm -rf $kernels
    mkdir -p $kernels
    for source in runtime/kernel/cuda/*.cu; do
      echo "$nvcc $flags -c $source -o $kernels/$(basename "$source").o"
    done | xargs -P "$(nproc)" -I{} sh -c '{}' >$kernels/compile.log 2>&1 ||
      { grep -iE 'error|warning' $kernels/compile.log | head -n 20 >&2; fail "compilation of the kernels failed; see $kernels/compile.log"; }
    echo "$identity" >$kernels/identity
    printf 'kernels compiled in %d s\n' $((SECONDS - begin))
  fi
  cp $kernels/compile.log "$1"
  check_frames "$1"
}
