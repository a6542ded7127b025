# Every option that could help is at its least already; the head is one token.
zl explain --model gpt2-tiny --micro-batch 1 --seq 1 --stage 3 --ranks 2 --window 0 --reduce-slots 1 --recompute full --head-chunk 1 | sed -n "/^What does not shard/,\$p"
