#!/usr/bin/env bash
# Every planted leak is found, and named; a program without one passes. Exit 77 without a GPU.
# usage: leaks.sh ZL_TRACE LEAK [FOLDER]     FOLDER: where traces are left
set -euo pipefail
[ $# -ge 2 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
trace=$1 leak=$2
work=${3:-$(mktemp -d)}
[ $# -ge 3 ] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work"
export CUDA_MODULE_LOADING=LAZY
status=0 found=0

try() { # try HOW EXIT WORDS: what zl-trace ends with, and a pattern of what it says
  local how=$1 wanted=$2 words=$3 rc=0
  "$trace" --output "$work/$how.json" --timeline "$work/$how.timeline.json" -- "$leak" "$how" >"$work/$how.txt" 2>"$work/$how.err" || rc=$?
  if [ $rc -eq 4 ] && grep -qE 'no GPU is visible|no NVIDIA driver' "$work/$how.err"; then
    cat "$work/$how.err"
    echo '5 leaks not planted: skipped'
    exit 77
  fi
  if [ $rc -eq "$wanted" ] && grep -qE "$words" "$work/$how.txt"; then
    printf '%-8s ok: %s\n' "$how" "$(grep -E "$words" "$work/$how.txt" | tail -n 1)"
    found=$((found + 1))
  else
    printf '%-8s BAD: exit %d, expected %d and /%s/\n' "$how" $rc "$wanted" "$words"
    cat "$work/$how.txt" "$work/$how.err"
    status=1
  fi
}

program=$(basename "$leak")
mib64=67108864
try none 0 '^traced '
! grep -q ' grew by ' "$work/none.txt" || { echo 'none: something grew'; status=1; }
try malloc 1 "cuMemAlloc of $program grew by $mib64 bytes in 1 allocations between the marks warm .* and leaked"
try create 1 "cuMemCreate of $program grew by $mib64 bytes in 1 allocations between the marks warm .* and leaked"
try async 1 "cuMemAllocAsync of $program grew by $mib64 bytes in 1 allocations between the marks warm .* and leaked"
try stack 1 'untraced memory grew by [0-9]{8,} bytes between the marks warm .* and leaked'
printf '%d of 5 as they should be\n' $found
exit $status
