zl fit --model gpt2 --gpu a100
