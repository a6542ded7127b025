zl predict --model gpt2 --stage 3 --ranks 8 --format md --units GB
