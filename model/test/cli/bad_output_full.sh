zl predict --model gpt2 >/dev/full
