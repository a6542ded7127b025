# shellcheck shell=bash disable=SC2034,SC2046,SC2154
# Sourced by gpu_train.sh, gpu_reference.sh and gpu_speed.sh, from the top of the repository: builds, with the compilers
# alone, zl, zl-train-cuda and torch_reference-cuda; where OpenBLAS (and MPI) are, zl-train; where GSL is, zl-validate. They
# are in $bin; the next script of the same call finds them there. $out is where the compiler's words go.
#
# cJSON, zlib, libyaml, and for zl-validate GSL, come from the system or from .carry, which git ignores. Filled on a Debian machine
# that has libcjson-dev, zlib1g-dev, libyaml-dev and libgsl-dev:
#     lib=/usr/lib/x86_64-linux-gnu; mkdir -p .carry/include .carry/lib
#     cp -rL /usr/include/cjson /usr/include/gsl /usr/include/{zlib,zconf,yaml}.h .carry/include
#     cp -L $lib/libcjson.so.1 $lib/libz.so.1 $lib/libyaml-0.so.2 $lib/libgsl.so.27 $lib/libgslcblas.so.0 .carry/lib
arch=${ZR_ARCH:-90}
work=build/gpu-train
bin=$work/bin
mkdir -p "$bin" "$work/objects" "$work/include/zeroledger"

# shellcheck source=runtime/test/gpu_find.sh
. runtime/test/gpu_find.sh

cjson_header=$(find_file cJSON.h) || fail 'no cjson/cJSON.h; install libcjson-dev, or fill .carry as runtime/test/gpu_build.sh says'
cjson_library=$(find_file libcjson.so libcjson.so.1) || fail 'no libcjson.so; install libcjson-dev, or fill .carry as runtime/test/gpu_build.sh says'
zlib_header=$(find_file zlib.h) || fail 'no zlib.h; install zlib1g-dev, or fill .carry as runtime/test/gpu_build.sh says'
zlib_library=$(find_file libz.so libz.so.1) || fail 'no libz.so; install zlib1g-dev, or fill .carry as runtime/test/gpu_build.sh says'
yaml_header=$(find_file yaml.h) || fail 'no yaml.h; install libyaml-dev, or fill .carry as runtime/test/gpu_build.sh says'
yaml_library=$(find_file libyaml.so libyaml-0.so.2) || fail 'no libyaml.so; install libyaml-dev, or fill .carry as runtime/test/gpu_build.sh says'
gsl_header=$(find_file gsl_errno.h || true)
gsl_library=$(find_file libgsl.so libgsl.so.27 libgsl.so.28 || true)
gsl_cblas=$(find_file libgslcblas.so libgslcblas.so.0 || true)
openblas_header=$(find_file cblas-openblas.h cblas.h || true)
openblas_library=$(find_file libopenblas.so libopenblas.so.0 || true)
mpicc=$(command -v mpicc || true)

isystem() { # isystem FOLDER...: that of a header; compilers know the system's own
  local folder
  for folder in "$@"; do
    [ "$folder" = /usr/include ] || printf -- '-isystem %s ' "$folder"
  done
}
link() { # link LIBRARY...: the library, and where to find it when the program starts; --disable-new-dtags: its libraries too
  local library
  for library in "$@"; do
    printf '%s -Wl,-rpath,%s ' "$(realpath "$library")" "$(dirname "$(realpath -s "$library")")"
  done
}

version=$(sed -n 's/^project(zeroledger VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
printf '#define ZL_VERSION "%s"\n' "$version" >"$work/include/zeroledger/version.h"
{ # as model/base/embed_models.cmake
  echo '#include "model_config.h"'
  echo 'const zl_preset zl_presets[] = {'
  names=$(sed -n '/^set(NAMES/,/)/p' model/base/CMakeLists.txt | sed 's/set(NAMES//; s/)//')
  for name in $names; do
    printf '    {"%s", "%s"},\n' "$name" "$(sed -z 's/\n *$//; s/\n */ /g; s/\\/\\\\/g; s/"/\\"/g' "model/data/models/$name.json")"
  done
  # shellcheck disable=SC2086
  printf '};\nconst size_t zl_preset_count = %d;\n' "$(wc -w <<<$names)"
} >"$work/presets.c"

{ # as model/device/embed_hardware.cmake
  echo '#include "device/hardware.h"'
  rows=''
  for file in model/data/hardware/*.json; do
    [ -f "$file" ] || continue
    printf 'static const unsigned char bytes_%d[] = {%s};\n' $((index = ${index:--1} + 1)) \
      "$(od -An -v -tx1 "$file" | sed 's/ \(..\)/0x\1,/g' | tr -d '\n')"
    rows+=$(printf '    {"%s", bytes_%d, sizeof bytes_%d},' "$(basename "$file")" "$index" "$index")$'\n'
  done
  printf 'const zl_hardware_file zl_hardware_files[] = {\n%s    {0},\n};\n' "$rows"
} >"$work/hardware.c"

with_nccl=0
[ -n "$nccl_header" ] && [ -n "$nccl_library" ] && with_nccl=1
includes="-Imodel/include -I$work/include $(isystem "$(dirname "$(dirname "$cjson_header")")")"
cuda_includes=$(isystem "$(dirname "$cudart")" "$(dirname "$lt_header")")
[ $with_nccl = 0 ] || cuda_includes+=$(isystem "$(dirname "$nccl_header")")
c_flags="-std=c17 -O2 -g -fPIC -Wall -Wextra -Wshadow $includes"
printf '#define %s "%s"\n' ZR_COMPILER "GNU $("$cc" -dumpfullversion)" ZV_DATA_INSTALLED . ZV_DATA_SOURCE "$PWD/validate" \
  >"$work/include/words.h"
runtime_flags="-Iruntime -include $work/include/words.h"

with_host=0
[ -n "$openblas_header" ] && [ -n "$openblas_library" ] && with_host=1
with_validate=0
[ -n "$gsl_header" ] && [ -n "$gsl_library" ] && [ -n "$gsl_cblas" ] && with_validate=1

# shellcheck source=runtime/test/gpu_sources.sh
. runtime/test/gpu_sources.sh

compile() { # one command a line
  local source
  object() { echo "$work/objects/$1-$(tr / _ <<<"$2").o"; }
  for source in $(common); do
    echo "$cc $c_flags $runtime_flags -c $source -o $(object common "$source")"
  done
  for source in $(cuda_sources); do
    echo "$cc $c_flags $runtime_flags $cuda_includes -c $source -o $(object cuda "$source")"
  done
  for source in runtime/test/reference_torch/*.c; do
    echo "$cc $c_flags $runtime_flags -Iruntime/test/reference_torch -c $source -o $(object reference "$source")"
  done
  for source in model/base/*.c "$work/presets.c"; do
    echo "$cc $c_flags -Imodel/base -c $source -o $(object base "$source")"
  done
  for source in $(model_sources) "$work/hardware.c"; do
    echo "$cc $c_flags -Imodel -c $source -o $(object model "$source")"
  done
  for source in model/cli/*.c; do
    echo "$cc $c_flags -Imodel -D_GNU_SOURCE $(isystem "$(dirname "$zlib_header")" "$(dirname "$yaml_header")") -c $source -o $(object zl "$source")"
  done
  [ $with_host = 0 ] || for source in $(host_sources); do
    echo "${mpicc:-$cc} $c_flags -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math $runtime_flags $(isystem "$(dirname "$openblas_header")") -c $source -o $(object host "$source")"
  done
  [ $with_validate = 0 ] || for source in $(validate_sources); do
    echo "$cc $c_flags -include $work/include/words.h -Ivalidate -D_GNU_SOURCE $(isystem "$(dirname "$(dirname "$gsl_header")")") -c $source -o $(object validate "$source")"
  done
}

# What was built from the same sources by the same commands is not built again.
identity=$({ compile; find model runtime validate -type f \( -name '*.[ch]' -o -name '*.cu*' -o -name '*.json' -o -name '*.def' \) -print0 |
  sort -z | xargs -0 cat; } | sha256sum)
build_all() {
  local begin=$SECONDS o=$work/objects cjson nccl_path=''
  rm -f "$o"/*.o "$bin"/* "$work/identity"
  compile_kernels "$out/compile-kernels.log"
  compile | xargs -P "$(nproc)" -I{} sh -c '{}' >"$out/compile.log" 2>&1 ||
    { grep -iE 'error|warning' "$out/compile.log" | head -n 20 >&2; fail "compilation failed; see $out/compile.log"; }
  cjson=$(link "$cjson_library")
  [ $with_nccl = 0 ] || nccl_path=-Wl,-rpath,$(dirname "$(realpath "$nccl_library")")
  # shellcheck disable=SC2086
  {
    "$cc" "$o"/{zl,model,base}-*.o -o "$bin/zl" $cjson $(link "$zlib_library" "$yaml_library") -lm
    "$cc" "$o"/{common,cuda,base}-*.o $kernels/*.o -o "$bin/zl-train-cuda" $cjson $(link "$lt_library") $nccl_path \
      "$cudart_static" -lstdc++ -lpthread -ldl -lrt -lm
    "$cc" -Wl,--wrap=zr_cross_entropy "$o"/reference-*.o "$o"/{cuda,base}-*.o $kernels/*.o $(find "$o" -name 'common-*.o' -not -name '*train_main*') \
      -o "$bin/torch_reference-cuda" $cjson $(link "$lt_library") $nccl_path "$cudart_static" -lstdc++ -lpthread -ldl -lrt -lm
    [ $with_host = 0 ] ||
      "${mpicc:-$cc}" "$o"/{common,host,base}-*.o -o "$bin/zl-train" $cjson $(link "$openblas_library") -lpthread -lm
    [ $with_validate = 0 ] ||
      "$cc" "$o"/{validate,model,base}-*.o -o "$bin/zl-validate" -Wl,--disable-new-dtags $cjson $(link "$gsl_library" "$gsl_cblas") -lm
  }
  echo "$identity" >"$work/identity"
  printf 'compiled in %d s: %s\n' $((SECONDS - begin)) "$(ls "$bin" | tr '\n' ' ')"
}
[ "$(cat "$work/identity" 2>/dev/null)" = "$identity" ] || build_all

gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | wc -l) || true
if [ "${gpus:-0}" -eq 0 ]; then
  echo 'no GPU: nothing is run'
  exit 77
fi
export NCCL_NVLS_ENABLE=0
