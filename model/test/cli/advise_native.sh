zl advise --model gpt2-xl --stage 1 --ranks 4 --micro-batch 8 --capacity 24GiB
