#!/usr/bin/env bash
# Every header compiles alone.
# usage: headers.sh FOLDER COMPILER [FLAG...]
set -euo pipefail
folder=$1
shift
headers=$(find "$folder" -name '*.h' -not -path '*/cuda/*')
[ -n "$headers" ] || { echo "no headers in $folder"; exit 1; }
status=0
for header in $headers; do
  printf '#include "%s"\ntypedef int nothing;\n' "$header" |
    "$@" -std=c17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c - || status=1
done
exit $status
