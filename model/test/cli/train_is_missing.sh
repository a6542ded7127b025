mkdir bin
cp "$ZL" bin/zl
PATH=/usr/bin:/bin bin/zl train
