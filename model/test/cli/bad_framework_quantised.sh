echo '{"model_type": "llama", "quantization_config": {"quant_method": "gptq", "bits": 4}}' >config.json
zl predict --framework single --model config.json
