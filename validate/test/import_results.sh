#!/usr/bin/env bash
# import_results.sh on results made for the purpose: two tars become one folder, what does not belong together is refused.
# usage: import_results.sh SOURCE_DIR
set -euo pipefail
import=$1/validate/import_results.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
die() { echo "$1"; exit 1; }

made() { # made NAME COMMIT GPUS RUN VERDICT: a results.tar.gz with one run
  mkdir -p "$1/train/runs/$4" "$1/conform" "$1/reference" "$1/speed"
  printf '{\n  "gpus": %d,\n  "rows": [\n    {"name": "same", "of": "%s"},\n    {"name": "%s", "of": "%s"}\n  ]\n}\n' "$3" "$1" "$4" "$1" \
    >"$1/speed/speed.json"
  printf '{\n  "schema": "zeroledger.results/1",\n  "commit": "%s",\n  "date": "2026-01-0%d",\n  "gpus": %d\n}\n' "$2" "$3" "$3" >"$1/provenance.json"
  printf 'run    verdict  words\n%-20s %-6s words\n' "$4" "$5" >"$1/train/results.txt"
  [ "$5" = late ] || echo "$1" | tee "$1/train/runs/$4/ledger.rank0.json" "$1/train/runs/$4/train.json" >"$1/train/runs/$4/steps.csv"
  echo "$1" | tee "$1/conform/conform.json" >"$1/reference/committed.json"
  tar -C "$1" -czf "$1.tar.gz" .
}
commit=$(printf 'a%.0s' {1..40}) other=$(printf 'b%.0s' {1..40})
made one "$commit" 1 tiny ok
made two "$commit" 2 tiny-n2 ok
made again "$commit" 1 tiny late
made bad "$commit" 1 wrong BAD
made elsewhere "$other" 1 tiny ok
made modified "$commit-modified" 1 tiny ok

bash "$import" out/first one.tar.gz two.tar.gz again.tar.gz >said
grep -q 'out/first: 2 runs, 0 bad' said
[ "$(ls out/first)" = "$(printf '%s\n' conform.json provenance.json reference.json runs.txt speed.json tiny tiny-n2)" ] || die "$(ls out/first)"
[ "$(ls out/first/tiny)" = "$(printf '%s\n' ledger.rank0.json train.json)" ] || die "$(ls out/first/tiny)"
grep -q '"gpus": 2' out/first/provenance.json
[ "$(sed -n 's/ *{"name": //p' out/first/speed.json)" = "$(printf '%s\n' '"tiny-n2", "of": "two"},' '"same", "of": "again"},' '"tiny", "of": "again"}')" ] ||
  die "$(cat out/first/speed.json)"
[ "$(awk '{ print $1, $2 }' out/first/runs.txt)" = "$(printf '%s\n' 'tiny ok' 'tiny-n2 ok')" ] || die "$(cat out/first/runs.txt)"

# Two ranks: what is the same is kept once, and a ledger keeps its values, with a line for each cell.
ledger() { # ledger RANK BYTES
  printf '{\n  "rank": %d,\n  "cells": [\n    {\n      "phase": "step, late",\n      "list": [\n        %d,\n        {\n          "a": 1\n        }\n      ]\n    },\n    {\n      "b": 2\n    }\n  ]\n}\n' "$1" "$2"
}
for rank in 0 1 2; do ledger $rank $((rank == 2 ? 6 : 5)) >two/train/runs/tiny-n2/ledger.rank$rank.json; done
tar -C two -czf ranks.tar.gz .
bash "$import" out/ranks ranks.tar.gz >said
[ "$(ls out/ranks/tiny-n2)" = "$(printf '%s\n' ledger.rank0.json ledger.rank1.same ledger.rank2.json train.json)" ] || die "$(ls out/ranks/tiny-n2)"
[ "$(sed -n '3,6p' out/ranks/tiny-n2/ledger.rank2.json)" = '  "cells": [
    {"phase": "step, late", "list": [6, {"a": 1}]},
    {"b": 2}
  ]' ] || die "$(cat out/ranks/tiny-n2/ledger.rank2.json)"
cmp <(tr -d ' \n' <out/ranks/tiny-n2/ledger.rank2.json) <(tr -d ' \n' <two/train/runs/tiny-n2/ledger.rank2.json)

rc=0
bash "$import" out/bad one.tar.gz bad.tar.gz >said || rc=$?
[ $rc = 1 ] && [ -f out/bad/wrong/train.json ] || die 'a bad run is dropped, or goes unnoticed'
for wrong in 'one.tar.gz elsewhere.tar.gz' modified.tar.gz; do
  rc=0
  # shellcheck disable=SC2086
  bash "$import" out/wrong $wrong >said 2>&1 || rc=$?
  [ $rc = 3 ] && [ ! -e out/wrong ] || die "$wrong is taken"
done
rc=0
bash "$import" out/first one.tar.gz >said 2>&1 || rc=$?
[ $rc = 3 ] || die 'a folder is overwritten'
