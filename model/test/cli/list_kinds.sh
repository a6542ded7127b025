zl list kinds
