zl sweep --model gpt2 --ranks 1..1000000 --micro-batch 1..1000000 --accumulation 1..1000000 --head-chunk 1..1000000
