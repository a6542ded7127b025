#!/usr/bin/env bash
# Runs the fuzz targets of a build: bash model/fuzz/run.sh [executions] [name]
#   executions  of each target (default 20000)
#   name        of one target (default: all)
# ZL_FUZZ_BUILD is the build folder (default build/fuzz, which `cmake --preset fuzz && cmake --build
# --preset fuzz` makes); ZL_FUZZ_SEED the seed of the mutations (default 1). Begins with the committed corpus and
# leaves it alone: what is found new goes to BUILD/found/NAME, what crashes to BUILD/crash/NAME-*.
# Ends with 1 if a target failed, and prints one line for each.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(realpath -m "${ZL_FUZZ_BUILD:-$root/build/fuzz}")
executions=${1:-20000} only=${2:-}

shopt -s nullglob
if [ -n "$only" ]; then
  programs=("$build/fuzz/fuzz_$only")
else
  programs=("$build"/fuzz/fuzz_*)
fi
if [ ${#programs[@]} = 0 ] || [ ! -x "${programs[0]}" ]; then
  echo "no fuzz target ${only:-at all} in $build/fuzz; cmake --preset fuzz && cmake --build --preset fuzz"
  exit 2
fi

status=0
for program in "${programs[@]}"; do
  name=${program##*/fuzz_}
  mkdir -p "$build/found/$name" "$build/crash"
  corpus=("$root"/*/fuzz/corpus/"$name")
  options=(-runs="$executions" -seed="${ZL_FUZZ_SEED:-1}" -timeout=10 -max_len=4096 -rss_limit_mb=4096 -malloc_limit_mb=2048
    -print_final_stats=1 -artifact_prefix="$build/crash/$name-")
  dictionary=("$root"/*/fuzz/"$name.dict")
  [ ${#dictionary[@]} = 0 ] || options+=(-dict="${dictionary[0]}")
  log=$build/crash/$name.log
  if (cd "$build/crash" && "$program" "${options[@]}" "$build/found/$name" "${corpus[@]}") </dev/null >"$log" 2>&1; then
    answer='no crash'
  else
    answer="FAILED: see $log"
    status=1
  fi
  awk -v name="$name" -v answer="$answer" '
    /stat::number_of_executed_units/ { runs = $2 }
    /stat::average_exec_per_sec/ { speed = $2 }
    /cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") cover = $(i + 1) }
    END { printf "%-12s %10d executions, %7d a second, %5d edges, %s\n", name, runs, speed, cover, answer }' "$log"
done
exit $status
