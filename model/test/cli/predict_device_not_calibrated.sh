zl predict --model gpt2-tiny --backend cuda --ranks 2 --gpu v100-16g | tail -n 8
zl predict --model gpt2-tiny --gpu v100-16g
