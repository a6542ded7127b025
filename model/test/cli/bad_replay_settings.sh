zl replay "${0%/*}/replay.trace.json" --alloc-conf max_split_size_mb:5
