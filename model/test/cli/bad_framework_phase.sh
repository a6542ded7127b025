zl explain --model gpt2 --framework ddp --phase publish
