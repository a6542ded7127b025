# The stage is another in the file, too.
echo '{"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "overlap_comm": false}}' >ds_config.json
zl fit --model gpt2-xl --deepspeed-config ds_config.json --ranks 8 --find stage --capacity 24GiB --format json
