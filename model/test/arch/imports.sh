#!/usr/bin/env bash
# libzeroledger needs libc and cJSON, and exports only names that begin with zl_.
# usage: imports.sh LIBRARY
set -euo pipefail
library=$1
status=0
dynamic=$(readelf -d "$library" | sed -n 's/.*(\(NEEDED\|SONAME\)).*\[\(.*\)\]/\1 \2/p')
grep -q '^SONAME libzeroledger\.' <<<"$dynamic" || { echo "$library is not libzeroledger"; exit 1; }
allowed='libc|libcjson|ld-linux[a-z0-9-]*'
case "$dynamic" in *libasan*) allowed+='|libasan|libubsan|libm' ;; esac
if grep '^NEEDED' <<<"$dynamic" | grep -vE " ($allowed)\.so"; then
  echo "$library needs the libraries above"
  status=1
fi
if nm -D --undefined-only "$library" | grep -E ' U (MPI_|cblas_|gsl_|nccl|cuda[A-Z]|cublas|cu[A-Z]|zr_|zv_)'; then
  echo "$library calls the functions above"
  status=1
fi
if nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | grep -v '^zl_'; then
  echo "$library exports the symbols above"
  status=1
fi
exit $status
