zl replay nowhere.trace.json.gz
