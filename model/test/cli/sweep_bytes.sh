zl sweep --model gpt2 --framework deepspeed --stage 3 --ranks 2 --activations 1GiB..4GiBx2 --units B
