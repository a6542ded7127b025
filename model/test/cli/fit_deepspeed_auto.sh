# The micro-batch that is looked for is the one that "auto" leaves open.
echo '{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true}, "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}}' >ds.json
zl fit --model gpt2-tiny --deepspeed-config ds.json --ranks 2 --capacity 200MiB | grep Largest
