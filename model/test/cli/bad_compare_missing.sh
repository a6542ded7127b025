zl compare missing.log --model gpt2 --framework single
