: >config.json
zl predict --model config.json
