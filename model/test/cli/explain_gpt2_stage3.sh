zl explain --model gpt2 --stage 3 --ranks 8 --micro-batch 4
