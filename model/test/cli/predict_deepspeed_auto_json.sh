echo '{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto", "sub_group_size": "auto"}}' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json --ranks 2 --micro-batch 4 --format json | sed '/"marks"/,$d'
