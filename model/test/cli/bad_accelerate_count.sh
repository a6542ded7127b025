printf 'distributed_type: MULTI_GPU\nnum_processes: 8e0\n' >accelerate.yaml
zl predict --model gpt2 --seq 128 --accelerate-config accelerate.yaml
