printf 'distributed_type: MULTI_GPU\nnum_processes: 2\ndynamo_config: {dynamo_backend: INDUCTOR}\n' >accelerate.yaml
zl predict --model gpt2 --seq 128 --accelerate-config accelerate.yaml
