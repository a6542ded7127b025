zl predict --model gpt2 --stage 0
