zl predict --model gpt2 --format jsn
