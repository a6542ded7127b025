zl fit --model gpt2
