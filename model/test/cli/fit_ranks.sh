zl fit --model llama-3-70b --stage 3 --recompute full --find ranks --range 1..1024 --gpu h100-80g --headroom 5%
