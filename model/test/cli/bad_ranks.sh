zl predict --model gpt2 --ranks 0
