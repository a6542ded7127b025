# What run.json says is what the options said, files included.
echo '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 2, "fp16": {"enabled": true}}' >ds.json
zl predict --model bert-tiny --framework deepspeed@0.14.5 --deepspeed-config ds.json --ranks 4 --save-run run.json --format csv >first
zl predict --run run.json --format csv | cmp - first
grep -c hf_config run.json
zl predict --run run.json --stage 1
