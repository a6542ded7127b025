zl fit --model gpt2 --capacity 24GiB --headroom 25GiB
