echo '{"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "tie_word_embeddings": true, "rope_parameters": {"rope_type": "default", "rope_theta": 1000000}, "dtype": "bfloat16"}' >config.json
zl predict --framework single --model config.json --micro-batch 4
