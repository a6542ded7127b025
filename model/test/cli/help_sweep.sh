zl sweep --help
