zl fit --model llama-3.2-1b --framework fsdp2 --ranks 8 --find seq --range 1..40000 --gpu h100-80g
