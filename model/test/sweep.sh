#!/usr/bin/env bash
# What zl sweep promises beside its rows: their order, their figures, how it ends.
# usage: sweep.sh ZL CASE
set -euo pipefail
[ $# = 2 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
zl=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
grid=(--model gpt2,bert-tiny --stage 0,2,3 --ranks 1..64x3 --micro-batch 1..40 --recompute none,full --format csv)
endless=(--model gpt2 --ranks 1..30000 --micro-batch 1..30000 --format)

# The same rows in the same order, however many threads there are.
threads() {
  "$zl" sweep "${grid[@]}" --jobs 1 >one.csv
  [ "$(wc -l <one.csv)" = 1921 ]
  for jobs in 2 3 16; do "$zl" sweep "${grid[@]}" --jobs $jobs | cmp one.csv; done
  "$zl" sweep --model gpt2-tiny --framework ddp,zero1,fsdp2 --ranks 1..3 --seq 16..32+16 --format csv --jobs 1 >walks.csv 2>/dev/null
  "$zl" sweep --model gpt2-tiny --framework ddp,zero1,fsdp2 --ranks 1..3 --seq 16..32+16 --format csv --jobs 5 2>/dev/null | cmp walks.csv
}

# A row is what zl predict says of its run. The planner meets every kind of neighbour: each option is the last one once.
predictions() {
  local stage ranks batch seq recompute peak most count=0
  "$zl" sweep --model llama-tiny --recompute none,full --seq 16,48 --micro-batch 1,5 --ranks 1,2,7 --stage 0..3 --format csv >rows.csv
  while IFS=, read -r recompute seq batch ranks stage peak _; do
    most=$("$zl" predict --model llama-tiny --stage "$stage" --ranks "$ranks" --micro-batch "$batch" --seq "$seq" \
      --recompute "$recompute" --format json | grep -A 2 '"peak": {' | grep -oP '"granted": \K[0-9]+' | sort -n | tail -n 1)
    [ "$most" = "$peak" ] || { echo "$recompute $seq $batch $ranks $stage: $peak, zl predict $most"; exit 1; }
    count=$((count + 1))
  done < <(tail -n +2 rows.csv)
  [ $count = 96 ]
  # The other way round: the same set of rows.
  "$zl" sweep --model llama-tiny --stage 0..3 --ranks 1,2,7 --micro-batch 1,5 --seq 16,48 --recompute none,full --format csv |
    tail -n +2 | awk -F, -v OFS=, '{ print $5, $4, $3, $2, $1, $6, $7, $8, $9 }' | sort >turned.csv
  tail -n +2 rows.csv | sort | cmp - turned.csv
}

# A reader that goes away ends it: no word, no error.
closed_pipe() {
  set +o pipefail # the signal that ends it
  "$zl" sweep "${endless[@]}" csv 2>words | head -n 3 >rows
  [ "$(wc -l <rows)" = 3 ] && [ ! -s words ]
  (trap '' PIPE; "$zl" sweep "${endless[@]}" csv 2>words && echo fine >ended) | head -n 3 >rows
  [ "$(wc -l <rows)" = 3 ] && [ ! -s words ] && [ "$(cat ended)" = fine ]
}

# Ctrl-C: it ends soon, as other programs do, behind a whole row; JSON stays JSON.
interrupt() {
  local code=0
  for format in csv json; do
    code=0
    timeout --preserve-status -s INT 1 "$zl" sweep "${endless[@]}" $format >rows 2>words || code=$?
    [ $code = 130 ] && [ ! -s words ]
    if [ $format = csv ]; then
      [ -z "$(grep -vE '^([0-9]+,[0-9]+,[0-9]+,[a-z]+,ok,|ranks,.*)$' rows)" ]
    else
      [ "$(tail -n 2 rows)" = $'  "complete": false\n}' ]
    fi
  done
}

# Constant memory: ten times as many points take no more.
memory() {
  [ -x /usr/bin/time ] || exit 77
  local few many
  few=$(/usr/bin/time -f %M "$zl" sweep --model gpt2 --ranks 1..100 --micro-batch 1..200 --format csv 2>&1 >/dev/null)
  many=$(/usr/bin/time -f %M "$zl" sweep --model gpt2 --ranks 1..100 --micro-batch 1..2000 --format csv 2>&1 >/dev/null)
  [ "$many" -lt $((few + 2000)) ] || { echo "$few kB, then $many kB"; exit 1; }
}

# A picture any reader of XML takes, with marks of XML in its words; the same bytes again.
picture() {
  command -v xmllint >/dev/null || exit 77
  "$zl" sweep --model gpt2 --framework ddp --ranks 2 --lora '8:c_attn' --lora '8:<&"b' --seq 64,128 --svg one.svg 2>/dev/null
  grep -qF '8:&lt;&amp;"b' one.svg
  "$zl" sweep --model gpt2-xl --stage 0,3 --ranks 1..128 --micro-batch 1..128 --capacity 24GiB --svg two.svg
  "$zl" sweep --model gpt2-xl --stage 0,3 --ranks 1..128 --micro-batch 1..128 --capacity 24GiB --jobs 3 --svg three.svg
  xmllint --noout one.svg two.svg
  cmp two.svg three.svg
}

"$2"
