#!/usr/bin/env bash
# The comparison with other calculators; one claim a call.
# usage: peers.sh CLAIM ZL_VALIDATE SOURCE_DIR
set -euo pipefail
claim=$1 validate=$2 source=$3
records=$source/validate/records
all=("$records"/torch-h200.jsonl "$records"/torch-lora-h200.jsonl "$records"/deepspeed-h200.jsonl)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

die() { printf '%s\n' "$*" >&2; cat err 2>/dev/null >&2 || true; exit 1; }

# refuses TEXT PEERS FILE...: exit 3, and the message has TEXT
refuses() {
  local text=$1 peers=$2 got=0
  shift 2
  "$validate" peers --peers "$peers" "$@" >out 2>err || got=$?
  [ "$got" = 3 ] || die "exit $got, expected 3"
  grep -qF -- "$text" err || die "'$text' is not in err"
}
# answer ID PEER PREDICTED MEASURED
answer() {
  printf '[{"config_id": "%s", "peer": "%s", "predicted_bytes": %s, "measured_bytes": %s, "rel_error": null}]' "$@"
}
id=gpt2_single_w1_bf16_b4_s1024_sdpa_adamw-fused

case $claim in
page_is_up_to_date)
  "$validate" peers "${all[@]}" >out 2>err || die "exit $?"
  [ "${ZL_BLESS-}" != 1 ] || cp out "$source/docs/peers.md"
  diff -u "$source/docs/peers.md" out || die 'docs/peers.md is out of date; ZL_BLESS=1 writes it again' ;;
only_the_records_measurement_counts)
  answer "$id" x 1 2 >peers.json
  refuses 'measured_bytes is 2, the record says' peers.json "${all[@]}"
  answer nowhere x 1 2 >peers.json
  refuses 'nowhere is in none of the files' peers.json "${all[@]}"
  answer "$id" 'x [reserved]' 1 2 >peers.json
  refuses "' [reserved]' is no figure" peers.json "${all[@]}" ;;
answers_are_compared)
  # The record's own measurement as an answer has no error, twice as much is 100 % off, null is no answer.
  measured=$(sed -n "s/.*\"config_id\": *\"$id\", *\"peer\": *\"naive-16\", *\"predicted_bytes\": *[0-9]*, *\"measured_bytes\": *\([0-9]*\).*/\1/p" \
    <(tr -d '\n' <"$records/peers.json" | sed 's/}/}\n/g'))
  [ -n "$measured" ] || die "peers.json has no answer of naive-16 for $id"
  answer "$id" right "$measured" "$measured" >peers.json
  "$validate" peers --peers peers.json "${all[@]}" >out 2>err || die "exit $?"
  grep -qF '| right | 1 of 1 | 0.0 % | 0.0 % | 0.0 % | 0 |' out || die "$(grep '| right' out)"
  answer "$id" twice $((2 * measured)) "$measured" >peers.json
  "$validate" peers --peers peers.json "${all[@]}" >out 2>err || die "exit $?"
  grep -qF '| twice | 1 of 1 | 100.0 % | 100.0 % | 100.0 % | 0 |' out || die "$(grep '| twice' out)"
  answer "$id" silent null "$measured" >peers.json
  "$validate" peers --peers peers.json "${all[@]}" >out 2>err || die "exit $?"
  grep -qF '| silent | 0 of 1 | | |' out || die "$(grep '| silent' out)" ;;
*) die "no claim '$claim'" ;;
esac
