zl predict --model gpt2 --micro-batch 1000000000000000000
