zl sweep --model gpt2 --framework ddp --ranks 2,4 --steps 65
