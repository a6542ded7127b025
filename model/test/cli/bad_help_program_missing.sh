mkdir empty bin
cp "$ZL" bin/zl
PATH=:empty bin/zl help train
