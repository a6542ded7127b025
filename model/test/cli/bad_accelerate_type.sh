printf 'distributed_type: MEGATRON_LM\nnum_processes: 2\n' >accelerate.yaml
zl predict --model gpt2 --seq 128 --accelerate-config accelerate.yaml
