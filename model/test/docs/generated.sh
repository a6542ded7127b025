#!/usr/bin/env bash
# A committed file equals what a hidden command of zl prints.
# usage: generated.sh ZL COMMAND FILE      ZL_BLESS=1 writes the file again
set -euo pipefail
[ $# = 3 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
got=$(mktemp)
trap 'rm -f "$got"' EXIT
"$1" "$2" >"$got"
[ "${ZL_BLESS-}" != 1 ] || cat "$got" >"$3"
diff -u "$3" "$got" || { echo "$3 is out of date: run this test with ZL_BLESS=1"; exit 1; }
