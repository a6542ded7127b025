zl predict --model gpt2 --backend cuda --ranks 4 | sed -n 3p
zl predict --model gpt2 --backend cuda --ranks 2 | sed -n 3p
