#!/usr/bin/env bash
# Device memory of NCCL on two GPUs and more, stage by stage and channel by channel: by the device, and once more by owner
# under the meter. Part of gpu.sh; takes less than a minute.
#
#     bash runtime/test/gpu_nccl.sh
#
# OUT        where results go; build/gpu if not set: nccl.json (schema nccl), nccl-trace.json (schema trace), nccl.txt
# Exit: 0 if everything was measured and, where zl-validate could be built, libnccl took what the closed form says;
# 1 if not; 4 if nothing could be built; 77 without a GPU. With one GPU it does nothing.
# shellcheck disable=SC2046,SC2086,SC2154
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${OUT:-build/gpu}
mkdir -p "$out"
out=$(realpath "$out")
status=0

# shellcheck source=runtime/test/gpu_build.sh
. runtime/test/gpu_build.sh

[ "$gpus" -ge 2 ] || { echo 'skipped: NCCL needs two GPUs'; exit 0; }
[ $with_nccl = 1 ] || fail 'no nccl.h or libnccl.so; set NCCL_ROOT'
"$cc" $c_flags -Iruntime $cuda_includes runtime/test/nccl_memory.c "$work"/objects/base-*.o -o "$bin/nccl_memory" \
  $(link "$cjson_library" "$nccl_library") "$cudart_static" -lpthread -ldl -lrt -lm >"$out/compile-nccl.log" 2>&1 ||
  { cat "$out/compile-nccl.log" >&2; fail 'nccl_memory could not be built'; }

# shellcheck source=runtime/test/gpu_meter.sh
. runtime/test/gpu_meter.sh
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
begin=$SECONDS
timeout -k 5 60 "$bin/nccl_memory" "$gpus" "$logs" "$out/nccl.json" || status=1
grep -h ' coll channels' "$logs"/nccl.* | sed 's/.*NCCL INFO //' | sort | uniq -c >"$out/nccl.txt" || true
printf 'measured in %d s\n' $((SECONDS - begin)) | tee -a "$out/nccl.txt"

# Memory that is given back and taken again is what this is about, so what the meter finds is not judged by its exit code.
timeout -k 5 60 "$bin/zl-trace" --output "$out/nccl-trace.json" -- "$bin/nccl_memory" "$gpus" "$logs" "$out/nccl-traced.json" \
  >"$out/nccl-trace.txt" 2>&1 || true
[ -s "$out/nccl-trace.json" ] || status=1
printf 'and by owner, in %d s\n' $((SECONDS - begin)) | tee -a "$out/nccl.txt"
if [ -x "$bin/zl-validate" ]; then
  "$bin/zl-validate" nccl "$out/nccl.json" $([ ! -s "$out/nccl-trace.json" ] || echo "$out/nccl-trace.json") 2>&1 |
    tee -a "$out/nccl.txt" || status=1
fi
exit $status
