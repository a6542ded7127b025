printf 'distributed_type: DEEPSPEED\nnum_processes: 2\nmixed_precision: bf16\ndeepspeed_config: {deepspeed_config_file: ds.json}\n' >accelerate.yaml
zl predict --model gpt2 --seq 128 --accelerate-config accelerate.yaml
