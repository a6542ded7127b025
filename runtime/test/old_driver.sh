#!/usr/bin/env bash
# A driver that is too old, and none at all: one line that says so, and exit 4.
# usage: old_driver.sh ZL_TRAIN_CUDA LIBCUDA      LIBCUDA: the stand-in of old_driver.c
set -euo pipefail
program=$1 driver=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$driver" "$work/libcuda.so.1"

refused() { # refused PATTERN VARIABLE=VALUE...: what the program answers in that environment
  local pattern=$1 rc=0
  shift
  env "$@" "$program" --model gpt2-tiny --ranks 2 --steps 1 >"$work/out" 2>"$work/err" || rc=$?
  [ $rc -eq 4 ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -qE "$pattern" "$work/err" ||
    { echo "exit $rc, expected 4 and one line like: $pattern"; cat "$work/out" "$work/err"; exit 1; }
}
refused '^zl-train: the NVIDIA driver knows CUDA up to 11\.4 and this program needs [0-9]+\.[0-9]+; update it$' "LD_LIBRARY_PATH=$work"
if ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
  echo 'a driver is here: the answer without one is not checked'
else
  refused '^zl-train: this machine has no NVIDIA driver; train on the host with --backend host$' LD_LIBRARY_PATH=
fi
