#!/usr/bin/env bash
# Every link of the documentation into the repository leads somewhere: the file exists, and the heading or
# anchor after '#' too. Links with a scheme are not followed, code is not read.
# usage: links.sh SOURCE_DIR
set -euo pipefail
[ $# = 1 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
cd "$1"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2016
prose() { # prose FILE: without code blocks; a code span may be the text of a link
  awk '/^ *```/ { code = !code; next } !code' "$1" | sed 's/\[`[^`]*`\]/[]/g; s/`[^`]*`//g'
}

anchors() { # anchors FILE: ids, and headings as GitHub turns them into ids
  sed -n 's/.*<a id="\([^"]*\)".*/\1/p' "$1"
  awk '/^```/ { code = !code; next } !code && /^#+ / { sub(/^#+ +/, ""); print tolower($0) }' "$1" |
    sed 's/<[^>]*>//g; s/[^[:alnum:] _-]//g; s/ /-/g'
}

has_anchor() { # has_anchor FILE ANCHOR
  [ -e "$work/$1" ] || { mkdir -p "$work/$(dirname "$1")" && anchors "$1" >"$work/$1"; }
  grep -Fxq -e "$2" "$work/$1"
}

links() { # links FILE: targets without a scheme
  prose "$1" | grep -o '\](\([^)]*\))' | sed 's/^](//; s/)$//; s/ ".*"$//' | grep -Ev '^[a-z]+:' || true
}

count=0 bad=0
while IFS= read -r file; do
  while IFS= read -r link; do
    path=${link%%#*} target=$file
    [ -z "$path" ] || target=$(realpath -m --relative-to . "$(dirname "$file")/$path")
    count=$((count + 1))
    if [ ! -e "$target" ]; then
      echo "$file: $link: no such file"
      bad=1
    elif [ "$path" != "$link" ] && ! has_anchor "$target" "${link#*#}"; then
      echo "$file: $link: no such anchor"
      bad=1
    fi
  done < <(links "$file")
done < <(find . -name '*.md' -not -path './build/*' -not -path './.git/*' -printf '%P\n' | sort)
[ "$count" -gt 0 ] || { echo 'no link found'; exit 1; }
echo "$count links"
exit $bad
