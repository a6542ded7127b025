zl explain --model gpt2-tiny --at middle
