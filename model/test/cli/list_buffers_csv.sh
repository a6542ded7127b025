# Every buffer has a formula; those that are sharded say from which stage.
zl list buffers --format csv >buffers.csv
head -n 4 buffers.csv
grep -E '^(grad.shard|gather.input)' buffers.csv
