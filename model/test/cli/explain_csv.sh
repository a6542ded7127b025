zl explain --model gpt2-tiny --format csv --phase init
