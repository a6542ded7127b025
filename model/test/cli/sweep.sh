zl sweep --model gpt2-xl --stage 0,1,2,3 --ranks 8 --micro-batch 1..16x4 --gpu a100-40g
