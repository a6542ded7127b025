zl fit --model gpt2 --stage 1 --find ranks --gpu a100-40g
