zl sweep --model gpt2 --framework native,ddp --kinds
