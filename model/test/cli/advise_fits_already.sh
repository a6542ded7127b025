zl advise --model gpt2 --framework ddp --ranks 2 --capacity 24GiB | sed -n "/^Capacity/,/^What to/p"
