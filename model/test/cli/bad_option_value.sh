zl predict --model gpt2 --optimizer adam
