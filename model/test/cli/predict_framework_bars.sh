zl predict --model gpt2-tiny --framework ddp --ranks 2 --bars always --format md
