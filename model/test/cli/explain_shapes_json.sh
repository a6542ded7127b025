echo '{"model_type": "opt", "vocab_size": 50272, "hidden_size": 768, "num_hidden_layers": 12, "ffn_dim": 3072, "num_attention_heads": 12, "word_embed_proj_dim": 768, "max_position_embeddings": 2048, "torch_dtype": "float16"}' >config.json
zl explain --framework single --model config.json --format json
