zl predict --model gpt2 --framework single --lora 8:nosuch
