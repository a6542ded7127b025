zl replay "${0%/*}/replay.trace.json" --format csv
