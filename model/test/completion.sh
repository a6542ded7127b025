#!/usr/bin/env bash
# The completion of a shell, in that shell: commands, options, values, and file names where zl has none.
# usage: completion.sh bash|zsh|fish ZL FOLDER      FOLDER has the scripts; exit 77 without that shell
set -euo pipefail
[ $# = 3 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
shell=$1 scripts=$(realpath "$3")
command -v "$shell" >/dev/null || { echo "no $shell here"; exit 77; }
PATH="$(dirname "$(realpath "$2")"):$PATH"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
touch a-file.json
export HOME=$work LC_ALL=C.UTF-8 TERM=dumb

candidates_bash() { # candidates_bash WORD...: the last one is being completed
  bash --norc -c 'source "$1/zl.bash"; shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _zl; printf "%s\n" "${COMPREPLY[@]}"' bash "$scripts" "$@"
}

# compadd and _files work in completion only: what _zl hands them is printed.
candidates_zsh() {
  zsh -f -c 'compadd() { print -rl -- "${names[@]}" }; _files() { print -rl -- *(N) }
    scripts=$1; shift; words=("$@"); CURRENT=$#; PREFIX=${words[-1]}; source "$scripts/_zl"' zsh "$scripts" "$@"
}

candidates_fish() {
  fish --no-config -c 'source $argv[1]/zl.fish; complete -C "$argv[2..]"' "$scripts" "$@" | cut -f1
}

status=0
offers() { # offers EXPECTED WORD...: exactly these, in any order
  local expected=$1 got
  shift
  got=$("candidates_$shell" "$@" | sort | tr '\n' ' ')
  [ "$got" = "$expected " ] || { printf '%s: %s expected, got %s\n' "$*" "$expected" "$got"; status=1; }
}

offers 'predict' zl pre
offers '--stage' zl predict --sta
offers 'none' zl explain --recompute n
offers '0 1 2 3' zl predict --stage ''
offers 'models' zl list m
offers 'h100-80g' zl fit --gpu h1
offers '--steps' zl train --steps
[ "$shell" = bash ] || offers '--recompute=selective' zl predict --recompute=s
[ "$shell" != bash ] || offers 'selective' zl predict --recompute = s
[ "$shell" = bash ] || offers 'a-file.json' zl predict --run a-
[ "$shell" != bash ] || offers '' zl predict --run a- # bash offers files itself: -o default

# A real session of zsh: tab completes the words, and the command runs.
if [ "$shell" = zsh ]; then
  mkdir functions
  cp "$scripts/_zl" functions/
  zsh -f -c 'zmodload zsh/zpty
    zpty session zsh -f -i
    zpty -w session "PS1=; fpath=($PWD/functions \$fpath); autoload -Uz compinit; compinit -u -d $PWD/dump"
    zpty -w -n session $'"'"'zl list gp\t --form\tcsv\nexit\n'"'"'
    while zpty -r session line; do print -r -- "$line"; done' >session.txt
  grep -q '^a100-80g,' session.txt || { echo 'zsh: tab did not complete'; cat session.txt; status=1; }
fi
exit $status
