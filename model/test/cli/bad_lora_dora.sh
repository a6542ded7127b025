echo '{"peft_type":"LORA","r":16,"target_modules":["c_attn"],"use_dora":true}' >adapter_config.json
zl predict --model gpt2 --framework single --lora adapter_config.json
