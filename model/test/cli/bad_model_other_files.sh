# Files that lie beside a config.json and are taken for it.
echo '{"peft_type": "LORA", "r": 8, "target_modules": ["q_proj"]}' >adapter_config.json
echo '{"metadata": {}, "weight_map": {"a": "pytorch_model-00001-of-00002.bin"}}' >pytorch_model.bin.index.json
echo '{"zero_optimization": {"stage": 3}}' >ds_config.json
for file in *.json; do
  zl predict --model "$file" || code=$?
done
exit "$code"
