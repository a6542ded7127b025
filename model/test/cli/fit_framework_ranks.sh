zl fit --model llama-3-8b --framework fsdp2 --find ranks --gpu h100-80g --recompute full --headroom 5%
