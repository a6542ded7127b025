#!/usr/bin/env bash
# On a terminal: no line is wider than it, bars and bold titles appear, NO_COLOR is obeyed; in a pipe
# and in a file nothing of that.
# usage: terminal.sh ZL      exit 77 without script(1), which lends a terminal
set -euo pipefail
[ $# = 1 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
script -qec true /dev/null >/dev/null 2>&1 </dev/null || { echo 'no terminal to be had here'; exit 77; }
PATH="$(dirname "$(realpath "$1")"):$PATH"
export LC_ALL=C.UTF-8
export TERM=xterm
unset COLUMNS NO_COLOR ARGP_HELP_FMT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
bad=0
say() { echo "$1"; bad=1; }

on_terminal() { # on_terminal COLUMNS COMMAND: what the terminal gets, without colors
  script -qec "stty cols $1; $2" /dev/null </dev/null | tr -d '\r' | sed 's/\x1b\[[0-9;]*m//g'
}

widest() { wc -L; }

for columns in 60 80 132; do
  for what in $(zl __complete 2 zl list ""); do
    n=$(on_terminal $columns "zl list $what" | widest)
    [ "$n" -le $columns ] || say "zl list $what is $n wide on a terminal of $columns"
  done
done
gpt2='--model gpt2 --ranks 8 --stage 3'
for command in "predict $gpt2 --buffers" "explain $gpt2" "predict $gpt2 --framework deepspeed" \
  "explain $gpt2 --framework deepspeed" doctor; do
  n=$(on_terminal 100 "zl $command" | grep -v '^  [^ ]' | widest) # settings to be copied stay whole
  [ "$n" -le 100 ] || say "zl $command is $n wide on a terminal of 100"
  zl $command >plain.txt
  n=$(widest <plain.txt)
  [ "$n" -gt 100 ] || say "zl $command is only $n wide in a file: a poor example"
done

for columns in 40 60 79; do
  for command in help 'help predict' 'sweep --help'; do
    n=$(on_terminal $columns "zl $command" | widest)
    [ "$n" -le $columns ] || say "zl $command is $n wide on a terminal of $columns"
  done
done

# Every figure of the wide table is in the narrow one.
on_terminal 60 "zl list models" | tr -s ' ' '\n' | sort -u >narrow.txt
zl list models | tr -s ' ' '\n' | sort -u | comm -23 - narrow.txt >lost.txt
[ ! -s lost.txt ] || say "lost on a narrow terminal: $(tr '\n' ' ' <lost.txt)"

# COLUMNS goes before what the terminal says, and does not reach a pipe.
n=$(on_terminal 200 "COLUMNS=70 zl list models" | widest)
[ "$n" -le 70 ] || say "COLUMNS=70 gives $n columns"
COLUMNS=70 zl list models >columns.txt
zl list models | cmp - columns.txt || say 'COLUMNS changes what a file gets'

bars='[█▏#]'
on_terminal 80 "zl predict $gpt2" | grep "$bars" >/dev/null || say 'no bars on a terminal'
on_terminal 80 "LC_ALL=C zl predict $gpt2" | grep '  ####' >/dev/null || say 'no plain bars without UTF-8'
on_terminal 80 "zl predict $gpt2 --bars never" | grep "$bars" >/dev/null && say 'bars although never'
zl predict $gpt2 | grep "$bars" >/dev/null && say 'bars in a pipe'
zl predict $gpt2 --bars always | grep "$bars" >/dev/null || say 'no bars although always'
zl predict $gpt2 --bars always --format csv | grep "$bars" >/dev/null && say 'bars in csv'

bold=$'\033'
colored() { script -qec "$1" /dev/null </dev/null | grep "$bold" >/dev/null; }
colored 'zl list visits' || say 'no color on a terminal'
colored 'NO_COLOR=1 zl list visits' && say 'color in spite of NO_COLOR'
colored 'NO_COLOR= zl list visits' || say 'an empty NO_COLOR means nothing'
colored 'NO_COLOR=1 zl list visits --color always' || say 'the option goes before NO_COLOR'
colored 'TERM=dumb zl list visits' && say 'color on a dumb terminal'
zl list visits | grep "$bold" >/dev/null && say 'color in a pipe'
exit $bad
