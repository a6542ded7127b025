zl sweep --model gpt2 --ranks 1..2000000
