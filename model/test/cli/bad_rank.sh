zl predict --model gpt2 --ranks 4 --rank 4
