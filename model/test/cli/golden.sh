#!/usr/bin/env bash
# Runs every NAME.sh of this folder in an empty folder and compares what it prints, says and returns with
# NAME.out, NAME.err and NAME.exit; a file that is not there stands for nothing printed, or exit 0.
# usage: golden.sh ZL [NAME...]      ZL_BLESS=1 rewrites the expectations
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
[ -x "$1" ] || { echo "$1: no such program" >&2; exit 2; }
zl=$(realpath "$1")
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ZL=$zl PATH="${zl%/*}:$PATH" LC_ALL=C
unset NO_COLOR ARGP_HELP_FMT COLUMNS

names=("$@")
if [ ${#names[@]} = 0 ]; then
  for script in "$here"/*.sh; do
    name=$(basename "$script" .sh)
    [ "$name" = golden ] || names+=("$name")
  done
fi

run() { # run NAME: leaves NAME.out, NAME.err and NAME.exit in $work
  local code=0
  mkdir "$work/$1"
  (cd "$work/$1" && bash "$here/$1.sh" </dev/null >"$work/$1.out" 2>"$work/$1.err") || code=$?
  [ $code = 0 ] || echo $code >"$work/$1.exit"
  rm -rf "${work:?}/$1"
}

bless() { # bless NAME
  local part
  for part in out err exit; do
    rm -f "$here/$1.$part"
    [ ! -s "$work/$1.$part" ] || cp "$work/$1.$part" "$here/$1.$part"
  done
}

same() { # same NAME PART
  local expected="$here/$1.$2" got="$work/$1.$2"
  [ -e "$expected" ] || expected=/dev/null
  [ -e "$got" ] || got=/dev/null
  diff -u --label "expected $1.$2" --label "got $1.$2" "$expected" "$got"
}

failed=()
for name in "${names[@]}"; do
  run "$name"
  if [ "${ZL_BLESS-}" = 1 ]; then
    bless "$name"
    continue
  fi
  good=1
  for part in out err exit; do
    same "$name" $part || good=0
  done
  [ $good = 1 ] || failed+=("$name")
done
echo "${#names[@]} cases, ${#failed[@]} failed${failed[*]:+: ${failed[*]}}"
[ ${#failed[@]} = 0 ]
