zl explain --model gpt2 --framework fsdp2 --ranks 8 --micro-batch 4 --phase backward --format json
