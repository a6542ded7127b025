echo '{"zero_optimization": {"stage": 1}, "train_batch_size": 30}' >ds.json
zl predict --model gpt2 --deepspeed-config ds.json --ranks 8
