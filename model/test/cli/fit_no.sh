zl fit --model gpt2-xl --stage 0 --capacity 3GiB
