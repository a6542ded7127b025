zl predict --model gpt2 --framework deepspeed@1.4.0
