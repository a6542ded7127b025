zl predict --bars maybe --model gpt2
