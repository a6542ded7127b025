#!/usr/bin/env bash
# Every `$ command` of a ```console block prints what stands below it, up to the next command or the block's
# end. Commands run in an empty folder with the built programs first on PATH.
# usage: readme.sh ZL README      ZL_BLESS=1 writes the outputs again
set -euo pipefail
[ $# = 2 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
bin=$(cd "$(dirname "$1")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/here"
export PATH="$bin:$PATH" LC_ALL=C.UTF-8 NO_COLOR=1
unset COLUMNS ARGP_HELP_FMT

inside=0 count=0
while IFS= read -r line || [ -n "$line" ]; do
  case $inside$line in
    0'```console') inside=1 && printf '%s\n' "$line" ;;
    1'```') inside=0 && printf '%s\n' "$line" ;;
    1'$ '*)
      count=$((count + 1))
      printf '%s\n' "$line"
      (cd "$work/here" && bash -c "${line#\$ }" </dev/null 2>&1) || true
      ;;
    1*) ;;
    *) printf '%s\n' "$line" ;;
  esac
done <"$2" >"$work/readme"
[ "$count" -gt 0 ] || { echo "$2 has no command"; exit 1; }
[ "${ZL_BLESS-}" != 1 ] || cat "$work/readme" >"$2"
diff -u "$2" "$work/readme" || { echo "$2 shows other output: run this test with ZL_BLESS=1"; exit 1; }
echo "$count commands"
