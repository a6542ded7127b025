#!/usr/bin/env bash
# The tables between the marks in docs/performance.md are, for each number of GPUs, those of the newest speed.json of
# docs/results that has rows on so many; on the example of docs/schema the program does what it should.
# usage: check.sh SPEED_TABLE SOURCE_DIR      ZL_BLESS=1 writes the tables again
set -euo pipefail
table=$1 page=$2/docs/performance.md example=$2/docs/schema/examples/speed.json
begin='<!-- speed: written by ctest -R docs.speed -->' end='<!-- end of speed -->'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$table" "$example" >"$work/example.md"
grep -q '^| zeroledger, stage 0 | none | bf16 | 21.0 | 21.8 % | 31.2 | 33.1 | 1.05 | 0.40 |$' "$work/example.md" ||
  { cat "$work/example.md"; echo 'the row of the example is not as worked out by hand'; exit 1; }
grep -q '^| PyTorch fsdp2, eager | none | fp32 | failed: out of memory | | | | | |$' "$work/example.md"
sed 's/"step_seconds": 0.39/"step_seconds": 0/' "$example" >"$work/wrong.json"
! "$table" "$work/wrong.json" >/dev/null 2>&1 || { echo 'a step of no time is not refused'; exit 1; }

# A file made from printed lines is what these lines say, all of them.
while IFS= read -r log; do
  folder=$(dirname "$log")
  bash "$2/validate/speed/from_lines.sh" "$folder" >"$work/lines.json"
  [ "${ZL_BLESS-}" != 1 ] || cp "$work/lines.json" "$folder/speed.json"
  diff -u "$folder/speed.json" "$work/lines.json" || { echo "$folder/speed.json is not what its logs say: run this test with ZL_BLESS=1"; exit 1; }
  rows=$(cat "$folder"/speed*.log | grep -c ' s a step, ')
  [ "$(grep -c '"from": "lines"' "$work/lines.json")" = "$rows" ] || { echo "$folder/speed.json lacks rows"; exit 1; }
done < <(find "$2/docs/results" -mindepth 2 -maxdepth 2 -name 'speed1.log' | sort)

newest() { # newest RANKS: the file with the latest date of those with such rows
  local file
  find "$2" -mindepth 2 -maxdepth 2 -name speed.json | while IFS= read -r file; do
    ! grep -q "\"ranks\": $1," "$file" || echo "$(sed -n 's/^  "date": "\(.*\)",$/\1/p' "$file") $file"
  done | LC_ALL=C sort | tail -n 1 | cut -d ' ' -f 2-
}
counts() { sed -n 's/.*"ranks": \([0-9]*\),.*/\1/p' "$1"/*/speed.json | sort -nu; }
{
  echo "$begin" # without results, nothing is between the marks
  separator=''
  for ranks in $(counts "$2/docs/results"); do
    printf '%b' "$separator"
    "$table" "$(newest "$ranks" "$2/docs/results")" "$ranks"
    separator='\n'
  done
  echo "$end"
} >"$work/new.md"
sed -n "/^$begin\$/,/^$end\$/p" "$page" >"$work/old.md"
if [ "${ZL_BLESS-}" = 1 ]; then
  grep -qF "$begin" "$page" || { echo "$page has no line '$begin'"; exit 1; }
  { sed "/^$begin\$/,\$d" "$page"; cat "$work/new.md"; sed "1,/^$end\$/d" "$page"; } >"$work/page.md"
  cat "$work/page.md" >"$page"
  exit 0
fi
diff -u "$work/old.md" "$work/new.md" || { echo "$page is out of date: run this test with ZL_BLESS=1"; exit 1; }
