zl fit --model gpt2-xl --stage 2 --micro-batch 4 --find ranks --range 2..64 --gpu v100-16g --format json
