# DDP shards nothing.
zl fit --model llama-2-7b --framework ddp --find ranks --gpu h100-80g --precision bf16-autocast
