zl advise --model llama-2-7b --stage 0 --ranks 2 --capacity 2GiB
