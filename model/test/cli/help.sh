zl help
zl --help | cmp - <(zl help)
