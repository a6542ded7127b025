echo '{"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 4}' >ds.json
zl predict --model gpt2 --deepspeed-config ds.json --stage 2
