# shellcheck shell=bash disable=SC2046,SC2154
# Sourced by gpu_trace.sh and gpu_nccl.sh after gpu_build.sh: builds the meter, libzltrace.so and zl-trace, and leak, the
# program with planted leaks, into $bin, if they are not there yet.
cupti_header=$(find_file cupti.h) || fail 'no cupti.h; install the CUPTI of the CUDA toolkit'
cupti_library=$(find_file libcupti.so libcupti.so.13 libcupti.so.12) || fail 'no libcupti.so; install the CUPTI of the CUDA toolkit'
driver_library=$(ldconfig -p | awk '/libcuda\.so\.1 .*x86-64|libcuda\.so\.1 .*AArch64/ { print $NF; exit }') || true
[ -n "$driver_library" ] || driver_library=$(find / -name 'libcuda.so.1' -not -path '/proc/*' -print -quit 2>/dev/null) || true
[ -n "$driver_library" ] || fail 'no libcuda.so.1: no NVIDIA driver'
trace=runtime/trace
[ -x "$bin/leak" ] || {
  # shellcheck disable=SC2086
  "$cc" $c_flags -fvisibility=hidden -shared -Iruntime $cuda_includes -isystem "$(dirname "$cupti_header")" \
    $trace/{cuda/inject,cuda/state,owner,recorder}.c -o "$bin/libzltrace.so" $(link "$cupti_library") "$driver_library" -lpthread -ldl
  # shellcheck disable=SC2086
  "$cc" $c_flags -Iruntime -DZR_TRACE_LIBRARY_FOLDER='"."' \
    $(find $trace -maxdepth 1 -name '*.c') "$work"/objects/base-*.o \
    -o "$bin/zl-trace" $(link "$cjson_library") -lpthread -ldl -lm
  # shellcheck disable=SC2086
  "$nvcc" -std=c++17 -O2 -gencode=arch=compute_"$arch",code=sm_"$arch" -Iruntime $trace/test/leak.cu -o "$bin/leak" -Xlinker "$driver_library"
} >"$out/compile-trace.log" 2>&1 || { cat "$out/compile-trace.log" >&2; fail 'the meter could not be built'; }
