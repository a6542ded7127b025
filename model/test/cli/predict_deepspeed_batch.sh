# Two of the three sizes are enough.
echo '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json --ranks 8 | head -4
