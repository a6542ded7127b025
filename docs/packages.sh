# shellcheck shell=bash
# Sourced by quickstart.sh and check.sh: what the build needs from Debian or Ubuntu, and why.

packages=(
  'gcc              the compiler'
  'libc6-dev        headers of the C library'
  'make             runs the build'
  'cmake            describes the build (3.25 or newer)'
  'libcjson-dev     cJSON: run descriptions and ledgers are JSON'
  'zlib1g-dev       zlib: recordings for zl replay are packed'
  'libyaml-dev      libyaml: configurations of accelerate are YAML'
  'libopenblas-dev  OpenBLAS: matrix products of the trainer on the host'
  'libopenmpi-dev   MPI: collectives of the trainer on the host'
  'openmpi-bin      mpiexec, which starts ranks'
  'libgsl-dev       GSL: fits of zl-validate'
  'libcmocka-dev    cmocka: unit tests'
)

# prepare [--no-install]: the packages are there afterwards, or the script ends with 4.
prepare() {
  case "${1-}" in
    '' | --no-install) ;;
    *) sed -n '2,3s/^# //p' "$0" >&2; exit 2 ;;
  esac
  command -v dpkg-query >/dev/null || { echo 'not a Debian system: docs/install.md lists what is needed'; return; }

  local line name why missing=() sudo=()
  for line in "${packages[@]}"; do
    read -r name why <<<"$line"
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" != installed ] || continue
    missing+=("$name")
    printf 'missing: %-16s %s\n' "$name" "$why"
  done
  [ ${#missing[@]} -gt 0 ] || { echo 'nothing is missing'; return; }

  [ "$(id -u)" = 0 ] || sudo=(sudo)
  if [ -n "${1-}" ] || { [ ${#sudo[@]} -gt 0 ] && ! command -v sudo >/dev/null; }; then
    echo "install with: ${sudo[0]:+sudo }apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 4
  fi
  local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0)
  if ! "${apt[@]}" update ||
    ! "${apt[@]}" install --no-install-recommends "${missing[@]}" >/dev/null; then
    echo 'apt-get could not install them' >&2
    exit 4
  fi
}
