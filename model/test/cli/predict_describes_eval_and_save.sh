zl predict --model gpt2-tiny --seq 32 --eval --save | sed -n 1p
