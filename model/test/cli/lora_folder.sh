echo '{"model_type":"gpt2"}' >config.json
echo '{"peft_type":"LORA","r":8,"target_modules":"all-linear"}' >adapter_config.json
zl predict --model . --framework single --seq 128 | sed -n 1,2p
zl predict --model . --framework single --seq 128 --lora 4:c_attn | sed -n 2p
zl predict --model .
