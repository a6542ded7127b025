#!/usr/bin/env bash
# The trainer may know the vocabulary and the containers, never a prediction.
# usage: includes.sh SOURCE_DIR BUILD_DIR OBJECT...
# Reads what the compiler says each OBJECT was made from, and allows only these headers of model/.
set -euo pipefail
source_dir=$1 build_dir=$2
shift 2
[ $# -gt 0 ] || { echo "no objects given"; exit 1; }

allowed=' vocab.def vocab.h bytes.h error.h export.h version.h run.h ledger.h model.h json.h text.h '

dependencies() {
  if [ -f "$build_dir/build.ninja" ]; then
    ninja -C "$build_dir" -t deps "${1#"$build_dir"/}"
  else
    cat "$1.d"
  fi
}

status=0 seen=0
for object in "$@"; do
  files=$(dependencies "$object") || { echo "no dependency output for $object"; exit 1; }
  for file in $(tr -s ' \\\n' '\n' <<<"$files"); do
    file=$(realpath -ms "$file")
    case "$file" in
      "$source_dir"/model/include/zeroledger/*) name=${file##*/} ;;
      "$source_dir"/model/*) name='' ;;
      *) continue ;;
    esac
    seen=$((seen + 1))
    case "$allowed" in
      *" $name "*) ;;
      *) echo "$object is made from $file"; status=1 ;;
    esac
  done
done
[ "$seen" -gt 0 ] || { echo "not one header of model/ among the dependencies: wrong folder?"; exit 1; }
exit $status
