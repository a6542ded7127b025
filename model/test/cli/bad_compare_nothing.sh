echo "loss 3.5" | zl compare - --model gpt2 --framework single
