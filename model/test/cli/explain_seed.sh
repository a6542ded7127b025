# The question of docs/seed.md.
echo '{"train_micro_batch_size_per_gpu": 64, "zero_optimization": {"stage": 3}, "fp16": {"enabled": true}, "optimizer": {"type": "Adam"}}' >ds.json
zl explain --model bing-bert-large --framework deepspeed@0.5.9 --deepspeed-config ds.json --ranks 8 --activations 1.42GiB --skipped-step
