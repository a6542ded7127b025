zl decode 'Tried to allocate 2.00 MiB' --model gpt2
