echo '{"model_type": "falcon", "vocab_size": 65024, "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "multi_query": true, "parallel_attn": true, "bias": false, "alibi": false, "new_decoder_architecture": false}' >config.json
zl explain --framework deepspeed --stage 3 --ranks 8 --model config.json
