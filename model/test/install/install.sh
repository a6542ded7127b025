#!/usr/bin/env bash
# Installs a build, then compiles and runs a program that finds the library as a stranger would.
# usage: install.sh CMAKE BUILD_DIR CC [FLAG...]
set -euo pipefail
cmake=$1 build_dir=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build_dir" --prefix "$work/prefix" >/dev/null
for program in zl zl-train zl-trace zl-validate; do
  [ -x "$work/prefix/bin/$program" ] || { echo "$program is not installed"; exit 1; }
done
CC=$1 CFLAGS=${*:2} "$cmake" -S "$here/consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
"$cmake" --build "$work/build" >/dev/null
"$work/build/consumer"

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH
  PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name zeroledger.pc)")
  # shellcheck disable=SC2046
  "$@" "$here/consumer/consumer.c" -o "$work/flags" $(pkg-config --cflags --libs zeroledger)
  LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH") "$work/flags"
fi
