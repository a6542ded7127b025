zl sweep --model gpt2 --framework native,ddp --rank 1
