#!/usr/bin/env bash
# A committed picture equals what its program draws.
# usage: figure.sh FILE PROGRAM [ARGUMENT]...      the path of the picture is the last; ZL_BLESS=1 writes the picture again
set -euo pipefail
[ $# -ge 2 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$2" "${@:3}" "$work/got.svg" >/dev/null
[ "${ZL_BLESS-}" != 1 ] || cat "$work/got.svg" >"$1"
cmp "$1" "$work/got.svg" || { echo "$1 is out of date: run this test with ZL_BLESS=1"; exit 1; }
