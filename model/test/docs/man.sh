#!/usr/bin/env bash
# scdoc accepts every manual page, each has the sections it must have, and every option and command that a
# program's help shows is in its page.
# usage: man.sh BIN_DIR SOURCE_DIR      exit 77 without scdoc
set -euo pipefail
[ $# = 2 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
command -v scdoc >/dev/null || { echo 'no scdoc here'; exit 77; }
bin=$1 man=$2/docs/man page=$2/model/cmake/man_page.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
unset ARGP_HELP_FMT COLUMNS
bad=0
say() { echo "$1"; bad=1; }

for file in "$man"/*.scd; do
  name=$(basename "$file" .scd)
  bash "$page" "$bin" "$file" >"$work/$name.scd"
  scdoc <"$work/$name.scd" >"$work/$name" || say "$name: scdoc refuses it"
  sections=(NAME DESCRIPTION 'SEE ALSO')
  [[ $name != *.1 ]] || sections+=(SYNOPSIS 'EXIT STATUS')
  for section in "${sections[@]}"; do
    grep -qx "# $section" "$work/$name.scd" || say "$name: no section $section"
  done
  grep -q "^$(basename "$file" .scd | sed 's/\.\(.\)$/(\1)/')" "$file" || say "$name: its first line names another"
done

has_options() { # has_options PAGE PROGRAM [COMMAND]: long and short options of the help's first column
  local option count=0
  while IFS= read -r option; do
    count=$((count + 1))
    grep -Fq -e "*$option*" "$work/$1.scd" || say "$1: $option is missing"
  done < <("$bin/$2" "${@:3}" --help | sed -n 's/^ \{2,6\}\(-.*\)/\1/p' | sed 's/  .*//' |
    tr ',' '\n' | sed 's/^ *//; s/=.*//' | sort -u)
  [ $count -gt 0 ] || say "$2 ${*:3} --help: no option found"
}

has_texts() { # has_texts PAGE PROGRAM [COMMAND]: every piece of the help's second column
  local text flat
  flat=$(tr -d '\134' <"$work/$1.scd" | tr '\n\t' '  ')
  while IFS= read -r text; do
    [[ ${flat,,} == *"${text,,}"* ]] || say "$1: \"$text\" is missing"
  done < <("$bin/$2" "${@:3}" --help | sed -n 's/^ \{2,6\}-.*[^ ]  \+\([^ ].*\)/\1/p; s/^ \{20,\}//p')
}

while read -r command; do
  grep -Fq "*$command*" "$work/zl.1.scd" || say "zl.1: command $command is missing"
  case $command in
    help) ;;
    train | trace | validate) [ -e "$man/zl-$command.1.scd" ] || say "zl-$command.1 is missing" ;;
    *) if [ -e "$man/zl-$command.1.scd" ]; then has_options "zl-$command.1" zl "$command"; else say "zl-$command.1 is missing"; fi ;;
  esac
done < <("$bin/zl" help | sed -n 's/^  \([a-z][a-z]*\)  *[^ ].*/\1/p')
has_options zl-train.1 zl-train
has_texts zl-train.1 zl-train
has_options zl-trace.1 zl-trace
has_texts zl-trace.1 zl-trace
while read -r command; do
  grep -Fq "*$command*" "$work/zl-validate.1.scd" || say "zl-validate.1: command $command is missing"
  has_options zl-validate.1 zl-validate "$command"
  has_texts zl-validate.1 zl-validate "$command"
done < <("$bin/zl-validate" --help | sed -n 's/^  \([a-z][a-z]*\)  *[A-Z].*/\1/p')
exit $bad
