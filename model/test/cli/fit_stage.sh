zl fit --model gpt2-xl --ranks 16 --find stage --capacity 24GiB --recompute full
