zl advise --model gpt2 --framework ddp --ranks 4 --micro-batch 4 --format csv
