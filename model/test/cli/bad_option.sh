zl predict --model gpt2 --stge 3
