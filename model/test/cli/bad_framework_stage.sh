zl predict --model gpt2 --framework fsdp2 --stage 1
