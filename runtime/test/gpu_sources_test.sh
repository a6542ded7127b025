#!/usr/bin/env bash
# What gpu_build.sh builds, on machines with a GPU and little else, has the main functions of its programs and no other: none of
# a test, a benchmark or a fuzz target.
# usage: gpu_sources_test.sh SOURCE_DIR
set -euo pipefail
cd "$1"
with_nccl=1 mpicc=mpicc
. runtime/test/gpu_sources.sh
mains() { xargs grep -lE '^int main\(|LLVMFuzzerTestOneInput' | sort | tr '\n' ' '; }
check() { # check EXPECTED GOT
  [ "$1 " = "$2" ] || { echo "expected $1, got $2"; exit 1; }
}
check runtime/train/main.c "$( (common; cuda_sources; host_sources) | mains)"
check '' "$(model_sources | mains || true) "
check validate/cli/main.c "$(validate_sources | mains)"
[ "$(common | wc -l)" -gt 30 ] && [ "$(model_sources | wc -l)" -gt 60 ] || { echo 'sources are missing'; exit 1; }
