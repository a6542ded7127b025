zl predict --model gpt2 --stage 2 --ranks 4 --accumulation 2 --units MiB
