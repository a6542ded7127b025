zl predict --model gpt2-tiny --format csv
