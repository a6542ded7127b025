zl sweep --model gpt2 --stage 0,1 --headroom 5%
