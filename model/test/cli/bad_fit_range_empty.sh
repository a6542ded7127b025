zl fit --model gpt2 --gpu a100-40g --find seq --range 2048..4096
