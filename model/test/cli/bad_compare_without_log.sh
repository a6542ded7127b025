zl compare --model gpt2 --framework single
