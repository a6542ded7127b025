zl advise --model gpt2 --framework fsdp2 --precision fp16-mixed
