zl predict --model gpt2 --framework ddp --precision fp16-mixed
