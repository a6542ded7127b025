zl sweep --model gpt2-xl --stage 3 --ranks 1..8x2 --micro-batch 1..16x2 --gpu a100-40g --svg -
