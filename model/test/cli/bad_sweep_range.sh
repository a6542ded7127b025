zl sweep --model gpt2 --ranks 1..8by2
