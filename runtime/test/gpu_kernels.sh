#!/usr/bin/env bash
# The time of every kernel of the cuda backend at the shapes of two models, beside what the GPU can do. Part of gpu.sh.
#
#     bash runtime/test/gpu_kernels.sh [beginning of a kernel's name]
#
# OUT        where results go, build/gpu if not set: kernels.txt, compile.log with the registers of each kernel
# ZR_ARCH    what the kernels are compiled for; 90
# Exit: 0 if all were measured; 4 if something fails; 77 without a GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${OUT:-build/gpu}
arch=${ZR_ARCH:-90}
work=build/gpu-kernels
mkdir -p "$out" "$work"
out=$(realpath "$out")

# shellcheck source=runtime/test/gpu_find.sh
. runtime/test/gpu_find.sh
flags=(-std=c++17 -O2 -lineinfo "-gencode=arch=compute_$arch,code=sm_$arch" -Werror all-warnings -Xptxas -v)
includes=(-Iruntime -Imodel/include -isystem "$(dirname "$cudart")" -isystem "$(dirname "$lt_header")")
rm -f "$work"/*.o
printf '%s\n' runtime/kernel/cuda/*.cu | xargs -P "$(nproc)" -I{} sh -c "$nvcc ${flags[*]@Q} ${includes[*]@Q} -c {} -o $work/\$(basename {}).o" \
  >"$out/compile.log" 2>&1 || fail "compilation failed; see $out/compile.log"
check_frames "$out/compile.log"
"$cc" -std=c17 -O2 -Wall -Wextra "${includes[@]}" -c runtime/bench/kernel_bench.c -o "$work/kernel_bench.c.o"
"$cc" "$work"/*.o -o "$work/kernel-bench" "$(realpath "$lt_library")" "-Wl,-rpath,$(dirname "$(realpath "$lt_library")")" \
  "$cudart_static" -lstdc++ -lm -lpthread -ldl -lrt
"$work/kernel-bench" "$@" | tee "$out/kernels.txt"
