zl advise --model bert-tiny --framework deepspeed --ranks 1 --activations 1GiB
