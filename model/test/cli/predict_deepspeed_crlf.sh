# Line ends of Windows are nothing to warn about.
printf '{\r\n  "zero_optimization": {"stage": 2},\r\n  "bf16": {"enabled": true},\r\n  "train_micro_batch_size_per_gpu": 2\r\n}\r\n' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json --ranks 2 --format csv | head -2
