echo "{\"model_type\": \"llama\", \"hidden_size\": 25600, \"num_hidden_layers\": 128, \"num_attention_heads\": 160, \"intermediate_size\": 65536, \"vocab_size\": 50257, \"max_position_embeddings\": 1024}" >config.json
zl predict --model config.json --stage 3 --ranks 1024 | sed -n "2p"
