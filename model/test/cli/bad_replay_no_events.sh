echo '{"columns": ["action", "addr", "size", "stream"]}' >trace.json
zl replay trace.json
