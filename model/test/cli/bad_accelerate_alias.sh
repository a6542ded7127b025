printf 'distributed_type: &t MULTI_GPU\nmixed_precision: *t\n' >accelerate.yaml
zl predict --model gpt2 --seq 128 --accelerate-config accelerate.yaml
