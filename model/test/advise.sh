#!/usr/bin/env bash
# Whatever zl advise says to write gives, written, the bytes that it printed.
# usage: advise.sh CHECK ZL
set -euo pipefail
[ $# = 2 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
check=$(realpath "$1") zl=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$check" "$zl"
