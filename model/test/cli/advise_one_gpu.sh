zl advise --model llama-3-8b --framework single --seq 2048 --recompute full --capacity 60GiB --format md
