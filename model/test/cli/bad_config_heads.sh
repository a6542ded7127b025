echo "{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 11, \"vocab_size\": 50257, \"n_positions\": 1024}" >config.json
zl predict --model config.json
