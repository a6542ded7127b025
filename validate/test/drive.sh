#!/usr/bin/env bash
# What zl-validate does with trainers that behave and trainers that do not; one claim a call.
# usage: drive.sh CLAIM ZL_VALIDATE FAKE_TRAINER
set -euo pipefail
claim=$1 validate=$2 fake=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export ZL_TRAIN=$fake FAKE_COUNT=$work/calls

cat >cases.json <<'END'
{"schema": "zeroledger.cases/1", "name": "four",
 "tolerance": {"requested": 0, "granted": 0, "outside_steady": 1048576},
 "groups": [{"name": "stages", "base": {"model": "gpt2-tiny", "seq": 32, "ranks": 2},
             "axes": {"stage": [0, 1, 2, 3]}}]}
END

die() { printf '%s\n' "$*" >&2; cat err 2>/dev/null >&2 || true; exit 1; }

# expect CODE COMMAND...: its exit code; output in out and err
expect() {
  local wanted=$1 got=0
  shift
  "$@" >out 2>err || got=$?
  [ "$got" = "$wanted" ] || die "$*: exit $got, expected $wanted"
}
last() { [ "$(tail -n 1 out)" = "$1" ] || die "last line is '$(tail -n 1 out)', expected '$1'"; }
has() { grep -qF -- "$2" "$1" || die "'$2' is not in $1"; }
calls() { [ "$(wc -l <calls)" = "$1" ] || die "$(wc -l <calls) trainings, expected $1"; }
run() { "$validate" run --cases cases.json --out o "$@"; }
wait_for() { for _ in $(seq 100); do [ -e "$1" ] && return; sleep 0.05; done; die "$1 did not appear"; }

case $claim in
equal_matrix_exits_0)
  expect 0 run
  last '4 cases, 0 differ'
  has o/report.md '**4 cases, 0 differ.**'
  [ "$(find o -name 'ledger.rank*.json' | wc -l)" = 8 ] || die 'ledgers are missing' ;;
finished_cases_are_not_trained_again)
  expect 0 run
  expect 0 run
  last '4 cases, 0 differ'
  calls 4
  expect 0 run --fresh
  calls 8
  sed -i 's/1048576/1048575/' cases.json
  expect 0 run
  calls 12
  rm o/gpt2-tiny/z1-*/ledger.rank1.json
  expect 0 run
  calls 13 ;;
resumes_after_kill)
  FAKE_SLEEP=1 "$validate" run --cases cases.json --out o 2>/dev/null &
  child=$!
  wait_for o/gpt2-tiny/z1-n2-bf16-mixed-none-a1-t32/run.json
  kill -9 $child
  wait $child 2>/dev/null || true
  [ -f o/gpt2-tiny/z0-n2-bf16-mixed-none-a1-t32/verdict.json ] || die 'the first verdict is lost'
  sleep 0.2
  [ ! -e "/proc/$(tail -n 1 calls)/exe" ] || die 'a trainer was left behind'
  : >calls
  expect 0 run
  last '4 cases, 0 differ'
  calls 3 ;;
interruption_keeps_what_is_finished)
  for signal in INT TERM; do
    rm -rf o && : >calls
    FAKE_SLEEP=1 "$validate" run --cases cases.json --out o >out 2>err &
    child=$!
    wait_for o/gpt2-tiny/z1-n2-bf16-mixed-none-a1-t32/run.json
    kill -$signal $child
    got=0
    wait $child || got=$?
    [ $got = 4 ] || die "exit $got, expected 4"
    has err 'interrupted after 1 of 4 cases'
    expect 0 run
    last '4 cases, 0 differ'
  done ;;
failed_trainer_is_recorded)
  FAKE_FAIL=1,2 expect 1 run
  last '4 cases, 1 differ'
  has o/report.md 'exit 4: zl-train: out of memory: this was asked for'
  has o/report.md '| **failed** |'
  calls 4
  expect 0 run
  calls 5
  FAKE_SILENT=1 expect 1 run --fresh
  last '4 cases, 4 differ'
  has o/report.md 'no measurement of rank 0'
  ! grep -qF "$work" o/report.md || die 'the report names a path of this machine'
  FAKE_SLEEP=5 expect 1 run --fresh --timeout 1
  has o/report.md 'not finished after 1 s' ;;
bad_case_file_exits_3)
  sed 's/"seq"/"sequence"/' cases.json >bad.json
  expect 3 "$validate" run --cases bad.json
  has err "bad.json: groups[0].base.sequence: unknown option 'sequence'"
  sed 's/"axes"/"axis"/' cases.json >bad.json
  expect 3 "$validate" run --cases bad.json
  has err "did you mean"
  sed 's/3\]/7]/' cases.json >bad.json
  expect 3 "$validate" run --cases bad.json
  has err 'stage must be 0..3, got 7'
  [ ! -e zl-validate-out ] || die 'something was run' ;;
differences_are_named)
  FAKE_EDIT=1 expect 1 run
  last '4 cases, 4 differ'
  has err 'rank 0, cold backward: temp.branch (temp), max, requested: predicted 0 bytes, measured 256'
  FAKE_GROW=1048577 expect 1 run --fresh
  has err 'witness outside_steady: 1048577 bytes' ;;
absent_witness_is_no_zero)
  FAKE_BLIND=1 FAKE_GROW=9999999 expect 0 run
  last '4 cases, 0 differ'
  [ "$(grep -c '| none |$' o/report.md)" = 4 ] || die 'the report shows a witness that there was not' ;;
machine_is_named_once)
  expect 0 run
  [ "$(grep -c '^- Machine: cpu made up, cores 2, memory 2.0 GiB, compiler by hand 1.0$' o/report.md)" = 1 ] ||
    die "$(grep Machine o/report.md)" ;;
report_is_byte_identical)
  FAKE_FAIL=2,2 expect 1 run
  mkdir first && cp o/report.md o/*.svg first
  cp -r o moved && rm moved/report.md moved/*.svg
  expect 0 "$validate" report moved
  for file in first/*; do cmp "$file" "moved/${file#first/}"; done
  [ "$(ls first)" = "$(printf 'agreement.svg\npeaks.svg\nreduction.svg\nreport.md')" ] || die "$(ls first)" ;;
figures_are_well_formed)
  command -v xmllint >/dev/null || exit 77
  expect 0 run
  for file in o/*.svg; do
    xmllint --noout "$file"
    [ "$(grep -c '<title' "$file")" = 1 ] && [ "$(grep -c '<desc' "$file")" = 1 ] || die "$file: no title"
  done ;;
compare_and_recheck_answer)
  expect 0 run --no-poison
  a=$(ls o/gpt2-tiny/z0-*/ledger.rank0.json) b=$(ls o/gpt2-tiny/z1-*/ledger.rank0.json)
  expect 0 "$validate" compare "$a" "$a"
  has out 'equal: '
  expect 2 "$validate" compare "$a" "$b"
  expect 3 "$validate" compare "$a" o/validate.json
  expect 2 "$validate" compare "$a"
  expect 0 "$validate" recheck o
  last '4 cases, 0 differ'
  echo 'a rank that the run has not' >"${a%0.json}9.same"
  expect 3 "$validate" recheck o
  has err 'no such rank'
  rm "${a%0.json}9.same"
  cp "$a" before.json
  FAKE_EDIT=1 expect 1 run --fresh
  expect 1 "$validate" compare before.json "$a"
  has out 'differs: cold backward: temp.branch (temp), max, requested: predicted 0 bytes, measured 256'
  has out '2 of '
  expect 1 "$validate" recheck o
  last '4 cases, 4 differ'
  has err 'temp.branch'
  expect 4 "$validate" recheck nowhere ;;
usage_errors_exit_2)
  expect 2 "$validate" runn
  has err "did you mean 'run'"
  expect 2 "$validate" run --casses x
  expect 2 "$validate" run x
  expect 2 "$validate" run --timeout soon
  expect 2 "$validate" mutants
  expect 3 "$validate" run --cases none.json
  ZL_TRAIN=$work/none expect 4 run
  has err 'ZL_TRAIN'
  expect 0 "$validate" --help
  expect 0 "$validate" run --help
  has out '--cases=FILE'
  expect 0 "$validate" --version ;;
*) die "no such claim: $claim" ;;
esac
