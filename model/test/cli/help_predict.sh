zl help predict
zl predict -h | cmp - <(zl help predict)
