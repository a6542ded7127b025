# A point that cannot be is kept, with the reason.
zl sweep --model gpt2 --stage 0,3 --seq 512..2048x2 --recompute none,full --format csv
