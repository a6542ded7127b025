zl fit --model gpt2 --capacity 0
