zl predict --model gpt2-xxl
