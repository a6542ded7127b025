# Without a shard at rest there is stage 3 alone.
zl fit --model gpt2-xl --ranks 16 --stage 3 --no-shard-copy --find stage --capacity 24GiB
