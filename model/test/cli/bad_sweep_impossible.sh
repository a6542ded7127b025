zl sweep --model gpt2 --seq 4096,8192 --format csv
