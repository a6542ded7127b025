zl predict --model gpt2-tiny --stage 3 --ranks 2 --format json
