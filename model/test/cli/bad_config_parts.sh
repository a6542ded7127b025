# Models of more than text: what is not modelled, and where the text is.
cat >qwen2_vl.json <<'END'
{"architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl", "hidden_size": 3584,
 "num_hidden_layers": 28, "vision_config": {"depth": 32}, "rope_scaling": {"type": "mrope"}}
END
cat >internvl.json <<'END'
{"architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "llm_config": {"model_type": "qwen2"},
 "vision_config": {"model_type": "intern_vit_6b"}}
END
for file in *.json; do
  zl predict --model "$file" --framework ddp --ranks 2 || code=$?
done
exit "$code"
