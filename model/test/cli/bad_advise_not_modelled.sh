echo '{"model_type": "gpt_neox", "hidden_size": 512, "intermediate_size": 2048, "num_attention_heads": 8, "num_hidden_layers": 6, "vocab_size": 50304, "max_position_embeddings": 2048}' >config.json
zl advise --model config.json --framework fsdp2 --ranks 4
