zl explain --model gpt2 --phase publish
