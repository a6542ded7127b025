mkdir conf
echo '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": 2}' >conf/ds.json
cat >conf/accelerate.yaml <<'YAML'
distributed_type: DEEPSPEED
deepspeed_config: {deepspeed_config_file: ds.json}
num_processes: 8
YAML
zl predict --model gpt2 --seq 128 --accelerate-config conf/accelerate.yaml | sed -n 1,2p
