zl fit --model llama-3-8b --stage 3 --ranks 8 --recompute full --find seq --gpu h100-80g
