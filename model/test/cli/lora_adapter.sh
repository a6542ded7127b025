echo '{"peft_type":"LORA","r":16,"lora_alpha":32,"lora_dropout":0.05,"bias":"none","target_modules":["c_attn","mlp.c_proj"],"task_type":"CAUSAL_LM","base_model_name_or_path":"gpt2","inference_mode":true,"modules_to_save":null,"rank_pattern":{},"runk":1}' >adapter_config.json
zl predict --model gpt2 --framework single --seq 128 --lora adapter_config.json | sed -n 1,2p
mkdir adapter
echo '{"peft_type":"LORA","r":8,"target_modules":".*\\.h\\.[0-5]\\.(?:attn|mlp)\\.c_proj"}' >adapter/adapter_config.json
zl predict --model gpt2 --framework single --seq 128 --lora adapter | sed -n 1,2p
