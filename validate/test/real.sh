#!/usr/bin/env bash
# A command of zl-validate with results in a folder of its own that is gone afterwards.
# usage: real.sh ZL_VALIDATE COMMAND [OPTION...]
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$@" --out "$work"
