#!/usr/bin/env bash
# gpu.sh packs what is there when it is ended early, and ends what it started; with a mode and a machine made for the purpose.
# usage: gpu_ended.sh SOURCE_DIR
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "$1"; cat "$work/said"; exit 1; }
mkdir -p "$work/runtime/test"
cp "$1/runtime/test/gpu.sh" "$work/runtime/test"
echo 'commit=none driver=none cc=gcc nvcc=true lt_header=/nothing/x.h nccl_header=' >"$work/runtime/test/gpu_find.sh"
cat >"$work/runtime/test/gpu_speed.sh" <<'MODE'
trap '' TERM
mkdir -p "$OUT/logs"
setsid sleep 1000 & echo $! >"$OUT/logs/pids"
sleep 1000 & echo $! >>"$OUT/logs/pids"
[ "${1-}" = stays ] || { kill -KILL $(cat "$OUT/logs/pids"); exit 3; }
echo ready >"$OUT/speed.json"
wait
MODE
gone() { # gone PID: a killed process may take a moment to be gone
  for _ in $(seq 50); do
    grep -q '^State:.*[^Z] (s' "/proc/$1/status" 2>/dev/null || return 0
    sleep 0.1
  done
  return 1
}
ran() { # ran RC: the exit code, and that nothing is left
  local pid
  [ "$rc" = "$1" ] || die "exit $rc, not $1"
  mkdir -p "$work/from"
  tar -C "$work/from" -xzf "$work/out/results.tar.gz" || die 'no results.tar.gz'
  for pid in $(cat "$work/from/speed/logs/pids"); do
    gone "$pid" || die "process $pid is left"
  done
  [ -f "$work/from/provenance.json" ] && [ -z "$(find "$work/out" -name '.results*')" ] || die 'not all is packed, or too much left'
}

rc=0
OUT=$work/out bash "$work/runtime/test/gpu.sh" speed >"$work/said" 2>&1 || rc=$?
ran 3
for signal in TERM:143 HUP:129; do
  rm -rf "$work/out" "$work/from" "$work/build"
  rc=0
  OUT=$work/out bash "$work/runtime/test/gpu.sh" speed stays >"$work/said" 2>&1 &
  script=$!
  for _ in $(seq 100); do [ -f "$work/build/gpu-results/speed/speed.json" ] && break || sleep 0.1; done
  kill -"${signal%:*}" $script
  wait $script || rc=$?
  ran "${signal#*:}"
  grep -q ready "$work/from/speed/speed.json" || die 'what the mode wrote is not packed'
done
