# A recording packed by gzip, from a file and from the standard input.
gzip -c "${0%/*}/replay.trace.json" >trace.json.gz
zl replay trace.json.gz --units B
zl replay - <trace.json.gz | tail -n 1
