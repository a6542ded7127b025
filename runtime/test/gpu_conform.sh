#!/usr/bin/env bash
# The kernels of both backends, compared, on a machine with a GPU and no CMake packages; then the sanitizers. Part of gpu.sh.
#
#     bash runtime/test/gpu_conform.sh [option of conform]...
#
# OUT        where results go; build/gpu if not set
# ZR_ARCH    what the kernels are compiled for; 90
# ZR_SANITIZE    seconds for all runs of the sanitizers together, a minute each at most; 240, and 0 runs none
# Exit: that of the test; 77 without a GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${OUT:-build/gpu}
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
compile() {
  local source
  for source in runtime/kernel/host/*.c; do
    echo "$cc $c_flags -Iruntime/test/blas -c $source -o $work/host-$(basename "$source").o"
  done
  for source in runtime/test/conform*.c; do
    echo "$cc $c_flags -DZR_WITH_NCCL=$with_nccl ${system[*]} -c $source -o $work/test-$(basename "$source").o"
  done
}
begin=$SECONDS
rm -f "$work"/*.o
compile_kernels "$out/compile-kernels.log"
compile | xargs -P "$(nproc)" -I{} sh -c '{}' >"$out/compile.log" 2>&1 ||
  { grep -iE 'error|warning' "$out/compile.log" | head -n 20 >&2; fail "compilation failed; see $out/compile.log"; }

module=(-shared '-Wl,-Bsymbolic')
host=$work/libzr-kernels-host.so cuda=$work/libzr-kernels-cuda.so
"$cc" "${module[@]}" "$work"/host-*.o "$work"/test-conform_{blas,host,table}.c.o -o "$host" -lm
"$cc" "${module[@]}" $kernels/*.o "$work"/test-conform_{cuda,table}.c.o -o "$cuda" \
  "${libraries[@]}" "$cudart_static" -lstdc++ -lpthread -ldl -lrt
"$cc" "$work"/test-conform{,_attention,_check,_flat,_products,_refusals,_rows}.c.o -o "$work/conform" -lm -ldl
printf 'compiled in %d s\n' $((SECONDS - begin))

status=0
begin=$SECONDS
"$work/conform" --json "$out/conform.json" --commit "$commit" --driver "${driver:-unknown}" "$@" "$host" "$cuda" \
  2>"$out/conform.err" | tee "$out/conform.txt" || status=$?
cat "$out/conform.err" >&2
printf 'tested in %d s\n' $((SECONDS - begin))

# Out-of-bounds accesses and races in shared memory, on the cases small enough for such slow tools. A tool that is absent,
# does not know the machine or needs too long proves nothing and fails nothing: it is written down as not run.
seconds=${ZR_SANITIZE:-240}
sanitize() { # sanitize TOOL OPERATION DTYPE LARGEST LAST: a row of sanitizer.json, unless it is later than that
  local log=$out/$1-$2-$3.txt begin=$SECONDS result='not run' checks left only=(--only "$2")
  [ "$2" != all ] || only=()
  left=$(($5 - SECONDS))
  : >"$log"
  [ $left -le 0 ] || timeout $((left < 60 ? left : 60)) compute-sanitizer --tool "$1" "$work/conform" --dtype "$3" "${only[@]}" --largest "$4" "$host" "$cuda" >"$log" 2>&1 || true
  [ $left -gt 0 ] || echo 'no time was left' >"$log"
  checks=$(sed -n 's/^\([0-9]*\) checks, 0 failed$/\1/p' "$log" | tail -n 1)
  case $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -n 1) in
    *'SUMMARY: 0 '*) [ -z "$checks" ] || result=clean ;;
    *SUMMARY*) result=dirty ;;
  esac
  printf '{"tool": "%s", "operation": "%s", "dtype": "%s", "largest": %d, "checks": %d, "seconds": %d, "result": "%s"}' \
    "$1" "$2" "$3" "$4" "${checks:-0}" $((SECONDS - begin)) "$result"
}
sanitize_all() {
  local run separator='' last=$((SECONDS + seconds))
  printf '{"schema": "zeroledger.sanitizer/1", "commit": "%s", "runs": [' "$commit"
  for run in {memcheck,racecheck}:all:{bf16,fp32,fp16}:20000 memcheck:{embed_backward,layernorm_backward,cross_entropy}:bf16:400000 memcheck:{flash,eager}:{bf16,fp32}:400000 \
    racecheck:{layernorm_backward,cross_entropy}:bf16:60000 racecheck:{flash,eager}:{bf16,fp32}:20000; do
    IFS=: read -r tool operation dtype largest <<<"$run"
    printf '%s\n  %s' "$separator" "$(sanitize "$tool" "$operation" "$dtype" "$largest" $last)"
    separator=,
  done
  printf '\n]}\n'
}
if [ $status -eq 0 ] && [ "$seconds" -gt 0 ] && command -v compute-sanitizer >/dev/null; then
  begin=$SECONDS
  sanitize_all >"$out/sanitizer.json"
  cat "$out/sanitizer.json"
  printf 'sanitized in %d s\n' $((SECONDS - begin))
  ! grep -q dirty "$out/sanitizer.json" || status=1
fi
echo "results: $out"
exit $status
