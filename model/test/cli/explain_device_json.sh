zl explain --model gpt2-tiny --backend cuda --gpu v100-16g --format json | sed -n '/"device"/,$p'
