#!/usr/bin/env bash
# Each check of this folder passes on something right and fails on the fault it exists for.
# usage: can_fail.sh CC
set -euo pipefail
cc=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
status=0

expect() { # expect pass|fail CHECK ARGUMENT...
  local wanted=$1 got=pass output
  shift
  output=$(bash "$here/$1.sh" "${@:2}" 2>&1) || got=fail
  [ $got = "$wanted" ] || { printf '%s: %s, expected %s\n%s\n' "$*" $got "$wanted" "$output"; status=1; }
}

echo "a.o: $work/model/include/zeroledger/vocab.h" >a.o.d
expect pass includes "$work" "$work" a.o
for header in include/zeroledger/predict.h include/zeroledger/solve.h family/family.h base/ledger.h; do
  printf 'b.o: /usr/include/stdio.h \\\n  %s/runtime/../model/%s\n' "$work" "$header" >b.o.d
  expect fail includes "$work" "$work" a.o b.o
done
expect fail includes "$work" "$work" missing.o

echo 'int main(void) { return 0; }' | "$cc" -x c -o honest -
expect pass symbols honest
echo 'static int zl_predict(void) { return 0; } int main(void) { return zl_predict(); }' | "$cc" -O0 -x c -o cheat -
expect fail symbols cheat
strip -o stripped honest
expect fail symbols stripped

mkdir -p runtime/test runtime/net
touch runtime/test/allocation.allow
echo '/* no malloc(1) here */ int zr_x;' >runtime/net/x.c
expect pass allocation "$cc" "$work"
echo 'void *malloc(unsigned long); void *zr_y(void) { return malloc (8); }' >runtime/net/y.c
expect fail allocation "$cc" "$work"
echo 'net/y.c malloc a reason' >runtime/test/allocation.allow
expect pass allocation "$cc" "$work"
rm runtime/net/y.c
expect fail allocation "$cc" "$work"
expect fail allocation false "$work"

library() { # library NAME CODE
  echo "int puts(const char *); $2" | "$cc" -shared -fPIC -Wl,-soname,libzeroledger.so.0 -x c -o "$1" - "${@:3}"
}
library good.so 'int zl_a(void) { return puts(""); }'
expect pass imports good.so
library mpi.so 'int MPI_Init(int *, char ***); int zl_a(void) { return puts("") + MPI_Init(0, 0); }'
expect fail imports mpi.so
library math.so 'double sin(double); double zl_a(double x) { return puts("") + sin(x); }' -lm
expect fail imports math.so
library export.so 'int zl_a(void) { return puts(""); } int leaked;'
expect fail imports export.so

mkdir headers
echo '#include <stdint.h>
uint64_t zl_bytes(void);' >headers/a.h
expect pass headers headers "$cc"
echo 'uint64_t zl_bytes(void);' >headers/b.h
expect fail headers headers "$cc"
exit $status
