#!/usr/bin/env bash
# Builds everything for the host and runs every test that needs no GPU; ends with ctest's summary.
# usage: check.sh [--no-install]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source docs/packages.sh

prepare "$@"
cmake --workflow --preset host
