gzip -c "${0%/*}/replay.trace.json" | head -c 300 >trace.json.gz
zl replay trace.json.gz
