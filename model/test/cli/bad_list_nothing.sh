zl list
