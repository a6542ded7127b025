zl predict --model gpt2 --backend cuda | sed -n 3p
