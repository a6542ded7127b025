sed 's/"segment_alloc", 67108864, 2097152/"segment_alloc", 67108864, 4194304/' "${0%/*}/replay.trace.json" >trace.json
zl replay trace.json --format json | sed -n 1,14p
exit "${PIPESTATUS[0]}"
