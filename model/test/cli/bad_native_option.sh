zl predict --model gpt2 --framework ddp --window 2
