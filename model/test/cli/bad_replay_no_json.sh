echo 'step 3: 12 GiB' >trace.json
zl replay trace.json
