zl predict --model gpt2-tiny --backend cuda --ranks 2 --gpu h200-141g | tail -n 12
zl explain --model gpt2-tiny --backend cuda --gpu h200-141g --format json | sed -n '/"device"/,$p'
