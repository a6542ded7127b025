# 10^12 parameters are fine; 10^24 are not, and are refused in one line.
echo "{\"model_type\": \"llama\", \"hidden_size\": 1000000000000, \"num_hidden_layers\": 1000000, \"num_attention_heads\": 1, \"intermediate_size\": 1000000000000, \"vocab_size\": 50257, \"max_position_embeddings\": 1024}" >config.json
zl predict --model config.json
