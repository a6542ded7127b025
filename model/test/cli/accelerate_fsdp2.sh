mkdir conf
cat >conf/accelerate.yaml <<'YAML'
distributed_type: FSDP
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: false
  fsdp_sharding_strategy: FULL_SHARD
  auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_activation_checkpointing: true
  fsdp_backward_prefetch_policy: BACKWARD_PRE
mixed_precision: 'no'
YAML
zl predict --model gpt2 --seq 128 --accelerate-config conf/accelerate.yaml --ranks 4 --precision bf16 | sed -n 1,2p
