zl advise --model gpt2 --headroom 5%
