zl fit --model gpt2 --framework fsdp2 --ranks 2 --capacity 0
