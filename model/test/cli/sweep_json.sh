zl sweep --model gpt2 --ranks 1,2 --seq 512,2048 --capacity 2GiB --headroom 5% --format json
