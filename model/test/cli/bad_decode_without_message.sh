zl decode
