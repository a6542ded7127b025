echo "{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_embd\": 769}" >config.json
zl predict --model config.json
