#!/usr/bin/env bash
# Every recording in the folders is replayed without a difference, and a damaged one is not.
# usage: torch_replay.sh ZL FOLDER...
set -euo pipefail
[ $# -ge 2 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
zl=$1
shift
sample=$(printf '%s\n' "$1"/*.trace.json.gz | sed -n 1p)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
say() { echo "$1"; bad=1; }

count=0
while IFS= read -r trace; do
  count=$((count + 1))
  last=$("$zl" replay "$trace" | tail -n 1) || say "$trace: exit status $?"
  [[ $last =~ ^[0-9]+\ events,\ [0-9]+\ segments,\ 0\ differ$ ]] || say "$trace: $last"
  # At every mark all figures are the recorded ones.
  "$zl" replay "$trace" --format csv |
    awk -F, 'NR > 1 && ($3 != $4 || $5 != $6) { print; bad = 1 } END { exit bad || NR < 2 }' ||
    say "$trace: figures at marks differ"
done < <(find "$@" -name '*.trace.json.gz' | sort)
[ $count -gt 0 ] || say "no recordings in $*"

# damaged NAME SED: the command of sed makes the first recording wrong, and that is found.
gzip -dc "$sample" | tr -d '\n' | sed 's/\], *\[/],\n[/g' >"$work/whole.json"
"$zl" replay "$work/whole.json" >/dev/null || say "a row on each line: exit status $?"
damaged() {
  local code=0
  sed "$2" "$work/whole.json" >"$work/$1.json"
  ! cmp -s "$work/whole.json" "$work/$1.json" || say "$1: nothing changed"
  "$zl" replay "$work/$1.json" >"$work/$1.out" 2>&1 || code=$?
  [ $code = 1 ] || say "$1: exit status $code, not 1"
  ! grep -q ' segments, 0 differ$' "$work/$1.out" || say "$1: no difference found"
}
line=$(grep -n '"segment_alloc"' "$work/whole.json" | sed -n '40s/:.*//p')
damaged 'size of a segment' "${line}s/\(\"segment_alloc\", *[0-9]*, *\)[0-9]*/\12097152/"
damaged 'segment left out' "${line}d"
line=$(grep -n '"free_requested"' "$work/whole.json" | sed -n '500s/:.*//p')
damaged 'free left out' "${line}d"
line=$(grep -n '"alloc"' "$work/whole.json" | sed -n '700s/:.*//p')
damaged 'block elsewhere' "${line}s/\(\"alloc\", *\)\([0-9]*\)/\11\2/"
exit $bad
