#!/usr/bin/env bash
# docs/formulas.md has one section for each buffer of the vocabulary, in its order, and each has a formula.
# usage: anchors.sh ZL FORMULAS
set -euo pipefail
[ $# = 2 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
names() { "$1" list buffers --format csv | tail -n +2 | cut -d, -f1; }
diff -u --label vocabulary --label anchors <(names "$1") <(sed -n 's/^<a id="\(.*\)"><\/a>$/\1/p' "$2")
diff -u --label vocabulary --label sections <(names "$1") <(sed -n 's/^### //p' "$2")
awk -v file="$2" '
  function ended() { if (name != "" && rows == 0) { print file ": " name " has no formula"; bad = 1 } }
  /^### / { ended(); name = $2; rows = 0 }
  /^\| `/ { rows++ }
  END { ended(); exit bad }' "$2"
