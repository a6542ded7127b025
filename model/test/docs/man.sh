#!/usr/bin/env bash
# scdoc, where it is, accepts every manual page; each is installed and has the sections it must have; every option
# and command that a program's help shows is in its page, every schema and every member of a run.json in theirs.
# usage: man.sh BIN_DIR SOURCE_DIR
set -euo pipefail
[ $# = 2 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
bin=$1 man=$2/docs/man schema=$2/docs/schema page=$2/model/cmake/man_page.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
unset ARGP_HELP_FMT COLUMNS
command -v scdoc >/dev/null || { echo 'no scdoc here: pages are read, but not rendered'; scdoc() { cat; }; }
bad=0
say() { echo "$1"; bad=1; }

for file in "$man"/*.scd; do
  name=$(basename "$file" .scd)
  bash "$page" "$bin" "$file" >"$work/$name.scd"
  scdoc <"$work/$name.scd" >"$work/$name" || say "$name: scdoc refuses it"
  grep -qx "  $name.scd" "$man/CMakeLists.txt" || say "$name: docs/man/CMakeLists.txt does not install it"
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

if [ -d "$schema" ]; then
  for file in "$schema"/*.schema.json; do
    grep -Fq "*$(basename "$file" .schema.json)*" "$work/zl-schemas.5.scd" ||
      say "zl-schemas.5: $(basename "$file") is missing"
  done
  while IFS= read -r key; do # indented as deep as the members of a run, and of its model, are
    grep -Fq -e "*${key//_/\\_}*" "$work/zl-run.5.scd" || grep -Fq -e "*--${key//_/-}*" "$work/zl-predict.1.scd" ||
      say "zl-run.5: $key is missing"
  done < <(sed -n 's/^ *"\([a-z_]*\)": {.*/\1/p' "$schema/run.schema.json" "$schema/framework-run.schema.json" |
    grep -Ev '^(properties|run)$' | sort -u)
fi
exit $bad
