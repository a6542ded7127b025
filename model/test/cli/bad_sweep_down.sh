zl sweep --model gpt2 --ranks 2,8..1
