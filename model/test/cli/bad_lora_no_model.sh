echo '{"peft_type":"LORA","target_modules":["q_proj"],"base_model_name_or_path":"meta-llama/Meta-Llama-3-8B"}' >adapter_config.json
zl predict --framework single --lora . || echo $?
zl predict --framework single --model .
