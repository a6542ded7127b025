zl predict --model llama-tiny --stage 1 --ranks 2 --visits all --units B --rank 1
