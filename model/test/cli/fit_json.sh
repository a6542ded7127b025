zl fit --model gpt2-xl --stage 3 --ranks 8 --capacity 24GiB --headroom 2GiB --format json
