printf %s "{\"model_type\": \"gpt2\", \"n_embd\": 7" >config.json
zl predict --model config.json
