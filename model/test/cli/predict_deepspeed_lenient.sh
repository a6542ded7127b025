# What DeepSpeed reads and others refuse: one warning for every kind.
printf '\xef\xbb\xbf# a file of Windows\r\n{\r\n  "zero_optimization": { // sharded\r\n    "stage": 2, /* gradients\r\n    too */\r\n    "reduce_bucket_size": 5e7,\r\n  },\r\n  "bf16": {"enabled": true},\r\n  "train_micro_batch_size_per_gpu": 2,\r\n  "train_micro_batch_size_per_gpu": 2,\r\n}\r\n' >ds.json
zl predict --model gpt2-tiny --deepspeed-config ds.json --ranks 2 --format csv | head -3
