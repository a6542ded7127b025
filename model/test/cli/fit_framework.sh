zl fit --model gpt2-xl --framework fsdp2 --ranks 8 --gpu h100-80g --headroom 5%
