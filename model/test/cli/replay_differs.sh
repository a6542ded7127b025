# A segment of another size, one too many, and a block elsewhere.
sed 's/"segment_alloc", 67108864, 2097152/"segment_alloc", 67108864, 4194304/
  s/^\["alloc", 42991616,/["segment_alloc", 268435456, 20971520, 0],\n["alloc", 45088768,/
  s/\[13, 0/[14, 0/' "${0%/*}/replay.trace.json" >trace.json
zl replay trace.json --units B
