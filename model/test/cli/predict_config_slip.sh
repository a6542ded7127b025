# A key that decides shapes, misspelt: Python takes the default in silence. Keys of others are no slips.
cat >config.json <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hiden_size": 128, "hidden_act": "silu",
 "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 352, "vocab_size": 256, "use_cache": true,
 "unsloth_version": "2024.9", "initializer_range": 0.02, "pretraining_tp": 1, "bos_token_id": 1}
END
zl predict --model config.json | sed -n '1,2p'
zl predict --model config.json --framework ddp --ranks 2 | sed -n '1,2p'
