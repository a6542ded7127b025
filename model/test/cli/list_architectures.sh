zl list architectures
