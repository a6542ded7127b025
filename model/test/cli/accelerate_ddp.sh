printf 'distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 2\n' >accelerate.yaml
zl predict --model gpt2 --seq 128 --accelerate-config accelerate.yaml | sed -n 1,2p
