zl predict --model gpt2 --framework deepspeed
