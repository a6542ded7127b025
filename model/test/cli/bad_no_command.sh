zl
