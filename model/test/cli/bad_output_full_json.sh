zl list models --format json >/dev/full
