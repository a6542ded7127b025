#!/usr/bin/env bash
# A committed page equals what its script prints.
# usage: page.sh FILE SCRIPT ARGUMENT...      ZL_BLESS=1 writes the page again
set -euo pipefail
[ $# -ge 2 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
file=$1
got=$(mktemp)
trap 'rm -f "$got"' EXIT
bash "${@:2}" >"$got"
[ "${ZL_BLESS-}" != 1 ] || cat "$got" >"$file"
diff -u "$file" "$got" || { echo "$file is out of date: run this test with ZL_BLESS=1"; exit 1; }
