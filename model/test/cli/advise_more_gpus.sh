zl advise --model llama-3-70b --framework fsdp2 --ranks 8 --seq 1024 --gpu a100-40g | sed -n "/^Together/,\$p"
