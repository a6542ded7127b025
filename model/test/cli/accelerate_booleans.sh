cat >accelerate.yaml <<'YAML'
distributed_type: NO
mixed_precision: no
num_processes: 1
dynamo_backend: 'NO'
YAML
zl predict --model gpt2 --seq 128 --accelerate-config accelerate.yaml | sed -n 1,2p
