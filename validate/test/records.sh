#!/usr/bin/env bash
# The judgement of measured PyTorch runs; one claim a call.
# usage: records.sh CLAIM ZL_VALIDATE SOURCE_DIR
set -euo pipefail
claim=$1 validate=$2 source=$3
records=$source/validate/records two=$source/validate/test/two-records.jsonl
all=("$records"/torch-h200.jsonl "$records"/torch-lora-h200.jsonl "$records"/deepspeed-h200.jsonl)
extra=("$records"/extra/torch-extra.jsonl "$records"/extra/torch-arch.jsonl "$records"/extra/deepspeed-extra.jsonl)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

die() { printf '%s\n' "$*" >&2; cat err 2>/dev/null >&2 || true; exit 1; }

# expect CODE COMMAND...: its exit code; output in out and err
expect() {
  local wanted=$1 got=0
  shift
  "$@" >out 2>err || got=$?
  [ "$got" = "$wanted" ] || die "$*: exit $got, expected $wanted"
}
has() { grep -qF -- "$2" "$1" || die "'$2' is not in $1"; }

case $claim in
figures_do_not_get_worse)
  expect 0 "$validate" records "${all[@]}" --summary --limits "$records/limits.json" ;;
page_is_up_to_date)
  expect 0 "$validate" records "${all[@]}" --format md
  [ "${ZL_BLESS-}" != 1 ] || cp out "$source/docs/accuracy.md"
  diff -u "$source/docs/accuracy.md" out || die 'docs/accuracy.md is out of date; ZL_BLESS=1 writes it again' ;;
extra_figures_do_not_get_worse)
  expect 0 "$validate" records "${extra[@]}" --summary --limits "$records/extra/limits.json" ;;
extra_page_is_up_to_date)
  expect 0 "$validate" records "${extra[@]}" --format md
  [ "${ZL_BLESS-}" != 1 ] || cp out "$source/docs/accuracy-extra.md"
  diff -u "$source/docs/accuracy-extra.md" out || die 'docs/accuracy-extra.md is out of date; ZL_BLESS=1 writes it again' ;;
figures_may_be_absent)
  # A record that does not have them: 21 marks of six quantities, none of the device.
  sed -n 1p "${extra[0]}" >one.jsonl
  ! grep -q device_used one.jsonl || die 'the record has device_used'
  expect 0 "$validate" records one.jsonl --format json
  [ "$(grep -c '"quantity"' out)" = 126 ] || die "$(grep -c '"quantity"' out) rows, expected 126"
  ! grep -q device_used out || die 'there are rows that nobody measured' ;;
every_mark_has_its_rows)
  expect 0 "$validate" records "$two" --format json
  # Four marks of seven quantities each, and a record that is not modelled and has none.
  [ "$(grep -c '"quantity"' out)" = 28 ] || die "$(grep -c '"quantity"' out) rows, expected 28"
  has out '"status": "not modelled"'
  has out "framework 'pipeline' is not modelled" ;;
impossible_records_keep_the_others)
  # No sequence, and a batch that fits no GPU: no answer for them, the same rows for the rest.
  expect 0 "$validate" records "$two" --format json
  grep '"predicted"' out >before
  { sed -n 1p "$two" | sed 's/"seq": [0-9]*/"seq": 0/'; sed -n 1p "$two" | sed 's/"micro_batch": [0-9]*/"micro_batch": 1000000000000/'; cat "$two"; } >four.jsonl
  expect 0 "$validate" records four.jsonl --format json
  [ "$(grep -c '"not modelled"' out)" = 3 ] || die "$(grep -c '"not modelled"' out) records without an answer, expected 3"
  has out 'must be 1 or more'
  has out 'does not fit'
  grep '"predicted"' out | cmp -s - before || die 'the other rows changed' ;;
only_the_setup_is_read)
  # Other measurements, the same predictions.
  expect 0 "$validate" records "$two" --format json
  grep '"predicted"' out >before
  sed -E 's/"(allocated|requested|reserved|peak_[a-z]+|active|device_used|params|ooms)": [0-9]+/"\1": 1/g' "$two" >changed.jsonl
  ! cmp -s "$two" changed.jsonl || die 'nothing was changed'
  expect 0 "$validate" records changed.jsonl --format json
  grep '"predicted"' out | cmp -s - before || die 'a prediction depends on a measurement' ;;
labels_are_only_labels)
  expect 0 "$validate" records "$two" --format json
  grep '"predicted"' out >before
  sed -E 's/"(model|id)": "[^"]*"/"\1": "x"/g' "$two" >renamed.jsonl
  expect 0 "$validate" records renamed.jsonl --format json
  grep '"predicted"' out | cmp -s - before || die 'a prediction depends on a name' ;;
worse_figures_exit_1)
  sed -E 's/"requested": [0-9]+/"requested": 1/g' "$two" >wrong.jsonl
  printf '{"limits": [{"figure": "torch.requested_within_1KiB", "bound": 99}]}' >limits.json
  expect 1 "$validate" records wrong.jsonl --summary --limits limits.json
  has err 'torch.requested_within_1KiB got worse'
  printf '{"limits": [{"figure": "torch.nonsense", "bound": 99}]}' >limits.json
  expect 3 "$validate" records wrong.jsonl --summary --limits limits.json
  has err 'there is no figure "torch.nonsense"' ;;
misses_are_named)
  sed -E 's/"reserved": [0-9]+/"reserved": 7/g' "$two" >wrong.jsonl
  expect 0 "$validate" records wrong.jsonl --misses
  has out 'before_forward reserved: measured 7' ;;
bad_lines_exit_3)
  { cat "$two"; printf '{"config": {"id": "x"\n'; } >bad.jsonl
  expect 3 "$validate" records bad.jsonl
  has err 'bad.jsonl:3'
  printf '{"speed": 1}\n' >bad.jsonl
  expect 3 "$validate" records bad.jsonl
  has err 'bad.jsonl:1: config is missing'
  sed 's/"seq": 1024/"seq": "long"/' "$two" >bad.jsonl
  expect 3 "$validate" records bad.jsonl
  has err 'config.seq'
  expect 3 "$validate" records absent.jsonl
  expect 2 "$validate" records
  expect 2 "$validate" records "$two" --format yaml ;;
losses_may_be_infinite)
  sed -E 's/"loss_last": [0-9.]+/"loss_last": NaN, "scale": -Infinity/' "$two" >nan.jsonl
  grep -q NaN nan.jsonl || die 'nothing was changed'
  expect 0 "$validate" records nan.jsonl --summary ;;
*) die "no claim '$claim'" ;;
esac
