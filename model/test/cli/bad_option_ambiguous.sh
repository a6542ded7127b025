zl predict --model gpt2 --s 3
