zl fit --model gpt2 --framework deepspeed --stage 2 --precision bf16-mixed --ranks 8 --seq 1024 --capacity 40GiB --format json
