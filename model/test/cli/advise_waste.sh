zl advise --model gpt2 --framework fsdp2 --ranks 4 --micro-batch 4 --attention eager
