echo '{"peft_type":"PREFIX_TUNING","num_virtual_tokens":20}' >adapter_config.json
zl predict --model gpt2 --framework single --lora adapter_config.json
