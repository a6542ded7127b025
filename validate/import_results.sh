#!/usr/bin/env bash
# Makes a folder of docs/results from what runtime/test/gpu.sh left, so that nothing in it is by hand.
#
#     bash validate/import_results.sh docs/results/2026-12-01-h200 results.tar.gz...
#
# Takes one results.tar.gz or several of one commit and one kind of machine; where two have the same run, the later one
# counts, and so with rows of speed. For each training run: train.json and the ledger of every rank (ledger.rankN.same: the same as rank 0's). Of the modes: conform.json, sanitizer.json, speed.json,
# reference*.json, kernels.txt, nccl.json, trace/ and trace-RUN/, and runs.txt, the verdict of every run, also of those that did not do what they should. Ends
# with the number of runs and of bad ones; exit 1 if there are bad ones, which are kept like the others, 3 if the files do
# not belong together. The folder must not exist yet.
set -euo pipefail
fail() { printf 'import_results.sh: %s\n' "$1" >&2; exit 3; }
[ $# -ge 2 ] || { sed -n '4s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
folder=$1
shift
[ ! -e "$folder" ] || fail "$folder exists; remove it first, or name another"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
into=$work/into
mkdir "$into"

# What has to be the same, as lines.
identity() { grep -vE '"(date|gpus)":' "$1"; }
gpus() { sed -n 's/.*"gpus": \([0-9]*\).*/\1/p' "$1"; }

# A ledger with a line for each cell: a third of the bytes, the same values.
cells_on_lines() {
  awk '/^  "cells": \[$/ { cells = 1; print; next }
    cells && /^    \{$/ { line = "    {"; next }
    cells && /^    \},?$/ { sub(/^ */, ""); print line $0; line = ""; next }
    line != "" { sub(/^ */, ""); line = line $0 (/,$/ ? " " : ""); next }
    { print }' "$1"
}

# The ledgers of a run. That of a rank which is rank 0's but for its number is not kept twice: ledger.rankN.same says so, and
# recheck takes it at its word.
ledgers() { # ledgers RUN INTO
  local ledger name
  for ledger in "$1"/ledger.rank*.json; do
    name=$(basename "$ledger" .json)
    if [ "$name" != ledger.rank0 ] && [ -f "$1/ledger.rank0.json" ] &&
      cmp -s <(sed '/^  "rank": [0-9]*,$/d' "$1/ledger.rank0.json") <(sed '/^  "rank": [0-9]*,$/d' "$ledger"); then
      echo 'ledger.rank0.json, but for "rank"' >"$2/$name.same"
    else
      cells_on_lines "$ledger" >"$2/$name.json"
    fi
  done
}

# A trace without the folders in its command line, which were those of a machine.
trace() { sed -E 's#^( *")/[^"]*/([^"/]+",?)$#\1\2#' "$1"; }

import() { # import FOLDER: an unpacked results.tar.gz
  local from=$1 run name mode
  [ -f "$from/provenance.json" ] || fail 'no provenance.json: not a result of gpu.sh'
  grep -qE '"commit": "[0-9a-f]{40}"' "$from/provenance.json" || fail 'the commit is unknown, or its tree was modified'
  if [ -f "$into/provenance.json" ]; then
    diff <(identity "$into/provenance.json") <(identity "$from/provenance.json") >&2 || fail 'results of two commits or machines'
    [ "$(gpus "$into/provenance.json")" -gt "$(gpus "$from/provenance.json")" ] || cp "$from/provenance.json" "$into"
  else
    cp "$from/provenance.json" "$into"
  fi
  for run in "$from"/train/runs/*/; do
    name=$(basename "$run")
    [ -f "$run/train.json" ] || continue # refused or killed on purpose, or failed: runs.txt says so
    rm -rf "${into:?}/$name"
    mkdir "$into/$name"
    cp "$run"/train.json "$into/$name"
    ledgers "$run" "$into/$name"
  done
  [ ! -f "$from/train/results.txt" ] || cat "$from/train/results.txt" >>"$work/runs.txt"
  if [ -f "$from/speed/speed.json" ]; then # rows are added to those of before
    cp "$from/speed/speed.json" "$into"
    sed -n 's/^    {"name": "\([^"]*\)".*/\1/p' "$into/speed.json" >"$work/new"
    [ ! -f "$work/rows" ] || grep -vFf <(sed 's/.*/{"name": "&",/' "$work/new") "$work/rows" >"$work/kept" || true
    { cat "$work/kept" 2>/dev/null; sed -n 's/^    \({"name": .*}\),\{0,1\}$/\1/p' "$into/speed.json"; } >"$work/all" || true
    mv "$work/all" "$work/rows"
    { sed '/^  "rows": \[$/q' "$into/speed.json"; sed '$!s/$/,/; s/^/    /' "$work/rows"; printf '  ]\n}\n'; } >"$work/speed.json"
    mv "$work/speed.json" "$into"
  fi
  for mode in conform/conform conform/sanitizer; do
    [ ! -f "$from/$mode.json" ] || cp "$from/$mode.json" "$into"
  done
  [ ! -f "$from/kernels/kernels.txt" ] || cp "$from/kernels/kernels.txt" "$into"
  [ ! -f "$from/reference/committed.json" ] || cp "$from/reference/committed.json" "$into/reference.json"
  [ ! -f "$from/reference/here.json" ] || cp "$from/reference/here.json" "$into/reference-here.json"
  [ ! -f "$from/nccl/nccl.json" ] || cp "$from/nccl/nccl.json" "$into"
  [ ! -f "$from/nccl/nccl-trace.json" ] || trace "$from/nccl/nccl-trace.json" >"$into/nccl-trace.json"
  for run in "$from"/trace/*.run/; do # a ledger and the trace of the same run, side by side
    name=$(basename "$run" .run)
    [ -f "$run/train.json" ] && [ -f "$from/trace/$name.json" ] || continue
    rm -rf "${into:?}/trace-$name"
    mkdir "$into/trace-$name"
    cp "$run"/train.json "$into/trace-$name"
    ledgers "$run" "$into/trace-$name"
    trace "$from/trace/$name.json" >"$into/trace-$name/trace.json"
  done
  for name in "$from"/trace/{*.json,trace.txt}; do # timelines are to be looked at, not kept
    [ -f "$name" ] && [[ $name != *.timeline.json ]] && [ ! -d "${name%.json}.run" ] || continue
    mkdir -p "$into/trace"
    cp "$name" "$into/trace"
  done
}

for tar in "$@"; do
  rm -rf "$work/from"
  mkdir "$work/from"
  tar -C "$work/from" -xzf "$tar" || fail "$tar: not a results.tar.gz"
  import "$work/from"
done
# The last verdict of each run, in the order of names; one that another tar had no time for does not count.
[ ! -f "$work/runs.txt" ] ||
  grep -v '^run  *verdict' "$work/runs.txt" | awk '$2 != "late" || !($1 in line) { line[$1] = $0 } END { for (name in line) print line[name] }' |
  sort >"$into/runs.txt"
runs=$(find "$into" -name train.json | wc -l)
bad=$(grep -c '^[^ ]* *BAD ' "$into/runs.txt" 2>/dev/null) || true
mkdir -p "$(dirname "$folder")"
cp -r "$into" "$folder"
printf '%s: %d runs, %d bad, %s\n' "$folder" "$runs" "${bad:-0}" "$(cd "$folder" && find . -maxdepth 1 -name '*.json' -printf '%P ')"
[ "${bad:-0}" -eq 0 ]
