zl sweep --model gpt2 --stage 0..3 --ranks 64 --kinds
