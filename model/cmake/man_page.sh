#!/usr/bin/env bash
# Prints an scdoc page with every line `; OPTIONS PROGRAM [COMMAND]` replaced by the options of that program:
# those of zl from `zl __man COMMAND`, those of the others from their --help.
# usage: man_page.sh BIN_DIR PAGE.scd
set -euo pipefail
[ $# = 2 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
export LC_ALL=C
unset ARGP_HELP_FMT COLUMNS

# argp's help: two columns, continued lines indented to the second.
from_help() {
  awk '
    function escaped(text) { gsub(/[_*\\#`<]/, "\\\\&", text); return text }
    function words(name, parts) {
      split(name, parts, "=")
      return "*" parts[1] "*" (parts[2] != "" ? " _" escaped(parts[2]) "_" : "")
    }
    function flush(   n, i, names, line) {
      if (option == "") return
      n = split(option, names, ", ")
      for (i = 1; i <= n; i++) line = line (i > 1 ? ", " : "") words(names[i])
      printf "%s\n\t%s.\n\n", line, toupper(substr(text, 1, 1)) escaped(substr(text, 2))
      option = ""
    }
    /^ +-/ {
      flush()
      sub(/^ +/, "")
      at = match($0, /  +/)
      option = at ? substr($0, 1, at - 1) : $0
      text = at ? substr($0, at + RLENGTH) : ""
      next
    }
    option != "" && /^                    / { sub(/^ +/, ""); text = text (text != "" ? " " : "") $0; next }
    { flush() }
    /^ [A-Z].*:$/ { sub(/^ /, ""); sub(/:$/, ""); printf "## %s\n\n", $0 }
    END { flush() }'
}

while IFS= read -r line; do
  if [[ $line != '; OPTIONS '* ]]; then
    printf '%s\n' "$line"
    continue
  fi
  read -r _ _ program command <<<"$line"
  if [ "$program" = zl ]; then
    "$1/zl" __man "$command"
  else
    # shellcheck disable=SC2086
    "$1/$program" $command --help | from_help
  fi
done <"$2"
