# What stays as it is may be a list of thousands of characters: norms and routers of every layer.
{
  printf '{"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe", "num_hidden_layers": 64, "torch_dtype": "bfloat16",'
  printf '"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], "dataset": ["some text"],'
  printf '"modules_to_not_convert": ["lm_head"'
  for ((layer = 0; layer < 64; layer++)); do
    printf ', "model.layers.%d.input_layernorm", "model.layers.%d.mlp.gate", "model.layers.%d.post_attention_layernorm"' $layer $layer $layer
  done
  printf ']}}\n'
} >config.json
zl predict --model config.json --framework ddp --ranks 2 | sed -n '2,5p'
