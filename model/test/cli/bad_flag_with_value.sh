zl predict --model gpt2 --buffers=3
