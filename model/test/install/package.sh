#!/usr/bin/env bash
# Packs a build as a Debian package, looks into it, installs it below an empty folder, and uses it from there.
# usage: package.sh CPACK BUILD_DIR CC [FLAG...]      exit 77 without Debian's tools
set -euo pipefail
[ $# -ge 3 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
cpack=$1 build_dir=$2
shift 2
for tool in dpkg-deb dpkg-shlibdeps; do
  command -v $tool >/dev/null || { echo "no $tool here: apt-get install dpkg-dev"; exit 77; }
done
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
bad=0
say() { echo "$1"; bad=1; }

"$cpack" --config "$build_dir/CPackConfig.cmake" -G 'DEB;TGZ' -B "$work/packages" >packing.txt 2>&1 || {
  cat packing.txt
  exit 1
}
deb=$(echo packages/*.deb) archive=$(echo packages/*.tar.gz)
version=$(dpkg-deb -f "$deb" Version)
dpkg-deb -f "$deb" Depends | grep -q 'libcjson1.*zlib1g' || say 'Depends lacks libraries'
(cd packages && sha256sum --quiet -c ./*.sha256) || say 'a checksum is wrong'

# Installed by dpkg into a root of its own where that is allowed, else unpacked.
mkdir root
dpkg=(dpkg --root="$work/root" --force-depends --force-script-chrootless)
if [ "$(id -u)" != 0 ] || ! "${dpkg[@]}" -i "$deb" >installing.txt 2>&1; then
  dpkg-deb -x "$deb" root
fi
for file in bin/{zl,zl-train,zl-trace,zl-validate} include/zeroledger/predict.h share/doc/zeroledger/copyright \
  share/bash-completion/completions/zl share/zsh/vendor-completions/_zl share/fish/vendor_completions.d/zl.fish; do
  [ -f "root/usr/$file" ] || say "the package lacks $file"
done
if command -v scdoc >/dev/null; then
  for page in man1/zl.1 man1/zl-fit.1 man5/zl-ledger.5; do
    gzip -t "root/usr/share/man/$page.gz" || say "the package lacks $page"
  done
fi
zcat root/usr/share/doc/zeroledger/changelog.gz | head -n 1 | grep -q "^zeroledger ($version) " ||
  say "model/cmake/package/changelog does not begin with $version"

installed=$work/root/usr/bin
[ "$("$installed/zl" --version)" = "zl $version" ] || say 'zl --version says another version'
"$installed/zl" predict --model gpt2-tiny --stage 3 --ranks 4 --format json --out predicted.json
"$installed/zl" validate compare predicted.json predicted.json >/dev/null || say 'zl does not find its zl-validate'
if command -v pkg-config >/dev/null; then
  PKG_CONFIG_PATH=$(dirname "$(find "$work/root" -name zeroledger.pc)")
  export PKG_CONFIG_PATH
  # shellcheck disable=SC2046
  "$@" "$here/consumer/consumer.c" -o consumer $(pkg-config --cflags --libs zeroledger)
  LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH") ./consumer || say 'a program does not run with the library'
fi
tar -xzf "$archive"
[ "$("$(echo zeroledger-*/bin/zl)" --version)" = "zl $version" ] || say 'zl of the archive does not run'
# A build for /usr, as the preset package makes it, has to please lintian.
if command -v lintian >/dev/null && grep -q '^CMAKE_INSTALL_PREFIX:.*=/usr$' "$build_dir/CMakeCache.txt"; then
  lintian --allow-root --fail-on error "$deb" >lint.txt 2>&1 || say "$(cat lint.txt)"
fi
exit $bad
