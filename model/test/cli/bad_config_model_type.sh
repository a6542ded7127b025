echo "{\"model_type\": \"mamba\", \"hidden_size\": 768}" >config.json
zl predict --model config.json
