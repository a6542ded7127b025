zl fit --model bing-bert-large --framework deepspeed --activations 1GiB --capacity 8GiB
