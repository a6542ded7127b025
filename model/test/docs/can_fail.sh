#!/usr/bin/env bash
# Each check of this folder passes on something right and fails on the fault it exists for.
# usage: can_fail.sh BIN_DIR SOURCE_DIR
set -euo pipefail
[ $# = 2 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
zl=$(realpath "$1/zl") source=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset ZL_BLESS
status=0

expect() { # expect pass|fail CHECK ARGUMENT...
  local wanted=$1 got=pass output
  shift
  output=$(bash "$here/$1.sh" "${@:2}" 2>&1) || got=fail
  [ $got = "$wanted" ] || { printf '%s: %s, expected %s\n%s\n' "$*" $got "$wanted" "$output"; status=1; }
}

fence='```'
printf '%s\n' "${fence}console" '$ zl list visits --format csv | head -n 1' name,text "$fence" >right.md
sed 's/name,text/name,word/' right.md >wrong.md
expect pass readme "$zl" right.md
expect fail readme "$zl" wrong.md
expect fail readme "$zl" /dev/null
ZL_BLESS=1 expect pass readme "$zl" wrong.md
cmp right.md wrong.md || status=1

"$zl" __vocabulary >right.md
sed 's/token ids/tokens/' right.md >wrong.md
expect pass generated "$zl" __vocabulary right.md
expect fail generated "$zl" __vocabulary wrong.md

formulas=$source/docs/formulas.md
expect pass anchors "$zl" "$formulas"
grep -v '^### act.qkv$' "$formulas" >wrong.md
expect fail anchors "$zl" wrong.md
sed '/^### temp.dln$/,/^###/ { /^| `/d }' "$formulas" >wrong.md
expect fail anchors "$zl" wrong.md

mkdir tree
# shellcheck disable=SC2016
printf '%s\n' '# One word' '<a id="a.b"></a>' 'See [it](b.md), [it](#one-word), [`it`](#a.b), [far](https://x.invalid/y).' >tree/a.md
echo '[back](a.md#one-word)' >tree/b.md
expect pass links tree
for link in c.md 'a.md#two' '#a.c'; do
  echo "[dead]($link)" >tree/b.md
  expect fail links tree
done

if command -v scdoc >/dev/null; then
  mkdir -p man/docs man/model/cmake
  cp -r "$source/docs/man" man/docs/man
  cp "$source/model/cmake/man_page.sh" man/model/cmake/
  expect pass man "$1" man
  for edit in '/^; OPTIONS/d' '/^# EXIT STATUS/d' 's/^\*--version\*/--version*/'; do
    for page in zl.1 zl-train.1; do
      sed "$edit" "$source/docs/man/$page.scd" >"man/docs/man/$page.scd"
    done
    expect fail man "$1" man
  done
fi
exit $status
