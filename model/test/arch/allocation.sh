#!/usr/bin/env bash
# Memory of the trainer comes from its tracker: no other allocation in SOURCE_DIR/runtime.
# usage: allocation.sh CC SOURCE_DIR
# runtime/track is the tracker; runtime/trace, tests and fuzz targets are not the trainer. Other exceptions are lines of
# runtime/test/allocation.allow: file, function, reason.
set -euo pipefail
cc=$1 source_dir=$2

functions='malloc|calloc|realloc|reallocarray|aligned_alloc|posix_memalign|memalign|valloc|alloca'
functions+='|strdup|strndup|asprintf|vasprintf|mmap|sbrk|MPI_Alloc_mem|MPI_Win_allocate\w*'
functions+='|cudaMalloc\w*|cudaHostAlloc|cuMem\w*Alloc\w*|cuMemCreate|ncclMemAlloc'

cd "$source_dir/runtime"
files=$(find . \( -name test -o -name fuzz -o -path ./track -o -path ./trace \) -prune -o \( -name '*.[ch]' -o -name '*.cu' \) -printf '%P\n')
[ -n "$files" ] || { echo "no sources in $source_dir/runtime"; exit 1; }

# The preprocessor removes comments; directives are hidden from it.
code() {
  sed 's/^[[:space:]]*#/@/' "$1" | "$cc" -w -x c -E -P -
}
used=$(for file in $files; do
  text=$(code "$file") || exit 1
  { grep -oE "\b($functions) *\(" <<<"$text" || true; } | sed "s|^|$file |; s| *(\$||"
done | sort -u)
allowed=$(grep -vE '^(#|$)' test/allocation.allow | awk '{ print $1, $2 }' | sort -u || true)

new=$(comm -23 <(echo "$used") <(echo "$allowed"))
old=$(comm -13 <(echo "$used") <(echo "$allowed"))
[ -z "$new" ] || printf 'neither through the tracker nor in allocation.allow:\n%s\n' "$new"
[ -z "$old" ] || printf 'in allocation.allow and not needed any more:\n%s\n' "$old"
[ -z "$new$old" ]
