zl sweep --model gpt2 --head-chunk 0..8x2
