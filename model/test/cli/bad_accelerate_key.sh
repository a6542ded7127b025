printf 'distributed_type: MULTI_GPU\nnum_process: 2\n' >accelerate.yaml
zl predict --model gpt2 --seq 128 --accelerate-config accelerate.yaml
