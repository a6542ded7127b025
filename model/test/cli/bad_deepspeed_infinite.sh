echo '{"zero_optimization": {"stage": 2, "reduce_bucket_size": 5e800}}' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json
