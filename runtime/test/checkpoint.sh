#!/usr/bin/env bash
# Checkpoints as people use them: several ranks, other numbers of ranks and other stages going on, what is told
# and with which exit code when something is wrong, and a death in the middle of a save.
# usage: checkpoint.sh ZL_TRAIN
set -uo pipefail
train=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
status=0
run=(--model gpt2-tiny --seq 16 --precision bf16-mixed --dropout 0.1 --eval)

fail() {
  echo "$*"
  [ ! -s err ] || sed 's/^/  stderr: /' err
  status=1
}

good() { # good NAME OPTION...: trains; train.json in NAME
  local name=$1
  shift
  "$train" "${run[@]}" --quiet --out "$name" "$@" 2>err || fail "$name: exit code $?"
}

numbers() { # numbers NAME FIRST: losses, norms and hash from step FIRST on
  awk -v first="$2" '/"step":/ { on = $2 + 0 >= first } on && /"(loss|grad_norm|eval_loss)":/ || /"parameter_hash":/' "$1/train.json"
}

same() { # same NAME NAME FIRST
  cmp <(numbers "$1" "$3") <(numbers "$2" "$3") || fail "$1 and $2 differ from step $3 on"
}

refused() { # refused CODE PATTERN OPTION...: one line, that exit code
  local code=$1 pattern=$2 have=0
  shift 2
  "$train" "${run[@]}" --quiet "$@" >out 2>err || have=$?
  [ $have -eq "$code" ] || fail "$*: exit code $have, expected $code"
  [ "$(wc -l <err)" -eq 1 ] || fail "$*: not one line on stderr"
  grep -qE "$pattern" err || fail "$*: no line like $pattern"
}

# Bit for bit where the number of ranks stays: other stages, as often as one likes.
good whole2 --ranks 2 --micro-batch 2 --steps 6
good part2 --ranks 2 --micro-batch 2 --steps 3 --stage 2 --save
[ "$(cat part2/checkpoint/latest)" = step-00000003 ] || fail "latest is not step 3"
[ "$(echo part2/checkpoint/*/manifest.json | wc -w)" -eq 2 ] || fail "two checkpoints were to stay"
good more2 --ranks 2 --micro-batch 2 --steps 5 --stage 3 --save --resume part2/checkpoint
good rest2 --ranks 2 --micro-batch 2 --steps 6 --stage 0 --resume more2/checkpoint/step-00000005
same whole2 rest2 6
[ ! -e rest2/ledger.rank0.json ] || fail "a resumed run has written a ledger"
grep -q '"ledger": false' rest2/train.json || fail "train.json does not say that there is no ledger"
grep -q 'no ledger is written' err || fail "nothing is said about the ledger"

# Other numbers of ranks: the same parameters at once, then the same sequences in other sums. bf16 rounds to 2^-9.
good start2 --ranks 2 --micro-batch 2 --steps 3 --stage 3 --resume part2/checkpoint
hash=$(numbers start2 1)
for ranks in 1 4; do
  good start$ranks --ranks $ranks --micro-batch $((4 / ranks)) --steps 3 --stage 3 --resume part2/checkpoint
  [ "$(numbers start$ranks 1)" = "$hash" ] || fail "$ranks ranks load other parameters"
done
good rest4 --ranks 4 --micro-batch 1 --steps 4 --stage 1 --save --resume part2/checkpoint
good rest1 --ranks 1 --micro-batch 4 --steps 6 --resume rest4/checkpoint
paste <(numbers whole2 5) <(numbers rest1 5) | awk '/"loss"/ { n++; d = ($2 - $4) / ($2 + 0)
  if (d > 0.01 || d < -0.01) exit 1 } END { exit n != 2 }' || fail "4 ranks, then one, train something else"

# Options that do not go together.
refused 2 'save needs a place.*--checkpoint' --save
refused 2 'add --save' --checkpoint c
refused 2 'steps.*3 are done.*got 2' --resume part2/checkpoint --steps 2
refused 2 'loss-scale is for fp16-mixed' --loss-scale 1024
refused 2 'leave one of them out' --loss-scale 1024 --precision fp16-mixed --resume part2/checkpoint

# Another training, and files that are damaged, short, foreign, newer or missing: whoever has to read them.
for ranks in 1 2; do
  refused 3 'part2/checkpoint/step-00000003: precision is bf16-mixed there and fp32' \
    --ranks $ranks --precision fp32 --resume part2/checkpoint
  rm -rf bad
  cp -r part2/checkpoint/step-00000003 bad
  file=bad/rank-0001-of-0002.zlckpt
  printf '\x5a' | dd of=$file bs=1 seek=300000 conv=notrunc status=none
  cmp -s $file part2/checkpoint/step-00000003/${file#bad/} && fail "not damaged"
  refused 3 "$file: damaged" --ranks $ranks --resume bad
  printf 'PK' | dd of=$file bs=1 conv=notrunc status=none
  refused 3 "$file: not a checkpoint of zl-train" --ranks $ranks --resume bad
  printf '\x89ZLCKPT\n\x02' | dd of=$file bs=1 conv=notrunc status=none
  refused 3 "$file: its format is version 2" --ranks $ranks --resume bad
  truncate -s -1 $file
  refused 3 "$file: .* bytes long" --ranks $ranks --resume bad
  rm $file
  refused 3 "$file: No such file" --ranks $ranks --resume bad
done
refused 3 'no checkpoint' --resume "$work"

# Nowhere to write, and a disk that is full after the first checkpoint was written.
refused 4 '/dev/null/c: Not a directory' --save --checkpoint /dev/null/c
refused 4 '/dev/null/c: Not a directory' --save --checkpoint /dev/null/c --ranks 2
good full --save --steps 1 --checkpoint full/c
(ulimit -f 100; refused 4 'step-00000002.*File too large' --save --checkpoint full/c --steps 2 --resume full/c; exit $status) || status=1
[ "$(ls -A full/c)" = "$(printf 'latest\nstep-00000001')" ] || fail "left behind: $(ls -A full/c)"
good again --steps 2 --resume full/c

# Killed in the middle of a save: what was complete is still there. Stopped first, so that the folder of the
# unfinished one proves that it was the middle.
unfinished() {
  local found=(killed/.step-*.tmp)
  [ -e "${found[0]}" ]
}
"$train" "${run[@]}" --quiet --save --checkpoint killed --steps 100000 >out 2>err &
victim=$!
deadline=$((SECONDS + 30))
until [ -e killed/latest ] && unfinished && kill -STOP $victim && unfinished; do
  kill -CONT $victim || break
  [ $SECONDS -lt $deadline ] || break
done
kill -9 $victim
wait $victim 2>/dev/null
if unfinished; then
  step=$((10#$(sed 's/step-//' killed/latest)))
  good after --resume killed --save --checkpoint killed --steps $((step + 1))
  ! unfinished || fail "the next save has not removed what was left"
else
  fail "no save was caught in the middle"
fi

exit $status
