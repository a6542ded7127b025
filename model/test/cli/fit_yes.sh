zl fit --model gpt2-xl --stage 3 --ranks 8 --gpu a100-40g --headroom 5%
