echo "{\"model_type\": \"gpt2\", \"n_embd\": 9007199254740993, \"n_layer\": 12, \"n_head\": 12, \"vocab_size\": 50257, \"n_positions\": 1024}" >config.json
zl predict --model config.json
