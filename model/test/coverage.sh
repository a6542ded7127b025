#!/usr/bin/env bash
# Which lines of model/ its own tests run, by gcov: percentages of each folder and of all, and the lines that
# nothing runs. Fails below 95 % of a folder. Nothing is excluded.
# usage: coverage.sh BUILD_DIR      of the preset coverage; only the tests of model/ are run
set -euo pipefail
[ $# = 1 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "$1" && pwd)
required=95
export ZL_RUNS=${ZL_RUNS:-3000} ZL_SEED=${ZL_SEED:-1}   # the same runs every time, or the figure would waver

objects=("$build"/model/CMakeFiles/{zl_base,zl_model,zl}.dir)
make -s -C "$build/model" -j "$(nproc)" all
make -s -C "$build" -j "$(nproc)" zl-train zl-trace zl-validate zt_schema_check # that tests of zl run
find "$build/model" -name "*.gcda" -delete
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" \
  -R '^(unit\.(base|model|torch|solve|cli)_|oracle\.|cli\.(golden|terminal|complete_.*|advise_applied|sweep_.*|timeline\..*)$|docs\.(formulas|vocabulary|names|anchors|readme)$)'

# gcov's text: count, line number and source, separated by colons; - is no code, ##### was never run.
find "${objects[@]}" -name '*.gcno' -print0 | sort -z |
  (cd "$build" && xargs -0 gcov -t 2>/dev/null) |
  awk -v source="$source/model/" -v required=$required '
    $1 == "-:" && $2 ~ /^0:Source:/ {
      file = $0
      sub(/^[^:]*:[^:]*:Source:/, "", file)
      mine = index(file, source) == 1 && file ~ /\.c$/
      file = substr(file, length(source) + 1)
      folder = file
      sub(/\/.*/, "", folder)
      next
    }
    !mine { next }
    {
      split($0, part, ":")
      count = part[1]
      gsub(/ /, "", count)
      if (count == "-") next
      lines[folder]++
      if (count ~ /^[#=]/) {
        missed[folder]++
        number = part[2]
        gsub(/ /, "", number)
        text = $0
        sub(/^[^:]*:[^:]*:/, "", text)
        printf "model/%s:%s:%s\n", file, number, text
      }
    }
    function row(name, n, not_run) {
      printf "%-8s %6d lines %7.2f %%\n", name, n, 100 * (n - not_run) / n
      if (100 * (n - not_run) < required * n) { printf "%s is below %d %%\n", name, required; low = 1 }
    }
    END {
      for (name in lines) { n += lines[name]; m += missed[name] }
      if (n == 0) { print "gcov found no lines"; exit 1 }
      print ""
      split("base family profile predict solve cli", order, " ")
      for (i = 1; i <= 6; i++) if (lines[order[i]] > 0) row(order[i], lines[order[i]], missed[order[i]] + 0)
      row("model", n, m)
      exit low
    }'
