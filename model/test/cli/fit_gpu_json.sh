# A named GPU is in the answer, and where its capacity is from.
zl fit --model gpt2 --gpu v100-16g --format json | grep -E "gpu|capacity"
