zl fit --model gpt2 --capacity 32LB
