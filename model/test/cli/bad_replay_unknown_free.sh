sed 's/"free_requested", 37748736/"free_requested", 37749248/' "${0%/*}/replay.trace.json" >trace.json
zl replay trace.json
