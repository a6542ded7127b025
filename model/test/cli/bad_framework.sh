zl predict --model gpt2 --framework deepsped
