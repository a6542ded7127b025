echo '{"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "text_config": {"model_type": "llama", "max_position_embeddings": 4096}, "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024}}' >config.json
zl predict --framework single --model config.json
