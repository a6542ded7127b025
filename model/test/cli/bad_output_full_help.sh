zl help >/dev/full
