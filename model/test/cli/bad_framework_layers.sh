echo '{"model_type": "gpt2", "n_layer": 1000000, "n_embd": 768, "n_head": 12}' >deep.json
zl predict --model deep.json --framework single
