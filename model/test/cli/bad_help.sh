zl help fitt
