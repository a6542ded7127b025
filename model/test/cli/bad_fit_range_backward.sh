zl fit --model gpt2 --gpu a100-40g --range 8..1
