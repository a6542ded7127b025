zl list model
