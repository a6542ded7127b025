# A config.json is read by strict readers alone: no comments there.
printf '{\n  "model_type": "gpt2", // small\n  "n_embd": 768\n}\n' >config.json
zl predict --model config.json
