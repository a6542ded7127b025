#!/usr/bin/env bash
# Every function of kernel.h is in the conformance test's table, and some case calls it.
# usage: conform_covers.sh SOURCE_DIR
set -euo pipefail
cd "$1/runtime"

declared=$(grep -oE '\bzl_status zr_[a-z_]+\(' kernel/kernel.h | sed 's/.*zr_//; s/($//' | sort)
listed=$(sed -n 's/^ *X(\([a-z_]*\)).*/\1/p' test/conform_module.h | sort)
[ -n "$declared" ] || { echo 'kernel.h declares nothing: has its style changed?'; exit 1; }

status=0
if ! difference=$(diff <(echo "$declared") <(echo "$listed")); then
  printf 'kernel.h (<) and the table of conform_module.h (>) differ:\n%s\n' "$difference"
  status=1
fi
for name in $declared; do
  grep -qE "k->$name\b" test/conform_{attention,flat,products,rows}.c || { echo "no case calls $name"; status=1; }
done
exit $status
