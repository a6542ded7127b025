zl advise --help
