zl fit --model gpt2 --framework deepspeed --stage 1 --ranks 2 --precision bf16-mixed --find layers --capacity 16GiB --headroom 1GiB
