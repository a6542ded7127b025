zl fit --model gpt2-xl --stage 2 --ranks 8 --find layers --capacity 24GiB --headroom 2GiB
