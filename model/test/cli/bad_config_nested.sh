{ printf %s "{\"model_type\": \"gpt2\", \"x\": "; printf "[%.0s" {1..10000}; printf "]%.0s" {1..10000}; echo "}"; } >config.json
zl predict --model config.json
