zl sweep --model gpt2 --stage 0,1 --out /dev/full
