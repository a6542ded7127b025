zl sweep --model gpt2 --ranks 1..8+0
