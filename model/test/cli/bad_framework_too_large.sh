zl predict --model gpt2 --framework single --micro-batch 1000000000000
