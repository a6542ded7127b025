echo '{"train_micro_batch_size_per_gpu": 1, "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}}' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json
