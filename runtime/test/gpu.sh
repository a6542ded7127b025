#!/usr/bin/env bash
# Tests and measures on a machine with GPUs and, perhaps, nothing else: no network, no CMake packages. Builds with nvcc and
# the C compiler alone.
#
#     bash runtime/test/gpu.sh conform [option of conform]...    the kernels of both backends, compared; sanitizers
#     bash runtime/test/gpu.sh kernels [name of a kernel]        the time of each kernel, beside what the GPU can do
#     bash runtime/test/gpu.sh train [name of a run]...          training, every byte against its prediction
#     bash runtime/test/gpu.sh reference                         logits, gradients and losses against PyTorch's
#     bash runtime/test/gpu.sh trace [argument]...               device memory by owner
#     bash runtime/test/gpu.sh nccl                              memory of NCCL, on two GPUs and more
#     bash runtime/test/gpu.sh speed [name of a row]...          tokens per second, beside PyTorch where that is here
#     bash runtime/test/gpu.sh all                               all of these, one after the other
#
# Each mode is a script of its own, gpu_MODE.sh, which says what else it obeys; runs on two GPUs and more are made
# where so many are visible.
#
# OUT        where results go, build/gpu if not set: results.tar.gz, with a folder for each mode and provenance.json, and
#            summary.txt; validate/import_results.sh makes a folder of docs/results from the former
#            (packed anew twice a minute and at the end, also when a signal is the end)
# ZR_ARCH    what the kernels are compiled for; 90
# ZR_LIMIT   seconds after which a mode begins no other run; 300, and with `all` for each
# CUDA_HOME, NCCL_ROOT    searched for headers and libraries before the usual places
# Exit: 0 if every mode did what it should; 1 if not; 4 if nothing could be built; 77 without a GPU. Where everything of
# docs/install.md is installed, `cmake --workflow --preset cuda` runs some of it, and all other tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
all=(conform kernels train reference trace nccl speed)
case ${1:-} in
  all) modes=("${all[@]}") ;;
  conform | kernels | train | reference | trace | nccl | speed) modes=("$1") ;;
  *) sed -n '5,12p' "${BASH_SOURCE[0]}" | sed 's/^#  *//' >&2; exit 2 ;;
esac
shift
out=${OUT:-build/gpu}
mkdir -p "$out"
out=$(realpath "$out")
results=build/gpu-results
rm -rf "$results"
mkdir -p "$results"
: >"$out/summary.txt"

# shellcheck source=runtime/test/gpu_find.sh
. runtime/test/gpu_find.sh

defined() { # defined HEADER NAME...: major * 10000 + minor * 100 + patch of three macros, 0 if unknown
  local header=$1 name value code=0
  shift
  for name in "$@"; do
    value=$(sed -n "s/^#define $name  *\([0-9]*\).*/\1/p" "$header" 2>/dev/null | head -n 1) || true
    code=$((code * 100 + ${value:-0}))
  done
  echo $code
}
query() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1; }
gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | wc -l) || true
release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
cat >"$results/provenance.json" <<JSON
{
  "schema": "zeroledger.results/1",
  "commit": "$commit",
  "date": "$(date -u +%Y-%m-%d)",
  "gpu": "$(query name || true)",
  "gpus": ${gpus:-0},
  "gpu_memory": "$(query memory.total || true)",
  "driver": "${driver:-unknown}",
  "cuda": "$release",
  "nvcc": "$("$nvcc" --version | sed -n 's/.*release \(.*\)/\1/p')",
  "compiler": "$("$cc" -dumpfullversion)",
  "cublaslt": "$(defined "$(dirname "$lt_header")/cublas_api.h" CUBLAS_VER_MAJOR CUBLAS_VER_MINOR CUBLAS_VER_PATCH)",
  "nccl": $(defined "${nccl_header:-/nothing}" NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
}
JSON

# What is there is packed whatever ends this: its own end, a signal (a time limit's TERM), or, at most half a minute older, KILL.
pack() {
  local new=$out/.results.$BASHPID.tar.gz
  tar -C "$results" -czf "$new" . 2>/dev/null || [ $? -eq 1 ] # 1: a file grew meanwhile
  mv "$new" "$out/results.tar.gz"
}
below() { # below PID: all processes that it started, and those that they did; some have sessions of their own. Where one ends
  # meanwhile, cat goes on and awk would not
  cat /proc/[0-9]*/status 2>/dev/null | awk '/^Pid:/ { pid = $2 } /^PPid:/ { print pid, $2 }' |
    awk -v root="$1" '{ parent[$1] = $2 }
      END { for (pid in parent) { at = parent[pid]; while (at > 1 && at != root) at = parent[at]; if (at == root) print pid } }' || true
}
child='' packer=''
end_processes() { # the mode if it still runs, and the packer
  local pids
  pids="$child $packer $(for pid in $child $packer; do below "$pid"; done | tr '\n' ' ')"
  # shellcheck disable=SC2086
  kill -TERM $pids 2>/dev/null || true
  [ -z "$child" ] || sleep 1
  # shellcheck disable=SC2086
  kill -KILL $pids 2>/dev/null || true
  rm -f "$out"/.results.*.tar.gz
}
# shellcheck disable=SC2317
ended() { # ended CODE
  trap - EXIT
  trap '' HUP INT TERM
  end_processes
  pack
  exit "$1"
}
trap 'ended $?' EXIT
trap 'ended 129' HUP
trap 'ended 130' INT
trap 'ended 143' TERM

# A shell looks at signals between commands, and while it waits; so modes run in the background.
run_mode() { # run_mode MODE ARGUMENT...
  local mode=$1 rc=0
  shift
  OUT=$results/$mode bash "runtime/test/gpu_$mode.sh" "$@" &
  child=$!
  wait "$child" || rc=$?
  child=''
  return $rc
}
while sleep 30; do pack; done &
packer=$!
disown "$packer" # or the shell says that it was killed

status=0
for mode in "${modes[@]}"; do
  mkdir "$results/$mode"
  begin=$SECONDS rc=0
  printf '\n==== %s\n' "$mode"
  if [ -f "runtime/test/gpu_$mode.sh" ]; then
    run_mode "$mode" "$@" || rc=$?
  else
    echo "no script of this mode"
    rc=4
  fi
  printf '%s: exit %d, %d s\n' "$mode" $rc $((SECONDS - begin)) | tee -a "$out/summary.txt"
  [ $status -ne 0 ] || status=$rc
done
printf '\nresults: %s\n' "$out/results.tar.gz"
cat "$out/summary.txt"
exit $status
