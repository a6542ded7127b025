zl advise --model gpt2-tiny --framework deepspeed@0.14.5 --stage 1 --ranks 4 --seq 32 --capacity 256MiB --format json
