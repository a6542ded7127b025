zl list models --format json
