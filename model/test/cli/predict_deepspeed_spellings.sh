# Numbers and flags as people write them, and older names.
cat >ds.json <<'END'
{
  "train_micro_batch_size_per_gpu": 2,
  "bf16": {"enabled": 1},
  "zero_optimization": {
    "stage": 2,
    "cpu_offload": true,
    "cpu_offload_use_pin_memory": true,
    "reduce_bucket_size": "5e8",
    "allgather_bucket_size": "500000000",
    "stage3_prefetch_bucket_size": 943718.4,
    "sub_group_size": 0.94e6,
    "stage3_gather_fp16_weights_on_model_save": true,
    "overlap_com": true
  }
}
END
zl predict --model gpt2-tiny --deepspeed-config ds.json --ranks 2 --format csv | head -2
