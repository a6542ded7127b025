echo '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json
