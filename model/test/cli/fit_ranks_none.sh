# What does not shrink is more than the capacity, however many GPUs there are.
zl fit --model llama-3-70b --stage 3 --find ranks --gpu v100-16g
