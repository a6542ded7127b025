cat >accelerate.yaml <<'YAML'
distributed_type: DEEPSPEED
deepspeed_config:
  gradient_accumulation_steps: 4
  gradient_clipping: 1.0
  offload_optimizer_device: cpu
  offload_param_device: none
  zero3_init_flag: false
  zero_stage: 3
mixed_precision: bf16
num_machines: 1
num_processes: 8
YAML
zl predict --model gpt2 --micro-batch 1 --seq 128 --accelerate-config accelerate.yaml --framework deepspeed@0.16.4 --save-run run.json | sed -n 1,3p
zl predict --run run.json | sed -n 2p
zl predict --model gpt2 --seq 128 --accelerate-config accelerate.yaml --stage 2 2>/dev/null || echo $?
