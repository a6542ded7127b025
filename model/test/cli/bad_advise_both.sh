zl advise --model gpt2 --gpu a100-80g --capacity 24GiB
