zl sweep --model gpt2,gpt-tiny
