# One more is little enough, but in pieces that do not match.
zl fit --model llama-3-8b --framework fsdp2 --ranks 16 --gpu h100-80g --recompute full
