zl list frameworks
