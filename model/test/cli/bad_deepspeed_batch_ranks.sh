echo '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 1}}' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json
