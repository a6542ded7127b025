echo '{"train_batch_size": 32, "gradient_accumulation_steps": 2, "fp16": {"enabled": true}, "zero_optimization": true}' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json --ranks 4 | head -6
