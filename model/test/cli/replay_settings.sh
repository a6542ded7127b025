# With other settings than those of the recording the segments are others.
zl replay "${0%/*}/replay.trace.json" --addresses ascending --alloc-conf expandable_segments:True | tail -n 2
zl replay "${0%/*}/replay.trace.json" --alloc-conf large_segment_size_mb:32 | tail -n 1
exit "${PIPESTATUS[0]}"
