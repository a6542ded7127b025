echo '{"zero_optimization": {"stage": 3, "reduce_bucket_size": 5e7}, "bf16": {"enabled": true}, "optimizer": {"type": "AdamW"}, "made_up": 1}' >ds.json
zl predict --model gpt2 --deepspeed-config ds.json --ranks 8 --micro-batch 2 --units MiB
