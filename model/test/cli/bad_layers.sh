zl predict --model gpt2 --layers 0
