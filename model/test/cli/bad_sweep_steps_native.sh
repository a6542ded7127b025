zl sweep --model gpt2 --ranks 2,4 --steps 2
