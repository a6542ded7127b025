echo '{"model_type": "gpt_neo"}' >config.json
zl predict --framework single --model config.json
