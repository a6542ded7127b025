zl predict --model gpt2 --stage 4
