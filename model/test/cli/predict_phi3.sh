echo '{"model_type": "phi3", "vocab_size": 32064, "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 8192, "sliding_window": 2047}' >config.json
zl predict --framework fsdp2 --ranks 8 --model config.json
