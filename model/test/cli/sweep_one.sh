# No list at all: one run, one row.
zl sweep --model gpt2 --stage 3 --ranks 8
