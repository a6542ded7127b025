zl replay "${0%/*}/replay.trace.json" --addresses mine
